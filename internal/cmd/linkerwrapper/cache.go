package linkerwrapper

import (
	"fmt"

	"github.com/rules-offload/rules_offload/internal/link/linkcache"
	"github.com/rules-offload/rules_offload/internal/sizes"
)

// Environment variables for the cache of device links.
const (
	cacheVariable     = "OFFLOAD_CACHE"      // their directory
	cacheSizeVariable = "OFFLOAD_CACHE_SIZE" // their maximum size, see package sizes
)

// cache returns the store of results, nil for none.
func (w *wrapper) cache() (*linkcache.Store, error) {
	dir := w.env(cacheVariable)
	if dir == "" {
		return nil, nil
	}
	store := &linkcache.Store{Dir: dir, Name: cacheVariable}
	size := w.env(cacheSizeVariable)
	if size == "" {
		return store, nil
	}
	n, err := sizes.Parse(size)
	if err == nil && n == 0 {
		err = fmt.Errorf("found %q, expected more than 0 bytes", size)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cacheSizeVariable, err)
	}
	store.Limit = n
	return store, nil
}
