// Package examples runs the example workspaces as a user would.
package examples

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/tests/bazeltest"
	"github.com/rules-offload/rules_offload/tests/llvm"
)

func TestMain(m *testing.M) {
	llvm.Main(m, "buildbox-casd")
}

// TestExamples builds and tests every example with the program of this test.
func TestExamples(t *testing.T) {
	folder := filepath.Join(bazeltest.Sources(t), "examples")
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !entry.IsDir() || entry.Name() == "remote_execution" {
			continue
		}
		t.Run(entry.Name(), func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(folder, entry.Name(), "README.md")); err != nil {
				t.Error(err)
			}
			workspace := bazeltest.Example(t, entry.Name())
			workspace.Bazel("build", "//...", bazeltest.Prebuilt)
			workspace.Bazel("test", "//...", bazeltest.Prebuilt)
		})
	}
}

// TestFilesAreListed checks that Bazel runs this test again when a file of an
// example changes.
func TestFilesAreListed(t *testing.T) {
	sources := bazeltest.Sources(t)
	list, err := os.ReadFile(filepath.Join(sources, "tests", "examples", "files.bzl"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(sources, "examples"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasPrefix(d.Name(), "bazel-") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() || d.Name() == ".gitignore" || d.Name() == ".bazelrc.user" || strings.HasSuffix(d.Name(), ".lock") {
			return nil
		}
		rel, err := filepath.Rel(sources, path)
		if err == nil && !strings.Contains(string(list), `"`+rel+`"`) {
			t.Errorf("add %q to tests/examples/files.bzl", rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDeviceCode asks which device code is in a program, without building it.
func TestDeviceCode(t *testing.T) {
	workspace := bazeltest.Example(t, "monorepo")
	result := workspace.Bazel("cquery", "//:device_code", "--output=starlark", "--starlark:file=device_code.cquery", bazeltest.Prebuilt)
	for _, want := range []string{
		"@@//app:paint (bundle): host-x86_64-unknown-linux-gnu- hipv4-amdgcn-amd-amdhsa--gfx",
		"@@//signal:spectrum (bundle): host-x86_64-unknown-linux-gnu- hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+ ",
	} {
		if !strings.Contains(result.Stdout, want) {
			t.Errorf("%q is not in\n%s", want, result.Stdout)
		}
	}
}

// TestSizeBudget makes a kernel of the monorepo too large.
func TestSizeBudget(t *testing.T) {
	workspace := bazeltest.Example(t, "monorepo")
	rules, err := os.ReadFile(filepath.Join(workspace.Dir, "build", "kernels.bzl"))
	if err != nil {
		t.Fatal(err)
	}
	workspace.Write("build/kernels.bzl", strings.ReplaceAll(string(rules), `"64KiB"`, `"1KiB"`))
	result, err := workspace.Try("build", "//imaging/...", bazeltest.Prebuilt)
	if err == nil {
		t.Fatal("a bundle above its size budget was built")
	}
	for _, want := range []string{"//imaging:", "more than the budget of 1024"} {
		if !strings.Contains(result.Output, want) {
			t.Errorf("the failure does not say %q:\n%s", want, result.Output)
		}
	}
}
