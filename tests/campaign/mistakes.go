package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

var mistakeRuns = flag.Int64("mistakes", 0, "the `number` of command lines of the part mistakes, which then has no time limit")

// option is an option of a verb or a drop-in, as its help lists it.
type option struct {
	name  string // with its dashes
	value bool   // whether it has a value
}

// optionLine is the line of an option in a help text.
var optionLine = regexp.MustCompile(`(?m)^ +(--?[A-Za-z][-A-Za-z0-9]*)([ =]\S)?`)

// mistakeValues are values of options and operands: files that exist and others, and text that
// parsers of values have to reject.
var mistakeValues = []string{
	"", "IN", "GOOD", "missing", "out", "IN/child", "nodir/file", "loop", "unreadable", "-", "--", "-x", "--frobnicate", "=", "=x", "x=", "@", "@IN", "@missing", "@loop",
	"0", "-1", "1", "99", "99999999999999999999", "1e9", "0x10", "4KiB", "100MB", "1.5", "5%",
	"gfx906", "gfx90", "gfx90A", "mi300", "gfx906=o1", "gfx906=", "=o1", "gfx906:xnack+=o1", "gfx906:", "gfx906:xnack", "host-x86_64-unknown-linux-gnu=", "hip-amdgcn-amd-amdhsa--gfx906=IN", "sm_90=IN",
	"file=IN", "file=o1,arch=gfx906", "file=IN,triple=amdgcn-amd-amdhsa,kind=hip", "fil=IN", "file=", ",", ",,", "a,b,c", "kind=hop",
	"hip", "openmp", "cuda", "sycl", "zstd", "fast", "small", "x86_64-unknown-linux-gnu", "x86_64-pc-windows-msvc", "nonsense", "true", "false",
	"o1", "o1", "./TRUE", "a b", "tab\there", "line\nbreak", "\xff\xfe", "\x1b[2J", "\u202e", "ü", strings.Repeat("x", 300), strings.Repeat("x/", 3000), "%s%d%!", "'\"`$(", "\x00",
}

// mistakes runs every verb and drop-in with command lines that have mistakes, in this process.
func mistakes(ctx context.Context, c *campaign) error {
	r, err := newVerbRun(c)
	if err != nil {
		return err
	}
	m := &mistakeRun{verbRun: r, options: map[string][]option{}}
	leave, err := m.enter()
	if err != nil {
		return err
	}
	defer leave()
	if *mistakeRuns > 0 {
		ctx = context.WithoutCancel(ctx)
	}
	for ctx.Err() == nil && (*mistakeRuns == 0 || c.runs.Load() < *mistakeRuns) {
		words := m.line()
		done := make(chan error, 1)
		go func() { done <- m.once(ctx, words) }()
		select {
		case err := <-done:
			if err != nil {
				return err
			}
		case <-time.After(longest):
			c.fault("%q runs for more than %s", words, longest)
			return nil // the goroutine cannot be ended
		}
	}
	c.report("  exit codes: %v", m.codes)
	return nil
}

// mistakeRun is a run of the part mistakes.
type mistakeRun struct {
	*verbRun
	options map[string][]option // by tool, or offload and the verb
	codes   map[int]int64
}

// enter writes the files of the run, changes to their directory, and empties PATH: response files
// of LLVM's tools are relative to the working directory, and no program may be found.
func (m *mistakeRun) enter() (leave func(), err error) {
	m.codes = map[int]int64{}
	before, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	path := os.Getenv("PATH")
	if err := m.files(); err != nil {
		return nil, err
	}
	if err := os.Chdir(m.dir); err != nil {
		return nil, err
	}
	os.Setenv("PATH", "")
	return func() {
		os.Chdir(before)
		os.Setenv("PATH", path)
	}, nil
}

// files writes the files that command lines name.
func (m *mistakeRun) files() error {
	if err := m.clean(nil); err != nil {
		return err
	}
	seeds := m.seeds["bundle"]
	for name, data := range map[string][]byte{
		"IN": m.all[m.m.Below(len(m.all))].Data(), "GOOD": seeds[m.m.Below(len(seeds))].Data(), "TRUE": []byte("#!/bin/sh\nexit 0\n"), "unreadable": nil,
	} {
		if err := os.WriteFile(filepath.Join(m.dir, name), data, 0o777); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(m.dir, "unreadable"), 0); err != nil {
		return err
	}
	return os.Symlink("loop", filepath.Join(m.dir, "loop"))
}

// pick returns a random element.
func pick[T any](m *mistakeRun, list []T) T { return list[m.m.Below(len(list))] }

// line returns a command line: a correct one with up to four mistakes.
func (m *mistakeRun) line() []string {
	words := strings.Fields(strings.ReplaceAll(commandLines[m.m.Below(len(commandLines))].words, "DIR/", ""))
	if m.m.Below(20) == 0 {
		words = []string{"offload", pick(m, []string{"help", "version", "completion", "man", "kpack", "compile", "link-device", "__complete", "frobnicate", "--help", "-v"})}
	}
	for range 1 + m.m.Below(4) {
		words = m.spoil(words)
	}
	return words
}

