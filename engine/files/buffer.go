package files

// Buffer is a Sink in memory. The zero value is empty and ready for use.
type Buffer struct{ b []byte }

// Bytes returns what was written. It is valid until the next write.
func (b *Buffer) Bytes() []byte { return b.b }

// Len returns the number of bytes written.
func (b *Buffer) Len() int64 { return int64(len(b.b)) }

// Write implements io.Writer. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.b = append(b.b, p...)
	return len(p), nil
}

// Append implements Sink. It never fails.
func (b *Buffer) Append(c Content) error {
	b.b = append(b.b, c.data...)
	return nil
}

// Zeros implements Sink. It never fails; the caller bounds n.
func (b *Buffer) Zeros(n int64) error {
	b.b = append(b.b, make([]byte, n)...)
	return nil
}
