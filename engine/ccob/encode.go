package ccob

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/compression/longzstd"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/storage/joined"
)

// EncodeOptions are the options for writing.
type EncodeOptions struct {
	Version int // of the container: 2 or 3; 0 means 3
	Level   Level
	Frames  Frames
	// Budget limits the cores and the memory. The bytes written do not depend on
	// it. If nil, everything runs on one core.
	Budget *budget.Budget
	// Done, if not nil, is called concurrently with the numbers of raw bytes
	// processed.
	Done func(n int64)
}

// Stats describes a bundle that was written or read, as printed with -verbose.
type Stats struct {
	Version  int
	Method   Method
	FileSize int64  // bytes of the whole compressed bundle
	DataSize int64  // bytes of compressed data: FileSize without the header
	RawSize  int64  // bytes of the plain bundle
	Hash     uint64 // as in Header.Hash
	Frames   int    // zstd frames written; 0 when reading
	Indexed  bool   // whether the bundle has an index
}

// Rate returns the compression ratio.
func (s Stats) Rate() float64 { return float64(s.RawSize) / float64(s.DataSize) }

// Encode compresses a plain bundle, given as its pieces in order, and writes the compressed bundle to
// out. The first piece is the plain bundle's header. Bytes between the pieces are zero.
//
// Frames are compressed, and the hash is computed, in parallel. Files that begin
// at a page boundary of the bundle are read in place; the bytes of a frame with
// other files are copied. The header is first in the file, but computed last: if
// out is a content.Space, frames are written as they are produced and the header
// at the end; otherwise the compressed bundle is assembled in memory.
func Encode(ctx context.Context, out content.Sink, raw []content.Part, o EncodeOptions) (_ Stats, err error) {
	defer guard.Into(&err)()
	size, err := checkPieces(raw)
	if err != nil {
		return Stats{}, err
	}
	s, err := newStats(o.Version, size)
	if err != nil {
		return s, err
	}
	var memory content.Buffer
	var data content.Sink = &memory
	at := int64(0)
	place, placed := out.(content.Space)
	if placed {
		data = out
		if at, err = place.Reserve(headerSize(s.Version)); err != nil {
			return s, err
		}
	}
	x, flags, err := encodeFrames(ctx, data, raw, size, &s, o)
	if err != nil {
		return s, err
	}
	h, end, err := s.finish(x)
	if err != nil {
		return s, err
	}
	if _, err := data.Write(end); err != nil {
		return s, err
	}
	if placed {
		if flags != 0 {
			if _, err := place.WriteAt([]byte{flags}, at+headerSize(s.Version)+frameFlags); err != nil {
				return s, err
			}
		}
		_, err = place.WriteAt(h, at)
		return s, err
	}
	if flags != 0 {
		memory.Bytes()[frameFlags] = flags
	}
	if _, err := out.Write(h); err != nil {
		return s, err
	}
	_, err = out.Write(memory.Bytes())
	return s, err
}

// Limits of an index for a single frame. Smaller bundles are decoded completely for a check, which
// is fast. If compression saves almost nothing or almost everything, an index would make the bundle
// larger than LLVM's.
const (
	indexFrom  = 1 << 20  // raw bytes
	indexLeast = 64 << 10 // bytes of compressed data
	indexSaved = 16       // compression must save 1/indexSaved of the size,
	indexShare = 2048     // or the index must be at most 1/indexShare of the data
	// indexAlways is the raw size from which there is always an index, because a listing
	// without one would decode everything.
	indexAlways = 64 << 20
)

// worthIndex reports whether a single frame gets an index, if one is requested. data is the size
// of the frame, and pieces the number of records.
func worthIndex(raw, data int64, pieces int) bool {
	return raw >= indexAlways || raw >= indexFrom && data >= indexLeast && (data < raw-raw/indexSaved || mostIndex(pieces)*indexShare <= data)
}

// single describes how the only frame of a bundle is completed.
type single struct {
	pieces  int  // records of an index
	wanted  bool // whether an index may be written
	indexed bool // whether one must be
	flags   byte // required value of the frame's descriptor; 0: unchanged
}

