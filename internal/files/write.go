package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/internal/guard"
)

// Write runs fn with a transaction of outputs. It commits the outputs if fn succeeds and ctx is not
// done.
func (r *Root) Write(ctx context.Context, fn func(out *Outputs) error) error {
	out := r.Outputs()
	defer out.Abort()
	if err := guard.Contain(func() error { return fn(out) }); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return out.Commit()
}

// NameError prefixes an error about the content of a file with the name of the file, unless the
// error already contains it.
func NameError(name string, err error) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
