package ccob

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/storage/pages"
)

// largeFrom is the smallest size of memory that is treated specially. On first use
// of the memory, the kernel takes more time than the decoder, unless it provides
// large pages.
const largeFrom = 4 << 20

// keptWindow is the largest window that a decoder keeps for the next bundle.
const keptWindow = 64 << 20

// smallWindow is the largest window whose memory is not reserved.
const smallWindow = 1 << 20

// manyWindows is the memory of windows from which half of the cores decode and half
// write, because less memory then saves more time than more decoders. Tests change it.
var manyWindows int64 = 512 << 20

// errEnough stops a decoder after the required bytes.
var errEnough = errors.New("enough")

// decoders is a pool of decoders.
var decoders = sync.Pool{New: func() any { return newDecoder(nil) }}

// newDecoder returns a decoder without limits: this package checks them against the sizes of the bundle.
func newDecoder(r io.Reader) *zstd.Decoder {
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(1<<41), zstd.WithDecoderMaxMemory(1<<62))
	if err != nil {
		panic(err) // the options are constant
	}
	return d
}

// decoderSet holds the decoders of one call, one for each lane. Their windows, of any size,
// are reused for later frames.
type decoderSet struct {
	mu   sync.Mutex
	free []*zstd.Decoder
	size int64 // of the largest window

	cores, lanes int          // largest number of concurrent jobs
	left         atomic.Int64 // unfinished jobs
}

func newDecoderSet(cores, lanes, jobs int) *decoderSet {
	w := &decoderSet{cores: cores, lanes: lanes}
	w.left.Store(int64(jobs))
	return w
}

// idle reports whether there is a core that no job uses.
func (w *decoderSet) idle() bool { return min(int(w.left.Load()), w.lanes) < w.cores }

// decoderMemory returns the bytes to reserve for a decoder with a window. The other memory of
// a decoder, and a small window, are negligible compared with the memory of the process.
func decoderMemory(window int64) int64 {
	if window <= smallWindow {
		return 0
	}
	return window + smallWindow
}

// get returns a decoder for a window of at most size bytes.
func (w *decoderSet) get(size int64) *zstd.Decoder {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.size = max(w.size, size)
	if n := len(w.free); n > 0 {
		d := w.free[n-1]
		w.free = w.free[:n-1]
		return d
	}
	return decoders.Get().(*zstd.Decoder)
}

// put returns a decoder to the set.
func (w *decoderSet) put(d *zstd.Decoder) {
	_ = d.Reset(nil) // releases the source
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free = append(w.free, d)
}

// release ends the use of all decoders.
func (w *decoderSet) release() {
	for _, d := range w.free {
		if w.size > keptWindow {
			d.Close()
		} else {
			decoders.Put(d)
		}
	}
}

// zstdError explains an error of the decoder in frame f.
func zstdError(f *frame, err error) error {
	what := ZstdCorrupt
	switch {
	case errors.Is(err, zstd.ErrCRCMismatch):
		what = ZstdChecksum
	case errors.Is(err, io.ErrUnexpectedEOF) && f.end == 0:
		what = ZstdCut
	case errors.Is(err, zstd.ErrDecoderSizeExceeded):
		what = ZstdTooLong
	}
	e := fault(f.off, what, "zstd frame: %v", err)
	e.err = err
	return e
}

// decodeFrame decodes all of f, which states its size, into dst, which has that
// size. The decoder may overwrite room bytes after dst, which makes it faster.
func (r *Reader) decodeFrame(f *frame, dst []byte, room int) error {
	if err := f.walk(r.data); err != nil {
		return err
	}
	d := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(d)
	out, err := d.DecodeAll(r.data[f.off:f.end], dst[:0:len(dst)+room])
	if err != nil {
		return zstdError(f, err)
	}
	if len(out) != len(dst) {
		return zstdError(f, zstd.ErrFrameSizeMismatch)
	}
	return nil
}

