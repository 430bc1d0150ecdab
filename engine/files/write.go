package files

import (
	"context"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
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

// WriteFile writes one output, see Write.
func (r *Root) WriteFile(ctx context.Context, name string, fn func(output *Output) error) error {
	return r.Write(ctx, func(out *Outputs) error {
		_, err := out.WriteFile(name, fn)
		return err
	})
}

// WriteFile creates an output, calls fn to write it, and closes it. It returns the size of the
// output.
func (s *Outputs) WriteFile(name string, fn func(output *Output) error) (size int64, err error) {
	output, err := s.Create(name)
	if err != nil {
		return 0, err
	}
	if err := fn(output); err != nil {
		return 0, err
	}
	return output.Size(), output.Close()
}

// NameError prefixes an error about the content of a file with the name of the file, unless the
// error already contains it.
func NameError(name string, err error) error {
	if err == nil {
		return nil
	}
	if _, known := errors.AsType[*Error](err); known {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
