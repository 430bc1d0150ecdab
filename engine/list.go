package engine

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/ar"
	"github.com/rules-offload/rules_offload/engine/files"
)

// ListOptions say what List looks at.
type ListOptions struct {
	Type  FileType
	Guess bool // the type: an archive, if the file is one, else an object or a binary bundle
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
	var listed []ListedEntry
	list := func(name string, data files.Content, member string) error {
		return s.withContents(ctx, name, data, opt.Type, opt.Read, func(_ context.Context, c *contents) error {
			for _, e := range c.entries {
				e.Member = member
				listed = append(listed, e.ListedEntry)
			}
			return context.Cause(ctx)
		})
	}
	if opt.Guess {
		t, err := s.guessType(opt.Input)
		if err != nil {
			return nil, err
		}
		opt.Type = t
	}
	if opt.Type == ArchiveType {
		err := s.withArchive(opt.Input, func(members []archiveMember) error {
			for _, m := range members {
				if err := list(m.path, m.data, m.name); err != nil {
					return err
				}
			}
			return nil
		})
		return listed, err
	}
	input, err := s.Files.Open(opt.Input)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	err = files.Contain(func() error { return list(input.Name(), input.All(), "") })
	return listed, err
}

// guessType returns the type of a file that is no text bundle.
func (s *Session) guessType(name string) (FileType, error) {
	input, err := s.Files.Open(name)
	if err != nil {
		return "", err
	}
	defer input.Close()
	if ar.Is(input.Bytes()) {
		return ArchiveType, nil
	}
	return ObjectType, nil
}
