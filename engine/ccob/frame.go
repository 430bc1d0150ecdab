package ccob

import (
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"math"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

const (
	maxBlock  = 128 << 10 // largest decompressed size of a zstd block
	maxWindow = 1 << 31   // largest window that libzstd writes
)

// frame is one zstd or skippable frame of a bundle.
type frame struct {
	off       int64 // in the bundle
	blocks    int64 // offset of its blocks
	end       int64 // offset after the frame; set by walk
	size      int64 // content size, -1 if the frame does not state it
	most      int64 // upper bound of the decompressed size; set by walk
	window    int64
	skippable bool
	checksum  bool
}

// frameAt reads the header of the frame at data[off:].
func frameAt(data []byte, off int64) (frame, error) {
	f := frame{off: off, size: -1}
	var h zstd.Header
	switch err := h.Decode(data[off:]); {
	case errors.Is(err, zstd.ErrMagicMismatch):
		return f, fault(off, ZstdNoFrame, "found % x, expected a zstd frame", data[off:off+4])
	case errors.Is(err, io.ErrUnexpectedEOF):
		return f, fault(off, ZstdCut, "the header of a zstd frame is cut off after %d bytes", int64(len(data))-off)
	case err != nil:
		return f, fault(off, ZstdParameter, "zstd frame: %v", err)
	}
	f.blocks = off + int64(h.HeaderSize)
	if h.Skippable {
		f.skippable = true
		f.end = f.blocks + int64(h.SkippableSize)
		if f.end > int64(len(data)) {
			return f, fault(off, ZstdCut, "skippable zstd frame of %d bytes, found only %d", h.SkippableSize, int64(len(data))-f.blocks)
		}
		return f, nil
	}
	if h.DictionaryID != 0 {
		return f, fault(off, ZstdDictionary, "the zstd frame requires dictionary %d; bundles have no dictionaries", h.DictionaryID)
	}
	f.checksum = h.HasCheckSum
	f.window = int64(h.WindowSize)
	if h.HasFCS {
		if h.FrameContentSize > math.MaxInt64 {
			return f, fault(off, ZstdCorrupt, "zstd frame of %d bytes", h.FrameContentSize)
		}
		f.size = int64(h.FrameContentSize)
	}
	if h.SingleSegment {
		f.window = f.size
	}
	return f, nil
}

// frames returns the frames in data from pos, each before its end is known: only the next one requires it.
func frames(data []byte, pos int64) iter.Seq2[*frame, error] {
	return func(yield func(*frame, error) bool) {
		for pos < int64(len(data)) {
			f, err := frameAt(data, pos)
			if !yield(&f, err) || err != nil {
				return
			}
			if err := f.walk(data); err != nil {
				yield(&f, err)
				return
			}
			pos = f.end
		}
	}
}

// walk finds the end of f by reading its block headers, without decoding the
// blocks.
func (f *frame) walk(data []byte) error {
	if f.skippable || f.end > 0 {
		return nil
	}
	short := func(pos int64) error {
		return fault(pos, ZstdCut, "the zstd frame at byte 0x%x continues past the end of the bundle at byte 0x%x", f.off, len(data))
	}
	block := min(max(f.window, 1<<10), maxBlock)
	for pos, last := f.blocks, false; !last; {
		if int64(len(data))-pos < 3 {
			return short(pos)
		}
		h := uint32(data[pos]) | uint32(data[pos+1])<<8 | uint32(data[pos+2])<<16
		size := int64(h >> 3)
		if size > maxBlock {
			return fault(pos, ZstdCorrupt, "zstd block of %d bytes: at most %d are allowed", size, maxBlock)
		}
		last = h&1 != 0
		switch h >> 1 & 3 {
		case 0: // stored
			f.most += size
		case 1: // one byte, repeated
			f.most += size
			size = 1
		case 2:
			f.most += block
		default:
			return fault(pos, ZstdCorrupt, "zstd block of reserved type 3")
		}
		pos += 3 + size
		if last && f.checksum {
			pos += 4
		}
		if pos > int64(len(data)) {
			return short(pos)
		}
		f.end = pos
	}
	if f.size > f.most {
		return fault(f.off, ZstdCorrupt, "the zstd frame states %d bytes of content, its blocks have at most %d", f.size, f.most)
	}
	return nil
}

// reader returns the frame with the smallest window that is sufficient for its
// first need bytes, to limit the memory for decoding them. The frame returned
// does not state its content size.
func (f *frame) reader(data []byte, need int64) (*spliced, error) {
	window := min(f.window, need+maxBlock)
	if window > maxWindow {
		return nil, fault(f.off, ZstdParameter, "zstd window of %d bytes: at most %d are supported", window, maxWindow)
	}
	h := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, windowDescriptor(window)}
	if f.checksum {
		h[4] |= 1 << 2
	}
	end := f.end
	if end == 0 {
		end = int64(len(data))
	}
	return &spliced{h, data[f.blocks:end]}, nil
}

// windowDescriptor returns the descriptor byte of the smallest window of at
// least n bytes.
func windowDescriptor(n int64) byte {
	n = max(n, 1<<10)
	exp := bits.Len64(uint64(n)) - 1
	eighth := int64(1) << (exp - 3)
	mantissa := (n - int64(1)<<exp + eighth - 1) / eighth
	return byte(int64(exp-10)<<3 + mantissa) // 8 eighths carry into the exponent
}

// spliced reads two slices, one after the other. It is not a bytes.Reader
// because the decoder would then decode everything at once.
type spliced [2][]byte

func (s *spliced) Read(p []byte) (int, error) {
	for i, b := range s {
		if len(b) > 0 {
			n := copy(p, b)
			s[i] = b[n:]
			return n, nil
		}
	}
	return 0, io.EOF
}

// zeroFrame appends a frame of n zero bytes.
func zeroFrame(dst []byte, n int64) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, 0xFD2FB528)
	dst = append(dst, 3<<6, windowDescriptor(maxBlock))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
	for {
		k := min(n, maxBlock)
		n -= k
		h := uint32(k)<<3 | 1<<1
		if n == 0 {
			h |= 1
		}
		dst = append(dst, byte(h), byte(h>>8), byte(h>>16), 0)
		if n == 0 {
			return dst
		}
	}
}
