package packages

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

const xzMagic = "\xfd7zXZ\x00"

// xzReader decodes the blocks of an xz file. The LZMA2 data in them is decoded by package lzma, whose
// reader of xz files allocates the dictionary that each block asks for: here, no block may ask for
// more than the first one.
type xzReader struct {
	in         *bytes.Reader
	dictionary int64 // the size of the largest dictionary, in bytes
	check      byte  // the kind of checksum
	sum        hash.Hash
	block      io.Reader // nil between blocks
	start      int       // unread bytes before the data of the block
}

const (
	xzStreamHeader = 12
	xzCRC32        = 1
	xzCRC64        = 4
	xzSHA256       = 10
	xzLZMA2        = 0x21
	leastXZ        = 8 << 20 // the dictionary of package lzma is at least as large
)

var errXZ = errors.New("the data is damaged")

// newXZ reads the start of a file up to the first block.
func newXZ(data []byte) (*xzReader, error) {
	r := &xzReader{in: bytes.NewReader(data)}
	if err := r.stream(); err != nil {
		return nil, err
	}
	peek := *r.in
	size, err := r.header()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	*r.in = peek
	r.dictionary = max(size, leastXZ)
	return r, nil
}

// stream reads the header of a stream.
func (r *xzReader) stream() error {
	var h [xzStreamHeader]byte
	if _, err := io.ReadFull(r.in, h[:]); err != nil {
		return io.ErrUnexpectedEOF
	}
	if string(h[:6]) != xzMagic || h[6] != 0 || binary.LittleEndian.Uint32(h[8:]) != crc32.ChecksumIEEE(h[6:8]) {
		return errXZ
	}
	switch r.check = h[7]; r.check {
	case 0, xzCRC32, xzCRC64, xzSHA256:
		return nil
	}
	return fmt.Errorf("found checksums of kind %d, which are not supported", r.check)
}

// header reads the header of a block and returns the size of its dictionary. It returns io.EOF at
// the index, which follows the last block.
func (r *xzReader) header() (dictionary int64, err error) {
	first, err := r.in.ReadByte()
	if err != nil {
		return 0, io.ErrUnexpectedEOF
	}
	if first == 0 {
		return 0, io.EOF
	}
	h := make([]byte, (int(first)+1)*4)
	h[0] = first
	if _, err := io.ReadFull(r.in, h[1:]); err != nil {
		return 0, io.ErrUnexpectedEOF
	}
	body := h[:len(h)-4]
	if binary.LittleEndian.Uint32(h[len(body):]) != crc32.ChecksumIEEE(body) {
		return 0, errXZ
	}
	flags, rest := body[1], body[2:]
	for _, bit := range []byte{0x40, 0x80} {
		if flags&bit == 0 {
			continue
		}
		_, n := binary.Uvarint(rest)
		if n <= 0 {
			return 0, errXZ
		}
		rest = rest[n:]
	}
	if flags&3 != 0 || len(rest) < 3 || rest[0] != xzLZMA2 || rest[1] != 1 {
		return 0, errors.New("found a filter other than LZMA2, which is not supported")
	}
	size, err := lzma.DecodeDictCap(rest[2])
	if err != nil {
		return 0, errXZ
	}
	if size > largestWindow {
		return 0, fmt.Errorf("found a dictionary of %d bytes, expected at most %d", size, int64(largestWindow))
	}
	return size, nil
}

// Read implements io.Reader.
func (r *xzReader) Read(p []byte) (int, error) {
	for {
		if r.block == nil {
			if err := r.next(); err != nil {
				return 0, err
			}
		}
		n, err := r.block.Read(p)
		if r.sum != nil {
			r.sum.Write(p[:n])
		}
		if errors.Is(err, io.EOF) {
			r.block = nil
			err = r.finish()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// next begins the next block, of this stream or of an adjacent one.
func (r *xzReader) next() error {
	size, err := r.header()
	for errors.Is(err, io.EOF) {
		if err := r.index(); err != nil {
			return err
		}
		if r.in.Len() == 0 {
			return io.EOF
		}
		if err := r.stream(); err != nil {
			return err
		}
		size, err = r.header()
	}
	if err != nil {
		return err
	}
	if size > r.dictionary {
		return fmt.Errorf("a block has a dictionary of %d bytes, the first one of %d", size, r.dictionary)
	}
	r.start = r.in.Len()
	if r.block, err = (lzma.Reader2Config{DictCap: int(max(size, lzma.MinDictCap))}).NewReader2(r.in); err != nil {
		return err
	}
	switch r.check {
	case 0:
		r.sum = nil
	case xzCRC32:
		r.sum = crc32.NewIEEE()
	case xzCRC64:
		r.sum = crc64.New(crc64.MakeTable(crc64.ECMA))
	case xzSHA256:
		r.sum = sha256.New()
	}
	return nil
}

// finish reads the padding and the checksum after the data of a block.
func (r *xzReader) finish() error {
	for n := (r.start - r.in.Len()) & 3; n&3 != 0; n++ {
		if b, err := r.in.ReadByte(); err != nil || b != 0 {
			return errXZ
		}
	}
	if r.sum == nil {
		return nil
	}
	want := r.sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(r.in, got); err != nil {
		return io.ErrUnexpectedEOF
	}
	if r.check != xzSHA256 {
		for i := range len(got) / 2 { // stored in little endian
			got[i], got[len(got)-1-i] = got[len(got)-1-i], got[i]
		}
	}
	if !bytes.Equal(got, want) {
		return errXZ
	}
	return nil
}

// index skips the index after its first byte, the footer of the stream, and the padding after it.
func (r *xzReader) index() error {
	start := r.in.Len() + 1
	records, err := binary.ReadUvarint(r.in)
	if err != nil || records > uint64(r.in.Len()) {
		return errXZ
	}
	for range 2 * records {
		if _, err := binary.ReadUvarint(r.in); err != nil {
			return errXZ
		}
	}
	const checksum, footer = 4, 12
	skip := -(start-r.in.Len())&3 + checksum + footer
	if r.in.Len() < skip {
		return io.ErrUnexpectedEOF
	}
	_, err = r.in.Seek(int64(skip), io.SeekCurrent)
	for err == nil && r.in.Len() > 0 {
		var b byte
		if b, err = r.in.ReadByte(); b != 0 {
			return r.in.UnreadByte()
		}
	}
	return err
}
