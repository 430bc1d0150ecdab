package cache

import (
	"context"
	"errors"
)

// Tiered is a directory of this machine and a store that several machines share. A result of the shared store is copied
// to the directory. Errors of the shared store are those of a store without results: they go to Warn.
type Tiered struct {
	Local  *Local
	Shared Store
	// SharedReadOnly stores results in the directory only.
	SharedReadOnly bool
	Warn           func(error)
}

// Result implements Store.
func (t *Tiered) Result(ctx context.Context, action Digest) (*Result, error) {
	r, err := t.Local.Result(ctx, action)
	if r != nil {
		return r, nil
	}
	shared, sharedErr := t.Shared.Result(ctx, action)
	if sharedErr != nil {
		t.Warn(sharedErr)
		return nil, err
	}
	if shared != nil {
		return shared, t.Local.Put(ctx, action, shared)
	}
	return nil, err
}

// Blob implements Store.
func (t *Tiered) Blob(ctx context.Context, digest Digest) ([]byte, error) {
	data, err := t.Local.Blob(ctx, digest)
	if !errors.Is(err, ErrMissing) {
		return data, err
	}
	data, sharedErr := t.Shared.Blob(ctx, digest)
	switch {
	case errors.Is(sharedErr, ErrMissing):
		return nil, err
	case sharedErr != nil:
		t.Warn(sharedErr)
		return nil, err
	}
	if DigestOf(data) != digest {
		t.Warn(errors.New("the server sent a blob with another content"))
		return nil, ErrMissing
	}
	if err := t.Local.PutBlob(data); err != nil {
		t.Warn(err)
	}
	return data, nil
}

// Put implements Store.
func (t *Tiered) Put(ctx context.Context, action Digest, result *Result, blobs ...[]byte) error {
	err := t.Local.Put(ctx, action, result, blobs...)
	if !t.SharedReadOnly {
		if err := t.Shared.Put(ctx, action, result, blobs...); err != nil {
			t.Warn(err)
		}
	}
	return err
}

// Fresh returns the result of the shared store, nil if it has none.
func (t *Tiered) Fresh(ctx context.Context, action Digest) (*Result, error) {
	r, err := t.Shared.Result(ctx, action)
	if err != nil {
		t.Warn(err)
		return nil, nil
	}
	return r, nil
}
