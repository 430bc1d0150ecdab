package longzstd

import "math/bits"

// A match is n bytes at at that were off bytes in front of them, too; score is what it saves.
type match struct {
	at, n, off, score int
}

const (
	// What scores of careful parsing are made of, in half bits: a literal's coding is taken for
	// 5 bits, a sequence's for 6 and a bit for each of the offset's, with a repeated offset for 2.
	literalScore  = 10
	sequenceScore = 12
	offsetScore   = 2
	repeatScore   = 4

	// By how much a match that starts one, or two, further on must be better.
	marginOne = 6
	marginTwo = 10

	// A match of this length needs no comparison with what 5 bytes lead to.
	goodEnoughLong = 16
)

// remember keeps position i, of which cur are the first 8 bytes, in front of what was kept
// in its buckets, two cells of long and four of short, and returns what was.
func (p *parser) remember(i int, cur uint64) (long [2]uint32, short [4]uint32) {
	h, hs := cur*prime8, cur<<24*prime5
	l := (*[2]uint32)(p.long[h>>(64-longLog)&p.longMask&^1:])
	s := (*[4]uint32)(p.short[hs>>(64-shortLog)&p.shortMask&^3:])
	long, short = *l, *s
	*l = [2]uint32{entry(i, h), long[0]}
	*s = [4]uint32{entry(i, hs), short[0], short[1], short[2]}
	return long, short
}

// find returns the best match for the bytes at i, which may start in front of them but not
// in front of anchor, and remembers i.
func (p *parser) find(i, anchor int) (best match) {
	src := p.src
	cur := load64(src, i)
	reach := uint(min(i, p.window))
	consider := func(off, first, least, cost int) {
		x := cur ^ load64(src, i-off)
		if x<<(64-8*least) != 0 {
			return
		}
		n := forward8(src, x, i-off, i)
		back := backward(src, i-off, i, first)
		if v := (n+back)*literalScore - cost; v > best.score {
			best = match{i - back, n + back, off, v}
		}
	}
	if i > anchor {
		consider(p.rep1, anchor+1, minMatch, repeatScore)
	}
	consider(p.rep2, anchor, minMatch, repeatScore)
	consider(p.rep3, anchor, minMatch, repeatScore)

	h := cur * prime8
	long, short := p.remember(i, cur)
	tag := entry(i, h)
	for _, e := range long {
		x := tag - e
		if d := int(x >> tagBits); x&tagMask == 0 && uint(d-1) < reach {
			consider(d, anchor, 4, sequenceScore+offsetScore*bits.Len(uint(d)))
		}
	}
	if h&sample == 0 {
		hf := hashFar(src, cur, i)
		f, ef := &p.far[hf>>(64-farLog)&p.farMask], uint64(i)<<32|hf&(1<<32-1)
		xf := ef - *f
		*f = ef
		if d := int(xf >> 32); uint32(xf) == 0 && uint(d-1) < reach {
			consider(d, anchor, 4, sequenceScore+offsetScore*bits.Len(uint(d)))
		}
	}
	if best.n < goodEnoughLong {
		tag := entry(i, cur<<24*prime5)
		for _, e := range short {
			x := tag - e
			if d := int(x >> tagBits); x&tagMask == 0 && uint(d-1) < reach {
				consider(d, anchor, 4, sequenceScore+offsetScore*bits.Len(uint(d)))
			}
		}
	}
	return best
}

// parseCarefully does what parse does, and compares more.
func (p *parser) parseCarefully(b *block, anchor, stop int) {
	src, seqs := p.src, b.seqs
	for i := max(anchor, 1); i < stop; {
		m := p.find(i, anchor)
		if m.n == 0 {
			var off int
			if i, off = p.step(i, anchor, stop); off == 0 {
				continue
			}
			back := backward(src, i-off, i, anchor)
			m = match{at: i - back, n: back + forward(src, i-off, i), off: off}
			m.score = m.n * literalScore
		}
		for m.n < p.lazyBelow && i+1 < stop {
			i++
			next := p.find(i, anchor)
			margin := marginOne
			if next.score <= m.score+margin && i+1 < stop {
				i++
				next, margin = p.find(i, anchor), marginTwo
			}
			if next.score <= m.score+margin {
				break
			}
			m = next
		}
		for {
			p.use(m.off)
			looked := i
			i = m.at + m.n
			if i > b.end {
				p.restLen = i - b.end
				m.n -= p.restLen
				i = b.end
				if m.n < minMatch {
					p.restLen = 0
					break
				}
			}
			b.longestRun = max(b.longestRun, uint32(m.at-anchor))
			seqs = append(seqs, sequence{uint32(m.at - anchor), uint32(m.n), uint32(m.off)})
			anchor = i
			if i >= stop {
				break
			}
			for k := max(looked+1, m.at+1, i-16); k < i; k += 4 {
				p.remember(k, load64(src, k))
			}
			// Data often continues with an earlier offset.
			cur := load64(src, i)
			if x := cur ^ load64(src, i-p.rep2); x<<40 == 0 {
				m = match{at: i, n: forward8(src, x, i-p.rep2, i), off: p.rep2}
			} else if x := cur ^ load64(src, i-p.rep3); x<<40 == 0 {
				m = match{at: i, n: forward8(src, x, i-p.rep3, i), off: p.rep3}
			} else {
				break
			}
		}
	}
	b.seqs = seqs
	b.longestRun = max(b.longestRun, uint32(b.end-anchor))
}

// use makes off the last offset.
func (p *parser) use(off int) {
	switch off {
	case p.rep1:
	case p.rep2:
		p.rep1, p.rep2 = off, p.rep1
	default:
		p.rep1, p.rep2, p.rep3 = off, p.rep1, p.rep2
	}
}
