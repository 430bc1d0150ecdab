// Package engine has the operations of the product: bundling and unbundling
// device images, listing what a file holds. Each takes an options struct, reads
// and writes files through a Session, and leaves either all of its outputs or
// none. Command lines, worker requests and drop-ins all end here.
//
// Operations know how formats go together; the formats themselves are in the
// packages below.
package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/files"
)

// Session is what an operation works with: the files of one request, and the
// budget that it shares with all others of the process.
type Session struct {
	Files  *files.Root
	Budget *files.Budget
	// Meter, if not nil, counts what long operations have done.
	Meter *Meter
}

// write runs fn with a transaction of outputs and commits it if fn succeeds.
func (s *Session) write(ctx context.Context, fn func(out *files.Outputs) error) error {
	out := s.Files.Outputs()
	defer out.Abort()
	if err := files.Contain(func() error { return fn(out) }); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return out.Commit()
}

// in puts the name of a file before an error of one of its formats.
func in(input *files.Input, err error) error { return nameError(input.Name(), err) }

// nameError puts the name of a file before an error that does not have it.
func nameError(name string, err error) error {
	if err == nil {
		return nil
	}
	var known *files.Error
	if errors.As(err, &known) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
