package devicelink

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
)

func TestPacking(t *testing.T) {
	groups := []Link{
		{Triple: amd, Arch: "gfx1030", Kinds: offloadbinary.HIP},
		{Triple: cpu, Arch: "generic", Kinds: offloadbinary.OpenMP},
		{Triple: amd, Arch: "gfx90a", Kinds: offloadbinary.HIP | offloadbinary.OpenMP},
		{Triple: amd, Arch: "amdgcnspirv", Kinds: offloadbinary.HIP},
		{Triple: cpu, Arch: "none"},
	}
	if got := Kinds(groups); !slices.Equal(got, []offloadbinary.OffloadKind{offloadbinary.HIP, offloadbinary.OpenMP}) {
		t.Error(got)
	}
	if got := Of(groups, offloadbinary.OpenMP); !slices.Equal(got, []int{1, 2}) {
		t.Error(got)
	}
	list := Of(groups, offloadbinary.HIP)
	if !slices.Equal(list, []int{2, 0, 3}) {
		t.Error(list)
	}
	want := []string{"host-x86_64-unknown-linux-gnu", "hip-amdgcn-amd-amdhsa--gfx90a", "hip-amdgcn-amd-amdhsa--gfx1030", "hip-spirv64-amd-amdhsa--amdgcnspirv"}
	if diff := cmp.Diff(want, HIPTargets(LLVM22, groups, list)); diff != "" {
		t.Error(diff)
	}
	// The runtime has no other name for AMD's architecture.
	if got := HIPTargets(LLVM22, []Link{{Triple: subarch, Arch: "gfx90a", Kinds: offloadbinary.HIP}}, []int{0}); got[1] != want[1] {
		t.Errorf("the entry for %s is %s", subarch, got[1])
	}
	others := []Link{{Triple: nvidia, Arch: "sm_70"}, {Triple: "spirv64-unknown-unknown", Arch: "generic"}, {Triple: subarch, Arch: "generic"}}
	for policy, want := range map[Policy][]string{
		LLVM22:      {want[0], "hip-amdgcn-amd-amdhsa--sm_70", "hip-amdgcn-amd-amdhsa--", "hip-amdgcn-amd-amdhsa--"},
		LLVM24:      {want[0], "hip-amdgcn-amd-amdhsa--sm_70", "hip-amdgcn-amd-amdhsa--", "hip-amdgcn-amd-amdhsa--"},
		EveryTarget: {want[0], "hip-nvptx64-nvidia-cuda--sm_70", "hip-spirv64-unknown-unknown--", "hip-amdgcn-amd-amdhsa--"},
	} {
		if diff := cmp.Diff(want, HIPTargets(policy, others, []int{0, 1, 2})); diff != "" {
			t.Errorf("policy %d (-want +got):\n%s", policy, diff)
		}
	}
	got := strings.Join(FatbinaryCommand("fatbinary", "i686-linux-gnu", []string{"sm_70", "", "sm_90a"}, []string{"a", "b", "c"}, "out"), " ")
	if want := "fatbinary -32 --create out --image3=kind=elf,sm=70,file=a --image3=kind=elf,sm=,file=b --image3=kind=elf,sm=90a,file=c"; got != want {
		t.Error(got)
	}
	got = strings.Join(BundleCommand("bundler", true, "9", want[:2], []string{"i.img"}, "out"), " ")
	if want := "bundler -type=o -bundle-align=4096 -compress -compression-level=9 -targets=host-x86_64-unknown-linux-gnu,hip-amdgcn-amd-amdhsa--gfx90a -input=/dev/null -input=i.img -output=out"; got != want {
		t.Error(got)
	}
}

func TestNames(t *testing.T) {
	n := Names{Dir: "d"}
	for _, want := range []string{"d/a-000000.o", "d/a-000001.o"} {
		if got := n.File("a", ".o"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	n = Names{Plain: true}
	for _, want := range []string{"_.._a_b.o", "_.._a_b-1.o"} {
		if got := n.File("/../a\nb", ".o"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := n.File(strings.Repeat("x", 1000), ".o"); len(got) > 255 {
		t.Errorf("a name of %d bytes", len(got))
	}
}
