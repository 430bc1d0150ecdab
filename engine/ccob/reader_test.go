package ccob

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

var cores = budget.New(4, 1<<30)

// readAll reads data in every way and compares with raw.
func readAll(t testing.TB, data, raw []byte, o Options) {
	t.Helper()
	ctx := context.Background()
	r, err := Open(data, o)
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.Decode(ctx)
	if err != nil {
		t.Fatal("Decode:", err)
	}
	if !bytes.Equal(all.Bytes(), raw) {
		t.Fatal("Decode gives other bytes")
	}
	all.Release()
	for _, n := range []int{0, 1, 100, len(raw) / 2, len(raw), len(raw) + 1} {
		b, err := r.Prefix(ctx, int64(n))
		if err != nil {
			t.Fatal("Prefix:", err)
		}
		if least := min(n, len(raw)); r.index == nil && len(b) < least || r.index != nil && len(b) < min(least, int(r.index.head())) || !bytes.HasPrefix(raw, b) {
			t.Fatalf("Prefix of %d gives %d other bytes", n, len(b))
		}
	}
	rnd := rand.New(rand.NewPCG(1, uint64(len(raw))))
	for range 8 {
		bufs := make([]bytes.Buffer, 5)
		ranges := make([]Range, len(bufs))
		for i := range ranges {
			off := rnd.Int64N(int64(len(raw)) + 1)
			ranges[i] = Range{off, rnd.Int64N(int64(len(raw)) - off + 1), &bufs[i]}
			if i == 0 {
				ranges[i].Offset, ranges[i].Size = int64(len(raw)/2), int64(len(raw)-len(raw)/2)
			}
			if r.index != nil {
				p := r.index.pieces[rnd.IntN(len(r.index.pieces))]
				ranges[i].Offset, ranges[i].Size = p.off, p.size
			}
		}
		if err := r.Extract(ctx, ranges); err != nil {
			t.Fatal("Extract:", err)
		}
		for i, g := range ranges {
			if !bytes.Equal(bufs[i].Bytes(), raw[g.Offset:g.end()]) {
				t.Fatalf("Extract of %d at %d gives %d other bytes", g.Size, g.Offset, bufs[i].Len())
			}
		}
	}
}

func TestForeign(t *testing.T) {
	for _, size := range []int{1, 1000, 60_000} {
		_, raw := sample(4096, size, processors...)
		for name, data := range forms(t, raw) {
			t.Run(name, func(t *testing.T) {
				for _, o := range []Options{{}, {Hash: HashFull, Budget: cores}, {Hash: HashNone}, {Lenient: true}, {Budget: cores}} {
					readAll(t, data, raw, o)
				}
				// What follows a bundle belongs to somebody else.
				readAll(t, append(bytes.Clone(data), "CCOB and so on"...), raw, Options{})
			})
		}
	}
}

func TestRoundTrip(t *testing.T) {
	for _, size := range []int{0, 1000, 40_000} {
		for _, align := range []int64{1, 4096} {
			pieces, raw := sample(align, size, processors...)
			for _, how := range []Frames{FramesAuto, FramesEntry, FramesOne} {
				for _, v := range []int{2, 3} {
					data := encode(t, pieces, EncodeOptions{Version: v, Frames: how})
					if again := encode(t, pieces, EncodeOptions{Version: v, Frames: how, Budget: cores}); !bytes.Equal(data, again) {
						t.Error("the number of cores changes the bytes")
					}
					for _, o := range []Options{{}, {Hash: HashFull, Budget: cores}, {Lenient: true}, {Budget: cores}} {
						readAll(t, data, raw, o)
					}
				}
			}
		}
	}
}

func TestRoundTripLarge(t *testing.T) {
	// Large enough to be cut, for mapped memory and for whole frames in buffers.
	pieces, raw := sample(4096, autoLeast, processors...)
	data := encode(t, pieces, EncodeOptions{Budget: cores})
	r, err := Open(data, Options{Budget: cores})
	if err != nil {
		t.Fatal(err)
	}
	spans, _, err := r.spans(r.RawSize())
	if err != nil || len(spans) != 4 || r.index == nil {
		t.Errorf("%d frames, want the header and 3 families (index: %v, %v)", len(spans), r.index != nil, err)
	}
	readAll(t, data, raw, Options{Budget: cores})
}

func TestPropertyRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ids []string
		var contents [][]byte
		for range rapid.IntRange(0, 6).Draw(t, "entries") {
			p := rapid.SampledFrom([]string{"gfx803", "gfx90a", "gfx1030", "gfx11-generic", "sm_70", ""}).Draw(t, "processor")
			ids = append(ids, "hip-amdgcn-amd-amdhsa--"+p)
			contents = append(contents, code(1, uint64(len(ids)), rapid.IntRange(0, 5000).Draw(t, "size")))
		}
		pieces, raw := plain(rapid.Int64Range(1, 5000).Draw(t, "align"), ids, contents)
		how := rapid.SampledFrom([]Frames{FramesAuto, FramesEntry, FramesOne}).Draw(t, "frames")
		var b content.Buffer
		if _, err := Encode(context.Background(), &b, pieces, EncodeOptions{Frames: how, Budget: cores}); err != nil {
			t.Fatal(err)
		}
		r, err := Open(b.Bytes(), Options{Budget: cores})
		if err != nil {
			t.Fatal(err)
		}
		all, err := r.Decode(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer all.Release()
		if !bytes.Equal(all.Bytes(), raw) {
			t.Fatal("other bytes")
		}
		ranges := make([]Range, len(pieces))
		out := make([]bytes.Buffer, len(pieces))
		for i, p := range pieces {
			ranges[i] = Range{p.Offset, p.Content.Len(), &out[i]}
		}
		if err := r.Extract(context.Background(), ranges); err != nil {
			t.Fatal(err)
		}
		for i, p := range pieces {
			if !bytes.Equal(out[i].Bytes(), p.Content.Mapped(guard.Inside)) {
				t.Fatalf("piece %d differs", i)
			}
		}
	})
}

func TestFaults(t *testing.T) {
	_, raw := sample(4096, 100_000, processors...)
	le := binary.LittleEndian
	good := container(3, Zstd, zst(t, raw), raw)
	edit := func(f func(b []byte)) []byte {
		b := bytes.Clone(good)
		f(b)
		return b
	}
	half := len(raw) / 2
	two := append(zst(t, raw[:half]), zst(t, raw[half:])...)
	for _, tt := range []struct {
		name, want string
		fault      Fault // -1: no *Error
		data       []byte
		lenient    bool // reads it
	}{
		{"empty", "not a compressed bundle", -1, nil, false},
		{"short", "not a compressed bundle", -1, good[:7], false},
		{"header", "byte 0x0: the header of a compressed bundle of version 3 has 32 bytes, found only 31", HeaderCut, good[:31], false},
		{"version 0", "byte 0x4: version 0", Other, edit(func(b []byte) { b[4] = 0 }), false},
		{"version 4", "byte 0x4: version 4", Other, edit(func(b []byte) { b[4] = 4 }), false},
		{"method", "byte 0x6: unknown compression method 2", UnknownMethod, edit(func(b []byte) { b[6] = 2 }), false},
		{"zlib of zstd", "zlib data: ", ZlibCorrupt, edit(func(b []byte) { b[6] = 0 }), false},
		{"cut", "was it cut short?", Other, good[:len(good)-10], false},
		{"file size 31", "byte 0x8: file size 31 is less", Other, edit(func(b []byte) { le.PutUint64(b[8:], 31) }), true},
		{"file size too large", "byte 0x8: the compressed bundle has 18446744073709551615 bytes", Other, edit(func(b []byte) { le.PutUint64(b[8:], 1<<64-1) }), true},
		{"file size too small", "the zstd frame at byte 0x20 continues", ZstdCut, edit(func(b []byte) { le.PutUint64(b[8:], uint64(len(good)-50)) }), true},
		{"raw size 2^40", "byte 0x10: raw size 1099511627776: ", Other, edit(func(b []byte) { le.PutUint64(b[16:], 1<<40) }), true},
		{"raw size too large", "the header states", Other, edit(func(b []byte) { le.PutUint64(b[16:], uint64(len(raw)+1)) }), true},
		{"raw size too small", "decompresses to more than the", ZstdTooLong, edit(func(b []byte) { le.PutUint64(b[16:], uint64(len(raw)-1)) }), false},
		{"hash", "the data is damaged", Other, edit(func(b []byte) { b[24]++ }), true},
		{"frame magic", "byte 0x20: found 29 b5 2f fd, expected a zstd frame", ZstdNoFrame, edit(func(b []byte) { b[32]++ }), false},
		{"reserved bit", "byte 0x20: zstd frame: reserved", ZstdParameter, edit(func(b []byte) { b[36] |= 8 }), false},
		{"trailing zeros", "found 00 00 00 00, expected a zstd frame", ZstdNoFrame, container(3, Zstd, append(zst(t, raw), 0, 0, 0, 0), raw), false},
		{"trailing byte", "is cut off after 1 bytes", ZstdCut, container(3, Zstd, append(zst(t, raw), 0), raw), false},
		{"frame missing", "the data decompresses to", Other, container(3, Zstd, two, append(bytes.Clone(raw), raw...)), true},
		{"no frame", "the data decompresses to 0 bytes", Other, container(3, Zstd, skippable(100), raw), true},
		{"skippable", "skippable zstd frame of 100 bytes, found only 90", ZstdCut, container(3, Zstd, append(zst(t, raw), skippable(100)[:98]...), raw), false},
		{"no size, too long", "decompresses to more than the", ZstdTooLong, container(3, Zstd, stream(t, raw), raw[1:]), false},
		{"no size, too short", "the data decompresses to", Other, container(3, Zstd, stream(t, raw[1:]), raw), true},
		{"zlib too long", "decompresses to more than the", ZlibTooLong, container(3, Zlib, deflate(t, raw), raw[1:]), false},
		{"zlib too short", "the data decompresses to", Other, container(3, Zlib, deflate(t, raw[1:]), raw), true},
		{"zlib cut", "zlib data: unexpected EOF", ZlibCorrupt, container(3, Zlib, deflate(t, raw)[:1000], raw), false},
		{"checksum", "zstd frame: ", ZstdChecksum, func() []byte {
			b := container(3, Zstd, stream(t, raw), raw)
			b[len(b)-1]++
			return b
		}(), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, o := range []Options{{}, {Hash: HashFull}} {
				err := decodeErr(tt.data, o)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("got %v, want %q", err, tt.want)
				}
				var e *Error
				if errors.As(err, &e) && e.Fault != tt.fault {
					t.Errorf("fault %d, want %d", e.Fault, tt.fault)
				} else if e == nil && (tt.fault != -1 || !errors.Is(err, ErrMagic)) {
					t.Errorf("%T is no *Error", err)
				}
			}
			if err := decodeErr(tt.data, Options{Lenient: true}); (err == nil) != tt.lenient {
				t.Errorf("lenient: %v", err)
			}
		})
	}
}

