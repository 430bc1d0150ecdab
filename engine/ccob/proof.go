package ccob

import (
	"context"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// A proof is a way for a Reader to check that it returns the bytes that were
// compressed.
type proof int

const (
	undecided proof = iota
	unproved        // not at all
	byIndex         // with the index
	atOnce          // everything is decoded at once, because it is small
	byFrames        // with the checksums of the frames, which are decoded to their ends
	byHash          // with the hash of the header, which requires all raw bytes
)

// wholeMost is the largest raw size at which everything is decoded for any
// read.
const wholeMost = 1 << 20

// listMost is the largest raw size at which everything is decoded for a
// listing.
const listMost = 64 << 20

// proofFor selects the proof of the data to read. For some bundles, contents are proved but the
// header alone is not, because recognizing these bundles requires reading all of the data.
func (r *Reader) proofFor(contents bool) (proof, error) {
	switch {
	case r.o.Hash == HashFull:
		if contents {
			return byHash, nil
		}
		return unproved, nil // Extract will check
	case r.o.Hash == HashNone:
		return unproved, nil
	case r.index != nil:
		return byIndex, nil
	case !contents && r.likeLLVM():
		return unproved, nil
	case r.h.RawSize <= wholeMost:
		return atOnce, nil
	case r.h.Method != Zstd:
		return unproved, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !contents && r.h.RawSize > listMost && !endsLikeIndex(r.data) {
		return unproved, nil // the checksums are checked when an entry is read
	}
	if r.proof == undecided {
		form, err := r.form()
		if err != nil {
			return undecided, err
		}
		switch form {
		case checksums:
			r.proof = byFrames
		case oneFrame:
			r.proof = unproved
		default:
			r.proof = byHash
		}
	}
	return r.proof, nil
}

// likeLLVM reports whether the bundle begins as LLVM writes it, see llvmFrame.
func (r *Reader) likeLLVM() bool {
	_, like := r.llvmFrame()
	return like
}

// llvmFrame returns the first frame of a bundle that begins as LLVM writes it, with one frame without a
// checksum. It does not examine the data after it, except for an end like that of an index.
func (r *Reader) llvmFrame() (frame, bool) {
	if r.h.Method != Zstd || endsLikeIndex(r.data) {
		return frame{}, false
	}
	f, err := frameAt(r.data, r.h.DataOffset)
	return f, err == nil && !f.skippable && !f.checksum && f.size == r.h.RawSize && f.size > 0
}

// Verify runs all checks of HashAuto and decodes the data that they require.
func (r *Reader) Verify(ctx context.Context) (err error) {
	defer guard.Into(&err)()
	proof, err := r.proofFor(true)
	if err != nil || proof == unproved {
		return err
	}
	all := []Range{{Size: r.h.RawSize}}
	if proof == byIndex {
		all = all[:0]
		for _, p := range r.index.pieces {
			all = append(all, Range{Offset: p.off, Size: p.size})
		}
	}
	return r.extract(ctx, proof, all, nil)
}

// form is the structure of a bundle without an index.
type form int

const (
	otherForm form = iota
	oneFrame       // only one frame, without a checksum
	checksums      // frames with checksums
)

// form returns the form of the bundle. It reads the headers of all blocks.
func (r *Reader) form() (form, error) {
	if r.h.Method != Zstd {
		return otherForm, nil
	}
	count, summed, others := 0, 0, 0
	for f, err := range frames(r.data, r.h.DataOffset) {
		if r.foreign(f) {
			break
		}
		if err != nil {
			return otherForm, err
		}
		switch {
		case f.skippable:
			others++
		case f.size == 0:
			others++ // contains no data to prove
		case f.checksum:
			summed++
			count++
		default:
			count++
		}
	}
	switch {
	case summed == count:
		return checksums, nil
	case count == 1 && others == 0:
		return oneFrame, nil
	}
	return otherForm, nil
}
