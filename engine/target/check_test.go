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
			"Targets need to follow the format '<offload kind>-<target triple>', where '<target triple>' follows the format '<kind>-<arch>-<vendor>-<os>-<env>[-<target id>[:target features]]'."},
		{"duplicate", Bundling, []string{amd, amd}, "Duplicate targets are not allowed"},
		{"invalid", Bundling, []string{host, "cuda-nvptx64-nvidia-cuda--sm_70"}, "invalid target 'cuda-nvptx64-nvidia-cuda--sm_70', unknown offloading kind 'cuda'"},
		{"no host", Bundling, []string{"openmp-x86_64-pc-linux-gnu-"}, "expecting exactly one host target but got 0"},
		{"two hosts", Bundling, []string{host, "host-x86_64--linux-gnu"}, "expecting exactly one host target but got 2"},
		{"unbundling no host", Unbundling, []string{"openmp-x86_64-pc-linux-gnu-"}, ""},
		{"unbundling two hosts", Unbundling, []string{host, "host-x86_64--linux-gnu"}, "expecting exactly one host target but got 2"},
		{"conflict before hosts", Bundling, []string{"openmp-amdgcn-amd-amdhsa-unknown-gfx906:xnack+", "openmp-amdgcn-amd-amdhsa-unknown-gfx906"},
			"Cannot bundle inputs with conflicting targets: 'openmp-amdgcn-amd-amdhsa-unknown-gfx906' and 'openmp-amdgcn-amd-amdhsa-unknown-gfx906:xnack+'"},
		{"conflict by kind", Bundling, []string{amd + "gfx906", "hipv4-amdgcn-amd-amdhsa--gfx906:xnack+"}, ""},

		// What LLVM lets pass.
		{"conflict seen from the other side", Bundling, []string{amd + "gfx906:sramecc+:xnack+", amd + "gfx906:xnack+"},
			"Cannot bundle inputs with conflicting targets: 'hip-amdgcn-amd-amdhsa--gfx906:sramecc+:xnack+' and 'hip-amdgcn-amd-amdhsa--gfx906:xnack+'"},
		{"requests in conflict from the other side", Unbundling, []string{amd + "gfx906:sramecc+:xnack+", amd + "gfx906:xnack+"}, ""},
		{"conflict across spellings", Bundling, []string{amd + "gfx906", "hip-amdgcn-amd-amdhsa-unknown-gfx906:xnack+"},
			"Cannot bundle inputs with conflicting targets: 'hip-amdgcn-amd-amdhsa--gfx906' and 'hip-amdgcn-amd-amdhsa--gfx906:xnack+'"},
		{"conflict of unknown processors", Bundling, []string{amd + "gfx940", amd + "gfx940:xnack+"},
			"Cannot bundle inputs with conflicting targets: 'hip-amdgcn-amd-amdhsa--gfx940' and 'hip-amdgcn-amd-amdhsa--gfx940:xnack+'"},
		{"unknown processors", Bundling, []string{amd + "gfx940", amd + "gfx941"}, ""},
		{"same in another spelling", Bundling, []string{host, "openmp-x86_64-pc-linux-gnu", "openmp-x86_64-pc-linux-gnu-"},
			"Duplicate targets are not allowed: 'openmp-x86_64-pc-linux-gnu' and 'openmp-x86_64-pc-linux-gnu-' are both 'openmp-x86_64-pc-linux-gnu-'"},
		{"requests in two spellings", Unbundling, []string{"openmp-x86_64-pc-linux-gnu", "openmp-x86_64-pc-linux-gnu-"}, ""},
		{"features in another order", Bundling, []string{amd + "gfx906:xnack+:sramecc-", amd + "gfx906:sramecc-:xnack+"},
			"Duplicate targets are not allowed: 'hip-amdgcn-amd-amdhsa--gfx906:xnack+:sramecc-' and 'hip-amdgcn-amd-amdhsa--gfx906:sramecc-:xnack+' are both 'hip-amdgcn-amd-amdhsa--gfx906:sramecc-:xnack+'"},
		{"lost processors", Bundling, []string{"hip-amdgcn-amd-amdhsa-gfx906", "hip-amdgcn-amd-amdhsa-gfx908"},
			"Duplicate targets are not allowed: 'hip-amdgcn-amd-amdhsa-gfx906' and 'hip-amdgcn-amd-amdhsa-gfx908' are both 'hip-amdgcn-amd-amdhsa--'"},
		{"alias", Bundling, []string{amd + "fiji", amd + "gfx803"},
			"Duplicate targets are not allowed: 'hip-amdgcn-amd-amdhsa--fiji' and 'hip-amdgcn-amd-amdhsa--gfx803' are both 'hip-amdgcn-amd-amdhsa--gfx803'"},
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
