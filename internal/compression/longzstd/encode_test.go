package longzstd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

func decode(t testing.TB, frame []byte) []byte {
	t.Helper()
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<30))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	out, err := d.DecodeAll(frame, nil)
	if err != nil {
		t.Fatalf("decoding a frame of %d bytes: got error %v", len(frame), err)
	}
	return out
}

// check encodes src at every level, on one core and on two, and decodes the frames.
func check(t testing.TB, src []byte) {
	t.Helper()
	for _, level := range []Level{Fast, Small} {
		frame, err := Encode(context.Background(), nil, src, level)
		if err != nil {
			t.Fatal(err)
		}
		if most := len(src) + 18 + 3*(len(src)/blockSize+1); len(frame) > most {
			t.Errorf("level %d, %d bytes: got a frame of %d, want at most %d", level, len(src), len(frame), most)
		}
		if got := decode(t, frame); !bytes.Equal(got, src) {
			t.Fatalf("level %d: got %d bytes, want the %d bytes of the source", level, len(got), len(src))
		}
		var buf bytes.Buffer
		n, err := EncodeTo(context.Background(), &buf, src, Options{Level: level, Cores: 2})
		if err != nil || n != int64(buf.Len()) {
			t.Fatalf("level %d: EncodeTo: got size %d and error %v, want %d and no error", level, n, err, buf.Len())
		}
		if !bytes.Equal(buf.Bytes(), frame) {
			t.Errorf("level %d: got other bytes on two cores than on one", level)
		}
	}
	if testing.Short() && len(src) >= pipelineSize {
		return
	}
	// The efforts of large sources, which also parse text.
	for i, e := range []effort{fastEffort, smallEffort} {
		if got := decode(t, encodeAll(t, src, e)); !bytes.Equal(got, src) {
			t.Fatalf("effort %d: got %d bytes, want the %d bytes of the source", i, len(got), len(src))
		}
	}
}

// encodeAll encodes src with an effort, on one core.
func encodeAll(t testing.TB, src []byte, e effort) (frame []byte) {
	t.Helper()
	err := encode(context.Background(), src, e, Options{}, func(w *blockWriter, b *block) error {
		if b == nil {
			frame = appendFrameHeader(nil, uint64(len(src)))
		} else {
			frame = w.append(frame, src, b)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

func TestEncode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	some := noise(r, 3<<20)
	period := func(p, n int) []byte { return bytes.Repeat(some[:p], n/p+1)[:n] }
	for name, src := range map[string][]byte{
		"nothing":            {},
		"noise":              some,
		"prose":              prose(r, 700_000),
		"code":               code(r, 900_000),
		"bundle":             bundle(r, 7, 400_000, 4096),
		"bundle, no padding": bundle(r, 5, 100_001, 1),
		"zeros":              make([]byte, 1<<20),
		"zeros, then noise":  append(make([]byte, 300_000), some[:300_000]...),
		"noise, then zeros":  append(some[:200_001:200_001], make([]byte, 400_000)...),
		"noise twice":        append(some[:1<<20:1<<20], some[:1<<20]...),
		"noise often":        period(1<<18, 3<<20),
		"period 1 over 2":    period(2, 500_000),
		"period 3":           period(3, 500_000),
		"period 7":           period(7, 500_000),
		"period 255":         period(255, 500_000),
		"period 131073":      period(131073, 700_000),
	} {
		if testing.Short() {
			src = src[:min(len(src), 2*pipelineSize)]
		}
		t.Run(name, func(t *testing.T) { check(t, src) })
	}
}

// TestEncodeSizes encodes sizes at which headers change form, and sizes around the ends of blocks.
func TestEncodeSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	sources := map[string][]byte{"zeros": make([]byte, 1<<19), "noise": noise(r, 1<<19), "bundle": bundle(r, 9, 50_000, 8)}
	var sizes []int
	for n := range 80 {
		sizes = append(sizes, n)
	}
	for _, n := range []int{255, 1023, 1 << 12, 1 << 14, 1<<16 + 255, blockSize, 2 * blockSize, 3 * blockSize} {
		from, to := -2, 3
		if testing.Short() && n > 1<<16 {
			from, to = 0, 1
		}
		for d := from; d <= to; d++ {
			sizes = append(sizes, n+d)
		}
	}
	for name, src := range sources {
		for _, n := range sizes {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) { check(t, src[:n]) })
		}
	}
}

// TestEncodeAny encodes sources of random pieces: noise, text, code, runs, and changed copies of earlier bytes.
func TestEncodeAny(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		var src []byte
		for range rapid.IntRange(1, 12).Draw(rt, "pieces") {
			n := rapid.OneOf(rapid.IntRange(0, 70), rapid.IntRange(0, 5000), rapid.IntRange(0, 200_000)).Draw(rt, "size")
			switch rapid.IntRange(0, 5).Draw(rt, "kind") {
			case 0:
				src = append(src, noise(r, n)...)
			case 1:
				src = append(src, prose(r, n)...)
			case 2:
				src = append(src, code(r, n)...)
			case 3:
				src = append(src, bytes.Repeat([]byte{byte(n)}, n)...)
			default: // repeat a part, unchanged or changed
				if len(src) > 0 {
					at := r.IntN(len(src))
					again := src[at:min(at+n, len(src))]
					if n%2 == 0 {
						again = edit(r, again, 1+r.IntN(200))
					}
					src = append(src, again...)
				}
			}
		}
		check(t, src)
	})
}

