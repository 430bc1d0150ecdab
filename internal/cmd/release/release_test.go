package release

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/target"
)

func TestParse(t *testing.T) {
	for s, want := range map[string]target.Release{"22": 22, "23": 23, "24": 24, "23.1.4": 23, "24.0": 24} {
		if got, err := parse(s); err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v, want %d", s, got, err, want)
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

// Earlier releases cannot read containers of later ones.
func TestDefault(t *testing.T) {
	for _, r := range releases {
		if newest := Nearest(Default); r.Release <= Default && r.Container > newest.Container || r.Release > Default && r.Container <= newest.Container {
			t.Errorf("LLVM %d writes version %d", r.Release, r.Container)
		}
	}
}
