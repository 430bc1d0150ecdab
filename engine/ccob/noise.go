package ccob

import (
	"bytes"
	"io"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Bytes that look random, as those of compressed debug sections, are most of the
// output where there are many of them, and cannot be made fewer but by referring to
// the same bytes elsewhere. Real bundles have up to a sixth of them in several
// families, and are then best left in one frame.
const (
	noiseChunk  = 128 << 10 // what is read at once
	noiseWindow = 64        // bytes that are looked at together
	noiseLeast  = 50        // different bytes in a window of noise; random ones have 57, machine code 25 to 40
	noiseMark   = 0xa7      // a window is looked at behind this byte, if the next one ends with the bits
	noiseNext   = 0b101     // 101: one position in
	noiseEvery  = 256 * 8   // so many
)

// sharedNoise tells whether frames have so much noise in common that cuts between them
// cost more than they are good for: more than a 64th of it, if it is at least a 16th
// of all. It looks at windows that their content chooses, so that the same bytes are
// recognized wherever they lie.
func sharedNoise(frames [][]Piece) (bool, error) {
	if len(frames) < 2 {
		return false, nil
	}
	first := make(map[uint64]int) // the last frame that has a window
	size, noise, shared := int64(0), int64(0), int64(0)
	buf := make([]byte, noiseChunk+noiseWindow)
	for i, frame := range frames {
		for _, p := range frame {
			size += p.Content.Len()
			for off := int64(0); off < p.Content.Len(); off += noiseChunk {
				chunk, err := noisy(p, off, buf)
				if err != nil {
					return false, err
				}
				windows(chunk, func(window []byte) {
					sum := xxhash.Sum64(window)
					last, known := first[sum]
					first[sum] = i
					switch {
					case !known:
						noise += noiseEvery
					case last != i:
						shared += noiseEvery
					}
				})
			}
		}
	}
	return noise > size/16 && shared > noise/64, nil
}

// noisy reads the chunk of p at off, and a window more, unless two samples of it say that
// it has no noise.
func noisy(p Piece, off int64, buf []byte) ([]byte, error) {
	for _, at := range []int64{noiseChunk / 4, noiseChunk * 3 / 4} {
		sample := buf[:noiseWindow]
		n, err := p.Content.ReadAt(sample, min(off+at, p.Content.Len()))
		if err != nil && err != io.EOF {
			return nil, err
		}
		if n == noiseWindow && isNoise(sample) {
			n, err := p.Content.ReadAt(buf, off)
			if err == io.EOF {
				err = nil
			}
			return buf[:n], err
		}
	}
	return nil, nil
}

// windows calls found with the windows of noise that begin in a chunk.
func windows(chunk []byte, found func(window []byte)) {
	for i := 0; ; i++ {
		k := bytes.IndexByte(chunk[min(i, len(chunk)):min(noiseChunk, len(chunk))], noiseMark)
		if k < 0 {
			return
		}
		i += k
		if window := chunk[i+1:]; len(window) >= noiseWindow && window[0]&7 == noiseNext && isNoise(window[:noiseWindow]) {
			found(window[:noiseWindow])
		}
	}
}

// isNoise tells whether a window looks random.
func isNoise(window []byte) bool {
	var set [4]uint64
	for _, c := range window {
		set[c>>6] |= 1 << (c & 63)
	}
	n := 0
	for _, s := range set {
		n += bits.OnesCount64(s)
	}
	return n >= noiseLeast
}
