package worker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// frameReader reads WorkRequests, each preceded by its length as a varint.
type frameReader struct {
	r       *bufio.Reader
	maxSize int64
	offset  int64 // of the next byte in the stream
	count   int   // of the messages read
}

func newFrameReader(r io.Reader, maxSize int64) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, 64<<10), maxSize: maxSize}
}

// next returns the next request and its encoded size. The error is io.EOF only
// at the end of the stream between two messages.
func (f *frameReader) next() (*workRequest, int64, error) {
	start := f.offset
	size, err := f.length()
	if err == io.EOF && f.offset == start {
		return nil, 0, io.EOF
	}
	if err == nil && size > uint64(f.maxSize) {
		err = fmt.Errorf("its length %d is above the limit of %d bytes", size, f.maxSize)
	}
	var data []byte
	if err == nil {
		data, err = f.body(int64(size))
	}
	var req *workRequest
	if err == nil {
		req, err = decodeRequest(data)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("work request %d at byte 0x%x of the input: %w", f.count+1, start, noEOF(err))
	}
	f.count++
	return req, int64(size), nil
}

// length reads a varint of at most 64 bits.
func (f *frameReader) length() (uint64, error) {
	var v uint64
	for i := range binary.MaxVarintLen64 {
		b, err := f.r.ReadByte()
		if err != nil {
			return 0, err
		}
		f.offset++
		if i == binary.MaxVarintLen64-1 && b > 1 {
			break
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v, nil
		}
	}
	return 0, errors.New("its length is not a varint of 64 bits")
}

// body reads size bytes, with memory that grows as they arrive.
func (f *frameReader) body(size int64) ([]byte, error) {
	data := make([]byte, 0, min(size, 64<<10))
	for int64(len(data)) < size {
		if len(data) == cap(data) {
			grown := make([]byte, len(data), min(size, 4*int64(cap(data))))
			copy(grown, data)
			data = grown
		}
		n, err := io.ReadFull(f.r, data[len(data):cap(data)])
		f.offset += int64(n)
		data = data[:len(data)+n]
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, fmt.Errorf("the input ends after %d of %d bytes: %w", len(data), size, io.ErrUnexpectedEOF)
		}
		if err != nil {
			return nil, err
		}
	}
	return data, nil
}

// noEOF prevents callers from mistaking an end inside a message for a clean end.
func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
