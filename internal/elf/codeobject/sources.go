package codeobject

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/linetable"
	"github.com/rules-offload/rules_offload/internal/elf/object"
)

// SourceLine is the number of bytes of code from a line of a source file. File is empty and Line
// is 0 for code without a source line.
type SourceLine struct {
	File  string
	Line  uint32
	Bytes uint64
}

// Sources are the source lines of code, by file and line.
type Sources struct {
	// Code are the lines of all code of the object: kernels, functions, and padding.
	Code []SourceLine
	// Kernels are the lines of each kernel, in the order of Object.Kernels. Bytes of a kernel add
	// up to its CodeSize. A kernel without a symbol has no lines.
	Kernels [][]SourceLine
}

// ErrNoLineTables is the error of Sources for an object without line tables.
var ErrNoLineTables = errors.New("no line tables: compile with -gline-tables-only or -g, and do not strip debug information")

// Sources returns the source lines of the code.
func (o *Object) Sources() (*Sources, error) {
	if o.Relocatable {
		return nil, errors.New("a relocatable code object: addresses in line tables are known after the link")
	}
	if !slices.ContainsFunc(o.elf.Sections, func(s object.Section) bool { return string(s.Name) == ".debug_line" && s.Size > 0 }) {
		return nil, ErrNoLineTables
	}
	code := o.elf.code()
	table, err := linetable.Parse(o.elf.debug, func(addr uint64) bool {
		i := sort.Search(len(code), func(i int) bool { return code[i].end > addr })
		return i < len(code) && code[i].start <= addr
	})
	if err != nil {
		return nil, err
	}
	// Kernels that overlap, which only a damaged file has, could have the spans of all others.
	a := attribution{table: table, left: 8*len(table.Spans) + 16*len(o.Kernels) + 1<<16}
	s := &Sources{Kernels: make([][]SourceLine, len(o.Kernels))}
	if s.Code, err = a.lines(code); err != nil {
		return nil, err
	}
	for i := range o.Kernels {
		if k := o.elf.find(o.Kernels[i].Name, ""); k != nil && k.Size > 0 && o.Kernels[i].CodeSize != nil {
			if s.Kernels[i], err = a.lines([]addresses{{k.Value, k.Value + k.Size}}); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// addresses is a range of addresses.
type addresses struct{ start, end uint64 }

// code returns the ranges of the sections with code, by address. They do not overlap.
func (f *file) code() []addresses {
	var list []addresses
	for i, s := range f.Sections {
		if _, err := f.Data(i); err == nil && s.Type == elf.ShtProgbits && s.Flags&elf.ShfExec != 0 && s.Flags&elf.ShfAlloc != 0 && s.Addr+s.Size >= s.Addr {
			list = append(list, addresses{s.Addr, s.Addr + s.Size})
		}
	}
	slices.SortFunc(list, func(a, b addresses) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(list); i++ {
		list[i].start = max(list[i].start, list[i-1].end)
		list[i].end = max(list[i].end, list[i].start)
	}
	return list
}

// attribution finds the lines of ranges of code.
type attribution struct {
	table *linetable.Table
	left  int // spans that may still be visited
}

// lines returns the lines of ranges, by file and line; without one first.
func (a *attribution) lines(ranges []addresses) ([]SourceLine, error) {
	type place struct{ file, line uint32 }
	sums := make(map[place]uint64)
	for _, r := range ranges {
		if r.end < r.start {
			return nil, errors.New("the code of a kernel passes the last address")
		}
		spans := a.table.Spans
		i := sort.Search(len(spans), func(i int) bool { return spans[i].End > r.start })
		none := r.end - r.start
		for ; i < len(spans) && spans[i].Start < r.end; i++ {
			if a.left--; a.left < 0 {
				return nil, errors.New("the kernels overlap")
			}
			n := min(spans[i].End, r.end) - max(spans[i].Start, r.start)
			sums[place{spans[i].File, spans[i].Line}] += n
			none -= n
		}
		if none > 0 {
			sums[place{}] += none
		}
	}
	var list []SourceLine
	for p, n := range sums {
		list = append(list, SourceLine{a.table.Files[p.file], p.line, n})
	}
	slices.SortFunc(list, func(a, b SourceLine) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return list, nil
}

// debug returns the uncompressed contents of the first section with a name, or nil.
func (f *file) debug(name string) ([]byte, error) {
	i := slices.IndexFunc(f.Sections, func(s object.Section) bool { return string(s.Name) == name && s.Type != elf.ShtNobits })
	if i < 0 {
		return nil, nil
	}
	data, err := f.Data(i)
	if err != nil || f.Sections[i].Flags&elf.ShfCompressed == 0 {
		return data, err
	}
	if data, err = inflate(data); err != nil {
		return nil, fmt.Errorf("%s at byte 0x%x: %w", name, f.Sections[i].Offset, err)
	}
	return data, nil
}

// inflate uncompresses a section after its Elf64_Chdr.
func inflate(data []byte) ([]byte, error) {
	const header, zlibType, zstdType = 24, 1, 2
	// Debug information is about a third of its size when compressed.
	const ratio = 64
	if len(data) < header {
		return nil, fmt.Errorf("found a compressed section of %d bytes, expected at least %d", len(data), header)
	}
	typ, size := binary.LittleEndian.Uint32(data), binary.LittleEndian.Uint64(data[8:])
	if most := ratio * uint64(len(data)); size > most {
		return nil, fmt.Errorf("found %d bytes compressed to %d, expected at most %d", size, len(data), most)
	}
	var r io.Reader
	var err error
	switch stream := bytes.NewReader(data[header:]); typ {
	case zlibType:
		r, err = zlib.NewReader(stream)
	case zstdType:
		var d *zstd.Decoder
		if d, err = zstd.NewReader(stream, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(max(size, 1<<10))); err == nil {
			defer d.Close()
			r = d
		}
	default:
		err = fmt.Errorf("found compression of type %d, expected 1 (zlib) or 2 (zstd)", typ)
	}
	if err != nil {
		return nil, err
	}
	out := make([]byte, size)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, fmt.Errorf("cannot uncompress %d bytes: %w", size, err)
	}
	return out, nil
}

// CodeHash returns a hash of the sections with code and constants, kernel descriptors included,
// and of the names of the kernels.
func (o *Object) CodeHash() string {
	h := sha256.New()
	for i, s := range o.elf.Sections {
		if data, err := o.elf.Data(i); err == nil && s.Type == elf.ShtProgbits && s.Flags&elf.ShfAlloc != 0 {
			fmt.Fprintf(h, "%s %d %d\n", s.Name, s.Flags, s.Size)
			h.Write(data)
		}
	}
	for i := range o.Kernels {
		fmt.Fprintf(h, "%q\n", o.Kernels[i].Name)
	}
	return string(h.Sum(nil))
}
