package longzstd

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// TestBlocks encodes and decodes random sequences, including those that no parser finds: every repeat
// code with and without preceding literals, every length of literals and matches, few and many sequences.
func TestBlocks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		alphabet := rapid.IntRange(1, 256).Draw(rt, "alphabet")
		repeatsOf := rapid.IntRange(0, 10).Draw(rt, "repeats")
		short := rapid.Bool().Draw(rt, "short")
		var src []byte
		var blocks []*block
		literals := func(n int) {
			for range n {
				// A skewed distribution, so that Huffman codes make the block smaller.
				src = append(src, byte(min(r.IntN(alphabet), r.IntN(alphabet))))
			}
		}
		length := func() int {
			switch r.IntN(8) {
			case 0, 1, 2:
				return 0
			case 3:
				if !short {
					return r.IntN(70_000)
				}
			case 4:
				return r.IntN(300)
			}
			return r.IntN(20)
		}
		reps := repeats{1, 4, 8}
		for range rapid.IntRange(1, 5).Draw(rt, "blocks") {
			b := &block{start: len(src)}
			want := rapid.IntRange(0, 3000).Draw(rt, "sequences")
			for range want {
				s := sequence{litLen: uint32(length()), matchLen: uint32(minMatch + length())}
				if len(src)-b.start+int(s.litLen+s.matchLen) > blockSize {
					continue
				}
				literals(int(s.litLen))
				if len(src) == 0 {
					s.litLen++
					literals(1)
				}
				s.offset = uint32(1 + r.IntN(len(src)))
				if r.IntN(10) < repeatsOf {
					s.offset = [...]uint32{reps[0], reps[1], reps[2], reps[0] - 1}[r.IntN(4)]
				}
				if s.offset == 0 || int(s.offset) > len(src) {
					s.offset = 1
				}
				reps.value(s.offset, s.litLen)
				for range s.matchLen {
					src = append(src, src[len(src)-int(s.offset)])
				}
				b.seqs = append(b.seqs, s)
			}
			if len(src)-b.start > blockSize {
				src = src[:b.start+blockSize] // one literal too many
				if len(b.seqs) > 0 {
					return
				}
			}
			literals(min(length(), blockSize-(len(src)-b.start)))
			b.end = len(src)
			blocks = append(blocks, b)
		}
		blocks[len(blocks)-1].last = true

		w := blockWriter{mostLeaves: maxLeaves}
		w.reset()
		frame := appendFrameHeader(nil, uint64(len(src)))
		for _, b := range blocks {
			frame = w.append(frame, src, b)
		}
		if got := decode(t, frame); !bytes.Equal(got, src) {
			rt.Fatalf("decoded frame: got %d bytes, want the %d bytes that were encoded; first difference at %d", len(got), len(src), firstDifference(got, src))
		}
	})
}

// firstDifference returns the first index at which a and b differ, or the length of the shorter one.
func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestCodes checks the code of the smallest and the largest length of each range in RFC 8878, section
// 3.1.1.3.2.1.1.
func TestCodes(t *testing.T) {
	for _, test := range []struct {
		name  string
		bits  []uint8 // extra bits of each code
		least uint32  // length of the first code
		code  func(uint32) uint8
		most  uint32 // the largest length
	}{
		{"literals", litLenBits[:maxLitCode+1], 0, litLenCode, 1<<17 - 1},
		{"matches", matchLenBits[:maxMatchCode+1], minMatch, func(n uint32) uint8 { return matchLenCode(n - minMatch) }, maxMatch},
	} {
		t.Run(test.name, func(t *testing.T) {
			next := test.least
			for want, bits := range test.bits {
				for _, n := range []uint32{next, next + 1<<bits - 1} {
					if got := test.code(n); int(got) != want {
						t.Errorf("length %d: got code %d, want %d", n, got, want)
					}
				}
				next += 1 << bits
			}
			if got := next - 1; got != test.most {
				t.Errorf("largest length: got %d, want %d", got, test.most)
			}
		})
	}
}

// TestRepeats checks the repeat code of each kind of offset after the offsets 10, 20 and 30.
func TestRepeats(t *testing.T) {
	for _, test := range []struct {
		name                  string
		offset, litLen, value uint32
		after                 repeats
	}{
		{"first after literals", 10, 1, 1, repeats{10, 20, 30}},
		{"second after literals", 20, 1, 2, repeats{20, 10, 30}},
		{"third after literals", 30, 1, 3, repeats{30, 10, 20}},
		{"first less one after literals", 9, 1, 12, repeats{9, 10, 20}},
		{"second without literals", 20, 0, 1, repeats{20, 10, 30}},
		{"third without literals", 30, 0, 2, repeats{30, 10, 20}},
		{"first less one without literals", 9, 0, 3, repeats{9, 10, 20}},
		{"first without literals", 10, 0, 13, repeats{10, 10, 20}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := repeats{10, 20, 30}
			if value := got.value(test.offset, test.litLen); value != test.value {
				t.Errorf("value of offset %d: got %d, want %d", test.offset, value, test.value)
			}
			if got != test.after {
				t.Errorf("repeats: got %v, want %v", got, test.after)
			}
		})
	}
}

// TestRepeatsAny decodes the values of random offsets: a decoder gets the same offsets, and the same
// repeats after each.
func TestRepeatsAny(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w, r := repeats{1, 4, 8}, repeats{1, 4, 8}
		for range rapid.IntRange(1, 50).Draw(rt, "sequences") {
			offset := rapid.Uint32Range(1, 9).Draw(rt, "offset")
			litLen := rapid.Uint32Range(0, 1).Draw(rt, "literals")
			v := w.value(offset, litLen)
			if k := v - 1; v <= 3 {
				// RFC 8878 section 3.1.1.5.
				if litLen == 0 {
					k++
				}
				if k < 3 {
					v = r[k]
				} else {
					v = r[0] - 1
				}
				copy(r[1:min(k, 2)+1], r[:])
			} else {
				v -= 3
				copy(r[1:], r[:])
			}
			r[0] = v
			if v != offset || w != r {
				rt.Fatalf("offset after %d literals: got %d with repeats %v, want %d with %v", litLen, v, r, offset, w)
			}
		}
	})
}
