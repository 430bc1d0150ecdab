package target

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// checkID checks, for every ID that can be parsed, the properties on which callers rely.
func checkID(t testing.TB, id ID) {
	std := id.String()
	if strings.Count(std, "-") < 5 {
		t.Errorf("%q: standard form %q has less than five dashes", id.Text, std)
	}
	again, err := ParseLLVM(std)
	if err != nil {
		t.Errorf("%q: standard form %q: %v", id.Text, std, err)
	}
	if again.Kind != id.Kind && !strings.Contains(string(id.Kind), "-") {
		t.Errorf("%q: kind %q becomes %q", id.Text, id.Kind, again.Kind)
	}
	if old, ok := parseOld(id.Text); ok {
		if _, err := ParseTargetID(old.TargetID); err != nil {
			return // what is junk in an old form can look different in another
		}
	}
	if id.validate() != nil {
		return
	}
	if m := (Rules{}).Match(again, id); m.Verdict != ExactMatch {
		t.Errorf("%q does not match its standard form: %s", id.Text, m)
	}
	if err := conflictIn([]ID{id}); err != nil {
		t.Errorf("%q conflicts with itself: %v", id.Text, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("hip-amdgcn-amd-amdhsa--gfx906:xnack+:sramecc-")
	f.Add("hip-amdgcn-amd-amdhsa-gfx10-3-generic:xnack-")
	f.Add("host-x86_64-unknown-linux")
	f.Add("gfx90a:xnack+")
	f.Fuzz(func(t *testing.T, s string) {
		llvm, err1 := ParseLLVM(s)
		ours, err2 := Parse(s)
		if err1 == nil {
			checkID(t, llvm)
			if err2 != nil {
				t.Errorf("%q: LLVM reads it, Parse does not: %v", s, err2)
			}
		}
		if err2 == nil {
			checkID(t, ours)
		}
		for _, k := range []Kind{"", Host, OpenMP, HIP} {
			id, err := Complete(s, k)
			if err != nil {
				continue
			}
			checkID(t, id)
			if err := id.validate(); err != nil {
				t.Error(err)
			}
			again, err := Complete(id.Text, "")
			if err != nil || again != id {
				t.Errorf("Complete(%q) = %+v, and of that %+v, %v", s, id, again, err)
			}
		}
	})
}

func FuzzNormalize(f *testing.F) {
	f.Add("x86_64-linux-gnu")
	f.Add("i686-mingw32-elf")
	f.Add("b-amd-amdgcn-elf-a-armv7eb")
	f.Fuzz(func(t *testing.T, s string) {
		n := Normalize(s, 4)
		if strings.Count(n, "-") != 3 {
			t.Errorf("Normalize(%q, 4) = %q", s, n)
		}
		if a, b := ParseTriple(n), ParseTriple(s); b.Arch != ArchUnknown && b.Arch != "dxil" && a.Arch != b.Arch {
			t.Errorf("%q has architecture %q, its normal form %q %q", s, b.Arch, n, a.Arch)
		}
		Normalize(s, 0)
	})
}

func FuzzTargetID(f *testing.F) {
	f.Add("gfx90a:xnack+:sramecc-")
	f.Add("gfx906::+:")
	f.Fuzz(func(t *testing.T, s string) {
		triple := ParseTriple("amdgcn-amd-amdhsa-")
		id, err := ParseTargetID(s)
		if err != nil {
			return
		}
		c := id.Canonical(triple)
		if again := c.Canonical(triple); again.String() != c.String() {
			t.Errorf("%q: canonical %q, and of that %q", s, c, again)
		}
		if err := CheckTargetID(triple, s); err == nil && CheckTargetID(triple, c.String()) != nil {
			t.Errorf("%q is good, its canonical form %q is not", s, c)
		}
	})
}

// TestOrderProperties: Order visits each key once, and only the keys decide.
func TestOrderProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOf(rapid.StringN(0, 3, -1)).Draw(t, "keys")
		order := LLVM22.Order(keys)
		visited := make([]string, 0, len(order))
		for _, i := range order {
			visited = append(visited, keys[i])
			if slices.Contains(keys[i+1:], keys[i]) {
				t.Errorf("key %d is not the last of its kind", i)
			}
		}
		slices.Sort(visited)
		want := slices.Compact(slices.Sorted(slices.Values(keys)))
		if !slices.Equal(visited, want) {
			t.Errorf("visited %q of %q", visited, want)
		}
	})
}

// TestServeProperties: a request is served if and only if an entry matches it,
// and exactly if there is an exact match.
func TestServeProperties(t *testing.T) {
	feature := rapid.SampledFrom([]string{"", ":xnack+", ":xnack-", ":sramecc+", ":sramecc-:xnack+"})
	genID := rapid.Custom(func(t *rapid.T) ID {
		id, err := ParseLLVM(rapid.SampledFrom([]string{"host", "openmp", "hip", "hipv4"}).Draw(t, "kind") + "-" +
			rapid.SampledFrom([]string{"amdgcn-amd-amdhsa-", "amdgcn-amd-amdhsa-unknown", "x86_64-pc-linux-gnu"}).Draw(t, "triple") + "-" +
			rapid.SampledFrom([]string{"gfx906", "gfx90a", "gfx940"}).Draw(t, "processor") + feature.Draw(t, "features"))
		if err != nil {
			t.Fatal(err)
		}
		return id
	})
	rapid.Check(t, func(t *rapid.T) {
		r := Rules{HIPOpenMP: rapid.Bool().Draw(t, "hip-openmp")}
		entries := rapid.SliceOf(genID).Draw(t, "entries")
		requests := rapid.SliceOf(genID).Draw(t, "requests")
		for i, e := range r.Serve(entries, requests, nil) {
			exact, compatible := false, false
			for _, entry := range entries {
				m := r.Match(entry, requests[i])
				exact = exact || m.Verdict == ExactMatch
				compatible = compatible || m.Compatible()
			}
			if compatible != (e >= 0) {
				t.Errorf("%s: served by %d, compatible %v", requests[i], e, compatible)
			}
			if exact && r.Match(entries[e], requests[i]).Verdict != ExactMatch {
				t.Errorf("%s: served by %s, not exactly", requests[i], entries[e])
			}
		}
	})
}
