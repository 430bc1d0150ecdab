// Package ar reads and writes ar archives.
//
// It reads the archives that LLVM 22 reads, except AIX big archives: GNU, BSD
// and COFF archives, including thin ones. It does not read their symbol indices. It
// writes GNU archives, byte for byte as LLVM 22's archive writer does in its
// deterministic mode.
package ar

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"
)

const (
	magic     = "!<arch>\n"
	thinMagic = "!<thin>\n"
	bigMagic  = "<bigaf>\n"

	headerSize = 60 // name 16, time 12, user 6, group 6, mode 8, size 10, terminator 2
	nameSize   = 16
	sizeAt     = 48
	terminator = "`\n"
)

// Kind is the format variant of an archive, which determines how long names and
// the index are stored.
type Kind uint8

// The kinds of archives. An archive without a sign of its kind is GNU.
const (
	GNU      Kind = iota // names in "//", index "/"
	GNU64                // as GNU, index "/SYM64/"
	BSD                  // names after the header, index "__.SYMDEF"
	Darwin64             // as BSD, index "__.SYMDEF_64"
	COFF                 // names in "//", two indices "/"
)

func (k Kind) String() string {
	return [...]string{"GNU", "GNU64", "BSD", "Darwin64", "COFF"}[k]
}

// Is reports whether data begins with the magic of an archive that Parse reads.
func Is(data []byte) bool {
	return bytes.HasPrefix(data, []byte(magic)) || bytes.HasPrefix(data, []byte(thinMagic))
}

// Archive is an archive in memory.
type Archive struct {
	data   []byte
	kind   Kind
	thin   bool
	names  []byte // the table of long names
	first  int    // offset of the first regular member, len(data) without one
	nameAt int    // offset of the table of long names in data, for errors

	headers io.ReaderAt // see ReadHeaders
}

// Member is a file in an archive.
type Member struct {
	Index  int    // among the regular members, from 0
	Name   string // as stored: a path, for members of thin archives
	Offset int64  // of the member's header in the archive, as in the symbol index

	// Thin reports whether the archive stores only the member's name and size. The
	// content is in a separate file, see MemberPath.
	Thin bool

	Size       int64
	Data       []byte // part of the archive; nil if Thin
	DataOffset int64  // where Data starts in the archive
}

// MemberPath returns the path of the file of a thin archive's member. Relative
// names are relative to the directory of the archive.
func MemberPath(archive, name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return archive[:strings.LastIndexByte(archive, '/')+1] + name
}

// Parse reads the head of an archive: its kind, index and table of names. Errors
// are of type *FormatError.
func Parse(data []byte) (*Archive, error) {
	a := &Archive{data: data}
	switch {
	case bytes.HasPrefix(data, []byte(thinMagic)):
		a.thin = true
	case bytes.HasPrefix(data, []byte(bigMagic)):
		return nil, &FormatError{Fault: BigArchive, Reason: "an AIX big archive, which is not supported"}
	case !bytes.HasPrefix(data, []byte(magic)):
		found := data[:min(len(data), len(magic))]
		return nil, &FormatError{Fault: NoArchive, Reason: fmt.Sprintf("found %q, expected %q or %q", found, magic, thinMagic)}
	}
	if err := a.special(); err != nil {
		return nil, err
	}
	return a, nil
}

// Kind returns the kind of the archive.
func (a *Archive) Kind() Kind { return a.kind }

// Thin reports whether the members are files outside the archive.
func (a *Archive) Thin() bool { return a.thin }

