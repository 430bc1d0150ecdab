package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// image is an io.Writer that checks the content of an entry: that it is device code,
// complete, and without other data.
type image struct {
	size int64

	at       int64  // bytes written so far
	head     []byte // the first headSize bytes
	sections []byte // the section header table of an ELF file
	nonzero  int64  // the byte after the last one that is not zero
}

// headSize is the number of bytes at the start of an image that are kept: more than the
// size of the program headers of any code object.
const headSize = 4 << 10

// maxTable limits the size of a section header table, in bytes. Code objects have several dozen sections.
const maxTable = 1 << 22

const (
	elfProgramHeaderSize = 56
	elfSectionHeaderSize = 64
	sectionNobits        = 8
)

// Write checks the next bytes of the image.
func (m *image) Write(p []byte) (int, error) {
	if len(m.head) < headSize {
		m.head = append(m.head, p[:min(len(p), headSize-len(m.head))]...)
	}
	if from, n, ok := m.sectionTable(); ok {
		// The part of the table that is in p.
		start, end := max(from, m.at)-m.at, min(from+n, m.at+int64(len(p)))-m.at
		if start < end {
			m.sections = append(m.sections, p[start:end]...)
		}
	}
	if trimmed := bytes.TrimRight(p, "\x00"); len(trimmed) > 0 {
		m.nonzero = m.at + int64(len(trimmed))
	}
	m.at += int64(len(p))
	return len(p), nil
}

// isELF reports whether the image begins like a 64-bit little-endian ELF file.
func (m *image) isELF() bool {
	return len(m.head) >= elfHeaderSize && bytes.HasPrefix(m.head, []byte("\x7fELF\x02\x01"))
}

// sectionTable returns the range of the section header table of an ELF file.
func (m *image) sectionTable() (from, n int64, ok bool) {
	if !m.isELF() {
		return 0, 0, false
	}
	offset, count := binary.LittleEndian.Uint64(m.head[40:]), binary.LittleEndian.Uint16(m.head[60:])
	n = int64(count) * elfSectionHeaderSize
	return int64(offset), n, offset <= uint64(m.size) && n <= maxTable && binary.LittleEndian.Uint16(m.head[58:]) == elfSectionHeaderSize
}

// wrongTarget returns an error if the image is code for another target than its entry.
func (m *image) wrongTarget(id, what string) error {
	return checkDevice(id, m.head, what)
}

// problem returns an error if the complete image is not valid for an entry. what names the
// image in messages.
func (m *image) problem(id, what string) error {
	_, targetID := splitID(id)
	processor, _, _ := strings.Cut(targetID, ":")
	portable := processor == "amdgcnspirv"
	if !strings.HasPrefix(processor, "gfx") && !portable {
		return nil
	}
	switch {
	case bytes.HasPrefix(m.head, []byte("BC\xc0\xde")), bytes.HasPrefix(m.head, []byte("\xde\xc0\x17\x0b")):
		return nil // LLVM bitcode
	case portable && (bytes.HasPrefix(m.head, []byte("\x03\x02\x23\x07")) || bytes.HasPrefix(m.head, []byte("\x07\x23\x02\x03"))):
		return nil
	case portable || !m.isELF():
		expected := "an AMDGPU ELF file or LLVM bitcode"
		if portable {
			expected = "SPIR-V or LLVM bitcode"
		}
		found := Format(m.head)
		if found == PlainBundle || found == CompressedBundle {
			found += " (use a rule whose inputs are bundles)"
		}
		return fmt.Errorf("%s is not a code object: found %s, expected %s; name the output of the device compiler", what, found, expected)
	}
	if err := checkDevice(id, m.head, what); err != nil {
		return err
	}
	end, err := m.elfEnd()
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case end > m.size:
		return fmt.Errorf("%s is truncated: its last section ends at byte 0x%x, the file at byte 0x%x; build it again", what, end, m.size)
	case m.nonzero > end:
		return fmt.Errorf("%s is more than one code object: %d bytes follow the ELF file, which ends at byte 0x%x; use a separate entry for each file", what, m.size-end, end)
	}
	return nil
}

