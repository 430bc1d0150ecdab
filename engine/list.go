package engine

import (
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/files"
)

// ListOptions say what List looks at.
type ListOptions struct {
	Type  FileType
	Input string
	Read  ReadOptions
}

// ListedEntry is one entry of a bundle.
type ListedEntry struct {
	ID     string `json:"id"`               // as stored
	Member string `json:"member,omitempty"` // of the archive that the bundle is in
	Bundle int    `json:"bundle"`           // which bundle of the file, or of the member, from 1
	// Offset is where the content lies in the file or member, or in the
	// uncompressed bytes of a compressed bundle; both are in bytes.
	Offset     int64 `json:"offset"`
	Size       int64 `json:"size"`
	Compressed bool  `json:"compressed,omitempty"`
}

// List returns the entries of a bundle in the order of LLVM's listings, those of
// all bundles if several lie behind each other in the file. Only headers are read.
// An archive gives the entries of its members.
func (s *Session) List(ctx context.Context, opt ListOptions) ([]ListedEntry, error) {
	input, err := s.Files.Open(opt.Input)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	var listed []ListedEntry
	gather := func(_ context.Context, c *contents) error {
		for _, e := range c.entries {
			listed = append(listed, e.ListedEntry)
		}
		return nil
	}
	if opt.Type == ArchiveType {
		return nil, fmt.Errorf("archives: not yet")
	}
	err = files.Contain(func() error { return s.withContents(ctx, input.All(), opt.Type, opt.Read, gather) })
	if err != nil {
		return nil, in(input, err)
	}
	return listed, context.Cause(ctx)
}
