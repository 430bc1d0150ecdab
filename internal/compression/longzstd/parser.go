package longzstd

import "math/bits"

// A parser cuts the source into blocks and finds their sequences. The package
// comment describes how.
type parser struct {
	src    []byte
	pos    int // where the next block starts
	window int // how far back a match may reach
	effort

	*tables
	freeTables                   func()
	longMask, shortMask, farMask uint64

	rep1, rep2, rep3 int // the last offsets that differ

	skimmed int // how far skim has been

	// How much of the last match is left for the next block.
	restLen int
}

// tables have the last position of each hash: of 8 bytes and of 5 bytes at every examined
// position, as entry makes them, and of 32 bytes at the sampled positions, the position in the
// upper half and a part of the hash in the lower half. Positions are stored modulo a power of two,
// and cells are zero at first: a candidate is valid only if the bytes in the source are equal.
type tables struct {
	short [1 << shortLog]uint32
	far   [1 << farLog]uint64
	long  [1 << longLog]uint32
}

// An effort has the limits of a search.
type effort struct {
	longLog, shortLog, farLog int // of the tables' sizes, for a large source

	minScore  int  // the minimum score of a match that was found by 5 bytes
	lazyBelow int  // for shorter matches, the next position is tried as well
	maxStep   int  // the largest step where nothing matches
	stepLog   int  // steps grow by one after this number of literals in a row, as a logarithm; at least 6
	noise     int  // after this number of literals in a row, the data is noise
	careful   bool // compare more
	leaves    int  // pieces of a block to compare when cutting it, a power of two
}

const (
	// How large the tables can be.
	longLog  = 20
	shortLog = 17
	farLog   = 20

	prime5 = 889523592379
	prime8 = 0xCF1BBCDCB7A56463

	// An entry of long and short has so many bits of the hash, which spare most looks
	// at the source, and above them the position modulo 64 MiB.
	tagBits  = 6
	tagMask  = 1<<tagBits - 1
	tagShift = 32

	// Positions whose hash has zeros in these bits are sampled: 1 in 64.
	sample = 63 << 20

	// lookahead is how many bytes from a position on may be looked at without asking.
	lookahead = 48

	// minFar is the shortest match to take from the table of sampled positions.
	minFar = 32

	// anyScore is less than what any match saves.
	anyScore = -bits.UintSize

	// skimLeast is after how many literals in a row, and then how many more, to skim.
	skimLeast = 64

	// goodEnough is the length of a match that needs no comparison with a sampled one.
	goodEnough = 64
)

var (
	fastEffort  = effort{longLog: 18, shortLog: 16, farLog: 20, minScore: 4, maxStep: 32, stepLog: 6, noise: 256, leaves: fastLeaves}
	smallEffort = effort{longLog: 20, shortLog: 17, farLog: 20, minScore: anyScore, lazyBelow: 32, maxStep: 8, stepLog: 8, noise: 512, leaves: maxLeaves}

	// A small source takes little time in any case.
	tinyFastEffort  = effort{longLog: 18, shortLog: 16, farLog: 18, minScore: anyScore, lazyBelow: 32, maxStep: 8, stepLog: 8, noise: 512, leaves: maxLeaves}
	tinySmallEffort = effort{longLog: 18, shortLog: 16, farLog: 18, minScore: anyScore, lazyBelow: 64, maxStep: 4, stepLog: 8, noise: 512, careful: true, leaves: maxLeaves}
)

// tinySource is the size up to which a source is a small one.
const tinySource = 2 << 20

func effortFor(level Level, size int) effort {
	switch {
	case level == Small && size <= tinySource:
		return tinySmallEffort
	case level == Small:
		return smallEffort
	case size <= tinySource:
		return tinyFastEffort
	}
	return fastEffort
}

func newParser(src []byte, e effort) *parser {
	// A small source uses, and so touches, only a part of the tables.
	n := bits.Len(uint(len(src)))
	mask := func(log int) uint64 { return 1<<max(min(log, n-2), 10) - 1 }
	p := &parser{
		src:       src,
		window:    maxWindow,
		effort:    e,
		longMask:  mask(e.longLog),
		shortMask: mask(e.shortLog),
		farMask:   mask(min(e.farLog, n-6, max(18, n-7))),
		rep1:      1,
		rep2:      1,
		rep3:      1,
	}
	p.tables, p.freeTables = newTables(len(src), int(p.longMask)+1, int(p.shortMask)+1, int(p.farMask)+1)
	return p
}

