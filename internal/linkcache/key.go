package linkcache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/rules-offload/rules_offload/internal/process"
)

// variables of the environment change what compilers and linkers make, other than
// by the commands that clang runs.
var variables = []string{"LD_LIBRARY_PATH", "LD_RUN_PATH", "LIBRARY_PATH", "SOURCE_DATE_EPOCH", "LANG", "LC_ALL"}

// sideEffects are options with which a device link writes other files or is asked
// for measurements: its image alone would not do.
var sideEffects = []string{
	"--save-temps", "-save-temps", "-Wl,--save-temps", "-ftime-trace", "-ftime-report", "-gsplit-dwarf", "-fsave-optimization-record", "-foptimization-record",
	"-Map", "--Map", "--dependency-file", "--time-trace", "--print-", "-print-", "--trace", "--verbose", "-Wl,-Map", "-Wl,--Map", "-Wl,--dependency-file",
	"-plugin-opt=stats", "--stats", "-stats", "-fproc-stat-report", "-MF", "-dependency-file",
}

// LinkKey returns the hash of everything that the image of a device link depends on:
// the content of its inputs and of the libraries that it searches, the commands
// that clang runs for it, and the programs of these. It asks clang for the
// commands. ok is false for a link that has other effects than its image, or
// that clang cannot be asked about.
func LinkKey(ctx context.Context, link process.Command, inputs []string, output string) (key Key, ok bool, err error) {
	if hasSideEffects(link.Args) {
		return key, false, nil
	}
	var printed bytes.Buffer
	ask := link
	ask.Args = append([]string{link.Args[0], "-###"}, link.Args[1:]...)
	ask.Stdout, ask.Stderr = nil, &printed
	var exit *process.ExitError
	if err := ask.Run(ctx); errors.As(err, &exit) {
		return key, false, nil // the link will say why
	} else if err != nil {
		return key, false, err
	}
	h := NewHash()
	h.Text("device link 1")
	// Names of files of this call, which are different in the next.
	names := []string{output, "OUTPUT"}
	for i, input := range inputs {
		names = append(names, input, fmt.Sprintf("INPUT%d", i))
	}
	rename := strings.NewReplacer(names...)
	temporary := map[string]bool{output: true}
	for _, input := range inputs {
		temporary[input] = true
		if err := h.File(input); err != nil {
			return key, false, err
		}
	}
	for _, name := range variables {
		for _, variable := range link.Env {
			if value, found := strings.CutPrefix(variable, name+"="); found {
				h.Text(name)
				h.Text(value)
			}
		}
	}
	if err := hashProgram(h, link.Args[0]); err != nil {
		return key, false, nil
	}
	for line := range strings.Lines(printed.String()) {
		words := commandWords(line)
		if words == nil {
			h.Text(line) // the version of clang, its directory
			continue
		}
		if hasSideEffects(words) || intermediate(words, temporary) {
			return key, false, nil
		}
		for _, word := range words {
			h.Text(rename.Replace(word))
		}
		if err := hashProgram(h, words[0]); err != nil {
			return key, false, nil
		}
		if !hashFiles(h, words[1:], temporary) {
			return key, false, nil
		}
	}
	return h.Key(), true, nil
}

func hasSideEffects(words []string) bool {
	for _, word := range words {
		for _, option := range sideEffects {
			if strings.HasPrefix(word, option) {
				return true
			}
		}
	}
	return false
}

// intermediate reports whether a command writes something else than the output:
// then there are several, with files between them whose names are random.
func intermediate(words []string, temporary map[string]bool) bool {
	for i, word := range words[:len(words)-1] {
		if word == "-o" && !temporary[words[i+1]] {
			return true
		}
	}
	return false
}

var quotedWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"((?:[^"\\]|\\.)*)"`) })
var escaped = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\\(.)`) })

// commandWords returns the words of a command that clang -### prints, nil for
// another line.
func commandWords(line string) (words []string) {
	if !strings.HasPrefix(line, ` "`) {
		return nil
	}
	for _, m := range quotedWord().FindAllStringSubmatch(line, -1) {
		words = append(words, escaped().ReplaceAllString(m[1], "$1"))
	}
	return words
}

// hashProgram adds a program by what changes when another one is installed.
func hashProgram(h *Hash, name string) error {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	if err != nil {
		return err
	}
	h.Text(fmt.Sprintf("%s %d %d", real, info.Size(), info.ModTime().UnixNano()))
	return nil
}

// hashFiles adds the files that the words of a linker's command name: as they
// are, after an equals sign, or by -l. It returns false if a library is not found.
func hashFiles(h *Hash, words []string, temporary map[string]bool) bool {
	var dirs []string
	for i, word := range words {
		if dir, ok := strings.CutPrefix(word, "-L"); ok {
			if dir == "" && i+1 < len(words) {
				dir = words[i+1]
			}
			dirs = append(dirs, dir)
		}
	}
	file := func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.Mode().IsRegular() && h.File(name) == nil
	}
	for i, word := range words {
		if temporary[word] {
			continue
		}
		if strings.HasPrefix(word, "-l") {
			name := word[2:]
			if name == "" && i+1 < len(words) {
				name = words[i+1]
			}
			if !hashLibrary(name, dirs, file) {
				return false
			}
			continue
		}
		if !strings.HasPrefix(word, "-") {
			file(word)
		} else if _, value, ok := strings.Cut(word, "="); ok {
			for part := range strings.SplitSeq(value, ",") {
				_, last, nested := strings.Cut(part, "=")
				if nested {
					part = last
				}
				if !temporary[part] {
					file(part)
				}
			}
		}
	}
	return true
}

// hashLibrary adds what -l names.
func hashLibrary(name string, dirs []string, file func(string) bool) bool {
	names := []string{"lib" + name + ".so", "lib" + name + ".a"}
	if exact, ok := strings.CutPrefix(name, ":"); ok {
		names = []string{exact}
	}
	for _, dir := range dirs {
		for _, name := range names {
			if file(filepath.Join(dir, name)) {
				return true
			}
		}
	}
	return false
}
