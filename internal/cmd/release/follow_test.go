package release

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

func TestLookPath(t *testing.T) {
	if got := LookPath("sh", "/no/such:/bin:/usr/bin"); got != "/bin/sh" {
		t.Errorf("sh is %q", got)
	}
	if got := LookPath("no-such-program", "/bin"); got != "" {
		t.Errorf("found %q", got)
	}
}

// A drop-in follows the variable, its name, or the clang in its directory.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	write := func(name, script string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	link := func(old, name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, old), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	version := func(v string) string { return "echo 'AMD clang version " + v + "'\n" }
	write("alone/tool", "")
	write("prints/tool", "")
	write("prints/clang", version("23.1.4 (roc)"))
	write("old/tool", "")
	write("old/clang", version("19.0.0"))
	write("new/tool", "")
	write("new/clang", version("31.0.0"))
	write("broken/tool", "")
	write("broken/clang", "exit 1\n")
	write("llvm-24/bin/clang", "exit 1\n")
	write("versioned/tool", "")
	link("llvm-24/bin/clang", "versioned/clang")
	link("prints/tool", "elsewhere/tool")
	for _, test := range []struct {
		name, variable, path string
		want                 target.Release
	}{
		{"alone/tool", "", "prints", Default},
		{"prints/tool", "", "", target.LLVM23},
		{"prints/tool", "24", "", target.LLVM24},
		{"old/tool", "", "", target.LLVM22},
		{"new/tool", "", "", releases[len(releases)-1].Release},
		{"broken/tool", "", "", Default},
		{"versioned/tool", "", "", target.LLVM24},
		{"elsewhere/tool", "", "", target.LLVM23},
		{"prints/tool-24", "", "", target.LLVM24},
		{"prints/tool-24.1.exe", "", "", target.LLVM24},
	} {
		call := &command.Call{Name: filepath.Join(dir, test.name), LookupEnv: func(name string) (string, bool) {
			switch name {
			case Variable:
				return test.variable, test.variable != ""
			case "PATH":
				return filepath.Join(dir, test.path), true
			}
			return "", false
		}}
		if r, err := Follow(t.Context(), call); err != nil || r.Release != test.want {
			t.Errorf("%s, %q: LLVM %d, %v, expected %d", test.name, test.variable, r.Release, err, test.want)
		}
	}
	// A name without a directory is looked up.
	call := &command.Call{Name: "tool", LookupEnv: func(name string) (string, bool) {
		if name != "PATH" {
			return "", false
		}
		return filepath.Join(dir, "prints"), true
	}}
	if r, err := Follow(t.Context(), call); err != nil || r.Release != target.LLVM23 {
		t.Errorf("on PATH: LLVM %d, %v", r.Release, err)
	}
}
