package longzstd

import (
	"encoding/binary"
	"math/bits"
)

// A parser cuts the source into blocks and finds their sequences. See the
// package's design notes for how.
type parser struct {
	src    []byte
	pos    int // where the next block starts
	window int // how far back a match may reach

	// Positions by the hash of what is there: of 8 bytes and of 5 bytes, written at
	// every position looked at, and of 32 bytes, written at every sampled one. A
	// position is kept modulo 1<<32, which a window of 2 GiB cannot confuse, and
	// every candidate is compared with the source, so that stale ones, and the
	// zeros of an unused cell, do no harm.
	long, short, far                []uint32
	longShift, shortShift, farShift uint
	lazyBelow                       int

	rep1, rep2 int // the last two offsets that differ

	// How much of the last match is left for the next block.
	restLen int
}

const (
	prime5 = 889523592379
	prime8 = 0xCF1BBCDCB7A56463

	// A position is sampled if these bits of its hash are zero: 1 in 32.
	sampleMask = 31 << 20

	// lookahead is how many bytes from a position on may be looked at without asking.
	lookahead = 48

	// Shortest match to take from the table of sampled positions.
	minFar = 32

	// After so many bytes without a match the data is taken for incompressible,
	// and only the sampled positions are looked at.
	giveUp = 1024

	// A match of this length is taken at once: longer ones elsewhere save little.
	goodEnough = 64
)

func newParser(src []byte, level Level) *parser {
	longLog, shortLog, farLog, lazyBelow := 18, 16, 18, 8
	if level == Small {
		longLog, shortLog, farLog, lazyBelow = 20, 18, 19, 64
	}
	n := bits.Len(uint(len(src)))
	longLog = max(min(longLog, n-2), 10)
	shortLog = max(min(shortLog, n-2), 10)
	farLog = max(min(farLog, n-5), 8)
	return &parser{
		src:        src,
		window:     maxWindow,
		long:       make([]uint32, 1<<longLog),
		short:      make([]uint32, 1<<shortLog),
		far:        make([]uint32, 1<<farLog),
		longShift:  uint(64 - longLog),
		shortShift: uint(64 - shortLog),
		farShift:   uint(64 - farLog),
		lazyBelow:  lazyBelow,
		rep1:       1,
		rep2:       1,
	}
}

func load32(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
func load64(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// forward returns how many bytes at p equal those at q, which is before p.
func forward(src []byte, q, p int) int {
	a := src[p:]
	b := src[q:][:len(a)]
	n := 0
	for len(a) >= 8 && len(b) >= 8 {
		if x := binary.LittleEndian.Uint64(a) ^ binary.LittleEndian.Uint64(b); x != 0 {
			return n + bits.TrailingZeros64(x)>>3
		}
		a, b = a[8:], b[8:]
		n += 8
	}
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return n + i
		}
	}
	return n + len(a)
}

// backward returns how many bytes in front of p, no further back than first, equal those in front of q.
func backward(src []byte, q, p, first int) int {
	n := 0
	for p-n > first && q-n > 0 && src[p-n-1] == src[q-n-1] {
		n++
	}
	return n
}

// score says how much a match saves, in quarters of a byte of literals.
func score(length, offset int) int { return length*4 - bits.Len(uint(offset)) }

// hashFar hashes the 32 bytes at i, of which cur are the first 8.
func hashFar(src []byte, cur uint64, i int) uint64 {
	b := src[i+8:][:24]
	h := (binary.LittleEndian.Uint64(b)*prime5 + binary.LittleEndian.Uint64(b[8:])*prime8 + binary.LittleEndian.Uint64(b[16:])) * prime8
	return (h + cur) * prime8
}

// next fills b with the next block, or returns false at the end.
func (p *parser) next(b *block) bool {
	src := p.src
	if p.pos >= len(src) {
		return false
	}
	start, end := p.pos, min(p.pos+blockSize, len(src))
	b.start, b.end, b.last = start, end, end == len(src)
	b.seqs = b.seqs[:0]
	p.pos = end
	i := start
	if n := min(p.restLen, end-start); n > 8 {
		// A match goes on. Its offset can be a repeat only behind a literal.
		b.seqs = append(b.seqs, sequence{1, uint32(n - 1), uint32(p.rep1)})
		p.restLen -= n
		i += n
	} else {
		p.restLen = 0
	}
	// Close to the end of the source there is not enough left to look at.
	if stop := min(end, len(src)-lookahead); i < stop {
		p.parse(b, i, stop)
	}
	return true
}

