package devicelink

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
)

const (
	amd     = "amdgcn-amd-amdhsa"
	subarch = "amdgpu9.0a-amd-amdhsa"
	nvidia  = "nvptx64-nvidia-cuda"
	cpu     = "x86_64-pc-linux-gnu"
)

// image reads "arch" of amdgcn, or "triple/arch". A star at the end is for a member.
func image(s string) Input {
	i := Input{Triple: amd, Kinds: offloadbinary.HIP, Name: "a.o"}
	s, i.Member = strings.CutSuffix(s, "*")
	if triple, arch, ok := strings.Cut(s, "/"); ok {
		i.Triple, s, i.Kinds = triple, arch, offloadbinary.OpenMP
	}
	i.Arch = s
	return i
}

// planned returns a line for each link of images, separated by commas: its arch, and the
// numbers of its images.
func planned(t testing.TB, images string, opt Options) string {
	t.Helper()
	var list []Input
	for _, s := range strings.Fields(images) {
		list = append(list, image(s))
	}
	links, err := Plan(list, opt)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, l := range links {
		line := l.Arch + ":"
		for _, i := range l.Images {
			line += fmt.Sprint(" ", i)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// Links depend on the descriptions of images, and on the policy.
func TestPlan(t *testing.T) {
	const same = "" // as with LLVM22
	const amdgpu = "amdgpu-amd-amdhsa"
	for _, test := range []struct {
		name, images                string
		llvm22, llvm24, everyTarget string
	}{
		{"no images", "", "", same, same},
		{"one target", "gfx90a gfx90a", "gfx90a: 0 1", same, same},
		{"several targets", "gfx90a gfx942 gfx90a", "gfx90a: 0 2, gfx942: 1", same, same},
		{"one processor, several triples", "gfx90a " + nvidia + "/gfx90a", "gfx90a: 0, gfx90a: 1", same, same},

		// Settings of target IDs: an object that leaves them open can go into a link that
		// specifies them. The order of the inputs does not matter.
		{"a setting and none", "gfx90a gfx90a:xnack+", "gfx90a:xnack+: 0 1", "gfx90a:xnack+: 1, gfx90a: 0", "gfx90a: 0, gfx90a:xnack+: 0 1"},
		{"a setting and none, the other order", "gfx90a:xnack+ gfx90a", "gfx90a:xnack+: 0 1", "gfx90a:xnack+: 0, gfx90a: 1", "gfx90a:xnack+: 0 1, gfx90a: 1"},
		{"both settings and none", "gfx90a:xnack+ gfx90a gfx90a:xnack-", "gfx90a:xnack+: 0 1, gfx90a:xnack-: 1 2",
			"gfx90a:xnack+: 0, gfx90a:xnack-: 2, gfx90a: 1", "gfx90a:xnack+: 0 1, gfx90a: 1, gfx90a:xnack-: 1 2"},
		{"some settings", "gfx90a:xnack+ gfx90a:sramecc+:xnack+ gfx90a:sramecc-", "gfx90a:sramecc+:xnack+: 0 1, gfx90a:sramecc-: 2",
			"gfx90a:sramecc+:xnack+: 1, gfx90a:xnack+: 0, gfx90a:sramecc-: 2", "gfx90a:xnack+: 0, gfx90a:sramecc+:xnack+: 0 1, gfx90a:sramecc-: 2"},
		{"the same setting of other processors", "gfx90a:xnack+ gfx908:xnack+ gfx908", "gfx90a:xnack+: 0, gfx908:xnack+: 1 2",
			"gfx90a:xnack+: 0, gfx908:xnack+: 1, gfx908: 2", "gfx90a:xnack+: 0, gfx908:xnack+: 1 2, gfx908: 2"},

		// Generic processors, and images for every processor.
		{"families", "gfx9-generic gfx900", "gfx9-generic: 0, gfx900: 1", same, same},
		{"generic CPU", cpu + "/generic " + cpu + "/native", "generic: 0, native: 1", same, "generic: 0, native: 0 1"},
		{"generic GPU", "generic gfx90a gfx90a:xnack+", "gfx90a:xnack+: 1 2, generic: 0", "gfx90a:xnack+: 2, generic: 0, gfx90a: 1",
			"generic: 0, gfx90a: 0 1, gfx90a:xnack+: 0 1 2"},
		{"generic, another triple", nvidia + "/generic gfx90a", "generic: 0, gfx90a: 1", same, same},
		{"no processor", amd + "/ " + amd + "/generic gfx90a", ": 0, generic: 1, gfx90a: 2", ": 0 1, gfx90a: 2", ": 0 1, generic: 1, gfx90a: 1 2"},

		// Names of a target: amdgpu9.0a is the instruction set of gfx90a.
		{"amdgpu triples", subarch + "/gfx90a gfx90a " + amdgpu + "/gfx90a", "gfx90a: 0, gfx90a: 1, gfx90a: 2", "gfx90a: 0 1 2", "gfx90a: 0 1 2"},
		{"amdgpu triples and settings", subarch + "/gfx90a:xnack+ gfx90a", "gfx90a:xnack+: 0, gfx90a: 1", same, "gfx90a:xnack+: 0 1, gfx90a: 1"},
		{"an instruction set", "gfx90a " + subarch + "/", "gfx90a: 0, : 1", "gfx90a: 0 1", "gfx90a: 0, : 1"},
		{"a family of instruction sets", "amdgpu9-amd-amdhsa/ amdgpu9.00-amd-amdhsa/ gfx900", ": 0, : 1, gfx900: 2", ": 0, : 1 2", ": 0 1, gfx900: 2"},
		{"other instruction sets", "amdgpu9.0a-amd-amdhsa/gfx90a amdgpu9.06-amd-amdhsa/gfx906", "gfx90a: 0, gfx906: 1", same, same},

		// Members of archives join links.
		{"members alone", "gfx90a* generic*", "", same, same},
		{"members join", "gfx90a* gfx942* gfx90a", "gfx90a: 2 0", same, "gfx90a: 0 2"},
		{"members and settings", "gfx90a:xnack+ gfx90a* gfx90a:xnack-* generic*", "gfx90a:xnack+: 0 1 3", same, same},
		{"members specify settings", "gfx90a gfx90a:xnack+*", "gfx90a: 0 1", "gfx90a: 0", "gfx90a: 0 1"},
		{"members specify settings of a link", "gfx90a gfx90a:xnack+ gfx90a:xnack+*", "gfx90a:xnack+: 0 1 2", "gfx90a:xnack+: 1 2, gfx90a: 0", "gfx90a: 0, gfx90a:xnack+: 0 1 2"},
		{"members for one processor", amd + "/generic gfx900*", "generic: 0 1", "generic: 0", "generic: 0"},
		{"members of a family", "gfx900 amdgpu9-amd-amdhsa/* generic*", "gfx900: 0 2", "gfx900: 0 1 2", "gfx900: 0 2"},
		{"members for other devices", nvidia + "/sm_70 " + nvidia + "/generic " + nvidia + "/generic*", "sm_70: 0 2, generic: 1 2", same, "sm_70: 0 1 2, generic: 1 2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for policy, want := range []string{LLVM22: test.llvm22, LLVM24: test.llvm24, EveryTarget: test.everyTarget} {
				if want == same {
					want = test.llvm22
				}
				if got := planned(t, test.images, Options{Policy: Policy(policy)}); got != want {
					t.Errorf("policy %d: links %s, expected %s", policy, got, want)
				}
			}
		})
	}
}

// Members make links for the archs to extract.
func TestPlanExtract(t *testing.T) {
	for _, test := range []struct {
		name, images, extract, want string
	}{
		{"a member", "gfx90a* gfx942*", "gfx942", "gfx942: 1"},
		{"later members join", "gfx942* gfx90a* gfx942*", "gfx942", "gfx942: 0 2"},
		{"earlier members do not join", "gfx90a* gfx90a:xnack+*", "gfx90a:xnack+", "gfx90a:xnack+: 1"},
		{"another setting than an object", "gfx90a gfx90a:xnack+*", "gfx90a:xnack+", "gfx90a: 0 1, gfx90a:xnack+: 1"},
		{"a target of an object", "gfx90a gfx90a*", "gfx90a", "gfx90a: 0 1"},
		{"nothing for the arch", "gfx90a*", "gfx942", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := planned(t, test.images, Options{Extract: []string{test.extract}}); got != test.want {
				t.Errorf("links %s, expected %s", got, test.want)
			}
			if got, want := planned(t, test.images, Options{Policy: EveryTarget, Extract: []string{test.extract}}), planned(t, test.images, Options{Policy: EveryTarget}); got != want {
				t.Errorf("links of EveryTarget %s, without extraction %s", got, want)
			}
		})
	}
}

