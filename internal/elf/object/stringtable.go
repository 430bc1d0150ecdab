package object

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
)

// StringTable builds the string table of an object file as LLVM's
// StringTableBuilder does: strings are ordered by their reversed bytes,
// descending, and a string that is a suffix of the previous one shares its
// bytes.
//
// Call Add for all strings, then Finish, then Offset and Bytes.
type StringTable struct {
	strings []tableString
	offsets []uint32 // by number, after Finish
	table   []byte
	head    int    // bytes before the first string
	total   uint64 // length of all strings added
}

type tableString struct {
	s     []byte
	ref   int
	first bool
}

// NewStringTable returns a table for ELF, which starts with a NUL.
func NewStringTable() *StringTable { return &StringTable{head: 1} }

// newCOFFStringTable returns a table for COFF, which starts with its own size.
func newCOFFStringTable() *StringTable { return &StringTable{head: 4} }

// Add adds s, which must not change until Finish, and returns its number for
// Offset. Equal strings are stored once.
func (t *StringTable) Add(s []byte) int { return t.add(s, false) }

// addFirst adds s to the strings stored before all others.
func (t *StringTable) addFirst(s []byte) int { return t.add(s, true) }

func (t *StringTable) add(s []byte, first bool) int {
	t.total += uint64(len(s))
	t.strings = append(t.strings, tableString{s, len(t.strings), first})
	return len(t.strings) - 1
}

// maxStringTable is the largest size of a table: offsets have 32 bits.
const maxStringTable = 1<<32 - 1

// Finish computes the layout of the table. It fails if the table would exceed 4
// GiB.
func (t *StringTable) Finish() error {
	t.promote()
	slices.SortFunc(t.strings, func(a, b tableString) int {
		if a.first != b.first {
			if a.first {
				return -1
			}
			return 1
		}
		return compareTails(b.s, a.s)
	})
	t.offsets = make([]uint32, len(t.strings))
	size := uint64(t.head)
	var previous []byte
	placed := t.strings[:0]
	for _, s := range t.strings {
		switch {
		case len(s.s) == 0 && t.head == 1:
			continue // the NUL at the start
		case previous != nil && bytes.HasSuffix(previous, s.s):
			t.offsets[s.ref] = uint32(size - uint64(len(s.s)) - 1)
			continue
		}
		if size > maxStringTable-uint64(len(s.s))-1 {
			return fmt.Errorf("string table passes 4 GiB at %q", clip(s.s))
		}
		t.offsets[s.ref] = uint32(size)
		size += uint64(len(s.s)) + 1
		previous = s.s
		placed = append(placed, s)
	}
	t.table = make([]byte, size)
	if t.head == 4 {
		binary.LittleEndian.PutUint32(t.table, uint32(size))
	}
	for _, s := range placed {
		copy(t.table[t.offsets[s.ref]:], s.s)
	}
	t.strings = nil
	return nil
}

// promote gives equal strings the same rank: a string that was added with
// addFirst at least once is stored first.
func (t *StringTable) promote() {
	front := map[string]bool{}
	for _, s := range t.strings {
		if s.first {
			front[string(s.s)] = true
		}
	}
	if len(front) == 0 {
		return
	}
	for i := range t.strings {
		s := &t.strings[i]
		s.first = s.first || front[string(s.s)]
	}
}

// Offset returns the offset of string ref in the table.
func (t *StringTable) Offset(ref int) uint32 { return t.offsets[ref] }

// Bytes returns the finished table.
func (t *StringTable) Bytes() []byte { return t.table }

// compareTails compares a and b beginning with their last bytes. A string sorts
// before longer ones that end with it.
func compareTails(a, b []byte) int {
	i, j := len(a), len(b)
	if i > 0 && j > 0 && &a[i-1] == &b[j-1] {
		return cmp.Compare(i, j) // suffixes of the same string
	}
	for i >= 8 && j >= 8 {
		x, y := binary.LittleEndian.Uint64(a[i-8:]), binary.LittleEndian.Uint64(b[j-8:])
		if x != y {
			return cmp.Compare(x, y)
		}
		i, j = i-8, j-8
	}
	for i > 0 && j > 0 {
		i, j = i-1, j-1
		if a[i] != b[j] {
			return cmp.Compare(a[i], b[j])
		}
	}
	return cmp.Compare(i, j)
}
