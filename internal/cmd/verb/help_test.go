package verb

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

// Help of a verb is the same however it is asked for, and complete.
func TestHelp(t *testing.T) {
	dir := t.TempDir()
	for _, v := range verbs() {
		t.Run(v.name, func(t *testing.T) {
			code, want, stderr := runIn(dir, "help", v.name)
			if code != 0 || stderr != "" {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			for _, args := range [][]string{{v.name, "--help"}, {v.name, "-h"}, {v.name, "-help"}, {v.name, "operand", "--help"}} {
				if v.command && len(args) == 3 {
					continue // a flag of the command
				}
				if code, got, stderr := runIn(dir, args...); code != 0 || got != want || stderr != "" {
					t.Errorf("%q: exit code %d\n%s%s", args, code, stderr, cmp.Diff(want, got))
				}
			}
			if len(v.examples) == 0 {
				t.Error("it has no example")
			}
			for _, part := range []string{"usage: offload " + v.name, v.usage(), "\nExamples:\n", "\noffload help lists the flags of all verbs"} {
				if !strings.Contains(want, part) {
					t.Errorf("help has no %q:\n%s", part, want)
				}
			}
			for line := range strings.Lines(want) {
				if len(line) > helpWidth+1 && !strings.HasPrefix(line, "usage: ") && !strings.HasPrefix(line, "  offload ") {
					t.Errorf("%d columns: %s", len(line), line)
				}
			}
		})
	}
}

// takesValue reports what package flag knows about each flag.
func TestTakesValue(t *testing.T) {
	for _, v := range verbs() {
		_, flags := v.prepare()
		flags.VisitAll(func(f *flag.Flag) {
			b, ok := f.Value.(interface{ IsBoolFlag() bool })
			if got, want := takesValue(f), !ok || !b.IsBoolFlag(); got != want {
				t.Errorf("%s --%s: got %v, want %v", v.name, f.Name, got, want)
			}
		})
	}
}

// The examples of help are command lines that the verbs take.
func TestExamples(t *testing.T) {
	for _, v := range verbs() {
		for _, e := range v.examples {
			t.Run(v.name+"/"+e.purpose, func(t *testing.T) {
				words := exampleWords(e.command)
				call := append([]string{"offload"}, strings.Fields(v.name)...)
				if len(words) < len(call) || !slices.Equal(words[:len(call)], call) {
					t.Fatalf("%q does not call the verb", e.command)
				}
				_, flags := v.prepare()
				operands, err := parse(flags, words[len(call):])
				if err != nil {
					t.Fatal(err)
				}
				optional := strings.HasPrefix(v.operand, " [") || strings.HasPrefix(v.operand, " FILE")
				if (len(operands) > 0) != (v.operand != "") && !optional {
					t.Errorf("operands %q, but the verb takes %q", operands, v.operand)
				}
			})
		}
	}
}

// exampleWords returns the words of an example up to a redirection.
func exampleWords(line string) []string {
	line = strings.TrimSuffix(strings.TrimPrefix(line, `eval "$(`), `)"`)
	var words []string
	for _, word := range strings.Fields(line) {
		if strings.ContainsAny(word, "><|") {
			break
		}
		words = append(words, strings.Trim(word, `'"`))
	}
	return words
}

func TestProgramHelp(t *testing.T) {
	dir := t.TempDir()
	_, want, _ := runIn(dir)
	for _, args := range [][]string{{"help"}, {"--help"}, {"-h"}, {"-help"}, {"help", "--help"}} {
		if code, got, stderr := runIn(dir, args...); code != 0 || got != want || stderr != "" {
			t.Errorf("%q: exit code %d, %s\n%s", args, code, stderr, cmp.Diff(want, got))
		}
	}
	for _, v := range verbs() {
		if !strings.Contains(want, "\n  "+v.name+" ") {
			t.Errorf("verb %s is not listed", v.name)
		}
	}
	for _, args := range [][]string{{"--version"}, {"-version"}, {"version"}} {
		if code, got, _ := runIn(dir, args...); code != 0 || !strings.HasPrefix(got, "offload "+Version+" (go") || strings.Count(got, "\n") != 1 {
			t.Errorf("%q: exit code %d, %s", args, code, got)
		}
	}
}

// Flags may stand after operands, and with one dash.
func TestFlagPlaces(t *testing.T) {
	for args, want := range map[string]string{
		"-json f": "f", "f --json": "f", "f -json=true g": "f g", "--json -- f --json": "f --json", "- --json": "-",
		"--type -json f --json": "error", "--max-size 5 f --json g": "f g",
	} {
		t.Run(args, func(t *testing.T) {
			_, flags := listVerb.prepare()
			operands, err := parse(flags, strings.Fields(args))
			got := strings.Join(operands, " ")
			if err != nil {
				got = "error"
			}
			if got != want || err == nil && flags.Lookup("json").Value.String() != "true" {
				t.Errorf("operands %q, %v, flags %v", operands, err, flags.given)
			}
		})
	}
}

// Headings are bold only if the output has color.
func TestColor(t *testing.T) {
	for _, color := range []bool{false, true} {
		for _, args := range [][]string{{"help"}, {"help", "list"}} {
			var out bytes.Buffer
			Run(t.Context(), &command.Call{Args: args, Stdout: &out, Stderr: &out, Color: color})
			if got := strings.Contains(out.String(), "\x1b["); got != color {
				t.Errorf("%q, colour %v: %q", args, color, out.String())
			}
		}
	}
}

// testImages writes files that verbs list: a bundle, an offload binary, an object with
// one, and an empty bundle.
func testImages(t *testing.T, dir string) {
	write(t, filepath.Join(dir, "bundle"), plainBundle("hip-amdgcn-amd-amdhsa--gfx90a", "content"))
	write(t, filepath.Join(dir, "empty"), nil)
	write(t, filepath.Join(dir, "dev.o"), []byte("object"))
	fatObject(t, dir, "fat.o")
	if code, _, stderr := runIn(dir, "pack", "--output", "packed", "--image", "file=dev.o,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=hip"); code != 0 {
		t.Fatal(stderr)
	}
}

// full is a standard output on which every write fails.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// Lost output is a failure of every command.
func TestLostOutput(t *testing.T) {
	dir := t.TempDir()
	testImages(t, dir)
	calls := []string{"", "help", "--help", "--version", "list bundle", "list --json bundle", "list --json empty", "inspect packed", "inspect --json packed", "extract packed", "link --plan fat.o", "link --json fat.o", "completion bash", "completion zsh", "completion fish", "__complete bash l"}
	for _, v := range verbs() {
		calls = append(calls, "help "+v.name, v.name+" --help")
	}
	for _, args := range calls {
		t.Run(args, func(t *testing.T) {
			var out, errs bytes.Buffer
			call := func(stdout *bytes.Buffer) (code int) {
				c := &command.Call{Args: strings.Fields(args), Stdout: full{}, Stderr: &errs, Session: engine.New(engine.Config{Dir: dir, Budget: budget.New(1, 64<<20)})}
				if stdout != nil {
					c.Stdout = stdout
				}
				return Run(context.Background(), c)
			}
			if code := call(&out); code != 0 || out.Len() == 0 || errs.Len() > 0 {
				t.Fatalf("exit code %d, printed %q, %s", code, out.String(), errs.String())
			}
			if code := call(nil); code != 1 || errs.String() != "offload: standard output: no space left\n" {
				t.Errorf("exit code %d, %q", code, errs.String())
			}
		})
	}
}

// Names in files reach a terminal escaped, and JSON as they are.
func TestHostileNames(t *testing.T) {
	dir := t.TempDir()
	const id = "hip-amdgcn-amd-amdhsa--gfx90a\x1b]0;owned\a\n\u202e"
	const shown = `hip-amdgcn-amd-amdhsa--gfx90a\x1b]0;owned\a\n\u202e`
	write(t, filepath.Join(dir, "b"), plainBundle(id, "content"))
	for _, test := range []struct {
		args   string
		code   int
		output string // what is printed somewhere
	}{
		{"list b", 0, shown + "\n"},
		{"unbundle --input b --entry gfx942=none", 1, "the bundle has " + shown},
		{"unbundle --type bc --explain --input b --entry gfx942=none", 1, shown},
		{"inspect b", 0, `gfx90a\x1b]0;owned\a\n\u202e`},
	} {
		t.Run(test.args, func(t *testing.T) {
			code, stdout, stderr := runIn(dir, strings.Fields(test.args)...)
			if code != test.code || !strings.Contains(stdout+stderr, test.output) {
				t.Errorf("exit code %d, printed %q and %q", code, stdout, stderr)
			}
			if strings.ContainsAny(stdout+stderr, "\x1b\a\u202e") {
				t.Errorf("raw names: %q %q", stdout, stderr)
			}
		})
	}
	if _, stdout, _ := runIn(dir, "list", "--json", "b"); !strings.Contains(stdout, `"hip-amdgcn-amd-amdhsa--gfx90a\u001b]0;owned\u0007\n\u202e"`) {
		t.Errorf("JSON: %s", stdout)
	}
}

// quoted returns an argument in the syntax of a shell.
func TestQuoted(t *testing.T) {
	for arg, want := range map[string]string{
		"plain": "plain", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "größe": "'größe'",
		"a\x1b[2J'\\\n\u202e": `$'a\033[2J\'\\\012\342\200\256'`,
	} {
		if got := quoted(arg); got != want {
			t.Errorf("quoted(%q) = %s, want %s", arg, got, want)
		}
	}
}

func TestCompletions(t *testing.T) {
	for _, test := range []struct {
		shell, words string // words are separated by spaces
		want         string
	}{
		{"bash", "li", "list link link-device"},
		{"bash", "--v", "--version"},
		{"bash", "list --j", "--json"},
		{"bash", "list --json --", "--input --lenient --max-memory --max-size --type --verify --help"},
		{"bash", "list -l", "--lenient"},
		{"bash", "list ", ":files"},
		{"bash", "list --type h", "hipi"},
		{"bash", "list --type = h", "hipi"},
		{"bash", "list --type =", "i ii cui hipi d ll bc s o a gch ast"},
		{"bash", "bundle --entry gfx942=x --entr", "--entry"},
		{"bash", "bundle --output ", ":files"},
		{"bash", "extract --output-dir ", ":directories"},
		{"bash", "help unb", "unbundle unbundle-archive"},
		{"bash", "completion f", "fish"},
		{"bash", "nosuch --", ""},
		{"bash", "list -- --j", ":files"},
		{"zsh", "unbundle --kind=h", "--kind=hip: --kind=hipv4:"},
		{"fish", "help li", "list\t" + listVerb.summary + " link\t" + linkVerb.summary + " link-device\t" + linkDeviceVerb.summary},
	} {
		t.Run(test.shell+" "+test.words, func(t *testing.T) {
			args := append([]string{completeCommand, test.shell}, strings.Split(test.words, " ")...)
			code, stdout, stderr := runIn(t.TempDir(), args...)
			got := strings.Join(strings.Split(strings.TrimSuffix(stdout, "\n"), "\n"), " ")
			if code != 0 || stderr != "" || got != test.want {
				t.Errorf("exit code %d, %q, want %q; %s", code, got, test.want, stderr)
			}
		})
	}
}

func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if code, stdout, stderr := runIn(dir, "man", "."); code != 0 || stdout+stderr != "" {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	for _, v := range verbs() {
		page, err := os.ReadFile(filepath.Join(dir, "offload-"+strings.ReplaceAll(v.name, " ", "-")+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		_, flags := v.prepare()
		parts := []string{".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH ENVIRONMENT", ".SH EXIT STATUS", ".SH EXAMPLES", ".SH SEE ALSO", roff(v.summary)}
		flags.VisitAll(func(f *flag.Flag) { parts = append(parts, `\fB\-\-`+roff(f.Name)) })
		for _, part := range parts {
			if !strings.Contains(string(page), part) {
				t.Errorf("%s: no %s in\n%s", v.name, part, page)
			}
		}
	}
	if page, err := os.ReadFile(filepath.Join(dir, "offload.1")); err != nil || !strings.Contains(string(page), `offload\-list(1)`) {
		t.Errorf("offload.1: %v\n%s", err, page)
	}
}

// plainBundle returns a bundle with one entry.
func plainBundle(id, content string) []byte {
	b := []byte("__CLANG_OFFLOAD_BUNDLE__")
	for _, n := range []int{1, 24 + 8 + 24 + len(id), len(content), len(id)} {
		for range 8 {
			b = append(b, byte(n))
			n >>= 8
		}
	}
	return append(append(b, id...), content...)
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
}
