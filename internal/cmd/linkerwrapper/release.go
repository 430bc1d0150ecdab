package linkerwrapper

import (
	"context"
	"path/filepath"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/cmd/release"
)

// release returns the LLVM release to follow. Unlike the other drop-ins, see release.Follow, it
// takes that of the clang for device links, wherever it is, and that may be newer than the newest
// known one.
func (w *wrapper) release(ctx context.Context, t *tools) (target.Release, error) {
	if value, _ := w.call.LookupEnv(release.Variable); value != "" {
		r, err := release.FromEnv(w.call.LookupEnv)
		return r.Release, err
	}
	if n, ok := release.OfName(w.call.Name); ok {
		return n, nil
	}
	clang, err := t.find("clang")
	if err != nil || filepath.Base(clang) == clang {
		return release.Default, nil
	}
	return release.OfClang(ctx, clang), nil
}
