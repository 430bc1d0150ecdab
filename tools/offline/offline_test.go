// Package offline_test runs bazelw on machines made of stubs: which Bazel is taken, what is prepared and what is not
// prepared twice, and what is said when something is missing. The real preparation is tested by tools/offline/check.
package offline_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// systemTools are what bazelw may call without asking: part of every Debian.
var systemTools = []string{
	"awk", "bash", "cat", "chmod", "cp", "cut", "dirname", "echo", "env", "false", "find", "flock", "grep", "head",
	"ln", "ls", "mkdir", "mktemp", "mv", "paste", "readlink", "rm", "sed", "sh", "sha256sum", "sleep", "sort", "stat", "sync", "tac",
	"tail", "tar", "timeout", "touch", "tr", "true", "uname", "wc",
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			if err := copyProject(filepath.Join(env.WorkDir, "project")); err != nil {
				return err
			}
			// PATH has the stubs of testdata/stubs that a script takes, and the tools above.
			stubs, err := filepath.Abs("testdata/stubs")
			if err != nil {
				return err
			}
			tools := filepath.Join(env.WorkDir, "tools")
			bin := filepath.Join(env.WorkDir, "bin")
			for _, dir := range []string{tools, bin, filepath.Join(env.WorkDir, "home")} {
				if err := os.Mkdir(dir, 0o755); err != nil {
					return err
				}
			}
			for _, name := range systemTools {
				path, err := exec.LookPath(name)
				if err != nil {
					return err
				}
				if err := os.Symlink(path, filepath.Join(tools, name)); err != nil {
					return err
				}
			}
			env.Setenv("STUBS", stubs)
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("CACHE", filepath.Join(env.WorkDir, "home/.cache/rules_offload"))
			env.Setenv("PATH", bin+":"+tools)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"stub": stub,
		},
	})
}

// stub puts the named stubs on PATH.
func stub(ts *testscript.TestScript, _ bool, names []string) {
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(ts.Getenv("STUBS"), name))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs("bin/"+name), content, 0o755))
	}
}

// copyProject copies bazelw and the scripts that it reads, as files: under Bazel they are symbolic links.
func copyProject(to string) error {
	if err := copyFile("../../bazelw", filepath.Join(to, "bazelw")); err != nil {
		return err
	}
	return filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == "testdata":
			return fs.SkipDir
		}
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			return err
		}
		return copyFile(path, filepath.Join(to, "tools/offline", path))
	})
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}
