package elf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
)

// program returns an ELF program with a segment of each type. The segments of
// type PtInterp hold the name of a loader.
func program(types ...uint32) []byte {
	const loader = "/lib/ld.so\x00"
	le := binary.LittleEndian
	b := make([]byte, HeaderSize+SegmentSize*len(types))
	copy(b, Magic+"\x02\x01\x01")
	le.PutUint64(b[32:], HeaderSize)
	le.PutUint16(b[54:], SegmentSize)
	le.PutUint16(b[56:], uint16(len(types)))
	for i, typ := range types {
		segment := b[HeaderSize+SegmentSize*i:]
		le.PutUint32(segment, typ)
		le.PutUint64(segment[8:], uint64(len(b)))
		le.PutUint64(segment[32:], uint64(len(loader)))
	}
	return append(b, loader...)
}

func TestInterpreter(t *testing.T) {
	narrow := program(PtInterp)
	narrow[4] = 1
	for _, test := range []struct {
		name   string
		data   []byte
		loader string
		err    error
	}{
		{"dynamic", program(PtLoad, PtInterp, PtDynamic), "/lib/ld.so", nil},
		{"static", program(PtLoad), "", nil},
		{"32 bits", narrow, "", ErrNotProgram},
		{"no header", []byte(Magic), "", io.EOF},
		{"no segments", program(PtLoad, PtInterp)[:HeaderSize+8], "", io.EOF},
	} {
		t.Run(test.name, func(t *testing.T) {
			if loader, err := Interpreter(bytes.NewReader(test.data)); loader != test.loader || !errors.Is(err, test.err) {
				t.Errorf("got %q and error %v, want %q and %v", loader, err, test.loader, test.err)
			}
		})
	}
}

func FuzzInterpreter(f *testing.F) {
	f.Add(program(PtLoad, PtInterp, PtDynamic))
	f.Fuzz(func(t *testing.T, data []byte) {
		if name, err := Interpreter(bytes.NewReader(data)); len(name) > maxName || err != nil && len(data) == 0 && err != io.EOF {
			t.Errorf("got %d bytes and error %v", len(name), err)
		}
	})
}
