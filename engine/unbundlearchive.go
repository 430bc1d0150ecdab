package engine

import (
	"context"
	"errors"

	"github.com/rules-offload/rules_offload/engine/target"
)

// UnbundleArchiveOptions say what UnbundleArchive takes out of an archive.
type UnbundleArchiveOptions struct {
	Input    string
	Requests []UnbundleRequest
	Read     ReadOptions

	// Rules say which entries serve which requests.
	Rules target.Rules
	// Trace, if not nil, gets every comparison of an entry with a request.
	Trace func(target.Match)
	// AllowMissing makes an empty archive for a target that no entry serves,
	// instead of failing.
	AllowMissing bool
	// Check refuses members with entries that must not be in one bundle.
	Check bool
}

func (s *Session) UnbundleArchive(ctx context.Context, opt UnbundleArchiveOptions) error {
	return errors.New("not yet")
}
