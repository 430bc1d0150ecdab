// Package examples runs the example workspaces as a user would.
package examples

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
	"github.com/rules-offload/rules_offload/tests/internal/reapi"
	"github.com/rules-offload/rules_offload/tests/pages"
)

func TestMain(m *testing.M) {
	llvm.Main(m, "buildbox-casd", "clang", "lld")
}

// TestExamples runs the commands on the page of every example, with the program of this test.
func TestExamples(t *testing.T) {
	folder := filepath.Join(bazeltest.Sources(t), "examples")
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		// TestRemoteExecution runs remote_execution, tests/rocm runs rocm.
		if !entry.IsDir() || entry.Name() == "remote_execution" || entry.Name() == "rocm" {
			continue
		}
		t.Run(entry.Name(), func(t *testing.T) {
			script, err := pages.Script(folder, filepath.Join(entry.Name(), "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(script, "bazelw test //...") {
				t.Errorf("the page does not say how to run the tests:\n%s", script)
			}
			workspace := bazeltest.Example(t, entry.Name())
			if err := workspace.Shell(script); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFilesAreListed checks that Bazel runs this test again after a change of a file of an example.
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

// TestDeviceCode queries the device code of a program without building it.
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

// TestSizeBudget enlarges a kernel of the monorepo beyond its budget.
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
	for _, want := range []string{"//imaging:", "expected at most 1024, the size budget"} {
		if !strings.Contains(result.Output, want) {
			t.Errorf("the failure does not say %q:\n%s", want, result.Output)
		}
	}
}

// TestRemoteExecution builds everything remotely, and downloads outputs only on request.
func TestRemoteExecution(t *testing.T) {
	server, err := reapi.Start(context.Background(), reapi.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	workspace := bazeltest.Example(t, "remote_execution")
	build := []string{"build", "//...", "--config=remote", "--remote_executor=" + server.Address(), bazeltest.Prebuilt}
	result := workspace.Bazel(build...)
	for _, spawn := range result.Spawns {
		if spawn.Runner != "remote" {
			t.Errorf("%s was run by %s: %v", spawn.Mnemonic, spawn.Runner, spawn.Outputs)
		}
	}
	if executed := server.Executions(); executed != int64(len(result.Spawns)) {
		t.Errorf("the server executed %d actions, Bazel says %d", executed, len(result.Spawns))
	}
	for mnemonic, want := range map[string]int{
		"OffloadHipCompile": 2 * 4,
		"OffloadDeviceLink": 4,
		"OffloadBundle":     1,
		"OffloadCheck":      1,
		"OffloadUnbundle":   1,
	} {
		if got := result.Count(mnemonic); got != want {
			t.Errorf("%d actions %s, want %d", got, mnemonic, want)
		}
	}
	for _, spawn := range result.Spawns {
		for _, output := range spawn.Outputs {
			// Bazel creates the parent of an output directory, and leaves it empty.
			_ = filepath.WalkDir(filepath.Join(workspace.Dir, output), func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					t.Errorf("%s was fetched, and nobody asked for it", path)
				}
				return nil
			})
		}
	}

	before := server.Executions()
	if again := workspace.Bazel(append(build, "--remote_download_outputs=toplevel")...); again.Count("OffloadBundle") != 0 {
		t.Error("the bundle was made once more to be fetched")
	}
	if executed := server.Executions() - before; executed != 0 {
		t.Errorf("fetching results executed %d actions", executed)
	}
	if content := workspace.Read("fat.hipfb"); !strings.HasPrefix(string(content), "__CLANG_OFFLOAD_BUNDLE__") {
		t.Error("fat.hipfb is no bundle")
	}
}