func TestEncodeAppends(t *testing.T) {
	src := []byte("some content, some content")
	got, err := Encode(context.Background(), []byte("before"), src, Fast)
	if err != nil {
		t.Fatal(err)
	}
	rest, ok := bytes.CutPrefix(got, []byte("before"))
	if !ok || !bytes.Equal(decode(t, rest), src) {
		t.Errorf("got %q, want %q and a frame of %q", got, "before", src)
	}
}

func TestEncodeCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("no reader")
	cancel(cause)
	src := make([]byte, 1<<22)
	if _, err := Encode(ctx, nil, src, Fast); !errors.Is(err, cause) {
		t.Errorf("Encode: got error %v, want %v", err, cause)
	}
	if _, err := EncodeTo(ctx, io.Discard, src, Options{Level: Fast, Cores: 2}); !errors.Is(err, cause) {
		t.Errorf("EncodeTo: got error %v, want %v", err, cause)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

func TestEncodeToFailingWriter(t *testing.T) {
	full := errors.New("disk full")
	src := noise(rand.New(rand.NewPCG(5, 6)), 8<<20)
	for _, cores := range []int{1, 2} {
		if _, err := EncodeTo(context.Background(), failingWriter{full}, src, Options{Level: Fast, Cores: cores}); !errors.Is(err, full) {
			t.Errorf("%d cores: got error %v, want %v", cores, err, full)
		}
	}
}

// TestWindow checks that no match reaches past the window, and that the window is used.
func TestWindow(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	src := bundle(r, 8, 40_000, 4096)
	for _, e := range []effort{fastEffort, tinySmallEffort} {
		for _, window := range []int{100, 4000, 41_000} {
			p := newParser(src, e)
			p.window = window
			far := uint32(0)
			for b := new(block); p.next(b); {
				for _, s := range b.seqs {
					far = max(far, s.offset)
				}
			}
			p.release()
			if int(far) > window || int(far) < window/2 {
				t.Errorf("window %d: got a farthest offset of %d, want %d to %d", window, far, window/2, window)
			}
		}
	}
}

// TestEncodeAgain checks that tables in use again do not change the bytes.
func TestEncodeAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	src, other := bundle(r, 5, 80_000, 4096), bundle(r, 5, 700_000, 4096)
	for _, level := range []Level{Fast, Small} {
		first, _ := Encode(context.Background(), nil, src, level)
		for _, s := range [][]byte{other, src[1:], other[:1000], src} {
			again, err := Encode(context.Background(), nil, s, level)
			if err != nil {
				t.Fatal(err)
			}
			if len(s) == len(src) && !bytes.Equal(again, first) {
				t.Errorf("level %d: got other bytes the second time", level)
			}
		}
	}
}

func TestFromNumber(t *testing.T) {
	for n, want := range map[int]Level{-7: Fast, 0: Fast, 1: Fast, 3: Fast, 6: Fast, 7: Small, 9: Small, 19: Small, 22: Small} {
		if got := FromNumber(n); got != want {
			t.Errorf("FromNumber(%d): got %d, want %d", n, got, want)
		}
	}
}

func TestFrameHeader(t *testing.T) {
	for _, c := range []struct {
		size uint64
		want string
	}{
		{0, "28b52ffd2000"},
		{255, "28b52ffd20ff"},
		{256, "28b52ffd600000"},
		{65791, "28b52ffd60ffff"},
		{65792, "28b52ffda000010100"},
		{maxWindow, "28b52ffda00000f07f"},
		{maxWindow + 1, "28b52ffd80a80100f07f"},
		{1<<32 - 1, "28b52ffd80a8ffffffff"},
		{1 << 32, "28b52ffdc0a80000000001000000"},
	} {
		if got := fmt.Sprintf("%x", appendFrameHeader(nil, c.size)); got != c.want {
			t.Errorf("%d bytes: got %s, want %s", c.size, got, c.want)
		}
	}
}

func FuzzEncode(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 10))
	f.Add([]byte{}, uint32(0))
	f.Add(prose(r, 300), uint32(900))
	f.Add(code(r, 200), uint32(140_000))
	f.Fuzz(func(t *testing.T, seed []byte, size uint32) {
		// The source repeats the seed with small changes, up to size.
		src := seed
		size %= 400_000
		for i := 0; len(seed) > 0 && len(src) < int(size); i++ {
			src = append(src, seed...)
			src[len(src)-1-i%len(seed)] ^= byte(i)
		}
		check(t, src)
	})
}