// decodeErr opens and decodes.
func decodeErr(data []byte, o Options) error {
	r, err := Open(data, o)
	if err != nil {
		return err
	}
	if o.Hash == HashFull {
		return r.Extract(context.Background(), nil)
	}
	raw, err := r.Decode(context.Background())
	if err == nil {
		raw.Release()
	}
	return err
}

func TestStats(t *testing.T) {
	pieces, raw := sample(4096, 1000, processors...)
	var b content.Buffer
	for _, version := range []int{2, 3} {
		b = content.Buffer{}
		want, err := Encode(context.Background(), &b, pieces, EncodeOptions{Version: version, Frames: FramesEntry})
		if err != nil {
			t.Fatal(err)
		}
		if want.Frames != 1+len(processors) || want.RawSize != int64(len(raw)) {
			t.Errorf("%+v", want)
		}
		want.Frames = 0
		r, err := Open(append(b.Bytes(), "more"...), Options{})
		if err != nil {
			t.Fatal(err)
		}
		h := r.Header()
		got := Stats{
			Version: h.Version, Method: h.Method, Hash: h.Hash, RawSize: h.RawSize, Indexed: r.index != nil,
			FileSize: h.End, DataSize: h.End - h.DataOffset,
		}
		if got != want {
			t.Errorf("read %+v, written %+v", got, want)
		}
		if h, err := Parse(b.Bytes()); err != nil || *h != r.Header() {
			t.Errorf("%+v, %v", h, err)
		}
	}
}

func TestMaxSize(t *testing.T) {
	_, raw := sample(1, 1000, processors...)
	data := container(3, Zstd, zst(t, raw), raw)
	if _, err := Open(data, Options{MaxSize: int64(len(raw))}); err != nil {
		t.Error(err)
	}
	if _, err := Open(data, Options{MaxSize: int64(len(raw) - 1)}); err == nil || !strings.Contains(err.Error(), "over the limit") {
		t.Error(err)
	}
}

