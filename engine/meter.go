package engine

import (
	"sync/atomic"

	"github.com/rules-offload/rules_offload/engine/content"
)

// Meter counts the progress of the operations of a Session. Its methods may be
// called concurrently, and on a nil Meter.
type Meter struct{ done, total atomic.Int64 }

// Read returns the number of bytes done, and the total as far as it is known.
func (m *Meter) Read() (done, total int64) {
	if m == nil {
		return 0, 0
	}
	return m.done.Load(), m.total.Load()
}

// Expect adds n bytes to the total.
func (m *Meter) Expect(n int64) {
	if m != nil {
		m.total.Add(n)
	}
}

// Add adds n bytes to those done.
func (m *Meter) Add(n int64) {
	if m != nil {
		m.done.Add(n)
	}
}

// watch returns a Sink that writes to sink and counts the bytes as done.
func (m *Meter) watch(sink content.Sink) content.Sink {
	if m == nil {
		return sink
	}
	return &meteredSink{sink, m}
}

// meteredSink is a Sink that counts bytes for a Meter.
type meteredSink struct {
	sink  content.Sink
	meter *Meter
}

// Write implements io.Writer.
func (s *meteredSink) Write(p []byte) (int, error) {
	n, err := s.sink.Write(p)
	s.meter.Add(int64(n))
	return n, err
}

// Append implements content.Sink.
func (s *meteredSink) Append(c content.Content) error {
	// unguarded: Append of the sink has a guard
	s.meter.Add(c.Len())
	return s.sink.Append(c)
}

// Zeros implements content.Sink.
func (s *meteredSink) Zeros(n int64) error {
	s.meter.Add(n)
	return s.sink.Zeros(n)
}
