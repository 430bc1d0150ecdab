package registered

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

var le = binary.LittleEndian

// library is a shared library with a constructor that registers kernels, through its procedure linkage
// table or through the pointer of the loader. It is a file with one segment at address 0.
type library struct {
	names    []string
	indirect bool // call [rip + n]
	// fourth sets the fourth argument and copies it to the third, after an instruction of another function that sets
	// the third.
	fourth bool
	other  string
}

const (
	codeAt, stubAt, namesAt, dynamicAt, symbolsAt, stringsAt, relocationsAt, slotAt = 0x200, 0x400, 0x500, 0x700, 0x800, 0x840, 0x880, 0x900
	end                                                                             = 0xa00
)

func (l library) build() []byte {
	b := make([]byte, end)
	put := func(at int, values ...uint64) {
		for i, v := range values {
			le.PutUint64(b[at+8*i:], v)
		}
	}
	copy(b, elf.Magic+"\x02\x01\x01")
	le.PutUint16(b[16:], elf.EtDyn)
	le.PutUint16(b[18:], elf.MachineX8664)
	le.PutUint32(b[20:], 1)
	put(32, elf.HeaderSize, end) // program headers and, after the segment, section headers
	le.PutUint16(b[52:], elf.HeaderSize)
	le.PutUint16(b[54:], elf.SegmentSize)
	le.PutUint16(b[56:], 2)
	le.PutUint16(b[58:], elf.SectionSize)
	le.PutUint16(b[60:], 2)
	le.PutUint16(b[62:], 1)
	segment := func(i int, typ uint32, at, size uint64) {
		p := elf.HeaderSize + i*elf.SegmentSize
		le.PutUint32(b[p:], typ)
		le.PutUint32(b[p+4:], 5)
		put(p+8, at, at, at, size, size, 8)
	}
	segment(0, elf.PtLoad, 0, end)
	segment(1, elf.PtDynamic, dynamicAt, 0x80)
	put(dynamicAt, elf.DtSymtab, symbolsAt, elf.DtStrtab, stringsAt, elf.DtStrsz, 0x40, elf.DtRela, relocationsAt, elf.DtRelaSize, elf.RelaSize)
	name := registerFunction
	if l.other != "" {
		name = l.other
	}
	copy(b[stringsAt+1:], name)
	le.PutUint32(b[symbolsAt+elf.SymbolSize:], 1)
	put(relocationsAt, slotAt, 1<<32|7, 0)
	// The stub: endbr64; jmp [rip + slot].
	copy(b[stubAt:], "\xf3\x0f\x1e\xfa\xff\x25")
	le.PutUint32(b[stubAt+6:], slotAt-(stubAt+10))
	at, text := codeAt, namesAt
	for _, name := range l.names {
		copy(b[text:], name)
		if l.fourth {
			copy(b[at:], "\x48\x8d\x15") // lea rdx, [rip + the name of the function]
			le.PutUint32(b[at+3:], uint32(stringsAt+1-(at+7)))
			at += 7
		}
		copy(b[at:], "\x48\x8d\x15") // lea rdx, [rip + name]
		le.PutUint32(b[at+3:], uint32(text-(at+7)))
		copy(b[at+7:], "\x48\x89\xd1") // mov rcx, rdx
		if l.fourth {
			b[at+2] = 0x0d                 // lea rcx
			copy(b[at+7:], "\x48\x89\xca") // mov rdx, rcx
		}
		if l.indirect {
			copy(b[at+10:], "\xff\x15")
			le.PutUint32(b[at+12:], uint32(slotAt-(at+16)))
		} else {
			b[at+10] = 0xe8
			le.PutUint32(b[at+11:], uint32(int32(stubAt-(at+15))))
		}
		at, text = at+16, text+len(name)+1
	}
	sections := make([]byte, 2*elf.SectionSize)
	le.PutUint32(sections[elf.SectionSize+4:], elf.ShtStrtab)
	binary.LittleEndian.PutUint64(sections[elf.SectionSize+24:], stringsAt)
	binary.LittleEndian.PutUint64(sections[elf.SectionSize+32:], 1)
	return append(b, sections...)
}

func TestKernels(t *testing.T) {
	names := []string{"_Z3addPf", "_Z6kernelPfi", "scale"}
	for name, test := range map[string]struct {
		library  library
		want     []string
		complete bool
	}{
		"stub":          {library{names: names}, names, true},
		"pointer":       {library{names: names, indirect: true}, names, true},
		"fourth":        {library{names: names, fourth: true}, names, true},
		"other":         {library{names: names, other: "other"}, nil, true},
		"no call":       {library{}, nil, false},
		"not printable": {library{names: []string{"a\x01", "scale"}}, []string{"scale"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, complete, err := Kernels(content.Memory(test.library.build()))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || complete != test.complete {
				t.Errorf("complete %t, expected %t; %s", complete, test.complete, diff)
			}
		})
	}
}

// FuzzKernels reads any bytes.
func FuzzKernels(f *testing.F) {
	f.Add(library{names: []string{"a", "b"}}.build())
	f.Fuzz(func(t *testing.T, data []byte) { _, _, _ = Kernels(content.Memory(data)) })
}

// TestManyStubs reads a library with many stubs and many calls of other functions.
func TestManyStubs(t *testing.T) {
	data := library{names: []string{"scale"}}.build()
	for range 1 << 17 {
		at := len(data)
		data = append(data, "\xff\x25"...)
		data = le.AppendUint32(data, uint32(int32(slotAt-(at+6))))
		data = append(data, "\xe8\xfe\xff\xff\xff"...)
	}
	le.PutUint64(data[elf.HeaderSize+32:], uint64(len(data)))
	le.PutUint64(data[elf.HeaderSize+40:], uint64(len(data)))
	start := time.Now()
	got, complete, err := Kernels(content.Memory(data))
	if err != nil || !complete || !cmp.Equal(got, []string{"scale"}) {
		t.Errorf("got %q, complete %t, error %v, want scale", got, complete, err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("reading %d bytes took %s, want less than 10 s", len(data), took)
	}
}
