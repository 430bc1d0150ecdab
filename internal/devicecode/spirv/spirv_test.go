package spirv_test

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/devicecode/spirv"
)

// instruction returns the words of an instruction: operands are numbers and
// strings.
func instruction(op uint32, operands ...any) []uint32 {
	words := []uint32{op}
	for _, o := range operands {
		switch v := o.(type) {
		case int:
			words = append(words, uint32(v))
		case string:
			b := append([]byte(v), make([]byte, 4-len(v)%4)...)
			for ; len(b) > 0; b = b[4:] {
				words = append(words, binary.LittleEndian.Uint32(b))
			}
		}
	}
	words[0] |= uint32(len(words)) << 16
	return words
}

func module(order binary.AppendByteOrder, instructions ...[]uint32) []byte {
	data := []byte{}
	for _, w := range append([][]uint32{{0x07230203, 0x10400, 0, 100, 0}}, instructions...) {
		for _, word := range w {
			data = order.AppendUint32(data, word)
		}
	}
	return data
}

var instructions = [][]uint32{
	instruction(17, 6), // OpCapability Kernel
	instruction(15, 6, 3, "_Z4gemmPf"),
	instruction(15, 5, 4, "shader"), // GLCompute
	instruction(15, 6, 5, "abc", 9),
	instruction(16, 5, 17, 8, 4, 1),
	instruction(16, 5, 35, 32),
	instruction(16, 4, 17, 1, 1, 1),
	instruction(71, 20, 41, "table", 0),
	instruction(71, 21, 41, "__hip_cuid_1", 0),
	instruction(71, 22, 41, "imported", 1),
	instruction(59, 1, 20, 5), instruction(59, 1, 21, 5), instruction(59, 1, 22, 5),
	instruction(54, 1, 2, 0, 3),
	instruction(15, 6, 3, "after the functions"),
}

func TestParse(t *testing.T) {
	size := int64(32)
	want := &spirv.Module{
		Kernels:   []spirv.Kernel{{Name: []byte("_Z4gemmPf")}, {Name: []byte("abc"), LocalSize: &[3]int64{8, 4, 1}, SubgroupSize: &size}},
		Variables: 1,
	}
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		data := module(order, instructions...)
		if !spirv.Is(data) {
			t.Errorf("%v: not recognized", order)
		}
		got, err := spirv.Parse(data)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v: %v, -want +got:\n%s", order, err, diff)
		}
	}
	for name, data := range map[string][]byte{
		"cut off":              append(module(binary.LittleEndian), 1, 2),
		"instruction too long": module(binary.LittleEndian, []uint32{9<<16 | 17, 1}),
		"instruction of none":  module(binary.LittleEndian, []uint32{17}),
		"name without end":     module(binary.LittleEndian, []uint32{4<<16 | 15, 6, 1, 0x41414141}),
		"not SPIR-V":           []byte("something else, long enough to be some"),
	} {
		if _, err := spirv.Parse(data); err == nil || name != "not SPIR-V" && !strings.Contains(err.Error(), "at byte 0x") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(module(binary.LittleEndian, instructions...))
	f.Add(module(binary.BigEndian, instructions...))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := spirv.Parse(data); err == nil && len(m.Kernels) > len(data)/16 {
			t.Errorf("%d kernels in %d bytes", len(m.Kernels), len(data))
		}
	})
}
