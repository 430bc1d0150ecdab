package target

import "testing"

func TestFindProcessor(t *testing.T) {
	for text, want := range map[string]string{
		"TensileLibrary_gfx1250-strict.dat":      "gfx1250-strict",
		"TensileLibrary_gfx1250.dat":             "gfx1250",
		"Kernels.so-000-gfx1250-strict.hsaco":    "gfx1250-strict",
		"Kernels.so-000-gfx90a-xnack+.hsaco":     "gfx90a",
		"Kernels.so-000-gfx9-4-generic.hsaco":    "gfx9-4-generic",
		"Kernels.so-000-gfx9-generic-xnack-.co":  "gfx9-generic",
		"gfx940.co":                              "gfx940",
		"a_gfx1999-strict.co":                    "gfx1999-strict",
		"a_gfx19-9-generic.co":                   "gfx19-9-generic",
		"a_gfx1999-000.co":                       "gfx1999",
		"a_gfx90ab.co":                           "gfx90ab",
		"gfx_gfx906.co":                          "gfx906",
		"gfx.co":                                 "",
		"TensileLibrary.dat":                     "",
		"gfx1250-stricter.co":                    "gfx1250",
		"extop_gfx1100.co":                       "gfx1100",
		"TensileLibrary_lazy_gfx10-1-generic.co": "gfx10-1-generic",
	} {
		if got := FindProcessor(text); got != want {
			t.Errorf("FindProcessor(%q) = %q, want %q", text, got, want)
		}
	}
}

// Every processor is found in the name of a file.
func TestFindEveryProcessor(t *testing.T) {
	for _, n := range amdgcnProcessors {
		name := n.name
		for _, text := range []string{name, "x_" + name + ".co", name + "-xnack+", name + "_fallback"} {
			if got := FindProcessor(text); got != name {
				t.Errorf("FindProcessor(%q) = %q", text, got)
			}
		}
	}
}

func TestKnownProcessor(t *testing.T) {
	for _, name := range append(Processors(), "fiji", "amdgcnspirv", "gfx940") {
		if !KnownProcessor(name) {
			t.Errorf("%s is not known", name)
		}
	}
	for _, name := range []string{"", "gfx90", "gfx90A", "mi300", "native", "generic", "sm_1", "gfx90a:xnack+"} {
		if KnownProcessor(name) {
			t.Errorf("%q is known", name)
		}
	}
}
