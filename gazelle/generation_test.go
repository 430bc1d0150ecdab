package offload_test

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what Gazelle writes into testdata")

// The files of a case that are not part of its workspace as they are.
const (
	buildBefore = "BUILD.in"    // the BUILD.bazel that Gazelle finds
	buildAfter  = "BUILD.out"   // the BUILD.bazel that it leaves
	wantStderr  = "stderr.txt"  // what it says
	wantReport  = "report.out"  // the report that it writes to report.md
	arguments   = "args.txt"    // one argument in each line
	buildFile   = "BUILD.bazel" // never in testdata
)

// workspaces has a workspace in each directory.
var workspaces = filepath.Join("testdata", "workspaces")

// TestGenerate runs Gazelle with the extension in a copy of each of the
// workspaces, and compares all BUILD files.
func TestGenerate(t *testing.T) {
	binary := gazelleBinary(t)
	cases, err := os.ReadDir(workspaces)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name(), func(t *testing.T) {
			t.Parallel()
			golden := filepath.Join(workspaces, c.Name())
			workspace, args := before(t, golden)
			stderr := run(t, binary, workspace, args)
			got := buildFiles(t, workspace, buildFile)
			report, err := os.ReadFile(filepath.Join(workspace, "report.md"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if *update {
				write(t, golden, got, stderr)
				if report != nil {
					if err := os.WriteFile(filepath.Join(golden, wantReport), report, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				return
			}
			if wanted, _ := os.ReadFile(filepath.Join(golden, wantReport)); !bytes.Equal(wanted, report) {
				t.Errorf("report (-want +got):\n%s", cmp.Diff(string(wanted), string(report)))
			}
			if diff := cmp.Diff(buildFiles(t, golden, buildAfter), got); diff != "" {
				t.Errorf("BUILD files (-want +got):\n%s", diff)
			}
			want, err := os.ReadFile(filepath.Join(golden, wantStderr))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), stderr); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
			run(t, binary, workspace, args)
			if diff := cmp.Diff(got, buildFiles(t, workspace, buildFile)); diff != "" {
				t.Errorf("a second run changes BUILD files (-first +second):\n%s", diff)
			}
		})
	}
}

// gazelleBinary returns a Gazelle with the extension: from Bazel's runfiles,
// or built as gazelle_binary does, from Gazelle's sources with another list of
// languages.
func gazelleBinary(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("GAZELLE_BINARY"); path != "" {
		return filepath.Join(os.Getenv("TEST_SRCDIR"), path)
	}
	const gazelle = "github.com/bazelbuild/bazel-gazelle"
	tmp := t.TempDir()
	sources, module := filepath.Join(tmp, "sources"), filepath.Join(tmp, "go.mod")
	if err := os.CopyFS(sources, os.DirFS(goCommand(t, "list", "-m", "-f", "{{.Dir}}", gazelle))); err != nil {
		t.Fatal(err)
	}
	languages := `package main

import (
	"github.com/bazelbuild/bazel-gazelle/language"
	offload "github.com/rules-offload/rules_offload/gazelle"
)

var languages = []language.Language{offload.NewLanguage()}
`
	if err := os.WriteFile(filepath.Join(sources, "cmd", "gazelle", "langs.go"), []byte(languages), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tmp, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	goCommand(t, "mod", "edit", "-replace="+gazelle+"="+sources, module)
	binary := filepath.Join(tmp, "gazelle.exe")
	goCommand(t, "build", "-modfile="+module, "-o", binary, gazelle+"/cmd/gazelle")
	return binary
}

// goCommand runs the go command and returns the line that it prints.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("go", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", args[0], err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// before copies a case to a workspace of its own, and returns that and the
// arguments.
func before(t *testing.T, golden string) (workspace string, args []string) {
	t.Helper()
	workspace, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	walk(t, golden, func(name string, content []byte) {
		switch filepath.Base(name) {
		case buildAfter, wantStderr, wantReport:
			return
		case arguments:
			args = strings.Fields(string(content))
			return
		case buildBefore:
			name = filepath.Join(filepath.Dir(name), buildFile)
		}
		path := filepath.Join(workspace, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	})
	return workspace, args
}

// run runs Gazelle and returns its output, without the path of the workspace.
func run(t *testing.T, binary, workspace string, args []string) string {
	t.Helper()
	if len(args) == 0 {
		args = []string{"update"}
	}
	var stderr bytes.Buffer
	cmd := exec.Command(binary, append([]string{args[0], "-repo_root=" + workspace}, args[1:]...)...)
	cmd.Dir = workspace
	cmd.Env = append(os.Environ(), "BUILD_WORKSPACE_DIRECTORY="+workspace)
	cmd.Stderr = &stderr
	if out, err := cmd.Output(); err != nil {
		t.Fatalf("%v\n%s%s", err, out, stderr.String())
	}
	return strings.ReplaceAll(stderr.String(), workspace+string(filepath.Separator), "")
}

// buildFiles returns the contents of all files with a base name, by directory.
func buildFiles(t *testing.T, root, base string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	walk(t, root, func(name string, content []byte) {
		if filepath.Base(name) == base {
			files[filepath.ToSlash(filepath.Dir(name))] = string(content)
		}
	})
	return files
}

// write writes Gazelle's output as the golden result of a case.
func write(t *testing.T, golden string, builds map[string]string, stderr string) {
	t.Helper()
	for dir := range buildFiles(t, golden, buildAfter) {
		if err := os.Remove(filepath.Join(golden, dir, buildAfter)); err != nil {
			t.Fatal(err)
		}
	}
	for dir, content := range builds {
		if err := os.WriteFile(filepath.Join(golden, dir, buildAfter), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(golden, wantStderr)
	if stderr == "" {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	} else if err := os.WriteFile(path, []byte(stderr), 0o644); err != nil {
		t.Fatal(err)
	}
}

// walk calls do for each file below root, by its path from there.
func walk(t *testing.T, root string, do func(name string, content []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil {
			do(name, content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
