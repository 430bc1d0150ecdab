package engine

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// ListOptions are the options of List.
type ListOptions struct {
	Input string
	// Type is the type of Input. The zero value detects it: an archive if the
	// file is one, else an object or a binary bundle.
	Type bundle.FileType
	Read ReadOptions
}

// ListedEntry is one entry of a bundle.
type ListedEntry struct {
	ID     string `json:"id"`               // as stored
	Member string `json:"member,omitempty"` // of the archive that the bundle is in
	Bundle int    `json:"bundle"`           // number of the bundle in the file or member, from 1
	// Offset is the offset of the content in the file or member, or in the
	// uncompressed bytes of a compressed bundle. Offset and Size are in bytes.
	Offset     int64 `json:"offset"`
	Size       int64 `json:"size"`
	Compressed bool  `json:"compressed,omitempty"`
	// Form is how the entry is stored; images.FormSection is a section of a bundled object.
	Form images.Form `json:"-"`
}

// List returns the entries of a bundle in the order of LLVM's listings, for all
// bundles if the file has several. Only headers are read. For an archive, it
// returns the entries of the members. With an error, it returns the entries
// before the fault.
func (s *Session) List(ctx context.Context, opt ListOptions) (_ []ListedEntry, err error) {
	defer guard.Into(&err)()
	input, err := s.files.Open(opt.Input)
	if err != nil {
		return nil, err
	}
	if opt.Type == "" {
		if opt.Type, err = detectType(input); err != nil {
			input.Close()
			return nil, err
		}
	}
	f, err := s.read(ctx, input, opt.Read.options(opt.Type))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var listed []ListedEntry
	for source, err := range f.Sources() {
		opt.Read.tell(source)
		if err != nil {
			return listed, err
		}
		member := ""
		if source.Members != nil {
			member = source.Holder()
		}
		for _, e := range source.BundlerOrder() {
			listed = append(listed, ListedEntry{
				ID: e.ID, Member: member, Bundle: e.Bundle,
				Offset: e.Offset, Size: e.Size, Compressed: e.Compressed(), Form: e.Form,
			})
		}
	}
	return listed, nil
}

// detectType returns the type of a file that is not a text bundle.
func detectType(input *files.Input) (t bundle.FileType, err error) {
	t = bundle.ObjectType
	err = guard.Faults(func() error {
		if ar.Is(input.Mapped(guard.Inside)) {
			t = bundle.ArchiveType
		}
		return nil
	})
	return t, err
}