// special reads the members that are not files, and derives the kind of the
// archive from them:
//
//	GNU   / or /SYM64/ (index), then // (long names); each may be missing
//	COFF  / and / (indices, the second is read), then //, then /<ECSYMBOLS>/
//	BSD   __.SYMDEF or __.SYMDEF_64 (index), optionally followed by " SORTED"
func (a *Archive) special() *FormatError {
	a.first = len(a.data)
	h, err := a.header(len(magic))
	if h == nil || err != nil {
		return err
	}
	skip := func() *FormatError {
		h, err = a.header(h.next)
		return err
	}
	name := h.raw
	if strings.HasPrefix(name, "#1/") {
		a.kind = BSD
		if name, err = a.name(h); err != nil {
			return err
		}
		h.skipName()
	}
	switch name {
	case "__.SYMDEF_64", "__.SYMDEF_64 SORTED":
		a.kind = Darwin64
		err = skip()
	case "__.SYMDEF", "__.SYMDEF SORTED":
		a.kind = BSD
		err = skip()
	case "/", "/SYM64/":
		if name == "/SYM64/" {
			a.kind = GNU64
		}
		if err = skip(); err != nil || h == nil {
			return err
		}
		if h.raw == "/" {
			a.kind = COFF
			if err = skip(); err != nil || h == nil {
				return err
			}
		}
		fallthrough
	case "//":
		if h.raw == "//" {
			a.nameAt = h.body
			a.names = a.data[h.body:h.end:h.end]
			if err = skip(); err != nil || h == nil {
				return err
			}
		} else if a.kind != COFF && strings.HasPrefix(h.raw, "/") {
			return a.unknown(h)
		}
		if a.kind == COFF && h.raw == "/<ECSYMBOLS>/" {
			err = skip()
		}
	default:
		if a.kind == GNU && strings.HasPrefix(name, "/") {
			return a.unknown(h)
		}
	}
	if h != nil && err == nil {
		a.first = h.off
	}
	return err
}

// unknown returns the error for a special name where none is allowed.
func (a *Archive) unknown(h *header) *FormatError {
	return malformed(SpecialName, h.off, "special name %q before the table of long names", h.raw)
}

// header is the checked header of a member.
type header struct {
	off  int    // of the header
	raw  string // the name field without its terminator
	body int    // start of the content after the header
	end  int    // end of the content; equals body for members of thin archives
	size int    // the size field
	next int    // offset of the next header, len(data) at the end
	thin bool
	skip int // bytes of the body that are the name
}

// skipName removes the name after the header from the body.
func (h *header) skipName() {
	h.body += h.skip
	h.size -= h.skip
	h.skip = 0
}

// header reads the header at off; nil at the end of the archive.
func (a *Archive) header(off int) (*header, *FormatError) {
	if off >= len(a.data) {
		return nil, nil
	}
	left := len(a.data) - off
	if left < headerSize {
		return nil, a.ofMember(off, malformed(HeaderCut, off, "%d bytes left, a member header needs %d", left, headerSize))
	}
	return a.check(off, a.data[off:off+headerSize])
}

// check returns the header at off, whose bytes are field.
func (a *Archive) check(off int, field []byte) (*header, *FormatError) {
	if t := string(field[headerSize-2:]); t != terminator {
		return nil, a.ofMember(off, malformed(BadTerminator, off, "ends with %q, expected %q", t, terminator).found(t))
	}
	raw, err := a.rawName(off, field)
	if err != nil {
		return nil, err
	}
	h := &header{off: off, raw: raw, body: off + headerSize, thin: a.thin && raw != "/" && raw != "//" && raw != "/SYM64/"}
	if h.size, err = size(off, field); err != nil {
		return nil, err
	}
	if h.end = h.body; !h.thin {
		if h.size > len(a.data)-h.body {
			return nil, a.ofMember(off, malformed(SizePastEnd, off, "size %d passes the end of the archive (%d bytes)", h.size, len(a.data)))
		}
		h.end += h.size
	}
	// The pad byte after the last member may be missing.
	h.next = min(h.end+(h.end-off)%2, len(a.data))
	if strings.HasPrefix(raw, "#1/") {
		s := strings.TrimRight(raw[3:], " ")
		n, ok := number(s)
		if !ok {
			return nil, malformed(NameLengthDigits, off, "length %q of the name is not a number", s).found(s)
		}
		if n > uint64(h.size) || n > uint64(len(a.data)-h.body) {
			return nil, malformed(NameLengthPastEnd, off, "name of %d bytes in a member of %d", n, h.size).number(n)
		}
		h.skip = int(n)
	}
	return h, nil
}

// rawName returns the name at the beginning of the header at off without its
// terminator.
func (a *Archive) rawName(off int, header []byte) (string, *FormatError) {
	field := string(header[:nameSize])
	end := byte('/')
	if a.kind == BSD || a.kind == Darwin64 {
		end = ' '
		if field[0] == ' ' {
			return "", malformed(LeadingSpace, off, "name starts with a space")
		}
	} else if field[0] == '/' || strings.HasPrefix(field, "#1/") {
		end = ' '
	}
	if i := strings.IndexByte(field, end); i >= 0 {
		return field[:i], nil
	}
	return strings.TrimRight(field, " "), nil
}

