package occupancy

import (
	"slices"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	number := 0
	for _, p := range processors() {
		if p == nil {
			continue
		}
		number++
		if p.cu == nil || p.wave32 == nil && p.wave64 == nil {
			t.Errorf("%s: no mode or no wave size", p.Name)
		}
	}
	if number != 53 {
		t.Errorf("%d processors, want the 53 of LLVM 22", number)
	}
	if p := ByMach(0x3f); p == nil || p.Name != "gfx90a" || !p.Unified || !p.AGPRs {
		t.Errorf("ByMach(0x3f) = %+v, want gfx90a with unified registers", p)
	}
	if ByMach(0xff) != nil {
		t.Error("a processor that does not exist was found")
	}
	for name, text := range map[string]string{
		"columns": "gfx1 1 2", "number": strings.Repeat("x ", 9), "mode": "g 1 9 - - 1:2 - - 1:1:1:1",
	} {
		if _, err := parseTable(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Cases that follow from the formulas; tests/kernelusage compares many more with the compiler's
// remarks.
func TestOf(t *testing.T) {
	used := func(sgprs, vgprs, lds, hi int64) Usage {
		return Usage{WavefrontSize: 64, SGPRs: sgprs, VGPRs: vgprs, AllocatedSGPRs: sgprs, AllocatedVGPRs: vgprs, LDS: lds, MinWorkgroup: 1, MaxWorkgroup: hi}
	}
	for _, test := range []struct {
		name, processor string
		usage           Usage
		waves           int64
		limits          []string
	}{
		{"nothing", "gfx90a", used(10, 4, 0, 1024), 8, []string{}},
		{"vgprs", "gfx90a", used(10, 100, 0, 1024), 4, []string{"vgprs"}},
		{"vgprs of gfx9", "gfx900", used(10, 25, 0, 1024), 9, []string{"vgprs"}},
		{"sgprs", "gfx900", used(102, 4, 0, 1024), 7, []string{"sgprs"}},
		{"sgprs are capped", "gfx90a", used(100, 4, 0, 1024), 8, []string{}},
		{"fixed sgprs", "gfx802", used(10, 4, 0, 1024), 8, []string{"sgprs"}},
		{"lds", "gfx906", used(10, 4, 40000, 256), 1, []string{"lds"}},
		{"one wave", "gfx1250", Usage{WavefrontSize: 32, VGPRs: 1024, AllocatedVGPRs: 1024, MinWorkgroup: 1, MaxWorkgroup: 32}, 1, []string{"vgprs"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, ok := named(test.processor).Of(test.usage)
			if !ok || r.Waves != test.waves || !slices.Equal(r.Limits, test.limits) {
				t.Errorf("got %+v, %v; want %d waves, limits %q", r, ok, test.waves, test.limits)
			}
		})
	}
	// What clang 23 and 24 print for kernels with so many SGPRs.
	for processor, want := range map[string]map[int64]int64{
		"gfx700": {32: 10, 36: 9, 44: 8, 52: 7, 60: 6, 68: 5, 80: 5, 84: 4, 100: 4},
		"gfx803": {64: 10, 68: 8, 80: 8, 84: 7, 96: 7, 100: 6},
		"gfx908": {64: 10, 68: 8, 84: 7, 100: 6, 104: 6},
		"gfx942": {66: 8, 78: 8, 82: 7, 94: 7, 98: 6, 106: 6},
	} {
		for sgprs, waves := range want {
			u := used(sgprs, 4, 0, 1024)
			u.TrapHandler = true
			if r, ok := named(processor).Of(u); !ok || r.Waves != waves {
				t.Errorf("%s with %d SGPRs and a trap handler: got %+v, want %d waves", processor, sgprs, r, waves)
			}
		}
	}
	t.Run("requested", func(t *testing.T) {
		u := used(10, 4, 0, 1024)
		u.AllocatedVGPRs = 128
		r, _ := named("gfx906").Of(u)
		if r.Waves != 2 || !slices.Equal(r.Limits, []string{"requested"}) {
			t.Errorf("got %+v, want 2 waves, requested", r)
		}
	})
	t.Run("out of range", func(t *testing.T) {
		for _, u := range []Usage{used(-1, 0, 0, 1), used(0, 0, 1<<40, 1), used(0, 0, 0, 0), {WavefrontSize: 32, MinWorkgroup: 1, MaxWorkgroup: 1}} {
			if r, ok := named("gfx90a").Of(u); ok {
				t.Errorf("%+v: got %+v, want none", u, r)
			}
		}
	})
}

func TestFixedWorkgroup(t *testing.T) {
	u := Usage{WavefrontSize: 64, SGPRs: 10, VGPRs: 4, AllocatedSGPRs: 10, AllocatedVGPRs: 4, MinWorkgroup: 1, MaxWorkgroup: 1024}
	p := named("gfx90a")
	for _, test := range []struct{ workgroup, lds, want int64 }{
		{1024, 0, 8}, {64, 0, 8}, {64, 32 << 10, 1}, {256, 16 << 10, 4}, {1024, 33 << 10, 4},
	} {
		u.MinWorkgroup, u.MaxWorkgroup, u.LDS = test.workgroup, test.workgroup, test.lds
		r, ok := p.Of(u)
		if !ok || r.Waves != test.want {
			t.Errorf("%d work-items, %d bytes: got %d waves, %v; want %d", test.workgroup, test.lds, r.Waves, ok, test.want)
		}
	}
}

// named returns the constants of a processor by its name, or nil.
func named(name string) *Processor {
	i := slices.IndexFunc(processors()[:], func(p *Processor) bool { return p != nil && p.Name == name })
	return processors()[i]
}
