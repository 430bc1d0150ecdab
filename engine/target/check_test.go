package target

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckTargets(t *testing.T) {
	const host = "host-x86_64-unknown-linux-gnu-"
	tests := []struct {
		name    string
		op      Operation
		targets []string
		want    string // the error
	}{
		{"good", Bundling, []string{host, amd + "gfx906", amd + "gfx90a:xnack+", amd + "gfx90a:xnack-"}, ""},
		{"HIP needs no host", Bundling, []string{amd + "gfx906", "hipv4-amdgcn-amd-amdhsa--gfx906"}, ""},
		{"junk is kept", Bundling, []string{amd + "gfx906:foo"}, ""},
		{"duplicate comes first", Bundling, []string{"foo-", "foo-"},
			`target "foo-": expected KIND-ARCH-VENDOR-OS-ENV, with -TARGETID for a processor`},
		{"duplicate", Bundling, []string{amd, amd}, `target "hip-amdgcn-amd-amdhsa--" is named twice`},
		{"invalid", Bundling, []string{host, "cuda-nvptx64-nvidia-cuda--sm_70"}, `invalid target "cuda-nvptx64-nvidia-cuda--sm_70", unknown offloading kind "cuda"`},
		{"no host", Bundling, []string{"openmp-x86_64-pc-linux-gnu-"}, "found 0 host targets, expected one"},
		{"two hosts", Bundling, []string{host, "host-x86_64--linux-gnu"}, "found 2 host targets, expected one"},
		{"unbundling no host", Unbundling, []string{"openmp-x86_64-pc-linux-gnu-"}, ""},
		{"unbundling two hosts", Unbundling, []string{host, "host-x86_64--linux-gnu"}, "found 2 host targets, expected one"},
		{"conflict before hosts", Bundling, []string{"openmp-amdgcn-amd-amdhsa-unknown-gfx906:xnack+", "openmp-amdgcn-amd-amdhsa-unknown-gfx906"},
			"openmp-amdgcn-amd-amdhsa-unknown-gfx906 and openmp-amdgcn-amd-amdhsa-unknown-gfx906:xnack+ cannot be in one bundle: either all entries for gfx906 set xnack, or none"},
		{"a feature name with a sign", Unbundling, []string{amd + "gfx90a:xnack+", amd + "gfx90a:xnack+-"},
			"hip-amdgcn-amd-amdhsa--gfx90a:xnack+ and hip-amdgcn-amd-amdhsa--gfx90a:xnack+- cannot be in one bundle: either all entries for gfx90a set xnack+, or none"},
		{"conflict by kind", Bundling, []string{amd + "gfx906", "hipv4-amdgcn-amd-amdhsa--gfx906:xnack+"}, ""},

		// What LLVM lets pass.
		{"conflict seen from the other side", Bundling, []string{amd + "gfx906:sramecc+:xnack+", amd + "gfx906:xnack+"},
			"hip-amdgcn-amd-amdhsa--gfx906:sramecc+:xnack+ and hip-amdgcn-amd-amdhsa--gfx906:xnack+ cannot be in one bundle: either all entries for gfx906 set sramecc, or none"},
		{"requests in conflict from the other side", Unbundling, []string{amd + "gfx906:sramecc+:xnack+", amd + "gfx906:xnack+"}, ""},
		{"conflict across spellings", Bundling, []string{amd + "gfx906", "hip-amdgcn-amd-amdhsa-unknown-gfx906:xnack+"},
			"hip-amdgcn-amd-amdhsa--gfx906 and hip-amdgcn-amd-amdhsa--gfx906:xnack+ cannot be in one bundle: either all entries for gfx906 set xnack, or none"},
		{"conflict of unknown processors", Bundling, []string{amd + "gfx940", amd + "gfx940:xnack+"},
			"hip-amdgcn-amd-amdhsa--gfx940 and hip-amdgcn-amd-amdhsa--gfx940:xnack+ cannot be in one bundle: either all entries for gfx940 set xnack, or none"},
		{"unknown processors", Bundling, []string{amd + "gfx940", amd + "gfx941"}, ""},
		{"same in another spelling", Bundling, []string{host, "openmp-x86_64-pc-linux-gnu", "openmp-x86_64-pc-linux-gnu-"},
			`targets "openmp-x86_64-pc-linux-gnu" and "openmp-x86_64-pc-linux-gnu-" are the same: openmp-x86_64-pc-linux-gnu-`},
		{"requests in two spellings", Unbundling, []string{"openmp-x86_64-pc-linux-gnu", "openmp-x86_64-pc-linux-gnu-"}, ""},
		{"features in another order", Bundling, []string{amd + "gfx906:xnack+:sramecc-", amd + "gfx906:sramecc-:xnack+"},
			`targets "hip-amdgcn-amd-amdhsa--gfx906:xnack+:sramecc-" and "hip-amdgcn-amd-amdhsa--gfx906:sramecc-:xnack+" are the same: hip-amdgcn-amd-amdhsa--gfx906:sramecc-:xnack+`},
		{"lost processors", Bundling, []string{"hip-amdgcn-amd-amdhsa-gfx906", "hip-amdgcn-amd-amdhsa-gfx908"},
			`targets "hip-amdgcn-amd-amdhsa-gfx906" and "hip-amdgcn-amd-amdhsa-gfx908" are the same: hip-amdgcn-amd-amdhsa--`},
		{"alias", Bundling, []string{amd + "fiji", amd + "gfx803"},
			`targets "hip-amdgcn-amd-amdhsa--fiji" and "hip-amdgcn-amd-amdhsa--gfx803" are the same: hip-amdgcn-amd-amdhsa--gfx803`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ids, err := CheckTargets(tt.targets, ParseLLVM, tt.op)
			got := ""
			if err != nil {
				got = err.Error()
			} else if len(ids) != len(tt.targets) {
				t.Errorf("%d IDs for %d targets", len(ids), len(tt.targets))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestConflictDetails(t *testing.T) {
	got := conflictIn(parseAll(t, amd+"gfx90a:xnack+", amd+"gfx906:xnack+", amd+"gfx90a"))
	want := &ConflictError{First: amd + "gfx90a", Second: amd + "gfx90a:xnack+", Processor: "gfx90a", Feature: "xnack"}
	if diff := cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := conflictIn(parseAll(t, amd+"gfx90a:xnack+", amd+"gfx90a:xnack-")); err != nil {
		t.Error(err)
	}
}

func TestConflictingIDs(t *testing.T) {
	tests := []struct {
		ids  []string
		want string
	}{
		{nil, ""},
		{[]string{amd + "gfx906", amd + "gfx908:xnack+"}, ""},
		{[]string{amd + "gfx906:xnack+", amd + "gfx906"}, amd + "gfx906 " + amd + "gfx906:xnack+"},
		{[]string{amd + "gfx906:xnack+", amd + "gfx906:sramecc-:xnack+"}, amd + "gfx906:sramecc-:xnack+ " + amd + "gfx906:xnack+"},
	}
	for _, tt := range tests {
		got := ""
		if c := ConflictingIDs(tt.ids); c != nil {
			got = c.First + " " + c.Second
		}
		if got != tt.want {
			t.Errorf("ConflictingIDs(%q) = %q, want %q", tt.ids, got, tt.want)
		}
	}
}
