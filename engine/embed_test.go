package engine

import (
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// FuzzHostObject edits host objects as Embed does.
func FuzzHostObject(f *testing.F) {
	f.Add(fixture.Merged(f, object.BuilderSection{Name: ".llvm.offloading.relocatable", Type: elf.ShtProgbits, Content: content.Memory([]byte("linked"))}))
	f.Add(elfObject(f, ".llvm.offloading", string(packedImage(f, "gfx1", "one"))))
	f.Add(hostObject(f, ".offloading.entry.f"))
	f.Add(packedImage(f, "gfx1", "one"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := content.Memory(data)
		edits, err := untypedOffloading(c)
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
