package packages

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/limits"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

var (
	rpmLead   = []byte{0xed, 0xab, 0xee, 0xdb}
	rpmHeader = []byte{0x8e, 0xad, 0xe8, 1}
)

// rpmLeadSize is the size of the lead, an obsolete header, in bytes.
const rpmLeadSize = 96

// rpm reads an RPM package: a lead, a header with signatures, a header with metadata, and a
// compressed cpio file.
func (w *walker) rpm(c content.Content) error {
	at, err := skipHeader(c.Mapped(guard.Inside), rpmLeadSize)
	if err != nil {
		return err
	}
	if at, err = skipHeader(c.Mapped(guard.Inside), (at+7)&^7); err != nil {
		return err
	}
	payload := c.Slice(at, c.Len()-at)
	if compression(payload.Mapped(guard.Inside)) == "" {
		return w.cpio(bytes.NewReader(payload.Mapped(guard.Inside)))
	}
	r, err := decompress(w.ctx, payload, w.budget, w.xz)
	if err != nil {
		return err
	}
	defer r.close()
	in := w.limited(r)
	if err := w.cpio(in); err != nil {
		return err
	}
	return drain(in)
}

// skipHeader returns the offset after the header at an offset: a magic, the number of index entries
// and the size of their data, the index, and the data.
func skipHeader(data []byte, at int64) (int64, error) {
	const fixed, entry = 16, 16
	if at+fixed > int64(len(data)) || !bytes.HasPrefix(data[at:], rpmHeader) {
		return 0, fmt.Errorf("rpm package: no header at byte %d: it is cut short or damaged", at)
	}
	entries, size := binary.BigEndian.Uint32(data[at+8:]), binary.BigEndian.Uint32(data[at+12:])
	if at += fixed + entry*int64(entries) + int64(size); at > int64(len(data)) {
		return 0, fmt.Errorf("rpm package: a header passes the end of the file of %d bytes", len(data))
	}
	return at, nil
}

// cpioHeader is the header of a member: the magic and 13 numbers of eight hexadecimal digits.
const cpioHeader = 6 + 13*8

// cpio reads a cpio file in the format that RPM writes, "newc".
func (w *walker) cpio(r io.Reader) error {
	in := &cpioReader{r: bufio.NewReaderSize(r, headSize)}
	buffered := bufio.NewReaderSize(nil, headSize)
	for {
		m, mode, err := in.next()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = errors.New("it is cut short")
			}
			return fmt.Errorf("cpio file: %w", err)
		}
		if m == nil {
			return nil
		}
		body := &io.LimitedReader{R: in, N: m.Size}
		const typeMask, link, regular = 0o170000, 0o120000, 0o100000
		switch mode & typeMask {
		case link:
			target := make([]byte, min(m.Size, limits.Name+1))
			if _, err := io.ReadFull(body, target); err != nil {
				return errors.New("cpio file: it is cut short")
			}
			err = w.add(&Member{Name: m.Name, Link: string(target)})
		case regular:
			buffered.Reset(body)
			m.stream = buffered
			err = w.add(m)
		}
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, body); err != nil {
			return err
		}
		if err := in.align(); err != nil {
			return errors.New("cpio file: it is cut short")
		}
	}
}

// cpioReader reads a cpio file and counts its bytes.
type cpioReader struct {
	r  *bufio.Reader
	at int64
}

// Read implements io.Reader.
func (c *cpioReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.at += int64(n)
	return n, err
}

// align skips the padding to a multiple of four bytes.
func (c *cpioReader) align() error {
	_, err := io.CopyN(io.Discard, c, -c.at&3)
	return err
}

// next returns the next member and its mode, or nil at the end.
func (c *cpioReader) next() (*Member, uint64, error) {
	h := make([]byte, cpioHeader)
	if _, err := io.ReadFull(c, h); err != nil {
		return nil, 0, err
	}
	if magic := string(h[:6]); magic != "070701" && magic != "070702" {
		return nil, 0, fmt.Errorf("found the magic %q, expected 070701 or 070702; packages with files of 4 GiB and more are not supported", magic)
	}
	var number [13]uint64
	for i := range number {
		var err error
		if number[i], err = strconv.ParseUint(string(h[6+8*i:14+8*i]), 16, 32); err != nil {
			return nil, 0, errors.New("a header is damaged")
		}
	}
	mode, size, length := number[1], number[6], number[11]
	if length == 0 || length > limits.Name {
		return nil, 0, fmt.Errorf("a member has a name of %d bytes, expected at most %d", length, limits.Name)
	}
	name := make([]byte, length)
	if _, err := io.ReadFull(c, name); err != nil {
		return nil, 0, err
	}
	m := &Member{Name: string(bytes.TrimRight(name, "\x00")), Size: int64(size)}
	if m.Name == "TRAILER!!!" {
		return nil, 0, nil
	}
	return m, mode, c.align()
}
