package cubin_test

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/devicecode/cubin"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
)

func num(n int64) *int64 { return &n }

// record returns a record of .nv.info with a payload of words.
func record(attr byte, words ...uint32) []byte {
	b := []byte{4, attr, byte(4 * len(words)), 0}
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// build returns a cubin with a kernel and a function that it calls; info is the
// contents of .nv.info.
func build(t testing.TB, info []byte) []byte {
	b := object.NewBuilder(190)
	section := func(name string, data []byte) object.SectionID {
		return b.Section(object.BuilderSection{Name: name, Type: elf.ShtProgbits, Content: content.Memory(data)})
	}
	text := section(".text._Z4gemmPf", make([]byte, 384))
	section(".text.helper", make([]byte, 64))
	section(".nv.info", info)
	own := append(record(0x05, 256, 2, 1), 3, 0x19, 24, 0)
	section(".nv.info._Z4gemmPf", append(own, record(0x10, 16, 16, 1)...))
	section(".nv.constant0._Z4gemmPf", make([]byte, 376))
	b.Section(object.BuilderSection{Name: ".nv.shared._Z4gemmPf", Type: elf.ShtNobits, Size: 4096})
	b.Symbol(object.BuilderSymbol{Name: "_Z4gemmPf", Section: text, Size: 384, Bind: elf.BindGlobal, Type: elf.TypeFunc})
	var out content.Buffer
	if err := b.Write(&out); err != nil {
		t.Fatal(err)
	}
	data := out.Bytes()
	binary.LittleEndian.PutUint32(data[48:], 80)
	return data
}

func TestParse(t *testing.T) {
	const kernel = 1 // the first symbol after the null one
	data := build(t, append(record(0x2f, kernel, 40), record(0x11, kernel, 16)...))
	o, err := cubin.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	want := []cubin.Kernel{{
		Name: []byte("_Z4gemmPf"), CodeSize: 384, Shared: 4096, Registers: num(40), Frame: num(16), Params: num(24),
		MaxThreads: num(512), ReqdWorkgroup: &[3]int64{16, 16, 1},
	}}
	if diff := cmp.Diff(want, o.Kernels); diff != "" || o.Arch() != "sm_80" || !cubin.Is(data) {
		t.Errorf("%s, -want +got:\n%s", o.Arch(), diff)
	}
	if _, err := cubin.Parse(build(t, []byte{4, 0x2f, 200, 0, 1})); err == nil {
		t.Error("a record that passes the end: no error")
	}
	if o, err := cubin.Parse(build(t, record(0x2f, 999, 40))); err != nil || o.Kernels[0].Registers != nil {
		t.Errorf("a symbol that does not exist: %+v, %v", o, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(build(f, append(record(0x2f, 1, 40), record(0x11, 1, 16)...)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !cubin.Is(data) {
			return
		}
		if o, err := cubin.Parse(data); err == nil && len(o.Kernels) > len(data) {
			t.Errorf("%d kernels in %d bytes", len(o.Kernels), len(data))
		}
	})
}
