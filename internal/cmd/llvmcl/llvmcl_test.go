package llvmcl

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

// sample is a tool with an option of every type.
type sample struct {
	tool    Tool
	flag, h *Opt[bool]
	name, o *Opt[string]
	many    *Opt[[]string]
	list    *Opt[[]string]
	size    *Opt[uint32]
	level   *Opt[int32]
	rest    *Opt[[]string]
}

func newSample(positionals bool) *sample {
	s := &sample{tool: Tool{Overview: "Does something\n", Category: "sample options", Version: "sample version 1"}}
	s.flag = s.tool.Bool("flag", "A flag.")
	s.h = s.tool.Bool("h", "Alias for -help")
	s.h.Hide()
	s.name = s.tool.String("name", "string", "A name.\nOf two lines.")
	s.o = s.tool.String("o", "file", "An output.")
	s.many = s.tool.Strings("many", "string", "Many.")
	s.list = s.tool.List("list", "string", "A list.")
	s.size = s.tool.Uint("size", "uint", "A size.", 7)
	s.level = s.tool.Int("level", "n", "A level.", -3)
	if positionals {
		s.rest = s.tool.Positionals(" <files>")
	}
	return s
}

// parse reads a command line in a directory.
func (s *sample) parse(dir string, args ...string) (exit Exit, stdout, stderr string) {
	var out, errs bytes.Buffer
	exit = s.tool.Parse(&command.Call{
		Name: "bin/sample", Args: args, Stdout: &out, Stderr: &errs,
		Session: engine.New(engine.Config{Dir: dir}),
	})
	return exit, out.String(), errs.String()
}

