package verb

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

// completeCommand is the verb that completion scripts call. Its arguments are the
// shell, and the words of the command line after offload, up to and
// including the one to complete. It prints a line for each candidate, or one of the
// answers below.
const completeCommand = "__complete"

// Answers to completion scripts, which begin with a character that no candidate
// begins with.
const (
	completeFiles       = ":files"
	completeDirectories = ":directories"
)

// IsCompletion reports whether args are a call of a completion script. Its arguments are
// partial input of a user, so parameter files in them must not be read.
func IsCompletion(args []string) bool { return len(args) > 0 && args[0] == completeCommand }

// A candidate is a word that completes a command line.
type candidate struct {
	word, meaning string
}

// complete answers a completion script.
func complete(call *command.Call) int {
	if len(call.Args) < 3 {
		return completionVerb.exit(call, usageError("expected a shell and the words to complete"))
	}
	shell, words := call.Args[1], call.Args[2:]
	if shell == "bash" {
		words = joinAssignments(words)
	}
	candidates, answer := completions(words)
	if answer != "" {
		fmt.Fprintln(call.Stdout, answer)
		return exitOK
	}
	for _, c := range candidates {
		switch shell {
		case "bash": // which replaces what follows an equals sign
			fmt.Fprintln(call.Stdout, c.word[strings.LastIndexByte(c.word, '=')+1:])
		case "zsh":
			fmt.Fprintln(call.Stdout, strings.ReplaceAll(c.word, ":", `\:`)+":"+c.meaning)
		default:
			fmt.Fprintln(call.Stdout, c.word+"\t"+c.meaning)
		}
	}
	return exitOK
}

// joinAssignments joins --flag=value, which bash splits into three words.
func joinAssignments(words []string) []string {
	var joined []string
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "=" && len(joined) > 0 && strings.HasPrefix(joined[len(joined)-1], "-") {
			joined[len(joined)-1] += "="
			if i+1 < len(words) {
				i++
				joined[len(joined)-1] += words[i]
			}
			continue
		}
		joined = append(joined, word)
	}
	return joined
}

