package linkerwrapper

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/link"
)

// readWords reads a command line whose words are separated by spaces.
func readWords(t *testing.T, line string) (w *wrapper, warnings string, err error) {
	t.Helper()
	words, err := parse(strings.Fields(line))
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	w = &wrapper{call: environment(nil)}
	w.call.Stderr = &stderr
	err = w.read(words)
	return w, stderr.String(), err
}

// The position of an option decides to which inputs it applies, and where the registration
// objects are inserted.
func TestReadHostLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libx.a"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	x := filepath.Join(dir, "libx.a")
	for _, test := range []struct {
		line, output, args string // args: "|" is where the objects are inserted
		inputs             []link.Input
		libraries          string
	}{
		{"a.o -lx b.o -o out -L" + dir, "out", "a.o -l x b.o -o out | -L " + dir,
			[]link.Input{{Name: "a.o"}, {Name: x}, {Name: "b.o"}}, "input 0, -l x, input 2, -L " + dir},
		{"-L=" + dir + " --sysroot=/ --whole-archive -lx --no-whole-archive b.a", "a.out", "-L =" + dir + " --sysroot=/ --whole-archive -l x --no-whole-archive b.a |",
			[]link.Input{{Name: x, Whole: true}, {Name: "b.a"}}, "-L =" + dir + ", -Wl,--whole-archive, -l x, -Wl,--no-whole-archive, input 1"},
		{"-o one a.o -o two b.o -rpath r", "two", "-o one a.o -o two | b.o -rpath r",
			[]link.Input{{Name: "a.o"}, {Name: "b.o"}}, "input 0, input 1, -rpath r"},
		{"/out:p.exe a.lib /wholearchive /wholearchive:b.lib -no-whole-archive c.lib --host-triple=x86_64-pc-windows-msvc", "p.exe",
			"/out:p.exe | a.lib /wholearchive /wholearchive:b.lib -no-whole-archive c.lib",
			[]link.Input{{Name: "a.lib", Whole: true}, {Name: "b.lib", Whole: true}, {Name: "c.lib", Whole: true}}, "input 0, -Wl,--no-whole-archive, input 2"},
		{"a.o --host-triple=x86_64-pc-windows-msvc", "a.exe", "a.o |", []link.Input{{Name: "a.o"}}, "input 0"},
	} {
		w, _, err := readWords(t, test.line)
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		before, after := w.opt.LinkerArgs[:w.opt.ObjectsAt], w.opt.LinkerArgs[w.opt.ObjectsAt:]
		args := strings.TrimSpace(strings.Join(before, " ") + " | " + strings.Join(after, " "))
		var libraries []string
		for _, library := range w.opt.Libraries {
			text := strings.Join(library.Words, " ")
			if library.Words == nil {
				text = "input " + string(rune('0'+library.Input))
			}
			libraries = append(libraries, text)
		}
		got := []any{w.opt.Output, args, w.opt.Inputs, strings.Join(libraries, ", ")}
		if diff := cmp.Diff([]any{test.output, test.args, test.inputs, test.libraries}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.line, diff)
		}
	}
	if _, _, err := readWords(t, "a.o -lmissing -L"+dir); err == nil || err.Error() != "unable to find library -lmissing" {
		t.Errorf("a missing library: %v", err)
	}
}

// Values can be lists.
func TestReadExtract(t *testing.T) {
	w, _, err := readWords(t, "--should-extract=a,b, --should-extract=c")
	if diff := cmp.Diff([]string{"a", "b", "", "c"}, w.opt.Extract); err != nil || diff != "" {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
}

// A wrong granularity is a warning, as in LLVM.
func TestReadGranularity(t *testing.T) {
	w, warnings, err := readWords(t, "--wrapper-time-trace=t.json --wrapper-time-trace-granularity=x")
	if err != nil || w.trace == nil || !strings.HasPrefix(warnings, "warning: --wrapper-time-trace-granularity=x: ") {
		t.Errorf("%v, %q, %v", w.trace, warnings, err)
	}
}

// Options of libraries need no input before them.
func TestNoInputs(t *testing.T) {
	dir := t.TempDir()
	linker := filepath.Join(dir, "linker")
	if err := os.WriteFile(linker, []byte("#!/bin/sh\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		nil, {"-L", dir}, {"-rpath", dir}, {"--whole-archive"}, {"--no-whole-archive"}, {"--dry-run", "-L", dir}, {"-L", dir, "missing.a"},
	} {
		call := environment(nil)
		var stderr bytes.Buffer
		call.Name, call.Session, call.Stdout, call.Stderr = "clang-linker-wrapper", engine.New(engine.Config{}), &stderr, &stderr
		call.Args = append([]string{"--linker-path=" + linker, "-o", filepath.Join(dir, "out")}, args...)
		if code := Run(t.Context(), call); code != 0 {
			t.Errorf("%q: exit code %d, expected 0: %s", args, code, stderr.String())
		}
	}
}