// frameFlags is the offset of the descriptor in a frame.
const (
	frameFlags   = 4
	checksumFlag = 1 << 2
)

// seal appends the checksum of a frame's content, raw, if the bundle gets no index. w has
// written the frame, of the given size.
func (s *single) seal(w *frameWriter, raw []byte, size int64) (int64, error) {
	if s.indexed = s.wanted && worthIndex(int64(len(raw)), size, s.pieces); s.indexed {
		return size, nil
	}
	sum := binary.LittleEndian.AppendUint32(w.tail[:len(w.tail):len(w.tail)], uint32(xxhash.Sum64(raw)))
	if bytes.Contains(sum, []byte(Magic)) {
		s.indexed = true
		return size, nil
	}
	s.flags = w.flags | checksumFlag
	n, err := w.Write(sum[len(w.tail):])
	return size + int64(n), err
}

// frameWriter records the descriptor of the frame and the last bytes that are
// written through it.
type frameWriter struct {
	io.WriteCloser
	n     int64
	flags byte
	tail  []byte
}

// Write writes p.
func (w *frameWriter) Write(p []byte) (int, error) {
	if at := frameFlags - w.n; at >= 0 && at < int64(len(p)) {
		w.flags = p[at]
	}
	w.n += int64(len(p))
	w.tail = append(w.tail, p[max(0, len(p)-len(Magic)+1):]...)
	w.tail = w.tail[max(0, len(w.tail)-len(Magic)+1):]
	return w.WriteCloser.Write(p)
}

// finish returns the header of a bundle and the bytes after its frames: the
// index, if any.
func (s *Stats) finish(x *index) (h, end []byte, err error) {
	x.raw, x.hash = s.RawSize, s.Hash
	if s.Indexed {
		end = x.append(nil)
	}
	s.DataSize += int64(len(end))
	if h, err = s.header(); err != nil || !bytes.Contains(h[1:], []byte(Magic)) {
		return h, end, err
	}
	// If the file size forms the magic, a size that is 8 bytes larger does not.
	s.DataSize += int64(len(emptyFrame))
	h, err = s.header()
	return h, append([]byte(emptyFrame), end...), err
}

// emptyFrame is a skippable frame without content.
const emptyFrame = "\x50\x2a\x4d\x18\x00\x00\x00\x00"

