package kernels_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/kernels"
)

// kernel returns a kernel with the figures named, such as "vgprs=4 occupancy=8".
func kernel(name, figures string) kernels.Kernel {
	k := kernels.Kernel{Name: name, Demangled: name, Arch: "gfx90a"}
	for word := range strings.FieldsSeq(figures) {
		var n int64
		figure, value, _ := strings.Cut(word, "=")
		fmt.Sscan(value, &n)
		switch figure {
		case "occupancy":
			k.Occupancy = &kernels.Occupancy{WavesPerSIMD: int(n), Max: 8}
		default:
			field, ok := map[string]**int64{
				"code_size": &k.CodeSize, "vgprs": &k.VGPRs, "sgprs": &k.SGPRs, "scratch": &k.Scratch,
				"sgpr_spills": &k.SGPRSpills, "vgpr_spills": &k.VGPRSpills, "lds": &k.LDS,
			}[figure]
			if !ok {
				panic(figure)
			}
			*field = &n
		}
	}
	return k
}

func image(arch string, size int64, list ...kernels.Kernel) kernels.Image {
	for i := range list {
		list[i].Arch = arch
	}
	return kernels.Image{Arch: arch, Size: size, Hash: uint64(size), Kernels: list}
}

// summary returns "change name: deltas" for each kernel.
func summary(d *kernels.Diff) (lines []string) {
	for _, k := range d.Kernels {
		b, _ := json.Marshal(k.Deltas)
		lines = append(lines, fmt.Sprintf("%s %s %s %s", k.Arch, k.Change, k.Name, b))
	}
	return lines
}

