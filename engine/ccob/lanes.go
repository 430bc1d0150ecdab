package ccob

import (
	"io"
	"slices"
	"sync"
)

// lanes concatenates the outputs of several goroutines that run at the same time. The first
// lane that is not closed writes to w; the other lanes keep their data in memory.
type lanes struct {
	w io.Writer

	mu      sync.Mutex
	next    int // the lane that writes directly to w
	waiting [][][]byte
	closed  []bool
	err     error
}

func newLanes(w io.Writer, n int) *lanes {
	return &lanes{w: w, waiting: make([][][]byte, n), closed: make([]bool, n)}
}

// lane is one of lanes. Its goroutine closes it after the last write.
type lane struct {
	l *lanes
	i int
}

// Write writes p, immediately or after the previous lanes are closed.
func (l lane) Write(p []byte) (int, error) {
	l.l.mu.Lock()
	defer l.l.mu.Unlock()
	if l.i != l.l.next {
		l.l.waiting[l.i] = append(l.l.waiting[l.i], slices.Clone(p))
	} else {
		l.l.write(p)
	}
	return len(p), l.l.err
}

// Close closes the lane, so that the next lane writes directly.
func (l lane) Close() error {
	s := l.l
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed[l.i] = true
	for s.next < len(s.closed) && s.closed[s.next] {
		s.next++
		if s.next < len(s.waiting) {
			for _, p := range s.waiting[s.next] {
				s.write(p)
			}
			s.waiting[s.next] = nil
		}
	}
	return s.err
}

// write writes p and keeps the first error. It requires mu.
func (l *lanes) write(p []byte) {
	if l.err == nil {
		_, l.err = l.w.Write(p)
	}
}