// encodeFrames writes the frames to out, sets their statistics in s, and returns the index
// with its pieces. If flags is not 0, it is the required descriptor of the first frame.
func encodeFrames(ctx context.Context, out io.Writer, raw []content.Part, size int64, s *Stats, o EncodeOptions) (x *index, flags byte, err error) {
	b := orOneCore(o.Budget)
	cuts, err := cut(ctx, b, raw, o.Frames, o.Level)
	if err != nil {
		return nil, 0, err
	}
	var alone *single
	if len(cuts) == 1 {
		alone = &single{wanted: o.Frames != FramesOne, pieces: records(raw)}
	}
	s.Frames = len(cuts)
	sizes := make([]int64, len(cuts))
	written := newLanes(out, len(cuts))
	x = new(index)
	h := NewHasher()
	hash := indexing(h, raw, x, o.Done)
	start := func(i int) int64 {
		if i == 0 {
			return 0 // bytes before the first piece
		}
		if i == len(cuts) {
			return size
		}
		return cuts[i][0].Offset
	}
	encode := func(ctx context.Context, i int, beside *hashing) (err error) {
		sizes[i], err = encodeFrame(ctx, lane{written, i}, b, cuts[i], start(i), start(i+1), o.Level, beside, alone)
		return err
	}
	if b.Cores() == 2 {
		err = b.Each(ctx, 1, func(ctx context.Context, _ int) error {
			for i := range cuts {
				if err := encode(ctx, i, hash); err != nil {
					return err
				}
			}
			return hash.finish(ctx)
		})
	} else {
		// The encoder of a frame uses two cores; more concurrent encoders would only
		// compete for the caches.
		encoders := min(len(cuts), max(1, b.Cores()/2))
		var next atomic.Int64
		err = b.Each(ctx, 1+encoders, func(ctx context.Context, unit int) error {
			if unit == 0 {
				return hash.finish(ctx)
			}
			for i := next.Add(1) - 1; i < int64(len(cuts)); i = next.Add(1) - 1 {
				if err := encode(ctx, int(i), nil); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, 0, err
	}
	s.Hash = h.Sum()
	for _, n := range sizes {
		s.DataSize += n
	}
	s.Indexed = alone == nil || alone.indexed
	if alone != nil {
		flags = alone.flags
	}
	return x, flags, nil
}

// records returns how many of the pieces have a record in an index.
func records(pieces []content.Part) (n int) {
	for _, p := range pieces {
		if p.Content.Len() > 0 {
			n++
		}
	}
	return n
}

// newStats checks version and raw size.
func newStats(version int, raw int64) (Stats, error) {
	if version == 0 {
		version = 3
	}
	s := Stats{Version: version, Method: Zstd, RawSize: raw}
	if version != 2 && version != 3 {
		return s, fault(4, Other, "version %d of a compressed bundle cannot be written, expected 2 or 3", version)
	}
	if version == 2 && raw > math.MaxUint32 {
		return s, &LimitError{Size: raw}
	}
	return s, nil
}

// LimitError reports a bundle that is too large for version 2, whose header stores sizes in 32 bits.
type LimitError struct {
	Size       int64 // bytes
	Compressed bool  // Size is that of the compressed file instead of its content
}

func (e *LimitError) Error() string {
	what := "bundle"
	if e.Compressed {
		what = "compressed bundle"
	}
	return fmt.Sprintf("%s of %d bytes: version 2 can store less than 4 GiB", what, e.Size)
}

// header returns the header of a bundle with s.DataSize bytes of data.
func (s *Stats) header() ([]byte, error) {
	s.FileSize = headerSize(s.Version) + s.DataSize
	if s.Version == 2 && s.FileSize > math.MaxUint32 {
		return nil, &LimitError{Size: s.FileSize, Compressed: true}
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
	return le.AppendUint64(h, s.Hash), nil
}

// encodeFrame compresses the raw bytes from start to end, which contain the pieces, to w and
// closes it. If beside is not nil, it meanwhile hashes as much as time permits. If it is the
// only frame, alone is not nil. It returns the size of the frame.
func encodeFrame(ctx context.Context, w io.WriteCloser, b *budget.Budget, pieces []content.Part, start, end int64, level Level, beside *hashing, alone *single) (int64, error) {
	parts := slices.Clone(pieces)
	for i := range parts {
		parts[i].Offset -= start
	}
	raw, err := joined.New(end-start, parts)
	if err != nil {
		return 0, err
	}
	defer raw.Close()
	var size int64
	err = b.WithBytes(ctx, raw.Copied(), func(ctx context.Context) (err error) {
		if err := raw.Fill(); err != nil {
			return err
		}
		o := longzstd.Options{Level: longzstd.Level(level), Cores: b.Cores(), Passed: trimmer(raw)}
		if beside != nil {
			o.Beside = beside.beside(ctx, raw.Bytes(), start)
			defer func() { beside.raw = nil }()
		}
		if alone == nil {
			size, err = longzstd.EncodeTo(ctx, w, raw.Bytes(), o)
			return err
		}
		sealed := &frameWriter{WriteCloser: w}
		if size, err = longzstd.EncodeTo(ctx, sealed, raw.Bytes(), o); err == nil {
			size, err = alone.seal(sealed, raw.Bytes(), size)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return size, w.Close()
}

// trimLeast is the smallest part of a frame's input that stays in memory, in
// bytes.
const trimLeast = 32 << 20

// trimmer returns a function that takes the number of compressed bytes of raw, and sometimes
// returns their memory to the system. It does not do so in each call, because that costs time.
// The system loads pages again, a few at a time, if matches reference them.
func trimmer(raw *joined.Parts) func(n int) {
	kept := max(trimLeast, len(raw.Bytes())/4)
	next := kept
	return func(n int) {
		if n >= next {
			raw.Trim()
			next = n + kept
		}
	}
}
