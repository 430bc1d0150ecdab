package engine

import "context"

// ListOptions say what List looks at.
type ListOptions struct {
	Type  FileType
	Input string
}

// ListedEntry is one entry of a bundle.
type ListedEntry struct {
	ID     string `json:"id"` // as stored
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
}

// List returns the entries of a bundle in the order of LLVM's listings.
func (s *Session) List(ctx context.Context, opt ListOptions) ([]ListedEntry, error) {
	input, err := s.Files.Open(opt.Input)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	stored, err := readBundle(input)
	if err != nil {
		return nil, err
	}
	listed := make([]ListedEntry, len(stored))
	for i, entry := range stored {
		listed[i] = ListedEntry{ID: entry.ID, Offset: entry.Offset, Size: entry.Size}
	}
	return listed, context.Cause(ctx)
}
