package engine

import (
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
)

// maxBundleHeader is how long the header of a bundle may be, in bytes.
const maxBundleHeader = 16 << 20

// compressedEntries returns the entries of the plain bundle in a compressed one,
// decoding no more than it takes to read its header. Offsets are in the raw
// bytes.
func compressedEntries(ctx context.Context, r *ccob.Reader) ([]bundle.Entry, error) {
	for n := int64(16 << 10); ; n *= 4 {
		prefix, err := r.Prefix(ctx, n)
		if err != nil {
			return nil, err
		}
		b, err := bundle.ParsePrefix(prefix, r.RawSize())
		switch {
		case err == nil:
			return b.Entries, nil
		case err != bundle.ErrPrefix:
			return nil, err
		case int64(len(prefix)) < n:
			return nil, fmt.Errorf("the uncompressed bundle ends in its header, at byte 0x%x", len(prefix))
		case n >= maxBundleHeader:
			return nil, fmt.Errorf("the header of the uncompressed bundle has more than %d bytes", maxBundleHeader)
		}
	}
}
