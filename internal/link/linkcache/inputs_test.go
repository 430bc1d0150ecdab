package linkcache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/rules-offload/rules_offload/internal/elf"
)

// program returns an ELF program with a segment of each type. The segments of
// type PtInterp hold the name of a loader.
func program(types ...uint32) []byte {
	const loader = "/lib/ld.so\x00"
	le := binary.LittleEndian
	b := make([]byte, elf.HeaderSize+elf.SegmentSize*len(types))
	copy(b, elf.Magic+"\x02\x01\x01")
	le.PutUint64(b[32:], elf.HeaderSize)
	le.PutUint16(b[54:], elf.SegmentSize)
	le.PutUint16(b[56:], uint16(len(types)))
	for i, typ := range types {
		segment := b[elf.HeaderSize+elf.SegmentSize*i:]
		le.PutUint32(segment, typ)
		le.PutUint64(segment[8:], uint64(len(b)))
		le.PutUint64(segment[32:], uint64(len(loader)))
	}
	return append(b, loader...)
}

func TestLoaderOf(t *testing.T) {
	narrow := program(elf.PtInterp)
	narrow[4] = 1
	for _, test := range []struct {
		name   string
		data   []byte
		loader string
		err    error
	}{
		{"dynamic", program(elf.PtLoad, elf.PtInterp, elf.PtDynamic), "/lib/ld.so", nil},
		{"static", program(elf.PtLoad), "", nil},
		{"32 bits", narrow, "", errUnknown},
		{"no header", []byte(elf.Magic), "", io.EOF},
		{"no segments", program(elf.PtLoad, elf.PtInterp)[:elf.HeaderSize+8], "", io.EOF},
	} {
		t.Run(test.name, func(t *testing.T) {
			if loader, err := loaderOf(bytes.NewReader(test.data)); loader != test.loader || !errors.Is(err, test.err) {
				t.Errorf("got %q and error %v, want %q and %v", loader, err, test.loader, test.err)
			}
		})
	}
}