// release returns the tables to their pool. The parser must not be used after it.
func (p *parser) release() {
	p.freeTables()
	p.tables = nil
}

// entry returns the cell in long and short for a position and the hash of its bytes.
func entry(i int, h uint64) uint32 {
	return uint32(i)<<tagBits | uint32(h>>tagShift)&tagMask
}

// hashFar hashes the 32 bytes at i, of which cur are the first 8.
func hashFar(src []byte, cur uint64, i int) uint64 {
	h := (load64(src, i+8)*prime5 + load64(src, i+16)*prime8 + load64(src, i+24)) * prime8
	return (h + cur) * prime8
}

// forward returns how many bytes at p equal those at q, which is before p.
func forward(src []byte, q, p int) int {
	n, most := 0, len(src)-p
	for ; n+8 <= most; n += 8 {
		if x := load64(src, q+n) ^ load64(src, p+n); x != 0 {
			return n + bits.TrailingZeros64(x)>>3
		}
	}
	for n < most && src[q+n] == src[p+n] {
		n++
	}
	return n
}

// forward8 is forward for positions whose first 8 bytes differ by x, with at least 16 bytes from p on.
// It has no branch for lengths from 8 to 15: processors cannot predict which matches are so long.
func forward8(src []byte, x uint64, q, p int) int {
	n := bits.TrailingZeros64(x) >> 3
	more := bits.TrailingZeros64(load64(src, q+8)^load64(src, p+8)) >> 3
	if x != 0 {
		more = 0
	}
	n += more
	if n == 16 {
		n += forward(src, q+16, p+16)
	}
	return n
}

// backward returns how many bytes before p, none of them before first, equal those before q.
func backward(src []byte, q, p, first int) int {
	most := min(p-first, q)
	n := 0
	if q >= 8 {
		n = min(bits.LeadingZeros64(load64(src, q-8)^load64(src, p-8))>>3, most)
		if n < 8 {
			return n
		}
	}
	for n < most && src[p-n-1] == src[q-n-1] {
		n++
	}
	return n
}

// score returns the saving of a match, in quarters of a byte of literals.
func score(length, offset int) int { return length*4 - bits.Len(uint(offset)) }

// next fills b with the next block, or returns false at the end.
func (p *parser) next(b *block) bool {
	src := p.src
	if p.pos >= len(src) {
		return false
	}
	start, end := p.pos, min(p.pos+blockSize, len(src))
	b.start, b.end, b.last = start, end, end == len(src)
	b.seqs, b.longestRun = b.seqs[:0], 0
	p.pos = end
	i := start
	if n := min(p.restLen, end-start); n > 8 {
		// A match continues. Its offset can be a repeat only after a literal.
		b.seqs = append(b.seqs, sequence{1, uint32(n - 1), uint32(p.rep1)})
		p.restLen -= n
		i += n
	} else {
		p.restLen = 0
	}
	// Too little of the source is left to search.
	if stop := min(end, len(src)-lookahead); i < stop {
		if p.careful {
			p.parseCarefully(b, i, stop)
		} else {
			p.parse(b, i, stop)
		}
	}
	return true
}

// isText reports whether a block is probably text, by a sample of its bytes.
func isText(data []byte) bool {
	const samples = 128
	if len(data) < samples {
		return false
	}
	other, step := 0, len(data)/samples
	for i := range samples {
		if c := data[i*step]; c < '\t' || c > '~' {
			other++
		}
	}
	return other <= 1
}

