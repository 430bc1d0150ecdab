package files

import (
	"cmp"
	"io"
	"slices"
	"sync"
)

// pieces is a file that is not there yet: the contents of a stream, kept by
// reference until the transaction commits.
type pieces struct {
	mu   sync.Mutex
	list []piece // in the order in which they were written
}

type piece struct {
	off int64
	c   Content
}

func (p *piece) end() int64 { return p.off + p.c.Len() }

// add notes that c lies at off. Bytes of memory belong to the caller: they are
// copied.
func (s *pieces) add(c Content, off int64) {
	if c.Len() == 0 {
		return
	}
	if c.in == nil {
		c = Memory(slices.Clone(c.data))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, piece{off, c})
}

// writeTo writes size bytes, with zeros where there is no piece.
func (s *pieces) writeTo(w io.Writer, size int64) error {
	pos := int64(0)
	for _, p := range s.resolve() {
		if err := writeZeros(w, p.off-pos); err != nil {
			return err
		}
		if _, err := w.Write(p.c.data); err != nil {
			return err
		}
		pos = p.end()
	}
	return writeZeros(w, size-pos)
}

// resolve returns the pieces by offset, without those parts of them that were
// written over later.
func (s *pieces) resolve() []piece {
	sorted := slices.Clone(s.list)
	slices.SortStableFunc(sorted, func(a, b piece) int { return cmp.Compare(a.off, b.off) })
	overlap := false
	for i := 1; i < len(sorted); i++ {
		overlap = overlap || sorted[i].off < sorted[i-1].end()
	}
	if !overlap {
		return sorted
	}
	// Patches are few: cut every later piece out of the earlier ones.
	var out []piece
	for _, p := range s.list {
		var kept []piece
		for _, q := range out {
			if q.end() <= p.off || q.off >= p.end() {
				kept = append(kept, q)
				continue
			}
			if q.off < p.off {
				kept = append(kept, piece{q.off, q.c.Slice(0, p.off-q.off)})
			}
			if q.end() > p.end() {
				kept = append(kept, piece{p.end(), q.c.Slice(p.end()-q.off, q.end()-p.end())})
			}
		}
		out = append(kept, p)
	}
	slices.SortFunc(out, func(a, b piece) int { return cmp.Compare(a.off, b.off) })
	return out
}

func writeZeros(w io.Writer, n int64) error {
	for n > 0 {
		k, err := w.Write(zeros[:min(n, int64(len(zeros)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}
