package verb

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/nearest"
)

// A group is the first word of several verbs: "kpack" of "kpack list".

// groups returns the groups, with the summary of each.
var groups = []candidate{
	{"cache", "Shows, clears, trims and verifies the cache of launch."},
	{"kpack", "Lists, extracts, verifies, splits and merges kpack archives, which are files with the device code of libraries."},
	{"wheel", "Splits, merges and prunes Python wheels with device code."},
}

// isGroup reports whether verbs begin with a word.
func isGroup(word string) bool {
	return slices.ContainsFunc(groups, func(g candidate) bool { return g.word == word })
}

// joinVerb joins the two words of the name of a verb.
func joinVerb(words []string) []string {
	if len(words) >= 2 && isGroup(words[0]) {
		return append([]string{words[0] + " " + words[1]}, words[2:]...)
	}
	return words
}

// inGroup returns the verbs of a group, by their second words.
func inGroup(group string) []candidate {
	var all []candidate
	for _, v := range verbs() {
		if name, ok := strings.CutPrefix(v.name, group+" "); ok {
			all = append(all, candidate{name, v.summary})
		}
	}
	return all
}

// groupCall answers words that begin with a group and do not name one of its verbs.
func groupCall(call *command.Call, words []string) int {
	group, second := words[0], "help"
	if len(words) > 1 {
		second = cmp.Or(words[1], second)
	}
	var names []string
	for _, c := range inGroup(group) {
		names = append(names, c.word)
	}
	switch second {
	case "-h", "-help", "--help", "help":
		w := helpWriter{w: call.Stdout, color: call.Color}
		w.line("usage: offload " + group + " " + strings.Join(names, "|") + " [flags]")
		w.line("")
		w.paragraph("", groups[slices.IndexFunc(groups, func(g candidate) bool { return g.word == group })].meaning)
		w.heading("Verbs")
		for _, c := range inGroup(group) {
			w.paragraph(fmt.Sprintf("  %-8s  ", c.word), c.meaning)
		}
		w.line("")
		w.paragraph("", "offload "+group+" VERB --help describes the flags of a verb.")
		return exitOK
	}
	message := fmt.Sprintf("unknown verb %q; expected %s", second, alternatives(names))
	if near := nearest.Name(second, names); near != "" {
		message = fmt.Sprintf("unknown verb %q; did you mean %s %s?", second, group, near)
	}
	return mistake(call, "offload "+group, message, "offload "+group+" --help")
}
