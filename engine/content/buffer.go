package content

import (
	"io"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Buffer is a Sink in memory. The zero value is empty and ready for use.
type Buffer struct{ b []byte }

// BufferIn returns an empty Buffer that uses the capacity of b first.
func BufferIn(b []byte) Buffer { return Buffer{b[:0]} }

// NewBuffer returns an empty Buffer with a capacity of size bytes.
func NewBuffer(size int64) *Buffer { return &Buffer{make([]byte, 0, size)} }

// Bytes returns the bytes written. It is valid until the next write.
func (b *Buffer) Bytes() []byte { return b.b }

// Len returns the number of bytes written.
func (b *Buffer) Len() int64 { return int64(len(b.b)) }

// Write implements io.Writer. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.b = append(b.b, p...)
	return len(p), nil
}

// Append implements Sink. It fails only if bytes of a file cannot be read.
func (b *Buffer) Append(c Content) error {
	if c.file == nil {
		b.b = append(b.b, c.data...)
		return nil
	}
	n := len(b.b)
	err := c.View(func(data []byte) error {
		b.b = append(b.b, data...)
		return nil
	})
	if err != nil {
		b.b = b.b[:n]
	}
	return err
}

// Zeros implements Sink. It never fails; the caller must limit n.
func (b *Buffer) Zeros(n int64) error {
	b.b = append(b.b, make([]byte, n)...)
	return nil
}

// WriterSink is a Sink that writes to any writer.
type WriterSink struct{ W io.Writer }

// Write implements io.Writer.
func (s *WriterSink) Write(p []byte) (int, error) { return s.W.Write(p) }

// Append implements Sink.
func (s *WriterSink) Append(c Content) error {
	return guard.Faults(func() error {
		_, err := s.W.Write(c.data)
		return err
	})
}

// Zeros implements Sink.
func (s *WriterSink) Zeros(n int64) error { return WriteZeros(s.W, n) }

var zeros [4096]byte

// WriteZeros writes n zero bytes.
func WriteZeros(w io.Writer, n int64) error {
	for n > 0 {
		k, err := w.Write(zeros[:min(n, int64(len(zeros)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}
