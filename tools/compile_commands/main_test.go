package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeBazel sets a Bazel that prints an action graph and exits with a status, and returns the
// workspace.
func fakeBazel(t *testing.T, graph, status string) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\nif [ $1 = info ]; then echo /base/execroot/_main; exit; fi\ncat <<'E'\n" + graph + "\nE\nexit " + status + "\n"
	program := filepath.Join(dir, "bazel")
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BUILD_WORKSPACE_DIRECTORY", dir)
	t.Setenv("BAZEL", program)
	return dir
}

// TestKeepGoing writes the compilations of the targets that have no errors.
func TestKeepGoing(t *testing.T) {
	dir := fakeBazel(t, `{"actions": [{"mnemonic": "CppCompile", "arguments": ["gcc", "a.cc"]}]}`, "1")
	if err := run(nil); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "compile_commands.json"))
	if err != nil || !strings.Contains(string(content), "a.cc") {
		t.Errorf("%v: %s", err, content)
	}
}

// TestFailures checks which errors name BAZEL.
func TestFailures(t *testing.T) {
	for _, graph := range []string{`{"actions": []}`, ""} {
		dir := fakeBazel(t, graph, "2")
		err := run(nil)
		if err == nil || !strings.Contains(err.Error(), "exit status 2") || strings.Contains(err.Error(), "BAZEL") {
			t.Errorf("%q: %v", graph, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "compile_commands.json")); err == nil {
			t.Errorf("%q: a file is written", graph)
		}
	}
	fakeBazel(t, "", "0")
	for _, missing := range []string{"bazel-that-is-missing", "/missing/bazel"} {
		t.Setenv("BAZEL", missing)
		if err := run(nil); err == nil || !strings.Contains(err.Error(), "set BAZEL") {
			t.Errorf("%s: %v", missing, err)
		}
	}
}