func TestRangeOutside(t *testing.T) {
	_, raw := sample(1, 1000, processors...)
	data := container(3, Zstd, zst(t, raw), raw)
	for _, g := range []Range{{-1, 1, nil}, {0, -1, nil}, {0, int64(len(raw)) + 1, nil}, {1 << 62, 1 << 62, nil}, {int64(len(raw)), 1, nil}} {
		r, err := Open(data, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Extract(context.Background(), []Range{g}); err == nil {
			t.Errorf("range %v is taken", g)
		}
	}
	// A raw size that is larger than the content.
	binary.LittleEndian.PutUint64(data[16:], uint64(len(raw)+100))
	r, err := Open(data, Options{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Extract(context.Background(), []Range{{int64(len(raw)), 1, io.Discard}}); err == nil {
		t.Error("a range behind the end is taken")
	}
}

func TestPrefixStopsEarly(t *testing.T) {
	// Damage after the first block, and in frames of other entries, does not
	// affect a listing.
	_, raw := sample(4096, 400_000, processors...)
	data := container(3, Zstd, zst(t, raw), raw)
	f, err := frameAt(data, headerSize(3))
	if err != nil {
		t.Fatal(err)
	}
	for pos := f.blocks; pos < int64(len(data)); {
		size := int64(data[pos])>>3 | int64(data[pos+1])<<5 | int64(data[pos+2])<<13
		for i := pos + 3; i < pos+3+size; i++ {
			if i > int64(len(data)/2) {
				data[i] = 0xff
			}
		}
		pos += 3 + size
	}
	r, err := Open(data, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Prefix(context.Background(), 4096)
	if err != nil || !bytes.HasPrefix(raw, b) {
		t.Error("Prefix reads too far:", err)
	}
	var out bytes.Buffer
	if err := r.Extract(context.Background(), []Range{{100, 300_000, &out}}); err != nil || !bytes.Equal(out.Bytes(), raw[100:300_100]) {
		t.Error("Extract reads too far:", err)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	pieces, raw := sample(4096, 400_000, processors...)
	for _, data := range [][]byte{container(3, Zstd, stream(t, raw), raw), container(3, Zlib, deflate(t, raw), raw), encode(t, pieces, EncodeOptions{Frames: FramesEntry})} {
		r, err := Open(data, Options{Budget: cores})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Decode(ctx); !errors.Is(err, context.Canceled) {
			t.Error("Decode:", err)
		}
		if err := r.Extract(ctx, []Range{{0, r.RawSize(), io.Discard}}); !errors.Is(err, context.Canceled) {
			t.Error("Extract:", err)
		}
	}
	if _, err := Encode(ctx, &content.Buffer{}, pieces, EncodeOptions{}); !errors.Is(err, context.Canceled) {
		t.Error("Encode:", err)
	}
}

// A prefix of a bundle that has fewer bytes than its header states ends where they end.
func TestShortPrefix(t *testing.T) {
	raw := bytes.Repeat([]byte("some device code "), 50)
	var out content.Buffer
	if _, err := Encode(t.Context(), &out, []content.Part{{Content: content.Memory(raw)}}, EncodeOptions{Frames: FramesOne}); err != nil {
		t.Fatal(err)
	}
	data := out.Bytes()
	binary.LittleEndian.PutUint64(data[16:], uint64(len(raw)+500))
	r, err := Open(data, Options{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, n := range []int64{10, int64(len(raw)), int64(len(raw)) + 300} {
			prefix, err := r.Prefix(t.Context(), n)
			if err != nil || !bytes.Equal(prefix, raw[:min(n, int64(len(raw)))]) {
				t.Errorf("prefix of %d: %d bytes, %v", n, len(prefix), err)
			}
		}
	}
}

// One of many small bundles of LLVM is decoded as far as is required. Its hash is
// compared if this includes the last block.
func TestGradual(t *testing.T) {
	const blocks = 6
	_, raw := sample(4096, 140<<10, processors...)
	if len(raw) < (blocks-1)*maxBlock || len(raw) > wholeMost {
		t.Fatalf("a sample of %d bytes", len(raw))
	}
	var batch Batch
	many := Options{Hash: HashProof, Batch: &batch}
	extract := func(r *Reader, off, n int) ([]byte, error) {
		var out bytes.Buffer
		err := r.Extract(t.Context(), []Range{{Offset: int64(off), Size: int64(n), W: &out}})
		return out.Bytes(), err
	}
	whole := zst(t, raw, zstd.WithSingleSegment(true))
	good := container(2, Zstd, whole, raw)

	t.Run("any order", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			r, err := Open(good, many)
			if err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(1, 4).Draw(t, "reads") {
				off := rapid.IntRange(0, len(raw)).Draw(t, "offset")
				n := rapid.IntRange(0, len(raw)-off).Draw(t, "size")
				if rapid.Bool().Draw(t, "prefix") {
					if b, err := r.Prefix(context.Background(), int64(n)); err != nil || !bytes.Equal(b, raw[:n]) {
						t.Fatalf("prefix of %d bytes: %d bytes, error %v", n, len(b), err)
					}
				} else if b, err := extract(r, off, n); err != nil || !bytes.Equal(b, raw[off:off+n]) {
					t.Fatalf("%d bytes from %d on: %d bytes, error %v", n, off, len(b), err)
				}
			}
			batch.Next()
		})
	})

	badHash := func(b []byte) []byte {
		const hash = 16 // in the header of version 2
		b = bytes.Clone(b)
		b[hash]++
		return b
	}
	// sized states n more bytes of content than there are.
	sized := func(n int) []byte {
		const rawSize, frameSize = 12, 24 + 5
		b := bytes.Clone(good)
		binary.LittleEndian.PutUint32(b[rawSize:], uint32(len(raw)+n))
		binary.LittleEndian.PutUint32(b[frameSize:], uint32(len(raw)+n))
		return b
	}
	small := raw[:maxBlock]
	for _, test := range []struct {
		name string
		data []byte
		end  int // of what is read, from 100 bytes before it on
		err  string
	}{
		{"first blocks", badHash(good), 2 * maxBlock, ""},
		{"last block", badHash(good), len(raw) - 1, "the hash of the uncompressed bundle is"},
		{"end", badHash(good), len(raw), "the hash of the uncompressed bundle is"},
		{"single block", badHash(container(2, Zstd, zst(t, small, zstd.WithSingleSegment(true)), small)), 1000, "the hash of the uncompressed bundle is"},
		{"checksum", badHash(container(2, Zstd, zst(t, raw, zstd.WithEncoderCRC(true)), raw)), len(raw), ""},
		{"too long", sized(-1), len(raw) - 1, "zstd frame: frame size exceeded"},
		{"too short", sized(1), len(raw) + 1, "zstd frame: frame size does not match size on stream"},
		{"too short, first blocks", sized(1), 2 * maxBlock, ""},
		{"cut", good[:len(good)-1], 1000, "0x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := Open(test.data, many)
			if err == nil {
				if _, err = r.Prefix(t.Context(), 1000); err == nil {
					_, err = extract(r, test.end-100, 100)
				}
				batch.Next()
			}
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

// A batch compares the hashes of more bundles than its memory holds, and of several in one file.
func TestBatch(t *testing.T) {
	_, raw := sample(4096, 60<<10, processors...)
	if len(raw) < 2*maxBlock || len(raw) > wholeMost {
		t.Fatalf("got a sample of %d bytes, want several blocks", len(raw))
	}
	good := container(2, Zstd, zst(t, raw, zstd.WithSingleSegment(true)), raw)
	damaged := bytes.Clone(good)
	damaged[16]++ // the hash
	files, each := 5*batchMost/(2*len(raw)), 2
	if batchMemory/len(raw) < 2*each {
		t.Fatalf("got a sample of %d bytes, want memory for several files", len(raw))
	}
	for _, test := range []struct {
		name  string
		end   int // of the bytes to extract
		fails bool
	}{
		{"first block", 1000, false},
		{"last block", len(raw), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			var batch Batch
			var failed []string
			for i := range files {
				for k := range each {
					data := good
					if i%3 == 0 && k == 1 {
						data = damaged
					}
					r, err := Open(data, Options{Hash: HashProof, Batch: &batch})
					if err != nil {
						t.Fatal(err)
					}
					var out bytes.Buffer
					ranges := []Range{{Offset: 100, Size: int64(test.end - 100), W: &out}}
					if err := r.ExtractUnchecked(t.Context(), ranges, func(err error) { failed = append(failed, fmt.Sprintf("%d.%d %v", i, k, err)) }); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(out.Bytes(), raw[100:test.end]) {
						t.Fatalf("bundle %d of file %d: got other bytes", k, i)
					}
				}
				batch.Next()
			}
			if (len(failed) > 0) != test.fails {
				t.Errorf("got %d errors before the end, want some: %t", len(failed), test.fails)
			}
			batch.Close()
			var want []string
			for i := 0; test.fails && i < files; i += 3 {
				want = append(want, fmt.Sprintf("%d.1 ", i))
			}
			if len(failed) != len(want) {
				t.Fatalf("got %d errors, want %d", len(failed), len(want))
			}
			for i, got := range failed {
				if !strings.HasPrefix(got, want[i]) || !strings.Contains(got, "the hash of the uncompressed bundle is") {
					t.Errorf("got %q, want the error of the hash of bundle %s", got, want[i])
				}
			}
			batch.Close() // again
		})
	}
}
