package ccob

import (
	"context"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/cespare/xxhash/v2"
)

// Hasher computes the hash in the header of a compressed bundle from the raw
// bytes, in order.
type Hasher struct {
	md5 hash.Hash
	n   int64
}

// NewHasher returns a Hasher that has seen no bytes.
func NewHasher() *Hasher { return &Hasher{md5: md5.New()} }

// Size returns how many raw bytes were hashed.
func (h *Hasher) Size() int64 { return h.n }

// Sum returns the hash of the bytes so far, as in Header.Hash.
func (h *Hasher) Sum() uint64 { return binary.LittleEndian.Uint64(h.md5.Sum(nil)) }

// hashRead is how much is read at a time: not more than stays in the cache of a core.
const hashRead = 128 << 10

// hashStep bounds the time until a cancellation is noticed.
const hashStep = 4 << 20

// Write hashes p. It never fails.
func (h *Hasher) Write(p []byte) (int, error) {
	h.n += int64(len(p))
	return h.md5.Write(p)
}

var zeroPage [4096]byte

// Add hashes the pieces, which begin where the bytes so far end or later; what
// lies before and between them is zero. Files are read, not mapped. The error is
// ctx's, that of a file or that of a piece out of order.
func (h *Hasher) Add(ctx context.Context, pieces ...Piece) error {
	return h.add(ctx, func(int, []byte) {}, pieces...)
}

// addIndexed is Add that returns the pieces with their XXH64, too, which costs little
// while the bytes are at hand. It calls done, if that is not nil, with numbers of bytes hashed.
func (h *Hasher) addIndexed(ctx context.Context, done func(n int64), pieces ...Piece) ([]indexPiece, error) {
	var list []indexPiece
	sum, at := xxhash.New(), 0
	next := func(i int) {
		if n := pieces[at].Content.Len(); n > 0 {
			list = append(list, indexPiece{pieces[at].Offset, n, sum.Sum64()})
		}
		sum.Reset()
		at = i
	}
	err := h.add(ctx, func(i int, b []byte) {
		if i != at {
			next(i)
		}
		sum.Write(b)
		if done != nil {
			done(int64(len(b)))
		}
	}, pieces...)
	if len(pieces) > 0 {
		next(at)
	}
	return list, err
}

// add is Add that calls beside with what it has hashed of the piece of that number.
func (h *Hasher) add(ctx context.Context, beside func(i int, b []byte), pieces ...Piece) error {
	buf := make([]byte, hashRead)
	for i, p := range pieces {
		if p.Offset < h.n {
			return fmt.Errorf("raw bytes from 0x%x on were hashed already, up to 0x%x", p.Offset, h.n)
		}
		for h.n < p.Offset {
			if h.n%hashStep < int64(len(zeroPage)) && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			h.Write(zeroPage[:min(p.Offset-h.n, int64(len(zeroPage)))])
		}
		for off := int64(0); off < p.Content.Len(); {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			b := buf[:min(p.Content.Len()-off, int64(len(buf)))]
			if _, err := p.Content.ReadAt(b, off); err != nil {
				return err
			}
			h.Write(b)
			beside(i, b)
			off += int64(len(b))
		}
	}
	return nil
}
