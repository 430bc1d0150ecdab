package equality

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

// TestCommandLines checks actions with aquery, without a build.
func TestCommandLines(t *testing.T) {
	workspace := bazeltest.New(t, t.TempDir(), everyRule())
	t.Run("path mapping", func(t *testing.T) { testPathMapping(t, workspace) })
	t.Run("requirements", func(t *testing.T) { testRequirements(t, workspace) })
	t.Run("names", func(t *testing.T) { testNames(t, workspace) })
}

// testNames checks that the progress messages of actions name targets and sources, and no path of an output.
func testNames(t *testing.T, workspace *bazeltest.Workspace) {
	name, seen := "", 0
	for line := range strings.Lines(workspace.Bazel("aquery", "deps(//:all)", "--output=text").Stdout) {
		if message, ok := strings.CutPrefix(line, "action '"); ok {
			name = strings.TrimSuffix(strings.TrimSpace(message), "'")
		}
		mnemonic, ok := strings.CutPrefix(strings.TrimSpace(line), "Mnemonic: ")
		if _, ours := actions[mnemonic]; !ok || !ours {
			continue
		}
		seen++
		if strings.Contains(name, "bazel-out") {
			t.Errorf("%s has the progress message %q, expected a source or a target", mnemonic, name)
		}
	}
	if seen < len(actions) {
		t.Errorf("aquery shows %d actions of the rules, expected %d at least", seen, len(actions))
	}
}

// testPathMapping checks that the command lines of all rules name no configuration if Bazel maps
// paths, and that those of actions without support for it do, which shows that the check works.
func testPathMapping(t *testing.T, workspace *bazeltest.Workspace) {
	for _, mapping := range []bool{true, false} {
		var flags []string
		if mapping {
			flags = append(flags, "--experimental_output_paths=strip")
		}
		seen := map[string]int{}
		for _, action := range workspace.Commands("deps(//:all)", flags...) {
			want := mapping && mapsPaths(action.Mnemonic)
			if _, ours := actions[action.Mnemonic]; !ours {
				continue
			}
			named := 0
			for _, arg := range action.Arguments {
				_, path, found := strings.Cut(arg, "bazel-out/")
				if !found {
					continue
				}
				named++
				if strings.HasPrefix(path, "cfg/") != want {
					t.Errorf("mapping is %v: %s has the argument %s", mapping, action.Mnemonic, arg)
				}
			}
			if named == 0 {
				t.Errorf("mapping is %v: %s names no output in %q", mapping, action.Mnemonic, action.Arguments)
			}
			seen[action.Mnemonic]++
		}
		for mnemonic := range actions {
			if seen[mnemonic] == 0 {
				t.Errorf("aquery shows no %s", mnemonic)
			}
		}
	}
}

// testRequirements checks the execution requirements of actions: none excludes caches, sandboxes or
// other machines, all that run only the program support every kind of worker, and all whose paths
// can be mapped declare it.
func testRequirements(t *testing.T, workspace *bazeltest.Workspace) {
	anywhere := map[string]string{"supports-path-mapping": "1"}
	worker := map[string]string{
		"requires-worker-protocol":      "proto",
		"supports-multiplex-sandboxing": "1",
		"supports-multiplex-workers":    "1",
		"supports-path-mapping":         "1",
		"supports-worker-cancellation":  "1",
		"supports-workers":              "1",
	}
	for _, action := range workspace.Commands(`mnemonic("Offload.*", deps(//:all))`) {
		want := anywhere
		switch {
		case ofProgram(action.Mnemonic):
			want = worker
		case !mapsPaths(action.Mnemonic):
			want = map[string]string{}
		}
		// Bazel adds this requirement for the list of unused headers.
		const inline = "internal-inline-outputs"
		if strings.HasSuffix(action.Requirements[inline], ".unused") {
			delete(action.Requirements, inline)
		}
		if diff := cmp.Diff(want, action.Requirements); diff != "" {
			t.Errorf("%s (-want +got):\n%s", action.Mnemonic, diff)
		}
	}
}