// For all policies, the order of inputs decides only the order of links and of images.
func TestPlanOrder(t *testing.T) {
	targets := []string{"gfx90a", "gfx90a:xnack+", "gfx90a:xnack-", "gfx90a:sramecc+:xnack+", "gfx942", "generic", "gfx9-4-generic",
		subarch + "/gfx90a", cpu + "/generic", "gfx90a*", "gfx90a:xnack+*", "generic*"}
	// The targets of a link, in a fixed order.
	links := func(order []int, policy Policy) []string {
		var images []Input
		for _, k := range order {
			images = append(images, image(targets[k]))
		}
		all, err := Plan(images, Options{Policy: policy})
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, l := range all {
			var names []string
			for _, i := range l.Images {
				names = append(names, targets[order[i]])
			}
			slices.Sort(names)
			lines = append(lines, strings.Join(names, " "))
		}
		slices.Sort(lines)
		return lines
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		order := r.Perm(len(targets))[:2+r.IntN(len(targets)-2)]
		sorted := slices.Sorted(slices.Values(order))
		for _, policy := range []Policy{LLVM22, LLVM24, EveryTarget} {
			if diff := cmp.Diff(links(sorted, policy), links(order, policy)); diff != "" {
				t.Errorf("policy %d, order %v (-sorted +this order):\n%s", policy, order, diff)
			}
		}
	}
}