func TestOrder(t *testing.T) {
	old := []kernels.Image{
		image("gfx90a", 100,
			kernel("same", "vgprs=4 code_size=8"), kernel("bigger", "code_size=100"), kernel("much smaller", "code_size=1000"),
			kernel("gone", "code_size=5000"), kernel("slower", "occupancy=8 vgprs=4"), kernel("scratchy", "scratch=0 code_size=10"),
			kernel("spilly", "sgpr_spills=1 code_size=10"), kernel("faster", "occupancy=4"), kernel("unknown", "")),
		image("gfx900", 10, kernel("elsewhere", "")),
	}
	new := []kernels.Image{
		image("gfx1100", 20, kernel("new arch", "")),
		image("gfx90a", 120,
			kernel("same", "vgprs=4 code_size=8"), kernel("bigger", "code_size=200"), kernel("much smaller", "code_size=10"),
			kernel("slower", "occupancy=5 vgprs=70"), kernel("scratchy", "scratch=8 code_size=11"), kernel("spilly", "sgpr_spills=2 code_size=30"),
			kernel("faster", "occupancy=5"), kernel("added", "code_size=9"), kernel("unknown", "vgprs=3")),
	}
	d := kernels.Compare(old, new)
	want := []string{
		`gfx90a changed spilly {"code_size":20,"sgpr_spills":1}`,
		`gfx90a changed scratchy {"code_size":1,"scratch":8}`,
		`gfx90a changed slower {"occupancy":-3,"vgprs":66}`,
		`gfx90a removed gone {}`,
		`gfx90a changed much smaller {"code_size":-990}`,
		`gfx90a changed bigger {"code_size":100}`,
		`gfx90a added added {}`,
		`gfx90a changed faster {"occupancy":1}`,
		`gfx90a changed unknown {}`,
	}
	if diff := cmp.Diff(want, summary(d)); diff != "" || d.Equal != 1 {
		t.Errorf("%d equal, -want +got:\n%s", d.Equal, diff)
	}
	archs := []kernels.ChangedArch{{"gfx1100", "added", 0, 20}, {"gfx900", "removed", 10, 0}, {"gfx90a", "changed", 100, 120}}
	if diff := cmp.Diff(archs, d.Archs); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestKey(t *testing.T) {
	for name, want := range map[string]string{
		"_Z4gemmPf":                                    "_Z4gemmPf",
		"__omp_offloading_fd00_12ab34_main_l42":        "__omp_offloading_main_l42",
		"__omp_offloading_x_12ab34_main_l42":           "__omp_offloading_x_12ab34_main_l42",
		"_ZN12_GLOBAL__N_11kEv.intern.0123456789abcde": "_ZN12_GLOBAL__N_11kEv.intern",
		"table.static.aa":                              "table.static",
		"a.intern.b.c":                                 "a.intern.b.c",
	} {
		if got := kernels.Key(name); got != want {
			t.Errorf("Key(%q) = %q, want %q", name, got, want)
		}
	}
}

// Kernels whose names contain the inode of a file or the hash of a unit are paired without it.
// Several kernels with one name are paired with the most similar ones.
func TestPairs(t *testing.T) {
	for _, test := range []struct {
		name     string
		old, new []kernels.Kernel
		want     []string
		equal    int
	}{
		{"inode", []kernels.Kernel{kernel("__omp_offloading_1_a_f_l1", "vgprs=4")}, []kernels.Kernel{kernel("__omp_offloading_1_b_f_l1", "vgprs=4")}, nil, 1},
		{"hash", []kernels.Kernel{kernel("k.intern.1", "vgprs=4")}, []kernels.Kernel{kernel("k.intern.2", "vgprs=5")}, []string{`gfx90a changed k.intern.2 {"vgprs":1}`}, 0},
		{"two of a name", []kernels.Kernel{kernel("k", "vgprs=4"), kernel("k", "vgprs=5")}, []kernels.Kernel{kernel("k", "vgprs=5"), kernel("k", "vgprs=4")}, nil, 2},
		{"one was removed", []kernels.Kernel{kernel("k", "vgprs=4"), kernel("k", "vgprs=5")}, []kernels.Kernel{kernel("k", "vgprs=5")}, []string{"gfx90a removed k {}"}, 1},
		{"units change places", []kernels.Kernel{kernel("k.intern.1", "vgprs=4"), kernel("k.intern.2", "vgprs=5")},
			[]kernels.Kernel{kernel("k.intern.3", "vgprs=5"), kernel("k.intern.4", "vgprs=4")}, nil, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := kernels.Compare([]kernels.Image{image("gfx90a", 1, test.old...)}, []kernels.Image{image("gfx90a", 1, test.new...)})
			if diff := cmp.Diff(test.want, summary(d)); diff != "" || d.Equal != test.equal {
				t.Errorf("%d equal, want %d; -want +got:\n%s", d.Equal, test.equal, diff)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	old := []kernels.Image{
		image("gfx90a", 100, kernel("a", "vgpr_spills=0"), kernel("b", "scratch=0"), kernel("c", "occupancy=8"), kernel("d", "")),
		image("gfx900", 10),
	}
	new := []kernels.Image{image("gfx90a", 106, kernel("a", "vgpr_spills=1"), kernel("b", "scratch=4"), kernel("c", "occupancy=7"))}
	for _, test := range []struct{ rules, growth, want string }{
		{"", "", ""},
		{"spills", "", "spills gfx90a a"},
		{"scratch,occupancy", "", "scratch gfx90a b; occupancy gfx90a c"},
		{"removed-archs,removed-kernels", "", "removed-kernels gfx90a d; removed-archs gfx900"},
		{"", "5%", "max-growth gfx90a"},
		{"", "6%", ""},
		{"", "6", ""},
		{"", "5", "max-growth gfx90a"},
		{"", "0", "max-growth gfx90a"},
		{"", "1KiB", ""},
	} {
		t.Run(test.rules+test.growth, func(t *testing.T) {
			var limits kernels.Limits
			var err error
			if test.rules != "" {
				if limits.Rules, err = kernels.ParseRules(test.rules); err != nil {
					t.Fatal(err)
				}
			}
			if test.growth != "" {
				growth, err := kernels.ParseGrowth(test.growth)
				if err != nil {
					t.Fatal(err)
				}
				limits.MaxGrowth = &growth
			}
			d := kernels.Compare(old, new)
			limits.Check(d)
			var got []string
			for _, f := range d.Failures {
				text := string(f.Rule) + " " + f.Arch
				if f.Kernel != nil {
					text += " " + *f.Kernel
				}
				got = append(got, text)
			}
			if s := strings.Join(got, "; "); s != test.want {
				t.Errorf("got %q, want %q", s, test.want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"", "x", "-1", "5 %", "1e3", "99999999999999999999", "%", "1PiB", "1e3%"} {
		if g, err := kernels.ParseGrowth(bad); err == nil {
			t.Errorf("ParseGrowth(%q) = %v, want an error", bad, g)
		}
	}
	for _, bad := range []string{"", "max-growth", "spills,", "spill"} {
		if r, err := kernels.ParseRules(bad); err == nil {
			t.Errorf("ParseRules(%q) = %v, want an error", bad, r)
		}
	}
	if g, err := kernels.ParseGrowth("1.5MiB"); err != nil || g.Bytes != 3<<19 {
		t.Errorf("got %v, %v", g, err)
	}
}
