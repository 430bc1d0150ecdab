package target

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parse parses an entry ID that is known to be valid.
func parse(t testing.TB, s string) ID {
	t.Helper()
	id, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func parseAll(t testing.TB, ss ...string) []ID {
	t.Helper()
	var ids []ID
	for _, s := range ss {
		ids = append(ids, parse(t, s))
	}
	return ids
}

const amd = "hip-amdgcn-amd-amdhsa--"

func TestVerdicts(t *testing.T) {
	tests := []struct {
		entry, request string
		want           Verdict
	}{
		{amd + "gfx906", amd + "gfx906", ExactMatch},
		{amd + "gfx906", "hip-amdgcn-amd-amdhsa-unknown-gfx906", ExactMatch},
		{amd + "gfx906:xnack+", amd + "gfx906:xnack+", ExactMatch},
		{amd + "gfx906", "hipv4-amdgcn-amd-amdhsa--gfx906", TargetIDsCompatible},
		{amd + "gfx906", amd + "gfx906:xnack+", TargetIDsCompatible},
		{amd + "gfx906:xnack+:sramecc-", amd + "gfx906:sramecc-:xnack+", TargetIDsCompatible},
		{amd + "gfx906:xnack+", amd + "gfx906", MoreFeatures},
		{amd + "gfx906:xnack+", amd + "gfx906:sramecc+", FeatureUnset},
		{amd + "gfx906:xnack+", amd + "gfx906:xnack-", FeatureDiffers},
		{amd + "gfx906", amd + "gfx908", ProcessorMismatch},
		{amd + "gfx906", amd + "gfx906:foo+", ProcessorMismatch},
		{amd + "gfx906", amd + "gfx906:foo", ProcessorMismatch},
		{amd + "gfx9-generic", amd + "gfx906", ProcessorMismatch},
		{amd + "gfx906", "openmp-amdgcn-amd-amdhsa--gfx906", KindOrTripleMismatch},
		{"hip-amdgcn-amd-amdhsa-gnu-gfx906", amd + "gfx906", KindOrTripleMismatch},
		{amd + "gfx906", "hip-amdgcn-amd-amdhsa-gnu-gfx906", ExactMatch},

		// Processors that LLVM forgets.
		{amd + "gfx940", amd + "gfx940", ExactMatch},
		{amd + "gfx940", amd + "gfx941", ProcessorMismatch},
		{amd + "gfx940", amd, ProcessorMismatch},
		{amd + "gfx940", amd + "gfx940:xnack+", TargetIDsCompatible},
		{amd + "gfx940:xnack-", amd + "gfx940:xnack+", FeatureDiffers},
		{amd + "fiji", amd + "gfx803", TargetIDsCompatible},

		// What can be set since LLVM 24.
		{amd + "gfx1250", amd + "gfx1250:xnack+", TargetIDsCompatible},
		{amd + "gfx1250:xnack-", amd + "gfx1250:xnack+", FeatureDiffers},
		{amd + "gfx1250", amd + "gfx1250:sramecc+", ProcessorMismatch},
		{amd + "gfx1250", amd + "gfx1250-strict", ProcessorMismatch},
		{amd + "gfx1250-strict", amd + "gfx1250-strict:xnack+", TargetIDsCompatible},

		// Entries of older releases, as they were meant and as LLVM reads them.
		{"hip-amdgcn-amd-amdhsa-gfx906", amd + "gfx906", ExactMatch},
		{"hip-amdgcn-amd-amdhsa-gfx906", "hip-amdgcn-amd-amdhsa-gfx906", ExactMatch},
		{"hip-amdgcn-amd-amdhsa-gfx906", "hip-amdgcn-amd-amdhsa-gfx908", ProcessorMismatch},
		{"hip-amdgcn-amd-amdhsa-gfx906", amd, ExactMatch},
		{"hip-amdgcn-amd-amdhsa-gfx906", amd + "gfx906:xnack+", TargetIDsCompatible},
		{"host-x86_64-unknown-linux", "host-x86_64-unknown-linux--", ExactMatch},
		{"host-x86_64-unknown-linux", "host-x86_64-unknown-linux-gnu", KindOrTripleMismatch},
	}
	for _, tt := range tests {
		if m := (Rules{}).Match(parse(t, tt.entry), parse(t, tt.request)); m.Verdict != tt.want {
			t.Errorf("%s, want %q", m, verdictTexts[tt.want])
		}
	}
}

func TestHIPOpenMP(t *testing.T) {
	r := Rules{HIPOpenMP: true}
	for _, kinds := range [][2]string{{"hip", "openmp"}, {"openmp", "hipv4"}, {"HIPx", "openmp"}} {
		e := parse(t, kinds[0]+"-amdgcn-amd-amdhsa--gfx906")
		q := parse(t, kinds[1]+"-amdgcn-amd-amdhsa--gfx906:xnack+")
		if m := r.Match(e, q); m.Verdict != TargetIDsCompatible {
			t.Error(m)
		}
		if m := (Rules{}).Match(e, q); m.Verdict != KindOrTripleMismatch {
			t.Error(m)
		}
	}
	if m := r.Match(parse(t, "host-amdgcn-amd-amdhsa--gfx906"), parse(t, amd+"gfx906")); m.Compatible() {
		t.Error(m)
	}
}

func TestExplain(t *testing.T) {
	m := Rules{}.Match(parse(t, "hip-amdgcn-amd-amdhsa-unknown-gfx906:xnack+"), parse(t, amd+"gfx906:xnack-"))
	const want = "Incompatible: Value of CodeObject's non-ANY feature is not matching with Target feature's non-ANY value " +
		"\t[CodeObject: hip-amdgcn-amd-amdhsa--gfx906:xnack+]\t:\t[Target: hip-amdgcn-amd-amdhsa--gfx906:xnack-]"
	if diff := cmp.Diff(want, m.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Code for any setting of a feature serves a request for one setting if the release has the feature
// for the processor.
func TestFeaturesOfReleases(t *testing.T) {
	for release, want := range map[Release]string{22: "", 23: "sramecc", 24: "xnack", 0: "xnack"} {
		for _, feature := range []string{"sramecc", "xnack"} {
			for _, processor := range []string{"gfx1250", "gfx1251"} {
				m := Rules{Release: release}.Match(parse(t, amd+processor), parse(t, amd+processor+":"+feature+"+"))
				if m.Compatible() != (feature == want) {
					t.Errorf("LLVM %d: %s", release, m)
				}
			}
		}
	}
}

func TestServe(t *testing.T) {
	const host = "host-x86_64-unknown-linux-gnu-"
	tests := []struct {
		name              string
		entries, requests []string
		want              []int
	}{
		{"each its own", []string{host, amd + "gfx906", amd + "gfx908"}, []string{amd + "gfx908", host, amd + "gfx906"}, []int{2, 0, 1}},
		{"one entry, two requests", []string{amd + "gfx906"}, []string{amd + "gfx906:xnack+", amd + "gfx906:xnack-"}, []int{0, 0}},
		{"exact before compatible", []string{amd + "gfx906", amd + "gfx906:xnack+"}, []string{amd + "gfx906:xnack+"}, []int{1}},
		{"exact kind", []string{"hipv4-amdgcn-amd-amdhsa--gfx906", amd + "gfx906"}, []string{amd + "gfx906"}, []int{1}},
		{"same name before same thing", []string{"openmp-amd64-pc-linux-gnu-", "openmp-x86_64-pc-linux-gnu-"}, []string{"openmp-x86_64-pc-linux-gnu"}, []int{1}},
		{"nothing", []string{amd + "gfx906"}, []string{amd + "gfx908"}, []int{-1}},
		{"request twice", []string{amd + "gfx906"}, []string{amd + "gfx906", "hip-amdgcn-amd-amdhsa-unknown-gfx906"}, []int{0, 0}},
		{"unknown processors", []string{amd + "gfx940", amd + "gfx941"}, []string{amd + "gfx941", amd + "gfx942"}, []int{1, -1}},
		{"old layout", []string{"host-x86_64-unknown-linux", "hip-amdgcn-amd-amdhsa-gfx906", "hip-amdgcn-amd-amdhsa-gfx908"},
			[]string{amd + "gfx908", "hip-amdgcn-amd-amdhsa-gfx906"}, []int{2, 1}},
		{"no entries", nil, []string{host}, []int{-1}},
		{"no requests", []string{host}, nil, []int{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Rules{}.Serve(parseAll(t, tt.entries...), parseAll(t, tt.requests...), nil)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestServeTrace(t *testing.T) {
	var got []string
	entries := parseAll(t, amd+"gfx906", amd+"gfx906:xnack+")
	requests := parseAll(t, amd+"gfx906:xnack+", amd+"gfx906:xnack-")
	Rules{}.Serve(entries, requests, func(m Match) {
		got = append(got, verdictTexts[m.Verdict]+" "+m.Entry.TargetID+" > "+m.Request.TargetID)
	})
	want := []string{
		// LLVM's way, the first of two open requests first.
		"Compatible: Target IDs are compatible gfx906 > gfx906:xnack+",
		verdictTexts[FeatureDiffers] + " gfx906:xnack+ > gfx906:xnack-",
		// What is better than that.
		"Compatible: Exact match: gfx906:xnack+ > gfx906:xnack+",
		"Compatible: Target IDs are compatible gfx906 > gfx906:xnack-",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLinksWith(t *testing.T) {
	const amdgcn, nvptx = "amdgcn-amd-amdhsa", "nvptx64-nvidia-cuda"
	tests := []struct {
		a, b Device
		want bool
	}{
		{Device{amdgcn, "gfx906"}, Device{amdgcn, "gfx906"}, true},
		{Device{amdgcn, "gfx906"}, Device{amdgcn, "gfx908"}, false},
		{Device{amdgcn, "gfx906"}, Device{amdgcn, "gfx906:xnack+"}, true},
		{Device{amdgcn, "gfx906:xnack-"}, Device{amdgcn, "gfx906:xnack+"}, false},
		{Device{amdgcn, "gfx906:sramecc+"}, Device{amdgcn, "gfx906:sramecc-:xnack+"}, false},
		{Device{amdgcn, "gfx906:sramecc+"}, Device{amdgcn, "gfx906:xnack+"}, true},
		{Device{amdgcn, "generic"}, Device{amdgcn, "gfx906:xnack+"}, true},
		{Device{amdgcn, "gfx906"}, Device{amdgcn + "-", "gfx906"}, false},
		{Device{nvptx, "sm_70"}, Device{nvptx, "sm_80"}, false},
		{Device{nvptx, "sm_70"}, Device{nvptx, "generic"}, true},
		{Device{nvptx, "sm_70"}, Device{nvptx, "sm_70:x"}, false},
		{Device{"x86_64-pc-linux-gnu", ""}, Device{"x86_64-pc-linux-gnu", ""}, true},
	}
	for _, tt := range tests {
		if got := tt.a.LinksWith(tt.b); got != tt.want {
			t.Errorf("%v with %v: %v", tt.a, tt.b, got)
		}
		if got := tt.b.LinksWith(tt.a); got != tt.want {
			t.Errorf("%v with %v: %v", tt.b, tt.a, got)
		}
	}
}

func BenchmarkServe(b *testing.B) {
	var entries, requests []ID
	for _, p := range []string{"gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1101", "gfx1200", "gfx1201"} {
		entries = append(entries, parse(b, amd+p))
		requests = append(requests, parse(b, "hipv4-amdgcn-amd-amdhsa--"+p))
	}
	b.ReportAllocs()
	for b.Loop() {
		Rules{}.Serve(entries, requests, nil)
	}
}
