package codeobject_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"

	"github.com/rules-offload/rules_offload/internal/elf/codeobject"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

func num(n int64) *int64 { return &n }
func yes(v bool) *bool   { return &v }

// gemm is a kernel with all keys.
var gemm = testelf.Kernel{
	Name: "_Z4gemmPf", CodeSize: 1536, Rsrc1: 8 | 2<<6, Rsrc3: 7,
	Keys: map[string]any{
		".kernarg_segment_size": 280, ".group_segment_fixed_size": 70000, ".private_segment_fixed_size": 16,
		".wavefront_size": 64, ".sgpr_count": 24, ".vgpr_count": 65, ".agpr_count": 0,
		".sgpr_spill_count": 1, ".vgpr_spill_count": 2, ".max_flat_workgroup_size": 256,
		".reqd_workgroup_size": []int{16, 16, 1}, ".cluster_dims": []int{2, 1, 1},
		".uses_dynamic_stack": false, ".workgroup_processor_mode": 1, ".uniform_work_group_size": 1,
		".max_num_workgroups_x": 10, ".max_num_work_groups_y": 20, ".kind": "normal", ".language": "OpenCL C",
		".unknown": []int{1, 2, 3},
	},
}

func TestParse(t *testing.T) {
	for _, form := range []struct {
		name              string
		noSections, parts bool
	}{{"with sections", false, false}, {"without section headers", true, false}, {"generated in parts", false, true}} {
		t.Run(form.name, func(t *testing.T) {
			data := testelf.CodeObject{
				ABI: 3, Flags: 0x3f | 3<<8 | 2<<10, Kernels: []testelf.Kernel{gemm, {Name: "empty"}},
				Variables: map[string]string{"__hip_cuid_1": "x", "table": "abcd"}, NoSections: form.noSections, Parts: form.parts,
			}.Build()
			o, err := codeobject.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			if o.Version != 5 || o.Processor != "gfx90a" || o.ID() != "gfx90a:sramecc-:xnack+" || !o.HasMetadata || o.Relocatable || o.Variables != 1 || o.Empty() {
				t.Errorf("got %+v", o)
			}
			if got := len(o.Sections); form.noSections != (got == 0) {
				t.Errorf("%d sections", got)
			}
			if len(o.Kernels) != 2 {
				t.Fatalf("%d kernels, want 2", len(o.Kernels))
			}
			want := codeobject.Kernel{
				Name: []byte("_Z4gemmPf"), Symbol: []byte("_Z4gemmPf.kd"),
				KernargSize: num(280), LDS: num(70000), Scratch: num(16), WavefrontSize: num(64),
				SGPRs: num(24), VGPRs: num(65), AGPRs: num(0), SGPRSpills: num(1), VGPRSpills: num(2),
				MaxWorkgroupSize: num(256), ReqdWorkgroupSize: &[3]int64{16, 16, 1},
				DynamicStack: yes(false), WGPMode: yes(true),
				CodeSize:   num(1536),
				Descriptor: &codeobject.Descriptor{Rsrc1: 8 | 2<<6, Rsrc3: 7},
			}
			if diff := cmp.Diff(want, o.Kernels[0]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if d := o.Kernels[0].Descriptor; d.VGPRBlocks() != 9 || d.SGPRBlocks() != 3 || d.WGPMode() || d.DynamicVGPRs() {
				t.Errorf("descriptor %+v", d)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	for _, test := range []struct {
		name    string
		abi     byte
		flags   uint32
		id      string
		version int
	}{
		{"v3, xnack", 1, 0x2c | 0x100, "gfx900:xnack+", 3},
		{"v3, both", 1, 0x2f | 0x300, "gfx906:sramecc+:xnack+", 3},
		{"v3, none", 1, 0x2f, "gfx906", 3},
		{"v4, any", 2, 0x3f | 1<<8 | 1<<10, "gfx90a", 4},
		{"v4, off", 2, 0x3f | 2<<8 | 2<<10, "gfx90a:sramecc-:xnack-", 4},
		{"v5, unsupported", 3, 0x41, "gfx1100", 5},
		{"v6, generic", 4, 0x51 | 1<<8 | 1<<24, "gfx9-generic", 6},
		{"processor of LLVM 23", 4, 0x57, "gfx1154", 6},
		{"unknown processor", 4, 0xee, "mach-0xee", 6},
		{"unknown version", 9, 0x3f, "gfx90a", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := codeobject.ParseTarget(testelf.CodeObject{ABI: test.abi, Flags: test.flags}.Build())
			if err != nil || got.ID() != test.id || got.Version != test.version {
				t.Errorf("got %s, version %d, %v; want %s, %d", got.ID(), got.Version, err, test.id, test.version)
			}
			if generic := strings.HasSuffix(test.id, "generic"); generic != (got.Generic == 1) {
				t.Errorf("generic version %d", got.Generic)
			}
		})
	}
	if _, err := codeobject.ParseTarget([]byte("\x7fELF")); err == nil {
		t.Error("no error for a few bytes")
	}
}

func TestVersion2(t *testing.T) {
	const text = "---\nVersion: [ 1, 0 ]\nKernels:\n  - Name: copy\n    SymbolName: 'copy@kd'\n    Language: OpenCL C\n" +
		"    Attrs:\n      ReqdWorkGroupSize: [ 8, 8, 1 ]\n    CodeProps:\n      KernargSegmentSize: 24\n      GroupSegmentFixedSize: 0\n" +
		"      WavefrontSize: 64\n      NumSGPRs: 10\n      NumVGPRs: 4\n      MaxFlatWorkGroupSize: 64\n...\n"
	data := testelf.CodeObject{ABI: 0, Flags: 0x2a, Kernels: []testelf.Kernel{{Name: "copy", CodeSize: 40}}, Metadata: []byte(text)}.Build()
	o, err := codeobject.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	want := []codeobject.Kernel{{
		Name: []byte("copy"), Symbol: []byte("copy@kd"), KernargSize: num(24), LDS: num(0), WavefrontSize: num(64),
		SGPRs: num(10), VGPRs: num(4), MaxWorkgroupSize: num(64), ReqdWorkgroupSize: &[3]int64{8, 8, 1}, CodeSize: num(40),
	}}
	if diff := cmp.Diff(want, o.Kernels); diff != "" || o.Version != 2 || o.ID() != "gfx803" {
		t.Errorf("version %d, %s, -want +got:\n%s", o.Version, o.ID(), diff)
	}
}

func TestWithoutMetadata(t *testing.T) {
	data := testelf.CodeObject{ABI: 3, Flags: 0x41, Kernels: []testelf.Kernel{{Name: "a", CodeSize: 8}}, Metadata: []byte{}}.Build()
	o, err := codeobject.Parse(data)
	if err != nil || o.HasMetadata || len(o.Kernels) != 1 || string(o.Kernels[0].Name) != "a" || *o.Kernels[0].CodeSize != 8 || o.Kernels[0].SGPRs != nil {
		t.Errorf("got %+v, %v", o, err)
	}
	empty, err := codeobject.Parse(testelf.CodeObject{ABI: 3, Flags: 0x41, Metadata: []byte{}, Variables: map[string]string{"__hip_cuid_a": "1"}}.Build())
	if err != nil || !empty.Empty() {
		t.Errorf("got %+v, %v; want an empty object", empty, err)
	}
}

func TestOpenMP(t *testing.T) {
	environment := make([]byte, 48)
	environment[2] = 3
	binary.LittleEndian.PutUint32(environment[8:], 256)
	data := testelf.CodeObject{
		ABI: 3, Flags: 0x41, Kernels: []testelf.Kernel{{Name: "new"}, {Name: "old"}, {Name: "none"}},
		Variables: map[string]string{"new_kernel_environment": string(environment), "old_exec_mode": "\x02"},
	}.Build()
	o, err := codeobject.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	want := []*codeobject.OpenMP{{Mode: 3}, {Mode: 2}, nil}
	for i, k := range o.Kernels {
		if diff := cmp.Diff(want[i], k.OpenMP); diff != "" {
			t.Errorf("%s: -want +got:\n%s", k.Name, diff)
		}
	}
}

// Numbers of every width are read, and maps that are longer than the data are errors with an
// offset.
func TestMetadata(t *testing.T) {
	kernel := func(value []byte) []byte {
		b := msgp.AppendMapHeader(nil, 1)
		b = msgp.AppendArrayHeader(msgp.AppendString(b, "amdhsa.kernels"), 1)
		b = msgp.AppendMapHeader(b, 3)
		b = msgp.AppendString(msgp.AppendString(b, ".name"), "k")
		b = msgp.AppendString(msgp.AppendString(b, ".symbol"), "k.kd")
		return append(msgp.AppendString(b, ".sgpr_count"), value...)
	}
	deep := bytes.Repeat([]byte{0x91}, 100)
	for _, test := range []struct {
		name     string
		metadata []byte
		want     int64
		err      string
	}{
		{"fixint", kernel([]byte{7}), 7, ""},
		{"uint8", kernel([]byte{0xcc, 200}), 200, ""},
		{"uint16", kernel([]byte{0xcd, 1, 0}), 256, ""},
		{"uint32", kernel([]byte{0xce, 0, 1, 0, 0}), 65536, ""},
		{"uint64", kernel([]byte{0xcf, 0, 0, 0, 1, 0, 0, 0, 0}), 1 << 32, ""},
		{"int64", kernel([]byte{0xd3, 0, 0, 0, 0, 0, 0, 0, 9}), 9, ""},
		{"negative", kernel([]byte{0xff}), 0, ".sgpr_count: found int, expected an integer from 0"},
		{"too large", kernel([]byte{0xcf, 255, 255, 255, 255, 255, 255, 255, 255}), 0, "expected an integer from 0"},
		{"string", kernel([]byte{0xa1, 'x'}), 0, "kernel 0: .sgpr_count: found str, expected an integer"},
		{"cut off", kernel([]byte{0xce, 0}), 0, "damaged or cut off"},
		{"missing", kernel(nil), 0, ".sgpr_count: ends before an integer"},
		{"huge map", []byte{0xdf, 255, 255, 255, 255, 0, 0}, 0, "a map of 4294967295 entries in 2 bytes"},
		{"huge array", append(msgp.AppendString([]byte{0x81}, "amdhsa.kernels"), 0xdd, 255, 255, 255, 255), 0, "an array of 4294967295 entries in 0 bytes"},
		{"no map", []byte{0x93, 1, 2, 3}, 0, "found array, expected a map"},
		{"deep", append(msgp.AppendString([]byte{0x81}, "x"), deep...), 0, "nested more than 32 deep"},
		{"no name", append(msgp.AppendString([]byte{0x81}, "amdhsa.kernels"), 0x91, 0x80), 0, ".name is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			data := testelf.CodeObject{ABI: 3, Flags: 0x41, Metadata: test.metadata}.Build()
			o, err := codeobject.Parse(data)
			switch {
			case test.err != "":
				if err == nil || !strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), "at byte 0x") {
					t.Errorf("got error %v, want %q", err, test.err)
				}
			case err != nil:
				t.Error(err)
			case *o.Kernels[0].SGPRs != test.want:
				t.Errorf("got %d, want %d", *o.Kernels[0].SGPRs, test.want)
			}
		})
	}
}

// Every way to cut a code object short or to overwrite a byte of it gives a
// result or an error.
func TestDamaged(t *testing.T) {
	data := testelf.CodeObject{ABI: 4, Flags: 0x3f, Kernels: []testelf.Kernel{gemm}}.Build()
	for n := range data {
		codeobject.Parse(data[:n]) //nolint:errcheck // the test is that it returns
		for _, b := range []byte{0, 0x7f, 0xff} {
			damaged := bytes.Clone(data)
			damaged[n] = b
			codeobject.Parse(damaged) //nolint:errcheck
		}
	}
	for name, change := range map[string]func([]byte){
		"section headers": func(b []byte) { binary.LittleEndian.PutUint64(b[40:], 1<<40) },
		"program headers": func(b []byte) { binary.LittleEndian.PutUint64(b[32:], 1<<63) },
		"note segment":    func(b []byte) { binary.LittleEndian.PutUint64(b[64+2*56+32:], 1<<50) },
	} {
		t.Run(name, func(t *testing.T) {
			damaged := bytes.Clone(data)
			change(damaged)
			if _, err := codeobject.Parse(damaged); err == nil || !strings.Contains(err.Error(), "at byte 0x") {
				t.Errorf("got %v, want an error with an offset", err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, o := range []testelf.CodeObject{
		{ABI: 4, Flags: 0x3f, Kernels: []testelf.Kernel{gemm}},
		{ABI: 3, Flags: 0x41, Kernels: []testelf.Kernel{{Name: "k"}}, NoSections: true, Variables: map[string]string{"k_exec_mode": "\x01"}},
		{ABI: 0, Flags: 0x2a, Metadata: []byte("Kernels:\n  - Name: x\n")},
	} {
		f.Add(o.Build())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := codeobject.Parse(data)
		if err != nil {
			return
		}
		if len(o.Kernels) > len(data) || len(o.Sections) > len(data) {
			t.Errorf("%d kernels and %d sections in %d bytes", len(o.Kernels), len(o.Sections), len(data))
		}
		if o.ID() == "" {
			t.Error("no target ID")
		}
	})
}