// streamFrame decodes f block by block, at most limit bytes of it. If whole is
// set, the frame must end there or before. If a core is idle, emit runs on it.
func (r *Reader) streamFrame(ctx context.Context, w *decoderSet, f *frame, limit int64, whole bool, emit func([]byte) error) (int64, error) {
	src, err := f.reader(r.data, limit)
	if err != nil {
		return 0, err
	}
	window := min(f.window, limit)
	d := w.get(window)
	defer w.put(d)
	if err := d.Reset(src); err != nil {
		return 0, zstdError(f, err)
	}
	s := &blockSink{ctx: ctx, limit: limit, whole: whole, idle: w.idle, emit: emit, window: window}
	func() {
		defer s.end() // also if a fault in a mapped file stops the decoder
		_, err = d.WriteTo(s)
	}()
	switch {
	case s.err == errEnough:
		return s.n, nil
	case s.err != nil:
		return s.n, s.err
	case err != nil:
		return s.n, zstdError(f, err)
	case f.size >= 0 && s.n != f.size:
		return s.n, zstdError(f, zstd.ErrFrameSizeMismatch)
	}
	return s.n, nil
}

// blockSink receives decoded blocks up to a limit.
type blockSink struct {
	ctx      context.Context
	n, limit int64
	whole    bool
	idle     func() bool // whether a core is idle; called only for large windows
	window   int64
	ready    sync.WaitGroup
	stop     atomic.Bool // stops ready
	emit     func([]byte) error
	lent     *lender // set after a core was idle
	err      error   // the reason why it stopped the decoder
}

func (s *blockSink) Write(p []byte) (int, error) {
	n := len(p)
	s.err = s.take(p)
	return n, s.err
}

func (s *blockSink) take(p []byte) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	if s.n == 0 {
		// The decoder's window begins with the first block and has not been used yet.
		if s.window >= largeFrom {
			w := windowOf(p, s.window)
			pages.Large(w)
			if s.idle() {
				// unguarded: it advises memory of the decoder
				s.ready.Go(func() { w.ready(&s.stop) })
			}
		}
	}
	if over := s.n + int64(len(p)) - s.limit; over > 0 {
		if s.whole {
			return tooLong(s.limit)
		}
		p = p[:int64(len(p))-over]
	}
	s.n += int64(len(p))
	if s.lent == nil && s.window >= lendFrom && s.idle() {
		s.lent = newLender(s.ctx, s.window, s.emit)
	}
	emit := s.emit
	if s.lent != nil {
		emit = s.lent.lend
	}
	if err := emit(p); err != nil {
		return err
	}
	if s.n == s.limit && !s.whole {
		return errEnough
	}
	return nil
}

// end waits for the other goroutines.
func (s *blockSink) end() {
	s.stop.Store(true)
	s.ready.Wait()
	if s.lent != nil {
		if err := s.lent.end(); err != nil {
			s.err = err
		}
	}
}

func tooLong(size int64) error {
	return fault(0, ZstdTooLong, "the data decompresses to more than the %d bytes that the header states", size)
}

func tooShort(got, want int64) error {
	return fault(0, Other, "the data decompresses to %d bytes, the header states %d", got, want)
}

// stream decodes the first limit raw bytes in order. If it reaches the raw
// size, more data is an error.
func (r *Reader) stream(ctx context.Context, limit int64, emit func([]byte) error) error {
	whole := limit == r.h.RawSize
	if r.h.Method == Zlib {
		return r.streamZlib(ctx, limit, whole, emit)
	}
	w := newDecoderSet(r.budget.Cores(), 1, 1)
	defer w.release()
	total := int64(0)
	for f, err := range frames(r.data, r.h.DataOffset) {
		if total == limit && (!whole || r.foreign(f)) {
			break
		}
		if err != nil {
			return err
		}
		if !f.skippable {
			if f.size > r.h.RawSize-total {
				return tooLong(r.h.RawSize)
			}
			all := whole || f.size >= 0 && f.size <= limit-total
			if all {
				// Find faults of the structure, and the end of the frame, before decoding.
				if err := f.walk(r.data); err != nil {
					return err
				}
			}
			err := r.budget.WithBytes(ctx, decoderMemory(min(f.window, limit-total)), func(ctx context.Context) error {
				n, err := r.streamFrame(ctx, w, f, limit-total, all, emit)
				total += n
				return err
			})
			if err != nil {
				return err
			}
			if total == limit && !whole {
				return nil
			}
		}
	}
	if total < limit && !r.o.Lenient {
		return tooShort(total, r.h.RawSize)
	}
	return nil
}

