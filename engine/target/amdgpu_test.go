package target

import "testing"

func TestAMDGPU(t *testing.T) {
	const rest = "-amd-amdhsa-"
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"amdgcn", "amdgpu", true},
		{"amdgcn", "amdgpu9.0a", true},
		{"amdgpu", "amdgpu9", true},
		{"amdgpu9.0a", "amdgpu9.0a", true},
		{"amdgpu9.00", "amdgpu9.06", false},
		{"amdgpu9", "amdgpu9.00", true},
		{"amdgpu9", "amdgpu9.0c", true},
		{"amdgpu9", "amdgpu9.0a", false},
		{"amdgpu9", "amdgpu9.08", false},
		{"amdgpu9", "amdgpu9.42", false},
		{"amdgpu9.4", "amdgpu9.42", true},
		{"amdgpu9.5", "amdgpu9.50", true},
		{"amdgpu9.5", "amdgpu9.4", true},
		{"amdgpu10", "amdgpu10.13", true},
		{"amdgpu10", "amdgpu10.30", false},
		{"amdgpu10.3", "amdgpu10.36", true},
		{"amdgpu8", "amdgpu8.03", true},
		{"amdgpu8", "amdgpu8.10", false},
		{"amdgpu8.10", "amdgpu8.10", true},
		{"amdgpu11", "amdgpu11.54", true},
		{"amdgpu11", "amdgpu11.70", false},
		{"amdgpu11.7", "amdgpu11.72", true},
		{"amdgpu12.5", "amdgpu12.51", true},
		{"amdgpu12.5", "amdgpu12.50s", false},
		{"amdgpu12.5s", "amdgpu12.50s", true},
		{"amdgpu12", "amdgpu12.5", false},
		{"amdgpu9", "amdgpu9.4", false},
		{"amdgcn", "amdgpu9.99", true},
		{"amdgpu", "amdgpu9.0A", true},
		{"amdgpu9.99", "amdgpu9.0a", false},
		{"amdgpu9.99", "amdgpu9.99", false},
		{"amdgcn", "x86_64", false},
		{"amdgpu", "r600", false},
	} {
		a, b := ParseTriple(tt.a+rest), ParseTriple(tt.b+rest)
		if got := a.CompatibleWith(b); got != tt.want {
			t.Errorf("%s with %s: %v", tt.a, tt.b, got)
		}
	}
	for name, known := range map[string]bool{"amdgpu": true, "amdgpu9.0a": true, "amdgpu9.99": true, "amdgpu90a": true, "amdgpufoo": true, "amdgcn": true, "amdgcn9.0a": false, "AMDGPU": false, "amdgpuu": true} {
		if got := ParseTriple(name+rest).Arch == ArchAMDGCN; got != known {
			t.Errorf("%s is known: %v", name, got)
		}
	}
	id, err := ParseLLVM("hip-amdgpu-amd-amdhsa-unknown-gfx90a:xnack+")
	if err != nil || id.String() != "hip-amdgpu-amd-amdhsa--gfx90a:xnack+" {
		t.Errorf("%s, %v", id, err)
	}
	if id, err = Complete("amdgpu9.0a-amd-amdhsa--gfx90a:xnack+", HIP); err != nil || id.String() != "hip-amdgpu9.0a-amd-amdhsa--gfx90a:xnack+" {
		t.Errorf("%s, %v", id, err)
	}
}

// Every processor has a triple of its own, and that of its family serves it.
func TestISAs(t *testing.T) {
	for _, p := range amdgcnProcessors {
		own := ParseTriple("amdgpu" + p.isa + "-amd-amdhsa-")
		family := ParseTriple("amdgpu" + isaFamily(p.isa) + "-amd-amdhsa-")
		if own.SubArch != SubArch(p.isa) || !family.CompatibleWith(own) || !isFamily(family.SubArch) {
			t.Errorf("%s: %+v, %+v", p.name, own, family)
		}
	}
}
