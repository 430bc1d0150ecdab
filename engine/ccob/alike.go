package ccob

import (
	"context"
	"encoding/binary"
	"io"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/budget"
)

// What frames have in common, such as tables of constants or compressed debug sections, is
// stored in each of them. How much that is can be told from samples: windows that their own
// content chooses, so that the same bytes are recognized wherever they lie. What code objects
// have in common begins at multiples of 8.
const (
	sampleChunk  = 128 << 10 // what is read at once
	sampleStep   = 8
	sampleWindow = 64
	samplePrime  = 0x9E3779B97F4A7C15
	sampleShift  = 55 // a window is taken if its first 8 bytes, hashed, have the upper 9 bits zero

	// One part in so many of what is new may be in common: in real bundles of code it is a
	// tenth at most, and they are smaller than LLVM's by more than a cut costs.
	sharedMost = 6
	// The same where much looks random, such as compressed debug sections. There is little that
	// such a bundle can be smaller by, and of a small one the start of each frame takes that.
	sharedMostNoise = 24
	noiseFrom       = 35 << 20
	noisePart       = 3  // one part in so many is much
	noiseLeast      = 50 // different bytes in a window of noise; random ones have 57, machine code 25 to 40
)

// contentSample is a window that was taken.
type contentSample struct {
	sum       uint64
	different int // different bytes in it, which tell about what it takes when it is compressed
}

// alike reports whether frames have so much in common that cuts between them would cost more
// than they are good for.
func alike(ctx context.Context, b *budget.Budget, frames [][]Piece) (bool, error) {
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
	seen := make(map[uint64]int) // in which frame last
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
		size := last[len(last)-1].end() - frames[0][0].Offset
		return size < noiseFrom || shared > fresh/sharedMostNoise, nil
	}
	return shared > fresh/sharedMost, nil
}

// sampleFrame takes samples of the largest entry of a frame, which stands for the others.
func sampleFrame(frame []Piece) ([]contentSample, error) {
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

// appendSamples appends the samples that begin in a chunk, which has a window more than that.
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

// differentBytes counts the byte values in a window.
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
