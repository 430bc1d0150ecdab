package ccob

import (
	"context"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/compression/longzstd"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Hasher computes the hash in the header of a compressed bundle from the raw
// bytes, in order.
type Hasher struct {
	md5 hash.Hash
	n   int64
}

// NewHasher returns a Hasher for zero bytes.
func NewHasher() *Hasher { return &Hasher{md5: md5.New()} }

// Size returns the number of raw bytes hashed.
func (h *Hasher) Size() int64 { return h.n }

// Sum returns the hash of the bytes so far, as in Header.Hash.
func (h *Hasher) Sum() uint64 { return binary.LittleEndian.Uint64(h.md5.Sum(nil)) }

// hashRead is the number of bytes per read, small enough for the cache of a
// core.
const hashRead = 128 << 10

// hashStep limits the number of bytes hashed before a check for cancellation.
const hashStep = 4 << 20

// Write hashes p. It never fails.
func (h *Hasher) Write(p []byte) (int, error) {
	h.n += int64(len(p))
	return h.md5.Write(p)
}

var zeroPage [4096]byte

// hashOf returns the hash of all raw bytes. It calls done, if not nil, with the numbers of bytes hashed.
func hashOf(ctx context.Context, raw []byte, done func(n int64)) (uint64, error) {
	h := NewHasher()
	for len(raw) > 0 {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		n, _ := h.Write(raw[:min(len(raw), hashRead)])
		if done != nil {
			done(int64(n))
		}
		raw = raw[n:]
	}
	return h.Sum(), nil
}

// Add hashes the pieces, which must begin at or after the end of the bytes
// hashed so far. Bytes before and between them are zero. Files are read, not
// mapped. Add returns an error if ctx is done, a file cannot be read, or a piece
// is out of order.
func (h *Hasher) Add(ctx context.Context, pieces ...content.Part) (err error) {
	defer guard.Into(&err)()
	j := hashing{h: h, pieces: pieces}
	return j.finish(ctx)
}

// hashing runs Add in steps.
type hashing struct {
	h      *Hasher
	pieces []content.Part // remaining pieces
	off    int64          // offset in the first of them
	buf    []byte
	raw    []byte // raw bytes that need not be read because they are mapped
	rawAt  int64  // offset of raw
	// also, if not nil, is called with the hashed bytes of each piece, up to its
	// end.
	also func(p *content.Part, b []byte)
	err  error
}

// finish hashes the remaining pieces.
func (j *hashing) finish(ctx context.Context) error {
	for j.err == nil && len(j.pieces) > 0 {
		j.err = j.step(ctx)
	}
	return j.err
}

// beside returns a function for longzstd.Options that hashes one step and returns the
// number of raw bytes hashed after start. finish returns its errors. raw are the raw
// bytes from start, which must stay mapped while the function is in use.
func (j *hashing) beside(ctx context.Context, raw []byte, start int64) func() int {
	j.raw, j.rawAt = raw, start
	return func() int {
		if j.err == nil && len(j.pieces) > 0 {
			j.err = j.step(ctx)
		}
		if j.err != nil || len(j.pieces) == 0 {
			return longzstd.BesideDone
		}
		return int(j.h.n - start)
	}
}

// step hashes a part of the remaining pieces, if any.
func (j *hashing) step(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if j.buf == nil {
		j.buf = make([]byte, hashRead)
	}
	p := &j.pieces[0]
	if j.off == 0 && p.Offset != j.h.n {
		if p.Offset < j.h.n {
			return fmt.Errorf("raw bytes at 0x%x are already hashed, up to 0x%x", p.Offset, j.h.n)
		}
		for end := min(p.Offset, j.h.n+hashStep); j.h.n < end; {
			j.h.Write(zeroPage[:min(end-j.h.n, int64(len(zeroPage)))])
		}
		return nil
	}
	b := j.buf[:min(p.Content.Len()-j.off, int64(len(j.buf)))]
	if at := j.h.n - j.rawAt; at >= 0 && at+int64(len(b)) <= int64(len(j.raw)) {
		b = j.raw[at:][:len(b)]
	} else if _, err := p.Content.ReadAt(b, j.off); err != nil {
		return err
	}
	j.h.Write(b)
	if j.also != nil {
		j.also(p, b)
	}
	if j.off += int64(len(b)); j.off == p.Content.Len() {
		j.pieces, j.off = j.pieces[1:], 0
	}
	return nil
}

// indexing returns the hashing of all pieces, which stores their index in x. It calls
// done, if not nil, with the numbers of bytes hashed.
func indexing(h *Hasher, pieces []content.Part, x *index, done func(n int64)) *hashing {
	sum := xxhash.New()
	left := int64(-1) // bytes left in a piece
	return &hashing{h: h, pieces: pieces, also: func(p *content.Part, b []byte) {
		if left < 0 {
			left = p.Content.Len()
		}
		sum.Write(b)
		if left -= int64(len(b)); left == 0 {
			if n := p.Content.Len(); n > 0 {
				x.pieces = append(x.pieces, indexPiece{p.Offset, n, sum.Sum64()})
			}
			sum.Reset()
			left = -1
		}
		if done != nil {
			done(int64(len(b)))
		}
	}}
}