// spoil makes a mistake in the arguments after the name of the tool.
func (m *mistakeRun) spoil(words []string) []string {
	i := 1 + m.m.Below(max(1, len(words)-1))
	exists := i < len(words)
	switch kind := m.m.Below(10); {
	case kind == 0 && exists:
		return slices.Delete(words, i, i+1)
	case kind == 1 && exists:
		return slices.Insert(words, 1+m.m.Below(len(words)), words[i])
	case kind == 2 && exists:
		j := 1 + m.m.Below(len(words)-1)
		words[i], words[j] = words[j], words[i]
	case kind == 3 && exists:
		name, _, hasValue := strings.Cut(words[i], "=")
		if words[i] = pick(m, mistakeValues); hasValue && m.m.Below(4) > 0 {
			words[i] = name + "=" + words[i]
		}
	case kind == 4 && exists && words[i] != "":
		at := m.m.Below(len(words[i]))
		words[i] = words[i][:at] + pick(m, []string{"", "-", "x", "=", ",", ":", "\xff"}) + words[i][at+m.m.Below(2):]
	case kind == 5 && exists:
		words[i] = words[i][:m.m.Below(len(words[i])+1)]
	case kind == 6:
		return slices.Insert(words, min(i, len(words)), pick(m, mistakeValues))
	default:
		options := m.optionsOf(words)
		if len(options) == 0 {
			return words
		}
		o := pick(m, options)
		added := []string{o.name}
		switch m.m.Below(4) {
		case 0:
		case 1:
			added[0] += "=" + pick(m, mistakeValues)
		default:
			if o.value {
				added = append(added, pick(m, mistakeValues))
			}
		}
		return slices.Insert(words, min(i, len(words)), added...)
	}
	return words
}

// optionsOf returns the options of the verb or drop-in of a command line, which its help lists.
func (m *mistakeRun) optionsOf(words []string) []option {
	call := []string{words[0], "--help"}
	if words[0] == "offload" {
		if len(words) < 2 {
			return nil
		}
		call = []string{"offload", "help", words[1]}
		if words[1] == "kpack" && len(words) > 2 {
			call = append(call, words[2])
		}
	}
	key := strings.Join(call, " ")
	options, known := m.options[key]
	if !known {
		c, printed := m.newCall(&commandLine{words: "offload"})
		c.Name, c.Args = call[0], call[1:]
		m.call(context.Background(), tools[call[0]], c)
		for _, match := range optionLine.FindAllStringSubmatch(printed[0].String(), -1) {
			options = append(options, option{match[1], match[2] != ""})
		}
		if len(m.options) < 1000 {
			m.options[key] = options
		}
	}
	return options
}

// once runs one command line. Its error is a failure of the campaign.
func (m *mistakeRun) once(ctx context.Context, words []string) error {
	call, printed := m.newCall(&commandLine{words: words[0]})
	call.Args = words[1:]
	status, panicked := m.call(ctx, tools[words[0]], call)
	m.codes[status]++
	if ctx.Err() == nil {
		if what := wrongAnswer(call, status, printed, panicked); what != "" {
			m.c.fault("%q: exit code %d: %s", words, status, what)
		}
	}
	if m.c.runs.Add(1)%32 == 0 {
		return m.files()
	}
	return nil
}

// wrongAnswer describes what is wrong with the result of a command line, or returns "".
func wrongAnswer(call *command.Call, status int, printed *[2]bytes.Buffer, panicked string) string {
	stderr := printed[1].String()
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	verb := call.Name == "offload"
	switch {
	case panicked != "":
		return panicked
	case (status < 0 || status > 2 || status == 2 && !verb) && !anyCode(call.Name):
		return "expected 0, 1 or 2: " + stderr
	case status != 0 && stderr == "":
		return "no message"
	}
	for _, sign := range []string{"panic", "goroutine ", "runtime error", "internal error", "%!", "<nil>"} {
		if strings.Contains(stderr, sign) && !slices.ContainsFunc(call.Args, func(arg string) bool { return strings.Contains(arg, sign) }) {
			return fmt.Sprintf("found %q in %s", sign, stderr)
		}
	}
	switch {
	case status == 0 || !verb:
		return ""
	case slices.ContainsFunc(call.Args, func(arg string) bool { return strings.Contains(arg, "-explain") }): // it prints lines about entries
		return ""
	case slices.ContainsFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "offload") }):
		return "a line without its origin: " + stderr
	case status == 2 && len(lines) != 1:
		return "more than one line: " + stderr
	case !strings.Contains(lines[0], " missing") && !strings.Contains(lines[0], "expected ") && !strings.Contains(lines[0], "unknown ") && !namesArgument(lines[0], call.Args):
		return "no argument is named: " + stderr
	}
	return ""
}

// namesArgument reports whether a message contains an argument or a part of it: the name or the
// value of an option, or of a property in its value.
func namesArgument(message string, args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		if arg == "" && strings.Contains(message, `""`) {
			return true
		}
		name, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		parts := strings.FieldsFunc(value, func(r rune) bool { return r == '=' || r == ',' })
		return slices.ContainsFunc(append(parts, arg, name, value), func(part string) bool {
			return part != "" && (strings.Contains(message, printable.Name(part)) || strings.Contains(message, fmt.Sprintf("%q", part)))
		})
	})
}