// elfEnd returns the offset of the end of the last part of an ELF file.
func (m *image) elfEnd() (int64, error) {
	end := uint64(elfHeaderSize)
	extend := func(offset, size uint64) error {
		if offset > 1<<62 || size > 1<<62 {
			return fmt.Errorf("a header states 0x%x bytes at 0x%x; build the file again", size, offset)
		}
		end = max(end, offset+size)
		return nil
	}
	programs, count := binary.LittleEndian.Uint64(m.head[32:]), uint64(binary.LittleEndian.Uint16(m.head[56:]))
	if err := extend(programs, count*elfProgramHeaderSize); err != nil {
		return 0, err
	}
	for i := range count {
		at := programs + i*elfProgramHeaderSize
		if at+elfProgramHeaderSize > uint64(len(m.head)) {
			break
		}
		if err := extend(binary.LittleEndian.Uint64(m.head[at+8:]), binary.LittleEndian.Uint64(m.head[at+32:])); err != nil {
			return 0, err
		}
	}
	if err := extend(binary.LittleEndian.Uint64(m.head[40:]), uint64(binary.LittleEndian.Uint16(m.head[60:]))*elfSectionHeaderSize); err != nil {
		return 0, err
	}
	for h := m.sections; len(h) >= elfSectionHeaderSize; h = h[elfSectionHeaderSize:] {
		if binary.LittleEndian.Uint32(h[4:]) == sectionNobits {
			continue
		}
		if err := extend(binary.LittleEndian.Uint64(h[24:]), binary.LittleEndian.Uint64(h[32:])); err != nil {
			return 0, err
		}
	}
	return int64(end), nil
}

// lfsMagic is the start of a pointer to a file in Git LFS (its file specification).
const lfsMagic = "version https://git-lfs.github.com/"

// IsLFSPointer reports whether data is a pointer to a file in Git LFS instead of its content.
func IsLFSPointer(data []byte) bool { return bytes.HasPrefix(data, []byte(lfsMagic)) }

// Results of Format about which messages say more.
const (
	Archive          = "an archive"
	CompressedBundle = "a compressed bundle"
	ELF              = "an ELF file"
	Empty            = "an empty file"
	Gzip             = "a gzip file"
	PlainBundle      = "a bundle"
	Text             = "text"
	Zstd             = "a zstd file"
)

// Format describes the format of a file for messages: "text", "a gzip file". head is the start of its content, some
// hundred bytes at least, or all of it.
func Format(head []byte) string {
	for _, known := range []struct{ magic, name string }{
		{lfsMagic, "a Git LFS pointer (run git lfs pull)"},
		{"\x1f\x8b", Gzip},
		{"\x28\xb5\x2f\xfd", Zstd},
		{"PK\x03\x04", "a zip file"},
		{"MZ", "a PE file"},
		{plainMagic, PlainBundle},
		{compressedMagic, CompressedBundle},
		{"\x10\xff\x10\xad", "an offload binary"},
		{"!<arch>\n", Archive},
		{"\x7fELF\x01", "a 32-bit ELF file"},
		{"\x7fELF\x02\x02", "a big-endian ELF file"},
		{"\x03\x02\x23\x07", "SPIR-V"},
		{"BC\xc0\xde", "LLVM bitcode"},
	} {
		if bytes.HasPrefix(head, []byte(known.magic)) {
			return known.name
		}
	}
	switch {
	case len(head) == 0:
		return Empty
	case bytes.HasPrefix(head, []byte("\x7fELF")) && len(head) < elfHeaderSize:
		return "an ELF file without its header"
	case bytes.HasPrefix(head, []byte("\x7fELF")) && binary.LittleEndian.Uint16(head[18:]) == machineAMDGPU:
		return "a code object"
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return ELF
	case utf8.Valid(head) && !bytes.Contains(head, []byte{0}):
		return Text
	}
	return fmt.Sprintf("a file that begins with %q", head[:min(len(head), 8)])
}