func TestPlanErrors(t *testing.T) {
	if _, err := Plan([]Input{{Name: "b.o"}}, Options{}); err == nil || err.Error() != "b.o: an image without a triple cannot be linked" {
		t.Errorf("no triple: %v", err)
	}
	var many []Input
	for i := range MaxTargets + 1 {
		many = append(many, image(fmt.Sprint("gfx", i)))
	}
	for _, policy := range []Policy{LLVM22, LLVM24, EveryTarget} {
		if _, err := Plan(many, Options{Policy: policy}); err == nil || err.Error() != "a.o: more than 1024 targets" {
			t.Errorf("policy %d, %d targets: %v", policy, len(many), err)
		}
	}
	if links, err := Plan(many[1:], Options{}); err != nil || len(links) != MaxTargets {
		t.Errorf("%d targets: %d links, %v", MaxTargets, len(links), err)
	}
}

func TestPolicyOf(t *testing.T) {
	for release, want := range map[target.Release]Policy{0: LLVM22, 22: LLVM22, 23: LLVM22, 24: LLVM24, 25: LLVM24} {
		if got := PolicyOf(release); got != want {
			t.Errorf("release %d: policy %d, expected %d", release, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for triple, want := range map[string]string{
		amd: "", nvidia: "", cpu: "", "aarch64-linux-gnu": "", "spirv64-intel": "", "powerpc64le-linux": "", "s390x-linux": "", "loongarch64-linux": "", "i686-linux": "",
		"riscv64-linux": "riscv64 linking is not supported", "foo-bar": "foo linking is not supported", "": " linking is not supported",
	} {
		g := Link{Triple: triple, Kinds: offloadbinary.OpenMP}
		got := ""
		if err := g.Check(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", triple, got, want)
		}
	}
	g := Link{Triple: "spirv64-unknown-unknown", Kinds: offloadbinary.SYCL | offloadbinary.OpenMP}
	if err, ok := errors.AsType[*MixedError](g.Check()); !ok || err.Runtime != "SYCL" {
		t.Error(err)
	}
}
