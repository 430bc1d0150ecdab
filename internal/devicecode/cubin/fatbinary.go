package cubin

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// Fatbinary is the place of a CUDA fatbinary: a header and images for several
// processors.
type Fatbinary struct {
	Offset, Size int64 // with the header
}

// Image is an image of a fatbinary.
type Image struct {
	// Arch is compute_80 for PTX and sm_80 for other code. The header has only the number of the
	// processor, so that sm_90 is also the code for sm_90a.
	Arch string
	// Offset and Size are the place in the fatbinary, with the header of the image.
	Offset, Size int64
}

// Sizes of headers.
const (
	fatbinaryHeader = 16
	imageHeader     = 64 // at least
)

const kindPTX = 1

// IsFatbinary reports whether data begins like a CUDA fatbinary.
func IsFatbinary(data []byte) bool { return len(data) >= 4 && string(data[:4]) == "\x50\xed\x55\xba" }

// Fatbinaries returns the adjacent fatbinaries in data, which zeros can separate. The
// sequence ends with the first fault.
func Fatbinaries(data []byte) iter.Seq2[Fatbinary, error] {
	return func(yield func(Fatbinary, error) bool) {
		for at := int64(0); ; {
			for at < int64(len(data)) && data[at] == 0 {
				at++
			}
			if at == int64(len(data)) {
				return
			}
			f, err := fatbinaryAt(data, at)
			if !yield(f, err) || err != nil {
				return
			}
			at += f.Size
		}
	}
}

// fatbinaryAt reads the header of a fatbinary: magic, u16 version, u16 size of this header, u64
// size of the rest.
func fatbinaryAt(data []byte, at int64) (Fatbinary, error) {
	rest := data[at:]
	if !IsFatbinary(rest) || len(rest) < fatbinaryHeader {
		return Fatbinary{}, fmt.Errorf("no CUDA fatbinary at byte 0x%x: found % x", at, rest[:min(4, len(rest))])
	}
	head, body := uint64(binary.LittleEndian.Uint16(rest[6:])), binary.LittleEndian.Uint64(rest[8:])
	if head < fatbinaryHeader || head > uint64(len(rest)) || body > uint64(len(rest))-head {
		return Fatbinary{}, fmt.Errorf("CUDA fatbinary at byte 0x%x: header 0x%x + size 0x%x passes the end at 0x%x", at, head, body, len(data))
	}
	return Fatbinary{Offset: at, Size: int64(head + body)}, nil
}

// Images returns the images of the fatbinary that data is.
func Images(data []byte) ([]Image, error) {
	f, err := fatbinaryAt(data, 0)
	if err != nil {
		return nil, err
	}
	var images []Image
	for at := uint64(binary.LittleEndian.Uint16(data[6:])); at < uint64(f.Size); {
		rest := data[at:f.Size]
		if len(rest) < imageHeader {
			return nil, fmt.Errorf("image at byte 0x%x of a CUDA fatbinary: found %d bytes, expected a header of %d or more", at, len(rest), imageHeader)
		}
		head, body := uint64(binary.LittleEndian.Uint32(rest[4:])), binary.LittleEndian.Uint64(rest[8:])
		if head < imageHeader || head > uint64(len(rest)) || body > uint64(len(rest))-head {
			return nil, fmt.Errorf("image at byte 0x%x of a CUDA fatbinary: header 0x%x + size 0x%x passes the end at 0x%x", at, head, body, f.Size)
		}
		arch := "sm"
		if binary.LittleEndian.Uint16(rest) == kindPTX {
			arch = "compute"
		}
		images = append(images, Image{
			Arch:   fmt.Sprintf("%s_%d", arch, binary.LittleEndian.Uint32(rest[28:])),
			Offset: int64(at), Size: int64(head + body),
		})
		at += head + body
	}
	return images, nil
}

// NewHeader returns the header of a fatbinary with images of size bytes in total, made from
// the header of another one.
func NewHeader(data []byte, size int64) []byte {
	head := append([]byte{}, data[:binary.LittleEndian.Uint16(data[6:])]...)
	binary.LittleEndian.PutUint64(head[8:], uint64(size))
	return head
}
