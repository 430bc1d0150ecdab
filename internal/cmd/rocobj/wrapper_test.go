package rocobj

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// all returns the files below the directory of the tests that are not those of newTools, and their contents.
func (x *tools) all(before map[string]string) map[string]string {
	x.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(x.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if name, err := filepath.Rel(x.dir, path); err != nil {
			return err
		} else if _, old := before[name]; !old {
			files[name] = string(data)
		}
		return nil
	})
	if err != nil {
		x.Fatal(err)
	}
	return files
}

func TestWrapper(t *testing.T) {
	const one, other = "1." + gfx906, "1." + gfx90a
	const code, codeX = "\x7fELFgfx906", "\x7fELFgfx90a:xnack+"
	for _, test := range []struct {
		args           []string
		code           int
		stdout, stderr string
		files          map[string]string
	}{
		{[]string{"bundle"}, 0, "", "", map[string]string{"bundle:" + one: code, "bundle:" + other: codeX}},
		{[]string{"-t", "xnack[+]$", "packed.o"}, 0, "", "", map[string]string{"packed.o:" + other: codeX}},
		{[]string{"-o", "new/dir", "--target-id=gfx906", "two", "packed"}, 0, "", "", map[string]string{
			"new/dir/two:" + one: code, "new/dir/two:2." + gfx906: code, "new/dir/packed:" + one: code,
		}},
		{[]string{"-it90a", "bundle", ":", ".copy", "cat", ";", "-", "wc", "-c", ";", "!", "cp", "{}", "{}.cp"}, 0, "17\n", "", map[string]string{
			"bundle:" + other: codeX, "bundle:" + other + ".copy": codeX, "bundle:" + other + ".cp": codeX,
		}},
		{[]string{"-I", "@", "-t906", "bundle", ":", "-", "echo", "a@b{}"}, 0, "abundle:" + one + "b{}\n", "", map[string]string{"bundle:" + one: code}},
		{[]string{"-t906", "bundle", ":", "-", "false"}, 1, "", "error: bundle:" + one + ": false: exit status 1", map[string]string{"bundle:" + one: code}},
		{[]string{"-t906", "bundle", ":", "-", "sh", "-c", "exit 3"}, 3, "", "exit status 3", map[string]string{"bundle:" + one: code}},
		{[]string{"bundle", ":", ".s"}, 1, "", `error: found ".s" after ":", expected a suffix and a command`, nil},
		{[]string{}, 1, "", "error: no executables specified\n", nil},
		{[]string{"-t", "gfx1100", "bundle"}, 1, "", "error: no executables specified\n", nil},
		{[]string{"none.o"}, 1, "", "error: none.o: No kernel section found\n", nil},
		{[]string{"lib.a"}, 1, "", "a member of an archive has no URI", nil},
		{[]string{"-t", "(", "bundle"}, 1, "", `error: -t: found "(", expected a POSIX extended regular expression`, nil},
		{[]string{"-o"}, 1, "", "error: option requires an argument -- 'o'\n", nil},
		{[]string{"-x"}, 1, "", "error: invalid option -- 'x'", nil},
		{[]string{"--frobnicate"}, 1, "", "error: unrecognized option '--frobnicate'", nil},
		{[]string{"-h"}, 0, "Usage: roc-obj [-h]", "", nil},
	} {
		x := newTools(t)
		before := x.all(nil)
		got, stdout, stderr := x.call(Wrapper, "", test.args...)
		if got != test.code || !strings.HasPrefix(stdout, test.stdout) || (test.stdout == "") != (stdout == "") || !strings.Contains(stderr, test.stderr) || (test.stderr == "") != (stderr == "") {
			t.Errorf("%q: exit code %d, %q, %q", test.args, got, stdout, stderr)
		}
		if test.files == nil {
			test.files = map[string]string{}
		}
		if diff := cmp.Diff(test.files, x.all(before)); diff != "" {
			t.Errorf("%q: files (-want +got):\n%s", test.args, diff)
		}
	}
}

// TestDisassemble runs an llvm-objdump of the test for -d.
func TestDisassemble(t *testing.T) {
	x := newTools(t)
	const code = "\x7fELFgfx906"
	bin := filepath.Join(x.dir, "bin")
	if err := os.Mkdir(bin, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "llvm-objdump"), []byte("#!/bin/sh\necho \"$@\"\ncat\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	before := x.all(nil)
	if got, stdout, stderr := x.call(Wrapper, "", "-dt906", "bundle"); got != 0 || stdout+stderr != "" {
		t.Errorf("exit code %d, %q, %q", got, stdout, stderr)
	}
	want := map[string]string{"bundle:1." + gfx906: code, "bundle:1." + gfx906 + ".s": "-d -\n" + code}
	if diff := cmp.Diff(want, x.all(before)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