// parse appends the sequences of b from position anchor on, none of which starts at or after stop.
//
// It is one function because most of it runs once for each sequence, which is a few bytes of the source. The compiler
// does not inline functions of this size; calls would move the state from registers to memory.
func (p *parser) parse(b *block, anchor, stop int) {
	src, seqs := p.src, b.seqs
	long, short, far := &p.long, &p.short, &p.far
	longMask, shortMask, farMask := p.longMask, p.shortMask, p.farMask
	rep1, rep2, rep3, window := p.rep1, p.rep2, p.rep3, p.window
	minScore, lazyBelow := p.minScore, p.lazyBelow
	if isText(src[b.start:b.end]) {
		lazyBelow = max(lazyBelow, 32)
	}
	dense := lazyBelow >= 32
	i, end, run := max(anchor, 1), b.end, 0

	for i < stop {
		var xl, xs uint32 // how the entries differ from those of the tables
		i, xl, xs = p.search(i, min(stop, anchor+skimLeast+1)-1, rep1, rep2, rep3)
		cur := load64(src, i)
		h, x := cur*prime8, cur^load64(src, i-rep1)
		reach := uint(min(i, window))

		// The best match so far: where, how long, how far back, and what it saves.
		at, n, off, best := 0, 0, 0, 0

		// A repeat after one or two literals, of at least 4 bytes.
		if x&0xffffffff00 == 0 {
			at, off = i+1, rep1
			n = forward8(src, x&^0xff, i-off, i) - 1
			best = n*4 - 1
		} else if x&0xffffffff0000 == 0 {
			at, off = i+2, rep1
			n = forward8(src, x&^0xffff, i-off, i) - 2
			best = n*4 - 1
		} else if x := cur ^ load64(src, i-rep2); x&0xffffffff00 == 0 {
			at, off = i+1, rep2
			n = forward8(src, x&^0xff, i-off, i) - 1
			best = n*4 - 1
		} else if x := cur ^ load64(src, i-rep3); x&0xffffffff00 == 0 {
			at, off = i+1, rep3
			n = forward8(src, x&^0xff, i-off, i) - 1
			best = n*4 - 1
		}

		// 8 bytes or more that were seen lately, 32 or more that were seen ever.
		if d := int(xl >> tagBits); xl&tagMask == 0 && uint(d-1) < reach && load64(src, i-d) == cur {
			f := 8 + forward(src, i+8-d, i+8)
			back := backward(src, i-d, i, anchor)
			if v := score(back+f, d); v > best {
				at, n, off, best = i-back, back+f, d, v
			}
		}
		if h&sample == 0 {
			hf := hashFar(src, cur, i)
			f, ef := &far[hf>>(64-farLog)&farMask], uint64(i)<<32|hf&(1<<32-1)
			xf := ef - *f
			*f = ef
			d := int(xf >> 32)
			if uint32(xf) == 0 && n < goodEnough && uint(d-1) < reach && load64(src, i-d) == cur {
				if f := 8 + forward(src, i+8-d, i+8); f >= minFar {
					back := backward(src, i-d, i, anchor)
					if v := score(back+f, d); v > best {
						at, n, off, best = i-back, back+f, d, v
					}
				}
			}
		}

		if n == 0 {
			// A repeat of 3 bytes, or better, 5 or more that were seen lately.
			if x&0xffffff00 == 0 {
				at, n, off, best = i+1, 3, rep1, 3*4-1
			} else if x&0xffffff0000 == 0 {
				at, n, off, best = i+2, 3, rep1, 3*4-1
			}
			if d := int(xs >> tagBits); xs&tagMask == 0 && uint(d-1) < reach {
				if y := cur ^ load64(src, i-d); y<<24 == 0 {
					back := backward(src, i-d, i, anchor)
					f := forward8(src, y, i-d, i)
					if v := score(back+f, d); v >= minScore {
						at, n, off, best = i-back, back+f, d, v
					}
				}
			}
			if n == 0 {
				if i-anchor < skimLeast {
					i++
					continue
				}
				var d int
				if i, d = p.step(i, anchor, stop); d == 0 {
					continue
				}
				back := backward(src, i-d, i, anchor)
				at, n, off = i-back, back+forward(src, i-d, i), d
				best = score(n, d)
			}
		}

		// Short: search for a better one at the next position.
		for n < lazyBelow && i+1 < stop {
			i++
			cur := load64(src, i)
			h, hs := cur*prime8, cur<<24*prime5
			l, s := &long[h>>(64-longLog)&longMask], &short[hs>>(64-shortLog)&shortMask]
			el, es := entry(i, h), entry(i, hs)
			xl, xs := el-*l, es-*s
			*l, *s = el, es
			reach := uint(min(i, window))
			d, f := int(xl>>tagBits), 0
			if xl&tagMask == 0 && uint(d-1) < reach && load64(src, i-d) == cur {
				f = 8 + forward(src, i+8-d, i+8)
			} else if d = int(xs >> tagBits); xs&tagMask == 0 && uint(d-1) < reach {
				y := cur ^ load64(src, i-d)
				if y<<24 != 0 {
					break
				}
				f = forward8(src, y, i-d, i)
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
			if off == rep2 {
				rep1, rep2 = off, rep1
			} else if off != rep1 {
				rep1, rep2, rep3 = off, rep1, rep2
			}
			i = at + n
			if i > end {
				// The next block continues with it.
				p.restLen = i - end
				n -= p.restLen
				i = end
				if n < minMatch {
					p.restLen = 0
					break
				}
			}
			run = max(run, at-anchor)
			seqs = append(seqs, sequence{uint32(at - anchor), uint32(n), uint32(off)})
			anchor = i
			if i >= stop {
				break
			}
			if n > 12 {
				// Enough of the match to find it again from its end, or in text from anywhere.
				v := load64(src, i-2)
				h, hs := v*prime8, v<<24*prime5
				long[h>>(64-longLog)&longMask] = entry(i-2, h)
				short[hs>>(64-shortLog)&shortMask] = entry(i-2, hs)
				if dense {
					for _, k := range [...]int{at + 2, i - 8, i - 4} {
						h := load64(src, k) * prime8
						long[h>>(64-longLog)&longMask] = entry(k, h)
					}
				}
			}
			// Data often continues with an earlier offset.
			cur := load64(src, i)
			if x := cur ^ load64(src, i-rep2); x<<40 == 0 {
				at, n, off = i, forward8(src, x, i-rep2, i), rep2
			} else if x := cur ^ load64(src, i-rep3); x<<40 == 0 {
				at, n, off = i, forward8(src, x, i-rep3, i), rep3
			} else {
				break
			}
		}
	}
	p.rep1, p.rep2, p.rep3 = rep1, rep2, rep3
	b.seqs = seqs
	b.longestRun = uint32(max(run, b.end-anchor))
}

// search adds the positions from i on to the tables and returns the first at which a match may start, or last. xl and xs
// are the differences between the entry of this position and the replaced entry in long and short: the distance, above
// tagBits zeros if the tags are equal.
//
// Most of the encoder's time passes here. As a function of its own, without calls, the loop has its state in registers.
func (p *parser) search(i, last, rep1, rep2, rep3 int) (at int, xl, xs uint32) {
	src, t := p.src, p.tables
	_ = t.short[0] // the check for nil is not repeated in the loop
	for ; ; i++ {
		cur := load64(src, i)
		h, hs := cur*prime8, cur*(prime5<<24)
		l, s := h>>(64-longLog)&p.longMask, hs>>(64-shortLog)&p.shortMask
		// The compiler adds instructions for calls of entry.
		el := uint32(i)<<tagBits | uint32(h>>tagShift)&tagMask
		es := uint32(i)<<tagBits | uint32(hs>>tagShift)&tagMask
		xl, xs = el-t.long[l], es-t.short[s]
		t.long[l], t.short[s] = el, es
		x := cur ^ load64(src, i-rep1)
		if x&0xffffff00 == 0 || x&0xffffff0000 == 0 ||
			(cur^load64(src, i-rep2))&0xffffffff00 == 0 || (cur^load64(src, i-rep3))&0xffffffff00 == 0 ||
			xl&tagMask == 0 || xs&tagMask == 0 || h&sample == 0 || i >= last {
			return i, xl, xs
		}
	}
}

// step returns the position to look at after i, where nothing was found, and how far back
// the same was seen, if that is known.
func (p *parser) step(i, anchor, stop int) (next, off int) {
	run := i - anchor
	next = i + 1 + run>>(p.stepLog&63)
	if run >= p.noise {
		next = i + min(run>>7, p.maxStep)
	}
	next = min(next, stop)
	from := max(p.skimmed, anchor, 1)
	if run < p.noise && i-from < skimLeast {
		return next, 0
	}
	return p.skim(from, next)
}

// skim keeps the sampled positions from i up to stop and returns the first whose 32 bytes
// were seen before, and how far back, or stop and 0.
func (p *parser) skim(i, stop int) (next, off int) {
	// In noise, the sampled positions are those at which the lower seven bits of two bytes have a
	// fixed sum: 1 in 200. One 64-bit word checks eight positions at a time.
	const (
		each  = 0x0101010101010101
		lower = 0x7f * each
		sum   = 176 * each
	)
	src, far, mask, window := p.src, &p.far, p.farMask, p.window
	for ; i < stop; i += 8 {
		x := (load64(src, i)&lower + load64(src, i+1)&lower) ^ sum
		for hits := ^(x&lower + lower | x | lower); hits != 0; hits &= hits - 1 {
			k := i + bits.TrailingZeros64(hits)>>3
			if k >= stop {
				break
			}
			cur := load64(src, k)
			hf := hashFar(src, cur, k)
			f, ef := &far[hf>>(64-farLog)&mask], uint64(k)<<32|hf&(1<<32-1)
			xf := ef - *f
			if d := int(xf >> 32); uint32(xf) == 0 && uint(d-1) < uint(min(k, window)) && load64(src, k-d) == cur {
				p.skimmed = k
				return k, d
			}
			*f = ef
		}
	}
	p.skimmed = stop
	return stop, 0
}
