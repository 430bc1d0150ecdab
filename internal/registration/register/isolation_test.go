package register

import (
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// FuzzHostObject reads files that need not be host objects or images.
func FuzzHostObject(f *testing.F) {
	f.Add(fixture.Merged(f, object.BuilderSection{Name: embedding.RelocatableSection, Type: elf.ShtProgbits, Content: content.Memory([]byte("linked"))}))
	f.Add(fixture.HostEntries(f, ".offloading.entry.f"))
	f.Add(fixture.OffloadBinary(f, "gfx1", "one"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := content.Memory(data)
		EntrySymbols(data)
		for kind := offloadbinary.OpenMP; kind <= offloadbinary.SYCL; kind <<= 1 {
			(&Registration{Kind: kind}).ReadImages(c)
		}
		edits, err := Isolation(data, "x", "wanted")
		if err != nil {
			return
		}
		var out content.Buffer
		if len(data) < 1<<16 && object.Rewrite(c, edits, fixture.Limited{Buffer: &out}) == nil {
			if _, err := object.Parse(out.Bytes()); err != nil {
				t.Errorf("what was written cannot be read: %v", err)
			}
		}
	})
}

// TestReference isolates objects that shall refer to their registration: only those with entries do.
func TestReference(t *testing.T) {
	plain := object.NewBuilder(elf.MachineX8664)
	text := plain.Section(object.BuilderSection{Name: ".text", Type: elf.ShtProgbits, Flags: elf.ShfAlloc | elf.ShfExec, Content: content.Memory(make([]byte, 8))})
	plain.Symbol(object.BuilderSymbol{Name: "f", Section: text, Bind: elf.BindGlobal, Type: elf.TypeFunc})
	for _, test := range []struct {
		name string
		data []byte
		want bool
	}{
		{"with entries", fixture.HostEntries(t, ".offloading.entry.f"), true},
		{"without entries", fixture.Bytes(t, plain.Write), false},
	} {
		data := test.data
		edits, err := Isolation(data, "x", "wanted")
		if err != nil {
			t.Fatal(err)
		}
		var out content.Buffer
		if err := object.Rewrite(content.Memory(data), edits, &out); err != nil {
			t.Fatal(err)
		}
		file, err := object.Parse(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for symbol, err := range file.Symbols() {
			if err != nil {
				t.Fatal(err)
			}
			found = found || string(symbol.Name) == "wanted" && symbol.Kind == object.Undefined && symbol.Global
		}
		if found != test.want {
			t.Errorf("%s: refers to the symbol: %v, want %v", test.name, found, test.want)
		}
	}
}
