package elf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// ErrNotProgram reports a file that is no 64-bit little-endian ELF file.
var ErrNotProgram = errors.New("not a 64-bit little-endian ELF file")

// The longest name of an interpreter that Linux accepts, PATH_MAX.
const maxName = 4096

// Interpreter returns the path of the program that loads the shared libraries of a program (PT_INTERP), or "" for a program
// without one. It returns ErrNotProgram for other files, and io.EOF or io.ErrUnexpectedEOF for a file that is too short.
func Interpreter(r io.ReaderAt) (string, error) {
	le, header := binary.LittleEndian, make([]byte, HeaderSize)
	if _, err := r.ReadAt(header, 0); err != nil {
		return "", err
	}
	if string(header[:6]) != Magic+"\x02\x01" || le.Uint16(header[54:]) != SegmentSize {
		return "", ErrNotProgram
	}
	table := make([]byte, SegmentSize*int(le.Uint16(header[56:])))
	if _, err := r.ReadAt(table, int64(le.Uint64(header[32:]))); err != nil {
		return "", err
	}
	for ; len(table) > 0; table = table[SegmentSize:] {
		if le.Uint32(table) == PtInterp {
			name := make([]byte, min(le.Uint64(table[32:]), maxName))
			_, err := r.ReadAt(name, int64(le.Uint64(table[8:])))
			return string(bytes.TrimRight(name, "\x00")), err
		}
	}
	return "", nil
}
