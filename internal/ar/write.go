package ar

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/limits"
)

const (
	maxSize = 9_999_999_999 // of a member: ten digits
	sym64   = 1 << 32       // first offset that a 32-bit index cannot hold
)

// NewMember is a file to add to an archive.
type NewMember struct {
	Name string
	Data content.Content

	// Object reports whether Data is a readable object or bitcode file. An archive
	// with such a member gets a symbol index, even if it is empty.
	Object bool
	// Symbols are the names that the index lists for this member, in order.
	Symbols []string
}

// Write writes a GNU archive as LLVM 22 does in its deterministic mode: times
// and owners are zero, modes 644; names of 16 bytes and more, or with a slash,
// are in a table; the symbol index comes first, with 64-bit offsets if a member
// starts at 4 GiB or later. Contents are passed to w one by one.
func Write(ctx context.Context, w content.Sink, members []NewMember) error {
	return write(ctx, w, members, sym64)
}

// write is Write with sym64, the offset from which the index uses 64-bit
// offsets.
func write(ctx context.Context, w content.Sink, members []NewMember, sym64 int64) error {
	l, err := lay(members, sym64)
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte(magic)); err != nil {
		return err
	}
	if l.indexed {
		if err := l.writeIndex(w, members); err != nil {
			return err
		}
	}
	if len(l.names) > 0 {
		if _, err := w.Write(append(nameTableHeader(len(l.names)), l.names...)); err != nil {
			return err
		}
	}
	header := make([]byte, 0, headerSize)
	for i, m := range members {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		header = appendHeader(header[:0], l.fields[i], 0o644, m.Data.Len())
		if _, err := w.Write(header); err != nil {
			return err
		}
		if err := w.Append(m.Data); err != nil {
			return err
		}
		if m.Data.Len()%2 != 0 {
			if _, err := w.Write([]byte{'\n'}); err != nil {
				return err
			}
		}
	}
	return nil
}

// layout holds the offsets of the parts of a new archive.
type layout struct {
	fields []string // the name field of each member
	names  []byte   // the table of long names, padded

	indexed   bool
	offset    int   // bytes of a number in the index: 4 or 8
	symbols   int64 // in the index
	indexSize int64 // without padding
	first     int64 // offset of the first member's header
}

func lay(members []NewMember, sym64 int64) (*layout, error) {
	if len(members) > limits.Found/2 { // readers count a bundle in each
		return nil, fmt.Errorf("archive of %d members: more than the %d that readers accept", len(members), limits.Found/2)
	}
	l := &layout{fields: make([]string, len(members)), offset: 4}
	at := map[string]int{} // where in names
	var text, end, last int64
	for i, m := range members {
		if m.Name == "" || strings.ContainsAny(m.Name, "\n\x00") {
			return nil, fmt.Errorf("archive member %d of %d: name %q cannot be stored: it is empty, or has a line break or a NUL", i+1, len(members), m.Name)
		}
		if m.Data.Len() > maxSize {
			return nil, fmt.Errorf("archive member %q: size %d exceeds the format's limit of %d", m.Name, m.Data.Len(), int64(maxSize))
		}
		if l.fields[i] = m.Name + "/"; inTable(m.Name) {
			pos, ok := at[m.Name]
			if !ok {
				pos = len(l.names)
				at[m.Name] = pos
				l.names = append(append(l.names, m.Name...), "/\n"...)
			}
			l.fields[i] = "/" + strconv.Itoa(pos)
		}
		last = end
		end += headerSize + m.Data.Len() + m.Data.Len()%2
		l.indexed = l.indexed || m.Object
		l.symbols += int64(len(m.Symbols))
		for _, s := range m.Symbols {
			text += int64(len(s)) + 1
		}
	}
	if len(l.names)%2 != 0 {
		l.names = append(l.names, '\n')
	}
	if l.indexed && text == 0 {
		text = 3 // as LLVM writes it, because old Solaris linkers require a non-empty string table
	}
	l.indexed = text > 0
	l.place(text)
	if l.first+last >= sym64 {
		l.offset = 8
		l.place(text)
	}
	if l.indexSize > maxSize {
		return nil, fmt.Errorf("archive: symbol index of %d bytes exceeds the format's limit of %d", l.indexSize, int64(maxSize))
	}
	return l, nil
}

// inTable reports whether a name is stored in the table of long names: names
// that LLVM stores there, and names that readers would mistake for those of BSD
// archives.
func inTable(name string) bool {
	return len(name) >= nameSize || strings.Contains(name, "/") || name == "#1" || strings.HasPrefix(name, "__.SYMDEF")
}

// place computes the size of the index and the offsets that depend on it.
func (l *layout) place(text int64) {
	l.first = int64(len(magic))
	if l.indexed {
		l.indexSize = int64(l.offset)*(1+l.symbols) + text
		l.first += headerSize + l.indexSize + l.indexSize%2
	}
	if len(l.names) > 0 {
		l.first += headerSize + int64(len(l.names))
	}
}

// writeIndex writes the symbol index: a count, for each symbol the offset of its
// member, the names.
func (l *layout) writeIndex(w content.Sink, members []NewMember) error {
	b := bufio.NewWriterSize(w, 64<<10)
	field := "/"
	number := func(v int64) { b.Write(binary.BigEndian.AppendUint32(b.AvailableBuffer(), uint32(v))) }
	if l.offset == 8 {
		field = "/SYM64/"
		number = func(v int64) { b.Write(binary.BigEndian.AppendUint64(b.AvailableBuffer(), uint64(v))) }
	}
	padding := l.indexSize % 2
	b.Write(fileHeader(field, 0, l.indexSize+padding))
	number(l.symbols)
	off := l.first
	for _, m := range members {
		for range m.Symbols {
			number(off)
		}
		off += headerSize + m.Data.Len() + m.Data.Len()%2
	}
	for _, m := range members {
		for _, s := range m.Symbols {
			b.WriteString(s)
			b.WriteByte(0)
		}
	}
	if l.symbols == 0 {
		padding += 3
	}
	for range padding {
		b.WriteByte(0)
	}
	return b.Flush() // the first error of any write
}

// fileHeader returns the header of a member of the given size.
func fileHeader(name string, mode int, size int64) []byte {
	return appendHeader(nil, name, mode, size)
}

// appendHeader appends the header of a member of the given size. Archives have many
// members, so it does without package fmt.
func appendHeader(dst []byte, name string, mode int, size int64) []byte {
	const spaces = "                "
	end := len(dst)
	pad := func(width int) {
		end += width
		dst = append(dst, spaces[:max(end-len(dst), 0)]...)
	}
	dst = append(dst, name...)
	pad(nameSize)
	for _, width := range []int{12, 6, 6} { // time, user, group
		dst = append(dst, '0')
		pad(width)
	}
	dst = strconv.AppendInt(dst, int64(mode), 8)
	pad(8)
	dst = strconv.AppendInt(dst, size, 10)
	pad(10)
	return append(dst, terminator...)
}

// nameTableHeader returns the header of the table of long names.
func nameTableHeader(size int) []byte {
	return fmt.Appendf(nil, "%-48s%-10d%s", "//", size, terminator)
}
