package ar

import (
	"bytes"
	"encoding/binary"
	"iter"
)

// Symbol is an entry of an archive's symbol index.
type Symbol struct {
	Name   string
	Offset int64 // of the header of the member that defines it, see Archive.Member
}

// Symbols returns the entries of the symbol index, in order. The sequence ends
// after the first error, which is of type *FormatError. It does not check
// offsets; Member does.
func (a *Archive) Symbols() iter.Seq2[Symbol, error] {
	return func(yield func(Symbol, error) bool) {
		if a.index == nil {
			return
		}
		symbols := a.ordered
		switch a.kind {
		case BSD, Darwin64:
			symbols = a.ranlib
		case COFF:
			symbols = a.secondLinkerMember
		}
		if err := symbols(yield); err != nil {
			yield(Symbol{}, err)
		}
	}
}

// words reads the numbers of an index.
type words struct {
	data  []byte
	order binary.ByteOrder
	short bool // the index ended too early
}

// next returns the next number, or false at the end of the data.
func (w *words) next(size int) (uint64, bool) {
	if len(w.data) < size {
		w.short = true
		return 0, false
	}
	field := w.data[:size]
	w.data = w.data[size:]
	switch size {
	case 2:
		return uint64(w.order.Uint16(field)), true
	case 4:
		return uint64(w.order.Uint32(field)), true
	}
	return w.order.Uint64(field), true
}

// list removes n numbers of the given size from w and returns them.
func (w *words) list(n uint64, size int) words {
	if n > uint64(len(w.data)/size) {
		w.short = true
		return words{}
	}
	l := words{data: w.data[:int(n)*size], order: w.order}
	w.data = w.data[len(l.data):]
	return l
}

// name removes a NUL-terminated string from w and returns it.
func (w *words) name() string {
	i := bytes.IndexByte(w.data, 0)
	if i < 0 {
		w.short = true
		return ""
	}
	s := string(w.data[:i])
	w.data = w.data[i+1:]
	return s
}

func (a *Archive) shortIndex() *FormatError {
	return malformed(IndexCut, len(magic), "symbol index of %d bytes is too short for its symbols", len(a.index))
}

// ordered reads the index of GNU archives: a count, offsets, names.
func (a *Archive) ordered(yield func(Symbol, error) bool) *FormatError {
	size := 4
	if a.kind == GNU64 {
		size = 8
	}
	w := words{data: a.index, order: binary.BigEndian}
	n, _ := w.next(size)
	offsets := w.list(n, size)
	for !w.short {
		off, ok := offsets.next(size)
		if !ok {
			return nil
		}
		if name := w.name(); !w.short && !yield(Symbol{name, int64(off)}, nil) {
			return nil
		}
	}
	return a.shortIndex()
}

// ranlib reads the index of BSD archives: the size of a list, the list of name
// and member offsets, the size of the names, names.
func (a *Archive) ranlib(yield func(Symbol, error) bool) *FormatError {
	size := 4
	if a.kind == Darwin64 {
		size = 8
	}
	w := words{data: a.index, order: binary.LittleEndian}
	n, _ := w.next(size)
	list := w.list(n/uint64(2*size), 2*size)
	if n, _ := w.next(size); n <= uint64(len(w.data)) {
		w.data = w.data[:n]
	} else {
		w.short = true
	}
	for !w.short {
		at, ok := list.next(size)
		if !ok {
			return nil
		}
		off, _ := list.next(size)
		if at > uint64(len(w.data)) {
			break
		}
		names := words{data: w.data[at:]}
		name := names.name()
		if names.short {
			break
		}
		if !yield(Symbol{name, int64(off)}, nil) {
			return nil
		}
	}
	return a.shortIndex()
}

// secondLinkerMember reads the second index of COFF archives: the number of
// members, their offsets, the number of symbols, for each the number of its
// member from 1, names.
func (a *Archive) secondLinkerMember(yield func(Symbol, error) bool) *FormatError {
	w := words{data: a.index, order: binary.LittleEndian}
	n, _ := w.next(4)
	members := w.list(n, 4)
	n, _ = w.next(4)
	numbers := w.list(n, 2)
	for !w.short {
		i, ok := numbers.next(2)
		if !ok {
			return nil
		}
		if i == 0 || i > uint64(len(members.data)/4) {
			return malformed(IndexMember, len(magic), "symbol index names member %d of %d", i, len(members.data)/4)
		}
		off := binary.LittleEndian.Uint32(members.data[4*(i-1):])
		if name := w.name(); !w.short && !yield(Symbol{name, int64(off)}, nil) {
			return nil
		}
	}
	return a.shortIndex()
}
