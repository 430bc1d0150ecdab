package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
)

// maxInflated is how many bytes compressed offload binaries may have inflated
// in one operation: a limit for files made to take memory.
const maxInflated = 1 << 30

// inflation is the memory for compressed offload binaries in one attempt of an
// operation, see Session.inflating.
type inflation struct {
	left int64 // reserved and not yet used
	need int64 // what all that were seen take
}

// parse is offloadbinary.Parse. Packages that there is no memory for come
// without images: short tells then.
func (i *inflation) parse(c files.Content) iter.Seq2[*offloadbinary.Package, error] {
	return func(yield func(*offloadbinary.Package, error) bool) {
		for p, err := range offloadbinary.Parse(c, offloadbinary.Options{MaxInflated: i.left}) {
			if err == nil {
				if !p.NotInflated {
					i.left -= p.Inflated
				}
				if i.need += p.Inflated; i.need > maxInflated {
					err = fmt.Errorf("compressed offload binaries inflate to more than %d bytes in all", maxInflated)
				}
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// short returns an error if there was not memory enough.
func (i *inflation) short(reserved int64) error {
	if i.need > reserved {
		return &shortError{need: i.need}
	}
	return nil
}

// shortError asks for another attempt with more memory.
type shortError struct {
	need int64
}

// Error is for the case that nobody takes notice.
func (e *shortError) Error() string {
	return fmt.Sprintf("offload binaries that inflate to %d bytes", e.need)
}

// inflating runs an operation that reads offload binaries, first with no memory
// for compressed ones. The operation returns what inflation.short does, and is
// run again with what it needs: sizes are known when headers have been read,
// those of nested ones when the outer ones have been inflated.
func (s *Session) inflating(ctx context.Context, run func(ctx context.Context, reserved int64) error) error {
	err := run(ctx, 0)
	var short *shortError
	for reserved := int64(0); errors.As(err, &short) && short.need > reserved; {
		// At least twice as much as before, so that deep nesting does not take
		// many attempts.
		reserved = min(max(short.need, 2*reserved), maxInflated)
		err = s.Budget.WithBytes(ctx, reserved, func(ctx context.Context) error { return run(ctx, reserved) })
	}
	return err
}
