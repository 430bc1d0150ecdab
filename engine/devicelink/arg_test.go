package devicelink

import "testing"

func TestArgIsFor(t *testing.T) {
	l := &Link{Triple: "amdgcn-amd-amdhsa", Arch: "gfx90a:sramecc+:xnack-"}
	for name, want := range map[string]bool{
		"":                       true,
		"amdgcn-amd-amdhsa":      true,
		"gfx90a":                 true,
		"gfx90a:xnack-":          true,
		"gfx90a:xnack-:sramecc+": true,
		"gfx90a:xnack+":          false,
		"gfx90":                  false,
		"x86_64-pc-linux-gnu":    false,
	} {
		if got := (Arg{Triple: name}).isFor(l); got != want {
			t.Errorf("%q is for %s %s: %v, expected %v", name, l.Triple, l.Arch, got, want)
		}
	}
	if (Arg{Triple: "gfx90a"}).isFor(&Link{Triple: "x86_64-pc-linux-gnu"}) {
		t.Error("gfx90a is for a CPU")
	}
}
