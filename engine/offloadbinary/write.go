package offloadbinary

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zlib"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/compression/longzstd"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/limits"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Write writes images in LLVM's format: version 1 as LLVM 22, with a package for each image;
// version 2 as LLVM 23 and version 3 as LLVM 24, with one package for all. The properties of an
// image keep their order; see Order for LLVM's order.
func Write(sink content.Sink, version int, images []Image) (err error) {
	defer guard.Into(&err)()
	if err := checkVersion(version); err != nil {
		return err
	}
	v := &versions[version]
	if len(images) > limits.Found/2 { // readers count a package for each
		return fmt.Errorf("%d images: more than the %d that readers accept", len(images), limits.Found/2)
	}
	for i := range images {
		for _, s := range images[i].Properties {
			if strings.ContainsRune(s.Key, 0) || !v.values && strings.ContainsRune(s.Value, 0) {
				return fmt.Errorf("property %q of image %d of %d: contains a NUL", s.Key, i+1, len(images))
			}
		}
	}
	if !v.single {
		return writePackage(sink, version, images)
	}
	for i := range images {
		if err := writePackage(sink, version, images[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// Compression selects how a package of version 3 is compressed.
type Compression struct {
	Zlib  bool // with zlib, else with zstd
	Level int  // as in LLVM's tool; 0 to 9 for zlib
}

// The default levels of LLVM's tool.
const (
	DefaultZstdLevel = 5
	DefaultZlibLevel = 6
)

// WriteCompressed writes images as one compressed package of version 3, as LLVM 24 does; the
// compressed bytes differ from LLVM's. The package is assembled in memory.
func WriteCompressed(ctx context.Context, sink content.Sink, images []Image, c Compression) (err error) {
	defer guard.Into(&err)()
	if c.Zlib && (c.Level < zlib.NoCompression || c.Level > zlib.BestCompression) {
		return fmt.Errorf("invalid zlib compression level %d; expected a value in [0, 9]", c.Level)
	}
	layout, err := newPackage(3, images)
	if err != nil {
		return err
	}
	if layout.size > limits.Inflated {
		return fmt.Errorf("an offload binary of %d bytes before compression: readers decompress at most %d bytes; compress the images in several offload binaries, or not at all", layout.size, limits.Inflated)
	}
	var plain content.Buffer
	if err := Write(&plain, CompressedVersion, images); err != nil {
		return err
	}
	inflated := plain.Bytes()
	packed := make([]byte, headerSizeV3, headerSizeV3+len(inflated)/2)
	copy(packed, inflated)
	if c.Zlib {
		out := bytes.NewBuffer(packed)
		w, err := zlib.NewWriterLevel(out, c.Level)
		if err != nil {
			return err
		}
		if _, err := w.Write(inflated[headerSizeV3:]); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		packed = out.Bytes()
	} else {
		var err error
		if packed, err = longzstd.Encode(ctx, packed, inflated[headerSizeV3:], longzstd.FromNumber(c.Level)); err != nil {
			return err
		}
	}
	le := binary.LittleEndian
	le.PutUint64(packed[8:], uint64(len(packed)))
	le.PutUint64(packed[32:], uint64(len(inflated)))
	if _, err := sink.Write(packed); err != nil {
		return err
	}
	return sink.Zeros(alignUp(int64(len(packed)), Align) - int64(len(packed)))
}

// writePackage writes one package that holds images.
func writePackage(sink content.Sink, version int, images []Image) error {
	p, err := newPackage(version, images)
	if err != nil {
		return err
	}
	head := p.head()
	if _, err := sink.Write(head); err != nil {
		return err
	}
	if err := sink.Zeros(p.start - int64(len(head))); err != nil {
		return err
	}
	at := p.start
	for i := range images {
		if err := sink.Append(images[i].Content); err != nil {
			return err
		}
		at += images[i].Content.Len()
	}
	return sink.Zeros(p.size - at)
}

// layout is the layout of one package: header, image headers, string records, strings, images.
type layout struct {
	*version
	number               int // of the version
	images               []Image
	strings              *object.StringTable
	recordsAt, stringsAt int
	start, size          int64 // start of the images, size of the package
}

// newPackage returns the layout of a package.
func newPackage(version int, images []Image) (*layout, error) {
	p := &layout{number: version, version: &versions[version], images: images, strings: object.NewStringTable()}
	records, contents := 0, int64(0)
	for i := range images {
		for _, s := range images[i].Properties {
			p.strings.Add([]byte(s.Key))
			p.strings.Add([]byte(s.Value))
		}
		records += len(images[i].Properties)
		contents += images[i].Content.Len()
	}
	if err := p.strings.Finish(); err != nil {
		return nil, err
	}
	p.recordsAt = p.header + entrySize*len(images)
	p.stringsAt = p.recordsAt + p.record*records
	p.start = alignUp(int64(p.stringsAt+len(p.strings.Bytes())), Align)
	p.size = alignUp(p.start+contents, Align)
	return p, nil
}

// head returns the bytes of the package before the strings.
func (p *layout) head() []byte {
	le := binary.LittleEndian
	head := make([]byte, 0, p.start)
	head = append(head, Magic...)
	head = le.AppendUint32(head, uint32(p.number))
	head = le.AppendUint64(head, uint64(p.size))
	head = le.AppendUint64(head, uint64(p.header))
	if p.single {
		head = le.AppendUint64(head, entrySize)
	} else {
		head = le.AppendUint64(head, uint64(len(p.images)))
	}
	if p.compresses {
		head = le.AppendUint64(head, 0) // not compressed
	}
	at, records := p.start, p.recordsAt
	for i := range p.images {
		img := &p.images[i]
		head, _ = binary.Append(head, le, entry{
			uint16(img.Kind), uint16(img.Offload), img.Flags, uint64(records), uint64(len(img.Properties)), uint64(at), uint64(img.Content.Len()),
		})
		records += p.record * len(img.Properties)
		at += img.Content.Len()
	}
	n := 0
	next := func() uint64 {
		n++
		return uint64(p.stringsAt) + uint64(p.strings.Offset(n-1))
	}
	for i := range p.images {
		for _, s := range p.images[i].Properties {
			head = le.AppendUint64(head, next())
			head = le.AppendUint64(head, next())
			if p.values {
				head = le.AppendUint64(head, uint64(len(s.Value)))
			}
		}
	}
	return append(head, p.strings.Bytes()...)
}

func alignUp(n, align int64) int64 { return (n + align - 1) / align * align }
