package release

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/target"
)

func TestParse(t *testing.T) {
	for s, want := range map[string]target.Release{"": Default, "22": 22, "23": 23, "24": 24, "23.1.4": 23, "24.0": 24} {
		if r, err := parse(s); err != nil || r.Release != want {
			t.Errorf("Parse(%q) = %d, %v, want %d", s, r.Release, err, want)
		}
	}
	var numbers []string
	for _, r := range releases {
		numbers = append(numbers, fmt.Sprint(r.Release))
	}
	for _, s := range []string{"21", "new", " 22"} {
		want := fmt.Sprintf("OFFLOAD_LLVM_VERSION: found %q, expected %s; unset it to follow LLVM 22", s, strings.Join(numbers, ", "))
		if _, err := parse(s); err == nil || err.Error() != want {
			t.Errorf("Parse(%q): %v", s, err)
		}
	}
}

func TestFromEnv(t *testing.T) {
	for value, want := range map[string]target.Release{"23": 23, "": Default} {
		r, err := FromEnv(func(name string) (string, bool) {
			if name != Variable {
				t.Errorf("%s is looked up", name)
			}
			return value, value != ""
		})
		if err != nil || r.Release != want {
			t.Errorf("%q: %d, %v", value, r.Release, err)
		}
	}
}

// Earlier releases cannot read containers of later ones.
func TestDefault(t *testing.T) {
	for _, r := range releases {
		if newest, _ := Of(Default); r.Release <= Default && r.Container > newest.Container || r.Release > Default && r.Container <= newest.Container {
			t.Errorf("LLVM %d writes version %d", r.Release, r.Container)
		}
	}
}
