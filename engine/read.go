package engine

import (
	"fmt"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/target"
)

// storedEntry is an entry of a bundle that was read.
type storedEntry struct {
	bundle.Entry
	target target.ID
}

// readBundle returns the entries of a bundle in the order in which LLVM's tools
// visit them.
func readBundle(input *files.Input) ([]storedEntry, error) {
	data := input.Bytes()
	if !bundle.Is(data) {
		return nil, in(input, fmt.Errorf("not an offload bundle: it does not begin with %s", bundle.Magic))
	}
	b, err := bundle.Parse(data)
	if err != nil {
		return nil, in(input, err)
	}
	ids := make([]string, len(b.Entries))
	for i, entry := range b.Entries {
		ids[i] = entry.ID
	}
	stored := make([]storedEntry, 0, len(ids))
	for _, i := range target.Order(ids) {
		entry := b.Entries[i]
		id, err := target.Parse(entry.ID)
		if err != nil {
			return nil, in(input, fmt.Errorf("entry %d of %d at byte 0x%x: %w", i+1, len(ids), entry.At, err))
		}
		stored = append(stored, storedEntry{entry, id})
	}
	return stored, nil
}
