package engine

import (
	"sync/atomic"

	"github.com/rules-offload/rules_offload/engine/files"
)

// Meter counts how far the operations of a Session are. All methods may be called
// by several goroutines at once, and on nil, when nobody watches.
type Meter struct{ done, total atomic.Int64 }

// Read returns how many bytes were done and how many there are, as far as is
// known by now.
func (m *Meter) Read() (done, total int64) {
	if m == nil {
		return 0, 0
	}
	return m.done.Load(), m.total.Load()
}

// expect says that n bytes more are to be done.
func (m *Meter) expect(n int64) {
	if m != nil {
		m.total.Add(n)
	}
}

// add says that n bytes more were done.
func (m *Meter) add(n int64) {
	if m != nil {
		m.done.Add(n)
	}
}

// watch returns sink such that what it is given counts as done.
func (m *Meter) watch(sink files.Sink) files.Sink {
	if m == nil {
		return sink
	}
	return &meteredSink{sink, m}
}

// meteredSink is a Sink that counts.
type meteredSink struct {
	sink  files.Sink
	meter *Meter
}

// Write implements io.Writer.
func (s *meteredSink) Write(p []byte) (int, error) {
	n, err := s.sink.Write(p)
	s.meter.add(int64(n))
	return n, err
}

// Append implements files.Sink.
func (s *meteredSink) Append(c files.Content) error {
	s.meter.add(c.Len())
	return s.sink.Append(c)
}

// Zeros implements files.Sink.
func (s *meteredSink) Zeros(n int64) error {
	s.meter.add(n)
	return s.sink.Zeros(n)
}
