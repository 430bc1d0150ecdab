package ccob

import (
	"context"
	"encoding/binary"
	"io"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
)

// Data that frames have in common, such as tables of constants or compressed debug sections,
// is stored in each of them. Its amount is estimated from samples: windows selected by their
// own content, so that equal bytes are recognized at any offset. Data that code objects have
// in common begins at multiples of 8.
const (
	sampleChunk  = 128 << 10 // bytes per read
	sampleStep   = 8
	sampleWindow = 64
	samplePrime  = 0x9E3779B97F4A7C15
	sampleShift  = 55 // a window is taken if its first 8 bytes, hashed, have the upper 9 bits zero

	// At most 1/sharedMost of the new data may be in common. In real bundles of code it is
	// a tenth at most, and they are smaller than LLVM's by more than a cut costs.
	sharedMost = 6
	// The same for a bundle in which much data looks random, such as compressed debug sections.
	// Compression saves little in such a bundle, and in a small one the start of each frame
	// costs as much.
	sharedMostNoise = 24
	noiseFrom       = 35 << 20
	noisePart       = 3  // the part of random data, 1/noisePart, that is much
	noiseLeast      = 50 // different bytes in a window of noise; random ones have 57, machine code 25 to 40
)

// contentSample is a selected window.
type contentSample struct {
	sum       uint64
	different int // different bytes in it, an estimate of its compressed size
}

// alike reports whether frames have so much in common that cuts between them would cost more
// than they save.
func alike(ctx context.Context, b *budget.Budget, frames [][]content.Part) (bool, error) {
	if len(frames) < 2 {
		return false, nil
	}
	samples := make([][]contentSample, len(frames))
	err := b.Each(ctx, len(frames), func(_ context.Context, i int) (err error) {
		samples[i], err = sampleFrame(frames[i])
		return err
	})
	if err != nil {
		return false, err
	}
	seen := make(map[uint64]int) // the last frame with the sample
	fresh, shared, noise := 0, 0, 0
	for i, list := range samples {
		for _, s := range list {
			last, known := seen[s.sum]
			seen[s.sum] = i
			weight := max(s.different-4, 0)
			if !known {
				fresh += weight
				if s.different >= noiseLeast {
					noise += weight
				}
			} else if last != i {
				shared += weight
			}
		}
	}
	if noise > fresh/noisePart {
		last := frames[len(frames)-1]
		size := last[len(last)-1].End() - frames[0][0].Offset
		return size < noiseFrom || shared > fresh/sharedMostNoise, nil
	}
	return shared > fresh/sharedMost, nil
}

// sampleFrame samples the largest entry of a frame, which represents the
// others.
func sampleFrame(frame []content.Part) ([]contentSample, error) {
	c := frame[0].Content
	for _, p := range frame {
		if p.Content.Len() > c.Len() {
			c = p.Content
		}
	}
	var list []contentSample
	buf := make([]byte, sampleChunk+sampleWindow)
	for off := int64(0); off < c.Len(); off += sampleChunk {
		n, err := c.ReadAt(buf[:min(int64(len(buf)), c.Len()-off)], off)
		if err != nil && err != io.EOF {
			return nil, err
		}
		list = appendSamples(list, buf[:n])
	}
	return list, nil
}

// appendSamples appends the samples that begin in a chunk, which is followed by
// the bytes of one more window.
func appendSamples(list []contentSample, chunk []byte) []contentSample {
	for ; len(chunk) >= sampleWindow+sampleStep; chunk = chunk[sampleStep:] {
		x := binary.LittleEndian.Uint64(chunk)
		if x*samplePrime>>sampleShift != 0 || x == 0 {
			continue
		}
		window := chunk[:sampleWindow]
		list = append(list, contentSample{xxhash.Sum64(window), differentBytes(window)})
	}
	return list
}

// differentBytes returns the number of different byte values in a window.
func differentBytes(window []byte) int {
	var set [4]uint64
	for _, c := range window {
		set[c>>6] |= 1 << (c & 63)
	}
	n := 0
	for _, s := range set {
		n += bits.OnesCount64(s)
	}
	return n
}
