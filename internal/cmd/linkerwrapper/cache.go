package linkerwrapper

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/internal/linkcache"
)

// Environment variables for the cache of device links.
const (
	cacheVariable     = "OFFLOAD_CACHE"      // their directory
	cacheSizeVariable = "OFFLOAD_CACHE_SIZE" // their maximum size: 500M, 20G
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
	digits, shift := size, 0
	for i, unit := range "KMG" {
		if rest, ok := strings.CutSuffix(size, string(unit)); ok {
			digits, shift = rest, 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64>>shift {
		return nil, fmt.Errorf("%s: found %q, expected a number of bytes such as 500M or 20G", cacheSizeVariable, size)
	}
	store.Limit = n << shift
	return store, nil
}
