package kernels

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

func TestDescribe(t *testing.T) {
	bitcode, err := os.ReadFile(filepath.Join("testdata", "kernels.bc"))
	if err != nil {
		t.Fatal(err)
	}
	object := func(abi byte, rsrc3 uint32) []byte {
		return testelf.CodeObject{ABI: abi, Flags: 0x3f | 3<<8, Kernels: []testelf.Kernel{
			{Name: "b", Rsrc3: rsrc3, Keys: map[string]any{
				".sgpr_count": 10, ".vgpr_count": 4, ".group_segment_fixed_size": 0, ".wavefront_size": 64, ".max_flat_workgroup_size": 256,
			}},
			{Name: "a"},
		}}.Build()
	}
	for _, test := range []struct {
		name, arch string
		data       []byte
		want       string // format, arch, kernels with the waves
	}{
		{"code object", "gfx90a", object(4, 0), "code object gfx90a:xnack+ [a -, b 8]"},
		{"dynamic VGPRs", "", object(4, 1<<17), "code object gfx90a:xnack+ [a -, b -]"},
		{"unknown version", "", object(9, 0), "code object gfx90a [a -, b -]"},
		{"PTX", "sm_80", []byte(".version 7.0\n.target sm_90\n.entry k() .maxntid 64 { ret; }"), "ptx sm_80 [k -]"},
		{"PTX of its own", "", []byte(".version 7.0\n.target sm_90\n"), "ptx sm_90 []"},
		{"SPIR-V", "", []byte("\x03\x02\x23\x07................\x0f\x00\x04\x00\x06\x00\x00\x00\x01\x00\x00\x00abc\x00"), "spirv  [abc -]"},
		{"bitcode", "gfx90a", bitcode, "bitcode gfx90a [_Z4gemmPf -, local -, ptx -]"},
		{"text", "x", []byte("text"), " x []"},
		{"nothing", "", nil, "  []"},
	} {
		t.Run(test.name, func(t *testing.T) {
			img := Image{Index: 2, ID: "id", Section: "s"}
			if err := img.Describe(test.data, test.arch); err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s %s [", img.Format, img.Arch)
			for i, k := range img.Kernels {
				if i > 0 {
					got += ", "
				}
				waves := "-"
				if k.Occupancy != nil {
					waves = fmt.Sprint(k.Occupancy.WavesPerSIMD)
				}
				got += k.Name + " " + waves
				if k.Image != 2 || k.ID != "id" || k.Section != "s" || k.Arch != img.Arch || k.Members == nil {
					t.Errorf("%s: not stamped: %+v", k.Name, k)
				}
			}
			if diff := cmp.Diff(test.want, got+"]"); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for name, data := range map[string][]byte{
		"code object": []byte("\x7fELF\x02\x01\x01\x40\x04\x00\x00\x00\x00\x00\x00\x00\x03\x00\xe0\x00" + string(make([]byte, 20)) + "\xff\xff" + string(make([]byte, 40))),
		"bitcode":     []byte("BC\xc0\xde\x01\x02\x03"),
		"SPIR-V":      []byte("\x03\x02\x23\x07................\x00\x00\x00\x00"),
	} {
		if err := new(Image).Describe(data, ""); err == nil {
			t.Errorf("damaged %s: no error", name)
		}
	}
}
