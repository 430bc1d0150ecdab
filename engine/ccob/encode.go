package ccob

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/files"
)

// EncodeOptions are those of writing.
type EncodeOptions struct {
	Version int // of the container: 2 or 3; 0 means 3
	Level   Level
	Frames  Frames
	// Budget gives cores and memory. The bytes written do not depend on it.
	// Without one, everything runs on one core.
	Budget *files.Budget
}

// Stats is what was written or read, as -verbose tells it.
type Stats struct {
	Version  int
	Method   Method
	FileSize int64  // bytes of the whole compressed bundle
	DataSize int64  // bytes of compressed data: FileSize less the header
	RawSize  int64  // bytes of the plain bundle
	Hash     uint64 // as in Header.Hash
	Frames   int    // zstd frames written; 0 when reading
	Indexed  bool   // whether an index is there
}

// Rate returns how many times smaller the compressed data is.
func (s Stats) Rate() float64 { return float64(s.RawSize) / float64(s.DataSize) }

// Ratio returns the compressed size in percent of the raw size.
func (s Stats) Ratio() float64 { return float64(s.DataSize) / float64(s.RawSize) * 100 }

// Encode compresses a plain bundle, given as its pieces in order, and writes the
// compressed bundle to out. The first piece is the plain bundle's header.
//
// Frames are compressed, and the hash is computed, in parallel. Compressed frames
// are kept in memory until all are there, because the header comes first and
// states the size; of the raw bytes no more than the frames being compressed are
// copied, and not those of a single piece.
func Encode(ctx context.Context, out files.Sink, raw []Piece, o EncodeOptions) (Stats, error) {
	size, err := checkPieces(raw)
	if err != nil {
		return Stats{}, err
	}
	s, err := newStats(o.Version, size)
	if err != nil {
		return s, err
	}
	b := budget(o.Budget)
	cuts := cut(raw, o.Frames)
	frames := make([]encoded, len(cuts))
	h := NewHasher()
	// The hash first: it takes longest and cannot be divided.
	err = b.Each(ctx, 1+len(cuts), func(ctx context.Context, i int) (err error) {
		if i == 0 {
			return h.Add(ctx, raw...)
		}
		start, end := int64(0), size
		if i > 1 {
			start = cuts[i-1][0].Offset
		}
		if i < len(cuts) {
			end = cuts[i][0].Offset
		}
		frames[i-1], err = encodeFrame(ctx, b, cuts[i-1], start, end, o.Level, len(cuts) > 1)
		return err
	})
	if err != nil {
		return s, err
	}
	var data []files.Content
	var x index
	for _, f := range frames {
		data = append(data, files.Memory(f.data))
		x.pieces = append(x.pieces, f.pieces...)
	}
	s.Frames, s.Indexed = len(frames), len(frames) > 1
	s.Hash = h.Sum()
	return write(out, s, data, &x)
}

// newStats checks version and raw size.
func newStats(version int, raw int64) (Stats, error) {
	if version == 0 {
		version = 3
	}
	s := Stats{Version: version, Method: Zstd, RawSize: raw}
	if version != 2 && version != 3 {
		return s, fault(4, "", "version %d of a compressed bundle: 2 and 3 can be written", version)
	}
	if version == 2 && raw > math.MaxUint32 {
		return s, limitError("Uncompressed size exceeds version 2 limit")
	}
	return s, nil
}

// LimitError says that a bundle is too large for version 2, in LLVM's words.
type LimitError string

// Error returns LLVM's message.
func (e LimitError) Error() string { return string(e) }

func limitError(s string) error { return LimitError(s) }

// write writes header, data and, if s says so, the index.
func write(out files.Sink, s Stats, data []files.Content, x *index) (Stats, error) {
	s.DataSize = 0
	for _, d := range data {
		s.DataSize += d.Len()
	}
	if s.Indexed {
		s.DataSize += x.frameSize()
	}
	s.FileSize = headerSize(s.Version) + s.DataSize
	if s.Version == 2 && s.FileSize > math.MaxUint32 {
		return s, limitError("Total file size exceeds version 2 limit")
	}
	le := binary.LittleEndian
	h := append(make([]byte, 0, 32), Magic...)
	h = le.AppendUint16(h, uint16(s.Version))
	h = le.AppendUint16(h, uint16(s.Method))
	if s.Version == 2 {
		h = le.AppendUint32(h, uint32(s.FileSize))
		h = le.AppendUint32(h, uint32(s.RawSize))
	} else {
		h = le.AppendUint64(h, uint64(s.FileSize))
		h = le.AppendUint64(h, uint64(s.RawSize))
	}
	h = le.AppendUint64(h, s.Hash)
	if _, err := out.Write(h); err != nil {
		return s, err
	}
	for _, d := range data {
		if err := out.Append(d); err != nil {
			return s, err
		}
	}
	if s.Indexed {
		x.raw, x.hash = s.RawSize, s.Hash
		if _, err := out.Write(x.append(nil)); err != nil {
			return s, err
		}
	}
	return s, nil
}

// encoded is one compressed frame and what the index has to say of it.
type encoded struct {
	data   []byte
	pieces []indexPiece
}

// encodeFrame compresses the raw bytes from start to end, in which the pieces lie.
func encodeFrame(ctx context.Context, b *files.Budget, pieces []Piece, start, end int64, level Level, indexed bool) (encoded, error) {
	var e encoded
	if indexed {
		for _, p := range pieces {
			if p.Content.Len() > 0 {
				e.pieces = append(e.pieces, indexPiece{p.Offset, p.Content.Len(), xxhash.Sum64(p.Content.Bytes())})
			}
		}
	}
	if len(pieces) == 1 && pieces[0].Offset == start && pieces[0].end() == end {
		var err error
		e.data, err = compress(ctx, nil, pieces[0].Content.Bytes(), level)
		return e, err
	}
	err := b.WithBytes(ctx, end-start, func(ctx context.Context) error {
		raw, release, err := newMemory(end - start)
		if err != nil {
			return err
		}
		defer release()
		for _, p := range pieces {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			copy(raw[p.Offset-start:], p.Content.Bytes())
		}
		e.data, err = compress(ctx, nil, raw, level)
		return err
	})
	return e, err
}