// size returns the size field of the header at off. Sizes larger than any file
// are returned as the largest int.
func size(off int, header []byte) (int, *FormatError) {
	s := strings.TrimRight(string(header[sizeAt:headerSize-2]), " ")
	n, ok := number(s)
	if !ok {
		return 0, malformed(SizeDigits, off, "size %q is not a number", s).found(s)
	}
	return int(min(n, math.MaxInt)), nil
}

// number parses decimal digits.
func number(s string) (uint64, bool) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(s, 10, 64)
	return n, err == nil
}

// name returns the full name of a member.
func (a *Archive) name(h *header) (string, *FormatError) {
	raw := h.raw
	if strings.HasPrefix(raw, "#1/") {
		return strings.TrimRight(string(a.data[h.body:h.body+h.skip]), "\x00"), nil
	}
	if !strings.HasPrefix(raw, "/") {
		return raw, nil
	}
	switch raw {
	case "/", "//", "/<XFGHASHMAP>/", "/<ECSYMBOLS>/":
		return raw, nil
	}
	s := raw[1:]
	at, ok := number(s)
	switch {
	case !ok:
		return "", malformed(NameOffsetDigits, h.off, "offset %q of the name is not a number", s).found(s)
	case at >= uint64(len(a.names)):
		return "", malformed(NameOffsetPastEnd, h.off, "name at %d passes the end of the table of names (%d bytes)", at, len(a.names)).number(at)
	}
	name := a.names[at:]
	if a.kind == COFF {
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		return string(name), nil
	}
	end := bytes.IndexByte(name, '\n')
	if end < 1 || name[end-1] != '/' {
		return "", malformed(NameUnterminated, h.off, "name at %d of the table of names (byte %#x) does not end with %q", at, a.nameAt+int(at), "/\n").number(at)
	}
	return string(name[:end-1]), nil
}

// ofMember adds the name of the member whose header is at off to a fault, if
// the name can be read.
func (a *Archive) ofMember(off int, e *FormatError) *FormatError {
	if len(a.data)-off < nameSize {
		return e
	}
	raw, err := a.rawName(off, a.data[off:])
	if err != nil {
		return e
	}
	h := &header{off: off, raw: raw, body: min(off+headerSize, len(a.data))}
	if strings.HasPrefix(raw, "#1/") {
		n, ok := number(strings.TrimRight(raw[3:], " "))
		if !ok || n > uint64(len(a.data)-h.body) {
			return e
		}
		h.skip = int(n)
	}
	if name, err := a.name(h); err == nil {
		e.Member, e.Named = name, true
	}
	return e
}

// ReadHeaders makes Members read headers from r, which has the bytes of the
// archive. For a mapped file, a read may take less time than a page fault. If r
// fails, Members uses the data.
func (a *Archive) ReadHeaders(r io.ReaderAt) { a.headers = r }

// Members returns the files in the archive, in order. The sequence ends after
// the first error, which is of type *FormatError.
func (a *Archive) Members() iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		next := a.header
		if a.headers != nil {
			field := make([]byte, headerSize)
			next = func(off int) (*header, *FormatError) {
				if len(a.data)-off >= headerSize {
					if n, _ := a.headers.ReadAt(field, int64(off)); n == headerSize {
						return a.check(off, field)
					}
				}
				return a.header(off)
			}
		}
		off := a.first
		for i := 0; ; i++ {
			h, err := next(off)
			if h == nil && err == nil {
				return
			}
			var m Member
			if err == nil {
				m, err = a.member(h)
			}
			if err != nil {
				yield(Member{}, err)
				return
			}
			m.Index = i
			if !yield(m, nil) {
				return
			}
			off = h.next
		}
	}
}

func (a *Archive) member(h *header) (Member, *FormatError) {
	name, err := a.name(h)
	if err != nil {
		return Member{}, err
	}
	h.skipName()
	m := Member{Name: name, Offset: int64(h.off), Thin: h.thin, Size: int64(h.size)}
	if !h.thin {
		m.Data, m.DataOffset = a.data[h.body:h.end:h.end], int64(h.body)
	}
	return m, nil
}
