//go:build !purego

package longzstd

// prefetch loads the cells of long and short for the 12 positions from i on into the cache of the core, without
// waiting for them. It reads 19 bytes of src at i. The result of a search does not depend on it.
func (p *parser) prefetch(src []byte, i int) {
	prefetchCells(&p.long[0], &p.short[0], p.longMask, p.shortMask, &src[i])
}

//go:noescape
func prefetchCells(long, short *uint32, longMask, shortMask uint64, next *byte)
