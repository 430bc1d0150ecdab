package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// classes are the classes of GCC's options that its --help lists, of those that compilations of C and C++ take.
var classes = []string{"common", "target", "optimizers", "c", "c++"}

// ofGCC matches the options for code generation in a list of GCC: a name, and "=" before a value.
var ofGCC = regexp.MustCompile(`(?m)^  (-[fgm][-A-Za-z0-9+_.]*)(=?)`)

// unknownArgument is clang's error about an option that no target has.
var unknownArgument = regexp.MustCompile(`unknown argument:? '([^']*)'`)

// listGCC returns the options of GCC, with "=" if a value follows and "*" if the rest of the word follows. Options without
// either also have an opposite, which the list does not have.
func listGCC(gcc string) ([]string, error) {
	found := map[string]bool{}
	for _, class := range classes {
		text, err := exec.Command(gcc, "-Q", "--help="+class).Output()
		if err != nil {
			return nil, fmt.Errorf("%s -Q --help=%s: %w", gcc, class, err)
		}
		for _, m := range ofGCC.FindAllStringSubmatch(string(text), -1) {
			name, equals := m[1], m[2]
			switch {
			case equals != "":
				found[name+"="] = true
			case strings.HasSuffix(name, "-"):
				found[name+"*"] = true
			default:
				found[name] = true
				found[opposite(name)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// opposite returns -fno-x for -fx, and the other way round.
func opposite(name string) string {
	if rest, ok := strings.CutPrefix(name[2:], "no-"); ok {
		return name[:2] + rest
	}
	return name[:2] + "no-" + name[2:]
}

// onlyGCC returns the options that clang rejects as unknown, which are the beginnings of words if they end with "=" or "*".
func onlyGCC(clang string, options []string) ([]string, error) {
	words, args := map[string]string{}, []string{"-fsyntax-only", "-x", "c++", os.DevNull}
	for _, name := range options {
		word := strings.TrimSuffix(name, "*")
		if word != name || strings.HasSuffix(name, "=") {
			word += "1"
		}
		words[word] = name
		args = append(args, word)
	}
	// One of the options sets the width of lines.
	text, err := messages(clang, args...)
	if err != nil {
		return nil, err
	}
	var only []string
	for _, m := range unknownArgument.FindAllStringSubmatch(strings.Join(strings.Fields(text), " "), -1) {
		if name, ok := words[m[1]]; ok {
			only = append(only, name)
		}
	}
	slices.Sort(only)
	return slices.Compact(only), nil
}

// generateGCC returns the table of the options that compilers of GCC have and clang does not.
func generateGCC(clang string, compilers []string) ([]byte, error) {
	only, err := onlyOf(clang, compilers)
	if err != nil {
		return nil, err
	}
	if len(only) < 500 {
		return nil, fmt.Errorf("%s rejects %d of the options of %s, expected more", clang, len(only), compilers)
	}
	var out bytes.Buffer
	out.WriteString("\"\"\"Options of GCC that clang rejects. Written by `go run ./tools/clangoptions`; do not edit.\"\"\"\n\n")
	out.WriteString("# Those that end with = have a value. Those that end with * are beginnings of words.\nGCC_ONLY = \"\"\"\n")
	line := ""
	for _, name := range only {
		if len(line)+1+len(name) > 120 {
			out.WriteString(line + "\n")
			line = ""
		}
		line = strings.TrimPrefix(line+" "+name, " ")
	}
	out.WriteString(line + "\n\"\"\"\n")
	return out.Bytes(), nil
}

// onlyOf returns the options of several compilers that clang rejects.
func onlyOf(clang string, compilers []string) ([]string, error) {
	var options []string
	for _, gcc := range compilers {
		more, err := listGCC(gcc)
		if err != nil {
			return nil, err
		}
		options = append(options, more...)
	}
	slices.Sort(options)
	return onlyGCC(clang, slices.Compact(options))
}