func TestParse(t *testing.T) {
	s := newSample(true)
	exit, stdout, stderr := s.parse("", "-flag", "--flag=0", "-name", "-x", "--name=a=b", "-many", "1,2", "-many=", "-list=x,y", "--list", "z,", "file",
		"-size=0x10", "-level", "-2", "-", "-o", "out", "--", "-flag", "--")
	if exit.Done || stdout+stderr != "" {
		t.Fatalf("%v\n%s%s", exit, stdout, stderr)
	}
	got := []any{s.flag.Value, s.flag.Count, s.name.Value, s.many.Value, s.many.Count, s.list.Value, s.list.Count, s.size.Value, s.level.Value, s.o.Value, s.rest.Value}
	want := []any{false, 2, "a=b", []string{"1,2", ""}, 2, []string{"x", "y", "z", ""}, 4, uint32(16), int32(-2), "out", []string{"file", "-", "-flag", "--"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"-flga":              "sample: Unknown command line argument '-flga'.  Try: 'bin/sample --help'\nsample: Did you mean '--flag'?\n",
		"-nam=x":             "sample: Unknown command line argument '-nam=x'.  Try: 'bin/sample --help'\nsample: Did you mean '--name=x'?\n",
		"file":               "sample: Unknown command line argument 'file'.  Try: 'bin/sample --help'\n",
		"-name":              "sample: for the --name option: requires a value!\n",
		"-o":                 "sample: for the -o option: requires a value!\n",
		"-oout":              "sample: for the -o option: may not occur within a group!\nsample: Unknown command line argument '-oout'.  Try: 'bin/sample --help'\nsample: Did you mean '-o'?\n",
		"-flag=2":            "sample: for the --flag option: '2' is invalid value for boolean argument! Try 0 or 1\n",
		"-size=x":            "sample: for the --size option: 'x' value invalid for uint argument!\n",
		"-size=4294967296":   "sample: for the --size option: '4294967296' value invalid for uint argument!\n",
		"-level=2147483648":  "sample: for the --level option: '2147483648' value invalid for integer argument!\n",
		"-level=-2147483649": "sample: for the --level option: '-2147483649' value invalid for integer argument!\n",
		"-level=":            "sample: for the --level option: '' value invalid for integer argument!\n",
		"--help=1":           "sample: for the --help option: does not allow a value! '1' specified.\n",
	} {
		exit, stdout, stderr := newSample(false).parse("", strings.Fields(args)...)
		if exit != (Exit{true, 1}) || stdout != "" || stderr != want {
			t.Errorf("%s: %v %s\n%s", args, exit, stdout, cmp.Diff(want, stderr))
		}
	}
	s := newSample(false)
	s.name.Require()
	if exit, _, stderr := s.parse(""); exit != (Exit{true, 1}) || stderr != "sample: for the --name option: must be specified at least once!\n" {
		t.Errorf("%v %s", exit, stderr)
	}
}

func TestHelp(t *testing.T) {
	exit, stdout, stderr := newSample(true).parse("", "--help", "-nosuch")
	want := `OVERVIEW: Does something

USAGE: sample [options] <files>

OPTIONS:

Generic Options:

  --help          - Display available options (--help-hidden for more)
  --help-list     - Display list of available options (--help-list-hidden for more)
  --version       - Display the version of this program

sample options:

  --flag          - A flag.
  --level=<n>     - A level.
  --list=<string> - A list.
  --many=<string> - Many.
  --name=<string> - A name.
                    Of two lines.
  -o <file>       - An output.
  --size=<uint>   - A size.
`
	if exit != (Exit{Done: true}) || stderr != "" || stdout != want {
		t.Errorf("%v %s\n%s", exit, stderr, cmp.Diff(want, stdout))
	}
	if _, stdout, _ := newSample(true).parse("", "-version"); stdout != "sample version 1\n" {
		t.Errorf("version: %q", stdout)
	}
}

func TestNumbers(t *testing.T) {
	for s, want := range map[string]uint64{"0": 0, "10": 10, "010": 8, "0x1F": 31, "0X1f": 31, "0b101": 5, "0o17": 15, "00": 0, "18446744073709551615": 1<<64 - 1} {
		if got, ok := parseNumber(s); !ok || got != want {
			t.Errorf("%s is %d, %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "x", "-1", "+1", "1_0", "08", "0x", "0b2", "1 ", "18446744073709551616"} {
		if got, ok := parseNumber(s); ok {
			t.Errorf("%q is %d", s, got)
		}
	}
}

func TestResponseFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{
		"a":     "-flag @b '-name=it''s \"x\"'\n-many \"a b\" @nosuch",
		"b":     `-list=1\ 2,3 ""`,
		"loop":  "-flag @./loop",
		"utf16": "\xff\xfe-\x00f\x00l\x00a\x00g\x00",
		"bom":   "\xef\xbb\xbf-flag",
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s := newSample(true)
	exit, _, stderr := s.parse("", "@a", "@utf16", "@bom")
	if exit.Done || stderr != "" {
		t.Fatal(stderr)
	}
	got := []any{s.flag.Count, s.name.Value, s.many.Value, s.list.Value, s.rest.Value}
	want := []any{3, `its "x"`, []string{"a b"}, []string{"1 2", "3"}, []string{"@nosuch"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, _, stderr := newSample(true).parse("", "@loop"); stderr != "recursive expansion of: '"+filepath.Join(dir, "loop")+"'\n" {
		t.Errorf("loop: %s", stderr)
	}
}

func FuzzTokenize(f *testing.F) {
	f.Add(`a "b c" 'd' \e`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, token := range tokenize(decode([]byte(text)), false) {
			if token == "" {
				t.Error("an empty token")
			}
		}
	})
}

// TestChoice has an option of a few values, and a tool that needs an input.
func TestChoice(t *testing.T) {
	parse := func(args ...string) (string, string, string) {
		tool := Tool{Overview: "Wraps\n", Category: "sample options"}
		kind := tool.Choice("kind", "A kind:", Choice{Value: "one", Help: "The first"}, Choice{Value: "two", Help: "The second"}, Choice{Value: "three", Hidden: true})
		tool.Positionals(" <in>")
		tool.RequirePositional()
		var out, errs bytes.Buffer
		tool.Parse(&command.Call{Name: "bin/sample", Args: args, Stdout: &out, Stderr: &errs, Session: engine.New(engine.Config{})})
		return kind.Value, out.String(), errs.String()
	}
	if kind, _, stderr := parse("--kind=two", "in"); kind != "two" || stderr != "" {
		t.Errorf("%q, %s", kind, stderr)
	}
	if kind, _, stderr := parse("--kind=three", "in"); kind != "three" || stderr != "" {
		t.Errorf("a hidden value: %q, %s", kind, stderr)
	}
	if _, _, stderr := parse("--kind", "four"); stderr != "sample: for the --kind option: Cannot find option named 'four'!\n"+
		"sample: Not enough positional command line arguments specified!\nMust specify at least 1 positional argument: See: bin/sample --help\n" {
		t.Error(stderr)
	}
	if _, stdout, _ := parse("--help"); !strings.Contains(stdout, "  --kind=<value> - A kind:\n    =one         -   The first\n    =two         -   The second\n") {
		t.Error(stdout)
	}
}