// parse appends the sequences of b from position anchor on, none of which starts at or after stop.
func (p *parser) parse(b *block, anchor, stop int) {
	src, seqs := p.src, b.seqs
	long, short, far := p.long, p.short, p.far
	longShift, shortShift, farShift := p.longShift&63, p.shortShift&63, p.farShift&63
	rep1, rep2, window := p.rep1, p.rep2, p.window
	i := max(anchor, 1)

	for i < stop {
		cur := load64(src, i)
		h := cur * prime8
		l, s := &long[h>>longShift], &short[cur<<24*prime5>>shortShift]
		dl, ds := int(uint32(i)-*l), int(uint32(i)-*s)
		*l, *s = uint32(i), uint32(i)
		reach := uint(min(i, window))

		// The best match so far: where, how long, how far back, and what it saves.
		at, n, off, best := 0, 0, 0, 0
		x := cur ^ load64(src, i-rep1)
		if x&0xffffffff00 == 0 {
			at, off = i+1, rep1
		} else if x&0xffffffff0000 == 0 {
			at, off = i+2, rep1
		} else if (cur^load64(src, i-rep2))&0xffffffff00 == 0 {
			at, off = i+1, rep2
		}
		if off != 0 {
			n = 4 + forward(src, at+4-off, at+4)
			best = n*4 - 1
		}
		if uint(dl-1) < reach && load64(src, i-dl) == cur {
			f := 8 + forward(src, i+8-dl, i+8)
			back := backward(src, i-dl, i, anchor)
			if v := score(back+f, dl); v > best {
				at, n, off, best = i-back, back+f, dl, v
			}
		}
		if h&sampleMask == 0 {
			e := &far[hashFar(src, cur, i)>>farShift]
			d := int(uint32(i) - *e)
			*e = uint32(i)
			if n < goodEnough && uint(d-1) < reach && load64(src, i-d) == cur {
				if f := 8 + forward(src, i+8-d, i+8); f >= minFar {
					back := backward(src, i-d, i, anchor)
					if v := score(back+f, d); v > best {
						at, n, off, best = i-back, back+f, d, v
					}
				}
			}
		}
		if n == 0 {
			if x&0xffffff00 == 0 {
				at, n, off, best = i+1, 3, rep1, 3*4-1
			} else if x&0xffffff0000 == 0 {
				at, n, off, best = i+2, 3, rep1, 3*4-1
			}
			if uint(ds-1) < reach && load32(src, i-ds) == uint32(cur) {
				if f := 4 + forward(src, i+4-ds, i+4); f >= 5 {
					back := backward(src, i-ds, i, anchor)
					at, n, off, best = i-back, back+f, ds, score(back+f, ds)
				}
			}
			if n == 0 {
				if i-anchor < giveUp {
					i += 1 + (i-anchor)>>8
				} else {
					i = p.skim(i+1, min(i+giveUp, stop))
				}
				continue
			}
		}
		// Short: is there a better one right behind?
		for n < p.lazyBelow && i+1 < stop {
			i++
			cur := load64(src, i)
			l, s := &long[cur*prime8>>longShift], &short[cur<<24*prime5>>shortShift]
			dl, ds := int(uint32(i)-*l), int(uint32(i)-*s)
			*l, *s = uint32(i), uint32(i)
			reach := uint(min(i, window))
			d, f := 0, 0
			if uint(dl-1) < reach && load64(src, i-dl) == cur {
				d, f = dl, 8+forward(src, i+8-dl, i+8)
			} else if uint(ds-1) < reach && load32(src, i-ds) == uint32(cur) {
				d, f = ds, 4+forward(src, i+4-ds, i+4)
			} else {
				break
			}
			back := backward(src, i-d, i, anchor)
			v := score(back+f, d)
			if v <= best+4 {
				break
			}
			at, n, off, best = i-back, back+f, d, v
		}

		for {
			if off != rep1 {
				rep1, rep2 = off, rep1
			}
			from := min(i, at)
			i = at + n
			if i > b.end {
				// The next block goes on with it.
				p.restLen = i - b.end
				n -= p.restLen
				i = b.end
				if n < minMatch {
					p.restLen = 0
					break
				}
			}
			seqs = append(seqs, sequence{uint32(at - anchor), uint32(n), uint32(off)})
			anchor = i
			if i >= stop {
				break
			}
			if i-from > 12 {
				// Enough of the match to find it again, near its ends.
				v := load64(src, from+2)
				long[v*prime8>>longShift] = uint32(from + 2)
				short[v<<24*prime5>>shortShift] = uint32(from + 2)
				long[load64(src, i-8)*prime8>>longShift] = uint32(i - 8)
				long[load64(src, i-4)*prime8>>longShift] = uint32(i - 4)
				v = load64(src, i-2)
				long[v*prime8>>longShift] = uint32(i - 2)
				short[v<<24*prime5>>shortShift] = uint32(i - 2)
			}
			// Data often goes on with the offset before.
			x := load64(src, i) ^ load64(src, i-rep2)
			if x&0xffffff != 0 {
				break
			}
			at, n, off = i, 3, rep2
			if uint32(x) == 0 {
				n = 4 + forward(src, i+4-rep2, i+4)
			}
		}
	}
	p.rep1, p.rep2 = rep1, rep2
	b.seqs = seqs
}

// skim keeps the sampled positions from i up to stop and returns the first where the
// source was seen before, or stop.
func (p *parser) skim(i, stop int) int {
	src, far, shift, window := p.src, p.far, p.farShift&63, p.window
	for ; i < stop; i++ {
		cur := load64(src, i)
		if cur*prime8&sampleMask != 0 {
			continue
		}
		e := &far[hashFar(src, cur, i)>>shift]
		d := int(uint32(i) - *e)
		if uint(d-1) < uint(min(i, window)) && load64(src, i-d) == cur {
			return i // and leave it for parse to find
		}
		*e = uint32(i)
	}
	return i
}
