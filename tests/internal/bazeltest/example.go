package bazeltest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
)

// Prebuilt is the flag that makes an example use the program of the test instead of building its
// own.
const Prebuilt = "--extra_toolchains=//prebuilt:all"

// Sources returns the directory of the project's sources. Under Bazel, where the test must be
// unsandboxed, it is the target of the link in RULES_MODULE.
func Sources(t testing.TB) string {
	t.Helper()
	if !root.Bazel() {
		project, err := root.Project()
		if err != nil {
			t.Fatal(err)
		}
		return project
	}
	module, err := root.Runfile("RULES_MODULE")
	if err != nil {
		t.Fatal(err)
	}
	if module, err = filepath.EvalSymlinks(module); err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(module)
}

// Example is a copy of a workspace in examples/, two directories below the project's sources like
// the original, with its own Bazel server that ends with the test.
func Example(t testing.TB, name string) *Workspace {
	t.Helper()
	sources, project := Sources(t), t.TempDir()
	entries, err := os.ReadDir(sources)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() == "examples" || entry.Name() == "bazelw" || entry.Name() == ".git" || strings.HasPrefix(entry.Name(), "bazel-") {
			continue
		}
		if err := os.Symlink(filepath.Join(sources, entry.Name()), filepath.Join(project, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	w := &Workspace{Dir: filepath.Join(project, "examples", name), t: t}
	from := filepath.Join(sources, "examples", name)
	err = filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), "bazel-") || d.Name() == ".bazelrc.user" {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		w.copyFile(path, rel, info.Mode().Perm())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Write("prebuilt/BUILD.bazel", ToolchainFile)
	w.copyFile(llvm.Offload(t), "prebuilt/offload", 0o755)
	w.findBazel(sources)
	w.Write("../../bazelw", fmt.Sprintf("#!/bin/sh\ncommand=$1\nshift\nexec \"%s\" \"$command\" %s \"$@\"\n", strings.Join(w.command, `" "`), Prebuilt))
	if err := os.Chmod(filepath.Join(project, "bazelw"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.end)
	return w
}

// Shell runs a bash script in the directory of an example, with this Bazel as ../../bazelw and the
// program of the test. The script ends at the first command that fails.
func (w *Workspace) Shell(script string) error {
	cmd := exec.CommandContext(w.t.Context(), "bash", "-e", "-o", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = w.Dir, w.env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w:\n%s\n%s", err, script, out)
	}
	return nil
}
