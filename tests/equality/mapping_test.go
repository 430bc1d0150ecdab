package equality

import (
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/tests/bazeltest"
)

// TestPathMapping looks at command lines before anything is built: those of all
// rules name no configuration where Bazel is asked to map paths, and those of
// actions that do not support it, such as a genrule, do.
func TestPathMapping(t *testing.T) {
	workspace := bazeltest.New(t, t.TempDir(), everyRule())
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