// foreign reports whether the data at f is not part of the bundle: version 1 does not state where it ends.
func (r *Reader) foreign(f *frame) bool { return r.h.Version == 1 && !isFrame(r.data[f.off:]) }

// isFrame reports whether b begins with the magic of a zstd or skippable frame.
func isFrame(b []byte) bool {
	return len(b) >= 4 && (string(b[:4]) == "\x28\xb5\x2f\xfd" || b[0]&0xf0 == 0x50 && string(b[1:4]) == "\x2a\x4d\x18")
}

// streamZlib is stream for zlib. Bytes after the stream are ignored, as in
// LLVM.
func (r *Reader) streamZlib(ctx context.Context, limit int64, whole bool, emit func([]byte) error) error {
	broken := func(err error) error {
		e := fault(r.h.DataOffset, ZlibCorrupt, "zlib data: %v", err)
		e.err = err
		return e
	}
	d, err := zlib.NewReader(bytes.NewReader(r.data[r.h.DataOffset:]))
	if err != nil {
		return broken(err)
	}
	defer d.Close()
	s := &blockSink{ctx: ctx, limit: limit, whole: whole, emit: emit}
	buf := make([]byte, maxBlock)
	for s.n < limit || whole {
		n, err := d.Read(buf)
		if n > 0 {
			switch serr := s.take(buf[:n]); {
			case serr == errEnough:
				return nil
			case serr != nil:
				var e *Error
				if errors.As(serr, &e) {
					return fault(0, ZlibTooLong, "%s", e.msg)
				}
				return serr
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return broken(err)
		}
	}
	if s.n < limit && !r.o.Lenient {
		return tooShort(s.n, r.h.RawSize)
	}
	return nil
}

// span is a frame with its range of the raw bytes.
type span struct {
	*frame
	raw int64
}

func (s *span) rawEnd() int64 { return s.raw + s.size }

// spans returns the frames with the first need raw bytes. known reports whether
// every one of them states its size.
func (r *Reader) spans(need int64) (list []span, known bool, err error) {
	if r.h.Method != Zstd {
		return nil, false, nil
	}
	raw := int64(0)
	for f, err := range frames(r.data, r.h.DataOffset) {
		if raw == r.h.RawSize && r.foreign(f) {
			break
		}
		if err != nil {
			return nil, false, err
		}
		if f.skippable {
			continue
		}
		if f.size < 0 {
			return nil, false, nil
		}
		if f.size > r.h.RawSize-raw {
			return nil, false, tooLong(r.h.RawSize)
		}
		list = append(list, span{f, raw})
		if raw += f.size; raw >= need && need < r.h.RawSize {
			break
		}
	}
	if raw < need && !r.o.Lenient {
		return nil, false, tooShort(raw, r.h.RawSize)
	}
	return list, true, nil
}

// Raw is the decoded content of a bundle.
type Raw struct {
	data    []byte
	release func()
}

// Bytes returns the raw bytes.
func (r *Raw) Bytes() []byte { return r.data }

// Release releases the memory. The bytes must not be used afterwards.
func (r *Raw) Release() {
	r.release()
	r.data, r.release = nil, func() {}
}

// Decode decodes all frames in parallel and checks the raw bytes (see HashCheck).
// The memory is reserved from the budget until the result is released.
func (r *Reader) Decode(ctx context.Context) (_ *Raw, err error) {
	defer guard.Into(&err)()
	raw, err := r.decode(ctx)
	if err == nil {
		if err = r.checkRaw(ctx, raw.data); err == nil {
			return raw, nil
		}
		raw.Release()
	}
	return nil, err
}

// decode is Decode without the check.
func (r *Reader) decode(ctx context.Context) (*Raw, error) {
	spans, known, err := r.spans(r.h.RawSize)
	if err != nil {
		return nil, err
	}
	size := int64(0)
	if !known {
		size, err = r.mostRaw()
	} else if n := len(spans); n > 0 {
		size = spans[n-1].rawEnd()
	}
	if err != nil {
		return nil, err
	}
	raw, err := r.newRaw(ctx, size)
	if err != nil {
		return nil, err
	}
	if known {
		err = r.budget.Each(ctx, len(spans), func(_ context.Context, i int) error {
			s := &spans[i]
			return r.decodeFrame(s.frame, raw.data[s.raw:s.rawEnd()], 0)
		})
	} else {
		n := 0
		err = r.stream(ctx, r.h.RawSize, func(p []byte) error {
			n += copy(raw.data[n:], p)
			return nil
		})
		raw.data = raw.data[:n]
	}
	if err != nil {
		raw.Release()
		return nil, err
	}
	return raw, nil
}

// newRaw returns a Raw of zeros in reserved memory.
func (r *Reader) newRaw(ctx context.Context, size int64) (*Raw, error) {
	reserved, err := r.budget.Reserve(ctx, size)
	if err != nil {
		return nil, err
	}
	data, free, err := newMemory(size)
	if err != nil {
		reserved.Release()
		return nil, err
	}
	return &Raw{data: data, release: func() { free(); reserved.Release() }}, nil
}

// mostRaw returns an upper bound of the number of raw bytes, from the header and,
// as far as is possible without decoding, from the data.
func (r *Reader) mostRaw() (int64, error) {
	if r.h.Method == Zlib {
		return r.h.RawSize, nil
	}
	most := int64(0)
	for f, err := range frames(r.data, r.h.DataOffset) {
		if r.foreign(f) {
			break
		}
		if err == nil {
			err = f.walk(r.data)
		}
		if err != nil {
			return 0, err
		}
		most += f.most
	}
	return min(most, r.h.RawSize), nil
}

// checkRaw compares all raw bytes with the index or the hash of the header.
func (r *Reader) checkRaw(ctx context.Context, raw []byte) error {
	switch {
	case r.o.Hash == HashNone:
		return nil
	case r.o.Hash.auto() && r.index != nil:
		return r.index.check(raw)
	case r.o.Hash.auto() && len(raw) > wholeMost:
		// The decoder has already compared the checksums.
		if form, err := r.form(); err != nil || form == checksums {
			return err
		}
	}
	sum, err := hashOf(ctx, raw, nil)
	if err != nil {
		return err
	}
	return r.checkHash(sum)
}

// checkHash compares the hash of the raw bytes with the header.
func (r *Reader) checkHash(sum uint64) error {
	if sum != r.h.Hash {
		return fault(r.h.DataOffset-8, Other, "the hash of the uncompressed bundle is 0x%016x, its header states 0x%016x: the data is damaged", sum, r.h.Hash)
	}
	return nil
}

// Extract decodes only the data that the ranges require and writes each range to its
// W. It decodes frames and writes ranges in parallel. If a check fails, Extract
// returns an error, but may already have written the bytes.
func (r *Reader) Extract(ctx context.Context, ranges []Range) (err error) {
	defer guard.Into(&err)()
	return r.ExtractUnchecked(ctx, ranges, nil)
}

// ExtractUnchecked is Extract, except that it may leave the comparison of the hash to Options.Batch, which
// must not be nil: failed is then called with the error, before Batch.Close returns.
func (r *Reader) ExtractUnchecked(ctx context.Context, ranges []Range, failed func(error)) (err error) {
	defer guard.Into(&err)()
	proof, err := r.proofFor(true)
	if err != nil {
		return err
	}
	return r.extract(ctx, proof, ranges, failed)
}

// extract is ExtractUnchecked with a given proof. If failed is nil, it compares the hash itself.
func (r *Reader) extract(ctx context.Context, proof proof, ranges []Range, failed func(error)) error {
	if err := r.checkRanges(ranges); err != nil {
		return err
	}
	ranges = slices.DeleteFunc(slices.Clone(ranges), func(g Range) bool { return g.Size == 0 })
	slices.SortStableFunc(ranges, func(a, b Range) int { return cmp.Compare(a.Offset, b.Offset) })
	switch proof {
	case byFrames:
		// The header with the offsets of the ranges may not have been checked, see
		// listMost.
		if len(ranges) > 0 && ranges[0].Offset > 0 {
			ranges = slices.Insert(ranges, 0, Range{Size: 1})
		}
	case byHash:
		return r.extractHashed(ctx, ranges)
	case atOnce:
		return r.extractSmall(ctx, ranges, failed)
	}
	need := int64(0)
	for _, g := range ranges {
		need = max(need, g.end())
	}
	if need == 0 {
		return nil
	}
	spans, known, err := r.spans(need)
	if err != nil {
		return err
	}
	if !known {
		if proof == byFrames {
			need = r.h.RawSize
		}
		return r.stream(ctx, need, newFan(0, ranges, r.index).write)
	}
	if n := len(spans); n == 0 || spans[n-1].rawEnd() < need {
		return fmt.Errorf("the data decompresses to less than the %d bytes requested", need)
	}
	jobs := extractJobs(spans, ranges)
	// The longest first, so that all cores finish at about the same time and
	// windows can be reused.
	slices.SortStableFunc(jobs, func(a, b job) int { return cmp.Compare(b.size(), a.size()) })
	cores, ahead := r.budget.Cores(), len(jobs)
	if jobs[0].size()*int64(cores) >= manyWindows {
		ahead = max(1, cores/2)
	}
	w := newDecoderSet(cores, ahead, len(jobs))
	defer w.release()
	return budget.Ordered(ctx, r.budget, len(jobs), ahead,
		func(ctx context.Context, i int) (struct{}, error) {
			return struct{}{}, r.run(ctx, w, &jobs[i], proof == byFrames)
		},
		func(int, struct{}) error { return nil })
}

// job is a run of adjacent frames, and the ranges to decode in them.
type job struct {
	spans  []span
	ranges []Range
}

// size returns the number of raw bytes in the frames of j.
func (j *job) size() int64 { return j.spans[len(j.spans)-1].rawEnd() - j.spans[0].raw }

// extractJobs divides the work so that no range is shared between jobs. Both lists
// are in order.
func extractJobs(spans []span, ranges []Range) []job {
	var jobs []job
	for len(ranges) > 0 {
		for spans[0].rawEnd() <= ranges[0].Offset {
			spans = spans[1:]
		}
		n, k, end := 0, 0, spans[0].rawEnd()
		for k < len(ranges) && ranges[k].Offset < end {
			for end < ranges[k].end() {
				n++
				end = spans[n].rawEnd()
			}
			k++
		}
		jobs = append(jobs, job{spans[:n+1], ranges[:k]})
		spans, ranges = spans[n+1:], ranges[k:]
	}
	return jobs
}

// run does one job. If whole is set, it decodes the frames to their ends, where
// the checksums are.
func (r *Reader) run(ctx context.Context, w *decoderSet, j *job, whole bool) error {
	defer w.left.Add(-1)
	need, window := int64(0), int64(0)
	for _, g := range j.ranges {
		need = max(need, g.end())
	}
	if whole {
		need = j.spans[len(j.spans)-1].rawEnd()
	}
	for i := range j.spans {
		s := &j.spans[i]
		window = max(window, min(s.window, need-s.raw))
	}
	return r.budget.WithBytes(ctx, decoderMemory(window), func(ctx context.Context) error {
		f := newFan(j.spans[0].raw, j.ranges, r.index)
		for i := range j.spans {
			s := &j.spans[i]
			if s.size == 0 {
				continue
			}
			n := min(need-s.raw, s.size)
			if n == s.size {
				if err := s.walk(r.data); err != nil {
					return err
				}
			}
			if _, err := r.streamFrame(ctx, w, s.frame, n, n == s.size, f.write); err != nil {
				return err
			}
		}
		return nil
	})
}

// extractHashed is Extract with a check of the header's hash. It decodes
// everything and computes the hash on another core.
func (r *Reader) extractHashed(ctx context.Context, ranges []Range) error {
	h := NewHasher()
	f := newFan(0, ranges, nil)
	hash := func(b []byte) error {
		_, err := h.Write(b)
		return err
	}
	decode := func(emit func([]byte) error) error {
		return r.stream(ctx, r.h.RawSize, func(b []byte) error {
			if err := f.write(b); err != nil {
				return err
			}
			return emit(b)
		})
	}
	var err error
	if r.h.RawSize >= pumpFrom && r.budget.Cores() > 1 {
		err = pumped(hash, decode)
	} else {
		err = decode(hash)
	}
	if err != nil {
		return err
	}
	return r.checkHash(h.Sum())
}
