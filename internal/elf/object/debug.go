package object

import (
	"bytes"
	"fmt"
	"hash"
	"hash/crc32"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// debugLink is the section that names the file with the debug information, and has the checksum of that file.
const debugLink = ".gnu_debuglink"

// isDebug reports whether a section has debug information.
func isDebug(name []byte) bool { return bytes.HasPrefix(name, []byte(".debug_")) }

// SplitDebug splits the linked ELF file in: debug gets the debug information and the symbols, as `llvm-objcopy
// --only-keep-debug` writes them, and out the file without debug information, with a section .gnu_debuglink by which
// debuggers find a file called name. Without debug information, out is the same as in.
func SplitDebug(in content.Content, name string, out, debug content.Sink) error {
	f, err := Parse(in.Mapped(guard.Inside))
	if err != nil {
		return err
	}
	if f.Format == ELFRelocatable || !f.Format.IsELF() || f.elf.shstrndx == 0 || len(f.Sections) == 0 {
		return fmt.Errorf("found %s without debug information to split, expected a linked ELF file with section headers", f.Format)
	}
	if err := f.ReadSegments(); err != nil {
		return err
	}
	sum := &checksum{debug, crc32.NewIEEE()}
	if err := f.writeDebug(in, sum); err != nil {
		return err
	}
	if !slices.ContainsFunc(f.Sections, func(s Section) bool { return isDebug(s.Name) }) {
		return out.Append(in)
	}
	link := elfEncoder{h: f.elf, buf: append([]byte(name), make([]byte, 4-len(name)%4)...)}
	link.u32(sum.hash.Sum32())
	return Rewrite(in, Edits{
		Remove: func(name []byte) bool { return isDebug(name) || string(name) == debugLink },
		Add:    []NewSection{{Name: debugLink, Content: content.Memory(link.buf), Type: elf.ShtProgbits, Align: 4}},
	}, out)
}

// writeDebug writes the file with all headers, in which sections and segments that are loaded have no contents, except for
// notes, which identify the file.
func (f *File) writeDebug(in content.Content, out content.Sink) error {
	h := f.elf
	headers := elfEncoder{h: h}
	at := h.ehdrSize() + uint64(len(f.Segments))*h.phdrSize()
	var pieces []content.Part
	headers.nullSection(len(f.Sections), h.shstrndx)
	for i := 1; i < len(f.Sections); i++ {
		s := f.Sections[i]
		if s.Flags&elf.ShfAlloc != 0 && s.Type != elf.ShtNote {
			s.Type = elf.ShtNobits
		}
		if align := max(s.Align, 1); s.Type != elf.ShtNobits {
			if _, err := f.Data(i); err != nil {
				return err
			}
			if align > 1<<16 {
				return fmt.Errorf("section %d %q: alignment %d, expected 65536 at most", i, clip(s.Name), align)
			}
			at = (at + align - 1) / align * align
			pieces = append(pieces, partAt(at, in.Slice(int64(s.Offset), int64(s.Size))))
		}
		s.Offset = at
		if s.Type != elf.ShtNobits {
			at += s.Size
		}
		headers.section(&s.SectionHeader, s.SectionHeader.Name)
	}
	at = (at + 7) / 8 * 8
	pieces = append(pieces, partAt(at, content.Memory(headers.buf)))
	first := elfEncoder{h: h}
	first.header(h.ehdrSize(), at, h.phnum, len(f.Sections), h.shstrndx)
	for i := range f.Segments {
		s := f.Segments[i]
		s.Offset, s.FileSize = h.ehdrSize(), 0
		first.segment(&s)
	}
	pieces = append([]content.Part{{Content: content.Memory(first.buf)}}, pieces...)
	return content.WriteParts(out, pieces, 0)
}

// checksum is a sink that also computes the checksum of what it gets.
type checksum struct {
	content.Sink
	hash hash.Hash32
}

// Write implements io.Writer.
func (c *checksum) Write(p []byte) (int, error) {
	c.hash.Write(p)
	return c.Sink.Write(p)
}

// Append implements content.Sink.
func (c *checksum) Append(part content.Content) error {
	c.hash.Write(part.Mapped(guard.Inside))
	return c.Sink.Append(part)
}

// Zeros implements content.Sink. There are only those between sections.
func (c *checksum) Zeros(n int64) error {
	c.hash.Write(make([]byte, n))
	return c.Sink.Zeros(n)
}
