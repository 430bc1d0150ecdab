package engine

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/kernels"
)

// DiffOptions are the options of Diff: the files to compare, and the limits.
type DiffOptions struct {
	Old, New string
	Limits   kernels.Limits
}

// Diff compares the kernels and device images of two files. Exceeded limits are
// part of the result, not an error.
func (s *Session) Diff(ctx context.Context, opt DiffOptions) (*kernels.Diff, error) {
	old, err := s.Kernels(ctx, InspectOptions{Input: opt.Old, Hash: true})
	if err != nil {
		return nil, err
	}
	new, err := s.Kernels(ctx, InspectOptions{Input: opt.New, Hash: true})
	if err != nil {
		return nil, err
	}
	d := kernels.Compare(old.Images, new.Images)
	opt.Limits.Check(d)
	return d, nil
}
