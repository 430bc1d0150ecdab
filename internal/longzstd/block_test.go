package longzstd

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// All sequences can be decoded, not only those of a parser: every repeat code, with and without
// preceding literals, every size of literal run and match, few and many of them.
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
				// Skewed, so that Huffman codes pay.
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
			rt.Fatalf("%d bytes in, %d other bytes out", len(src), len(got))
		}
	})
}

func TestCodes(t *testing.T) {
	next := uint32(0)
	for code, bits := range litLenBits[:maxLitCode+1] {
		for _, n := range []uint32{next, next + 1<<bits - 1} {
			if got := litLenCode(n); int(got) != code {
				t.Errorf("literal length %d: code %d, want %d", n, got, code)
			}
		}
		next += 1 << bits
	}
	next = 0
	for code, bits := range matchLenBits[:maxMatchCode+1] {
		for _, n := range []uint32{next, next + 1<<bits - 1} {
			if got := matchLenCode(n); int(got) != code {
				t.Errorf("match length %d: code %d, want %d", n+minMatch, got, code)
			}
		}
		next += 1 << bits
	}
	if next-1+minMatch != maxMatch {
		t.Errorf("longest match %d, want %d", next-1+minMatch, maxMatch)
	}
}

func TestRepeats(t *testing.T) {
	for _, c := range []struct {
		offset, litLen, value uint32
		after                 repeats
	}{
		{10, 1, 1, repeats{10, 20, 30}},
		{20, 1, 2, repeats{20, 10, 30}},
		{30, 1, 3, repeats{30, 10, 20}},
		{9, 1, 12, repeats{9, 10, 20}},
		{20, 0, 1, repeats{20, 10, 30}},
		{30, 0, 2, repeats{30, 10, 20}},
		{9, 0, 3, repeats{9, 10, 20}},
		{10, 0, 13, repeats{10, 10, 20}},
	} {
		r := repeats{10, 20, 30}
		if got := r.value(c.offset, c.litLen); got != c.value || r != c.after {
			t.Errorf("offset %d behind %d literals: value %d, then %v; want %d, %v", c.offset, c.litLen, got, r, c.value, c.after)
		}
	}
}

// What value writes, a decoder reads as the same offset, and both keep the same repeats.
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
				rt.Fatalf("offset %d behind %d literals becomes %d, repeats %v and %v", offset, litLen, v, w, r)
			}
		}
	})
}
