package longzstd

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// avoiding encodes src with every effort while the mark is m. It checks that m does not occur, and
// that the frame is at most most bytes larger than with another mark. -short has one effort of each
// parser.
func avoiding(t *testing.T, src, m []byte, most int) {
	t.Helper()
	defer func(before []byte) { mark = before }(mark)
	efforts := []effort{fastEffort, tinySmallEffort, smallEffort, tinyFastEffort}
	if testing.Short() {
		efforts = efforts[:2]
	}
	for _, e := range efforts {
		var sizes [2]int
		for i, avoided := range [][]byte{nil, m} {
			// First, a mark that is longer than the frame, so that it cannot occur.
			if mark = avoided; mark == nil {
				mark = make([]byte, 2*len(src)+1<<10)
			}
			frame := encodeAll(t, src, e)
			if avoided != nil && bytes.Contains(frame[5:], m) {
				t.Errorf("got % x at byte %d of %d, want it nowhere", m, bytes.Index(frame[5:], m)+5, len(frame))
			}
			if !bytes.Equal(decode(t, frame), src) {
				t.Fatal("got other bytes than those of the source")
			}
			sizes[i] = len(frame)
		}
		if sizes[1] > sizes[0]+most {
			t.Errorf("got a frame of %d bytes, want at most %d more than the %d with another mark", sizes[1], most, sizes[0])
		}
	}
}

// TestMark encodes sources that contain the magic of a compressed bundle.
func TestMark(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	ccob := []byte("CCOB")
	size := 300_000
	if testing.Short() {
		size = blockSize + 20_000
	}
	for _, at := range []int{0, 1, 2, 3, 100, blockSize - 5, blockSize - 4, blockSize - 3, blockSize - 2, blockSize - 1, blockSize, size - 10_000} {
		for _, kind := range []string{"noise", "code", "prose"} {
			t.Run(fmt.Sprint(kind, "/", at), func(t *testing.T) {
				src := map[string]func(*rand.Rand, int) []byte{"noise": noise, "code": code, "prose": prose}[kind](r, size)
				copy(src[at:], ccob)
				avoiding(t, src, ccob, 2500)
			})
		}
	}
	for name, src := range map[string][]byte{
		"nothing else":  ccob,
		"twice":         []byte("CCOBCCOB"),
		"overlapping":   []byte("CCCOBCCOCCOBB"),
		"after a few":   []byte("a few CCOB"),
		"at the end":    append(noise(r, 70_000), ccob...),
		"again, zeros":  bytes.Repeat([]byte("CCOB\x00\x00\x00\x00\x00"), 1000),
		"a file of it":  bytes.Repeat(ccob, 1000),
		"between noise": slices.Concat(noise(r, 50), ccob, noise(r, 50), ccob, noise(r, 10)),
	} {
		t.Run(name, func(t *testing.T) { avoiding(t, src, ccob, 600) })
	}
	often := noise(r, 400_000)
	for i := 0; i < len(often)-4; i += 40 + i%50 {
		copy(often[i:], ccob)
	}
	t.Run("often", func(t *testing.T) { avoiding(t, often, ccob, len(often)/4) })
}

// TestMarkInCoded takes four bytes of a frame as the mark, from tables, streams of bits, literals or
// headers.
func TestMarkInCoded(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for name, src := range map[string][]byte{
		"code":   code(r, 300_000),
		"bundle": bundle(r, 5, 100_000, 4096),
		"prose":  prose(r, 200_000),
		"small":  code(r, 2000),
	} {
		t.Run(name, func(t *testing.T) {
			frame, err := Encode(context.Background(), nil, src, Fast)
			if err != nil {
				t.Fatal(err)
			}
			marks := 60
			if testing.Short() {
				marks = 15
			}
			for range marks {
				at := 16 + r.IntN(len(frame)-20)
				m := bytes.Clone(frame[at : at+4])
				// Sizes of blocks have bytes such as these, which no coding avoids.
				if slices.Min(m) < 2 || m[0]&6 == 0 || m[1]&6 == 0 || m[2]&6 == 0 || m[3]&6 == 0 {
					continue
				}
				avoiding(t, src, m, 2500)
			}
		})
	}
}

// TestMarkAcrossWrites checks that no mark crosses the pieces in which EncodeTo writes.
func TestMarkAcrossWrites(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	src := noise(r, 3<<20)
	for i := 0; i < len(src)-4; i += 1000 {
		copy(src[i:], "CCOB")
	}
	for _, cores := range []int{1, 2} {
		var buf bytes.Buffer
		if _, err := EncodeTo(context.Background(), &buf, src, Options{Cores: cores}); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(buf.Bytes(), []byte("CCOB")) {
			t.Errorf("%d cores: got the mark at byte %d, want it nowhere", cores, bytes.Index(buf.Bytes(), []byte("CCOB")))
		}
		if want, _ := Encode(context.Background(), nil, src, Fast); !bytes.Equal(buf.Bytes(), want) {
			t.Errorf("%d cores: got other bytes than from Encode", cores)
		}
		if !bytes.Equal(decode(t, buf.Bytes()), src) {
			t.Errorf("%d cores: got other bytes than those of the source", cores)
		}
	}
}

// TestMarkInFrameHeader checks that a frame omits a size that forms the mark.
func TestMarkInFrameHeader(t *testing.T) {
	for _, size := range []uint64{0x424F4343, 0x424F4343 << 8, 0x01424F4343} {
		if got := fmt.Sprintf("%x", appendFrameHeader(nil, size)); got != "28b52ffd00a8" {
			t.Errorf("%#x bytes: got %s, want 28b52ffd00a8", size, got)
		}
	}
}
