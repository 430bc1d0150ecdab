package files

import (
	"cmp"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// pieces holds the contents of a stream, by reference, until the transaction
// commits.
type pieces struct {
	dir string // directory of spilled

	mu      sync.Mutex
	list    []piece  // in the order in which they were written
	memory  int64    // bytes of the pieces in memory
	spilled *os.File // file for pieces beyond spillFrom; nil for none
	end     int64    // of spilled
}

// spillFrom is the number of bytes of a stream that are kept in memory.
const spillFrom = 1 << 20

// piece is a range of a content or, if n is not zero, of the spilled file.
type piece struct {
	off   int64
	c     content.Content
	at, n int64
}

func (p *piece) len() int64 {
	if p.n > 0 {
		return p.n
	}
	return p.c.Len()
}

func (p *piece) end() int64 { return p.off + p.len() }

// part returns the part of p from off to end in the stream.
func (p *piece) part(off, end int64) piece {
	if p.n > 0 {
		return piece{off: off, at: p.at + off - p.off, n: end - off}
	}
	return piece{off: off, c: p.c.Slice(off-p.off, end-off)}
}

// add adds c at off. It copies bytes in memory, which belong to the caller.
func (s *pieces) add(c content.Content, off int64) error {
	if c.Len() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := piece{off: off, c: c}
	if file, _ := c.File(); file == nil {
		if s.memory+c.Len() > spillFrom {
			var err error
			if p, err = s.spill(c.Mapped(guard.Inside), off); err != nil {
				return err
			}
		} else {
			s.memory += c.Len()
			p.c = content.Memory(slices.Clone(c.Mapped(guard.Inside)))
		}
	}
	s.list = append(s.list, p)
	return nil
}

// spill writes b to a temporary file. It requires mu.
func (s *pieces) spill(b []byte, off int64) (piece, error) {
	if s.spilled == nil {
		f, name, err := createTemp(s.dir, 0o600)
		if err != nil {
			return piece{}, fileError(s.dir, err)
		}
		if name != "" {
			os.Remove(name)
		}
		s.spilled = f
	}
	if _, err := s.spilled.WriteAt(b, s.end); err != nil {
		return piece{}, err
	}
	p := piece{off: off, at: s.end, n: int64(len(b))}
	s.end += p.n
	return p, nil
}

// close removes the temporary file.
func (s *pieces) close() {
	if s.spilled != nil {
		s.spilled.Close()
		s.spilled = nil
	}
}

// writeTo writes size bytes, with zeros where there is no piece.
func (s *pieces) writeTo(w io.Writer, size int64) error {
	pos := int64(0)
	for _, p := range s.resolve() {
		if err := content.WriteZeros(w, p.off-pos); err != nil {
			return err
		}
		if p.n > 0 {
			if _, err := io.Copy(w, io.NewSectionReader(s.spilled, p.at, p.n)); err != nil {
				return err
			}
		} else if _, err := w.Write(p.c.Mapped(guard.Inside)); err != nil {
			return err
		}
		pos = p.end()
	}
	return content.WriteZeros(w, size-pos)
}

// resolve returns the pieces by offset, without the parts that later pieces
// overwrite.
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
	// There are few patches, so cut every later piece out of the earlier ones.
	var out []piece
	for _, p := range s.list {
		var kept []piece
		for _, q := range out {
			if q.end() <= p.off || q.off >= p.end() {
				kept = append(kept, q)
				continue
			}
			if q.off < p.off {
				kept = append(kept, q.part(q.off, p.off))
			}
			if q.end() > p.end() {
				kept = append(kept, q.part(p.end(), q.end()))
			}
		}
		out = append(kept, p)
	}
	slices.SortFunc(out, func(a, b piece) int { return cmp.Compare(a.off, b.off) })
	return out
}