// completions returns what completes the last of words, or an answer.
func completions(words []string) (candidates []candidate, answer string) {
	typed := words[len(words)-1]
	if len(words) == 1 {
		for _, v := range verbs() {
			if !strings.Contains(v.name, " ") {
				candidates = append(candidates, candidate{v.name, v.summary})
			}
		}
		candidates = append(candidates, groups...)
		candidates = append(candidates, candidate{"help", "Describes the flags of a verb."}, candidate{"version", "Prints the version."})
		if strings.HasPrefix(typed, "-") {
			candidates = []candidate{{"--help", overview}, {"--version", "print the version"}}
		}
		return beginning(candidates, typed), ""
	}
	if words[0] == "help" {
		candidates, _ = completions(words[len(words)-1:])
		return candidates, ""
	}
	if len(words) == 2 && isGroup(words[0]) {
		return beginning(inGroup(words[0]), typed), ""
	}
	words = joinVerb(words)
	v := find(words[0])
	if v == nil {
		return nil, ""
	}
	_, flags := v.prepare()
	given := map[string]bool{}
	for i := 1; i < len(words)-1; i++ {
		name, ok := strings.CutPrefix(words[i], "-")
		if !ok || name == "" {
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		if name == "" { // the end of the flags
			return operands(v, typed)
		}
		given[name] = true
		if f := flags.Lookup(name); f != nil && takesValue(f) && !hasValue {
			if i == len(words)-2 {
				return flags.completions(name, "", typed)
			}
			i++
		}
	}
	if !strings.HasPrefix(typed, "-") || typed == "-" && v.operand == "" {
		return operands(v, typed)
	}
	name, value, hasValue := strings.Cut(strings.TrimLeft(typed, "-"), "=")
	if hasValue {
		return flags.completions(name, typed[:len(typed)-len(value)], value)
	}
	flags.VisitAll(func(f *flag.Flag) {
		if !given[f.Name] || slices.Contains(flags.repeatable, f.Name) {
			_, usage := describe(f)
			candidates = append(candidates, candidate{"--" + f.Name, usage})
		}
	})
	return beginning(append(candidates, candidate{"--help", "describe the verb and its flags"}), "--"+strings.TrimLeft(typed, "-")), ""
}

// completions returns what completes the value of a flag. Candidates begin with prefix.
func (f *flagSet) completions(name, prefix, typed string) ([]candidate, string) {
	if slices.Contains(f.directories, name) {
		return nil, completeDirectories
	}
	i := slices.IndexFunc(f.choices, func(c choice) bool { return c.flag == name })
	if i < 0 {
		return nil, completeFiles
	}
	var candidates []candidate
	for _, value := range f.choices[i].values {
		candidates = append(candidates, candidate{prefix + value, ""})
	}
	return beginning(candidates, prefix+typed), ""
}

// operands returns what completes an operand of a verb.
func operands(v *verb, typed string) ([]candidate, string) {
	switch {
	case v == &completionVerb:
		var candidates []candidate
		for _, shell := range shells {
			candidates = append(candidates, candidate{shell, ""})
		}
		return beginning(candidates, typed), ""
	case v.operand == "":
		return nil, ""
	}
	return nil, completeFiles
}

// beginning returns the candidates that begin with what was typed.
func beginning(candidates []candidate, typed string) []candidate {
	return slices.DeleteFunc(candidates, func(c candidate) bool { return !strings.HasPrefix(c.word, typed) })
}

// shells are the shells with a completion script.
var shells = []string{"bash", "zsh", "fish"}

var completionVerb = verb{
	name:    "completion",
	operand: " SHELL",
	summary: "Prints a script that completes verbs, flags and their values: for bash, zsh or fish.",
	examples: []example{
		{"Enable completion in the current bash", "eval \"$(offload completion bash)\""},
		{"Enable completion in every zsh", "offload completion zsh > \"${fpath[1]}/_offload\""},
		{"Enable completion in every fish", "offload completion fish > ~/.config/fish/completions/offload.fish"},
	},
	flags: func(*flagSet) runner {
		return func(call *invocation) error {
			if len(call.operands) != 1 {
				return usageError(fmt.Sprintf("expected one shell, %s, found %d", alternatives(shells), len(call.operands)))
			}
			script, ok := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[call.operands[0]]
			if !ok {
				return usageError(oneOf(call.operands[0], shells).Error())
			}
			_, err := io.WriteString(call.Stdout, script)
			return err
		}
	},
}

const bashScript = `# Completion of offload for bash.
_offload() {
    local IFS=$'\n'
    COMPREPLY=($("${COMP_WORDS[0]}" __complete bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    case ${COMPREPLY[0]-} in
    :files) COMPREPLY=() && compopt -o default ;;
    :directories) COMPREPLY=() && compopt -o dirnames ;;
    esac
}
complete -F _offload offload
`

const zshScript = `#compdef offload
# Completion of offload for zsh.
_offload() {
    local -a candidates
    candidates=("${(@f)$("${words[1]}" __complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    case ${candidates[1]} in
    :files) _files ;;
    :directories) _files -/ ;;
    ?*) _describe -V offload candidates ;;
    esac
}
if [[ ${funcstack[1]} == _offload ]]; then
    _offload "$@"
else
    compdef _offload offload
fi
`

const fishScript = `# Completion of offload for fish.
function __offload_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l candidates ($words[1] __complete fish $words[2..-1] 2>/dev/null)
    switch "$candidates[1]"
        case :files
            __fish_complete_path (commandline -ct)
        case :directories
            __fish_complete_directories (commandline -ct)
        case '*'
            printf '%s\n' $candidates
    end
end
complete -c offload -f -a '(__offload_complete)'
`
