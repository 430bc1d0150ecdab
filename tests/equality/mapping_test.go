package equality

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/tests/bazeltest"
)

// TestPathMapping looks at command lines before anything is built: those of all
// rules name no configuration where Bazel is asked to map paths, and those of a
// genrule, which does not support it, do.
func TestPathMapping(t *testing.T) {
	workspace := bazeltest.New(t, t.TempDir(), everyRule())
	for _, mapping := range []bool{true, false} {
		flags := []string{"aquery", "deps(//:all)", "--output=jsonproto", "--include_param_files"}
		if mapping {
			flags = append(flags, "--experimental_output_paths=strip")
		}
		output := workspace.Bazel(flags...).Output
		_, object, found := strings.Cut(output, "\n{")
		if !found {
			t.Fatalf("aquery printed no JSON:\n%s", output)
		}
		var graph struct {
			Actions []struct {
				Mnemonic   string
				Arguments  []string
				ParamFiles []struct{ Arguments []string }
			}
		}
		if err := json.NewDecoder(strings.NewReader("{" + object)).Decode(&graph); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for _, action := range graph.Actions {
			want := mapping && action.Mnemonic != "Genrule"
			if _, ours := actions[action.Mnemonic]; !ours {
				continue
			}
			args := action.Arguments
			for _, file := range action.ParamFiles {
				args = append(args, file.Arguments...)
			}
			named := 0
			for _, arg := range args {
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
				t.Errorf("mapping is %v: %s names no output in %q", mapping, action.Mnemonic, args)
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
