package register

import (
	"testing"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/elf"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/fixture"
	"github.com/rules-offload/rules_offload/internal/object"
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
		edits, err := Isolation(data, "x")
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
