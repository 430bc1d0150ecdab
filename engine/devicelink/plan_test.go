package devicelink

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
)

// inputs reads "NAME: ARCH ARCH ..." lines; names that end with .a are archives.
func inputs(lines ...string) []Input {
	var list []Input
	for _, line := range lines {
		name, archs, _ := strings.Cut(line, ":")
		input := Input{Name: name, Archive: strings.HasSuffix(name, ".a")}
		for _, arch := range strings.Fields(archs) {
			input.Images = append(input.Images, InputImage{Triple: "amdgcn-amd-amdhsa", Arch: strings.ReplaceAll(arch, "_", ":"), Kinds: offloadbinary.HIP, Holder: name})
		}
		if input.Archive {
			input.Library = "/lib/" + name
		}
		list = append(list, input)
	}
	return list
}

// Plans depend on what the images are, and on nothing else.
func TestNewPlan(t *testing.T) {
	for _, test := range []struct {
		name   string
		inputs []Input
		whole  bool
		want   []string
	}{
		{"nothing", inputs("a.o:"), false, nil},
		{"two targets", inputs("a.o: gfx90a gfx942", "b.o: gfx90a"), false, []string{"gfx942: a.o#1", "gfx90a: a.o#0 b.o#0"}},
		{"a member alone", inputs("a.a: gfx90a"), false, nil},
		{"a whole archive", inputs("a.a: gfx90a"), true, []string{"gfx90a: a.a#0"}},
		{"a member joins", inputs("a.o: gfx90a", "b.a: gfx90a gfx942"), false, []string{"gfx90a: a.o#0 b.a#0"}},
		{"open settings join fixed ones", inputs("a.o: gfx90a_xnack+", "b.o: gfx90a"), false, []string{"gfx90a:xnack+: a.o#0 b.o#0", "gfx90a: b.o#0"}},
		{"generic joins", inputs("a.o: gfx90a", "b.o: generic"), false, []string{"generic: b.o#0", "gfx90a: a.o#0 b.o#0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			plan, err := NewPlan(test.inputs, PlanOptions{Clang: "clang", WholeArchive: test.whole})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, link := range plan.Links {
				line := link.Arch + ":"
				for _, image := range link.Images {
					line += fmt.Sprintf(" %s#%d", image.Input, image.Number)
				}
				got = append(got, line)
			}
			count := cmp.Transformer("set", func(list []string) map[string]bool {
				set := map[string]bool{}
				for _, s := range list {
					set[s] = true
				}
				return set
			})
			if diff := cmp.Diff(test.want, got, count); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if err := plan.Check(); err != nil && !strings.Contains(test.name, "settings") {
				t.Error(err)
			}
		})
	}
}

// Without a triple there is no target; without end there is no plan.
func TestNewPlanErrors(t *testing.T) {
	if _, err := NewPlan([]Input{{Name: "a.o", Images: []InputImage{{}}}}, PlanOptions{}); err == nil || err.Error() != "a.o: an image without a triple cannot be linked" {
		t.Errorf("error %v", err)
	}
	many := Input{Name: "a.o"}
	for i := range MaxGroups + 1 {
		many.Images = append(many.Images, InputImage{Triple: "amdgcn-amd-amdhsa", Arch: fmt.Sprint("gfx", i)})
	}
	if _, err := NewPlan([]Input{many}, PlanOptions{}); err == nil || err.Error() != "a.o: more than 1024 targets" {
		t.Errorf("error %v", err)
	}
}
