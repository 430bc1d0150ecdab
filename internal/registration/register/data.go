package register

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
)

// Data is an object that defines a file as constant data of C, and its size:
//
//	const unsigned char NAME[];
//	const size_t NAME_size;
//
// It registers nothing.
type Data struct {
	// Machine is elf.MachineX8664 or elf.MachineAArch64.
	Machine uint16
	// COFF selects an object for Windows; Machine must be MachineX8664.
	COFF bool
	// Symbol is NAME, an identifier of C that is not a keyword.
	Symbol string
	// Align is the alignment of the data in bytes, a power of two; 0 means 16.
	Align uint64
	// Content is the content of the file. It must not be empty.
	Content content.Content
	// Size is the value of NAME_size in bytes; 0 means the size of Content.
	Size int64
}

// dataAlign is the default alignment of data, sufficient for every type.
const dataAlign = 16

// maxCOFFAlign is the largest alignment of a section in COFF.
const maxCOFFAlign = 8192

// Write writes the object. Its bytes depend only on the fields.
func (d *Data) Write(out content.Sink) error {
	m, err := newBare(d.Machine, d.COFF)
	if err != nil {
		return err
	}
	align := cmp.Or(d.Align, dataAlign)
	switch {
	case d.Content.Len() == 0:
		return errors.New("found an empty file, expected data to embed")
	case align&(align-1) != 0:
		return fmt.Errorf("alignment %d is not a power of two", align)
	case d.COFF && align > maxCOFFAlign:
		return fmt.Errorf("alignment %d is more than %d, the largest in COFF", align, maxCOFFAlign)
	}
	if err := CheckIdentifier(d.Symbol); err != nil {
		return err
	}
	size := uint64(cmp.Or(d.Size, d.Content.Len()))
	name, flags := m.machine.readOnly(), uint64(elf.ShfAlloc)
	if !d.COFF {
		flags = m.machine.imageFlags(d.Content.Len())
		if flags&m.machine.large != 0 {
			name = ".lrodata"
		}
	}
	m.export(d.Symbol, m.Section(object.BuilderSection{
		Name: name, Type: elf.ShtProgbits, Flags: flags, Align: align, Content: d.Content,
	}), size)

	const word = 8
	number := binary.LittleEndian.AppendUint64(nil, size)
	m.export(d.Symbol+"_size", m.Section(object.BuilderSection{
		Name: m.machine.readOnly(), Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: word, Content: content.Memory(number),
	}), word)
	return m.finish(out)
}

// export adds a symbol that is visible to a program even if the object is in a
// shared library.
func (m *module) export(name string, section object.SectionID, size uint64) {
	m.Symbol(object.BuilderSymbol{Name: name, Section: section, Size: size, Bind: elf.BindGlobal, Type: elf.TypeObject})
}

// isKeyword reports whether a name is a keyword of C or C++, which cannot be the name of data.
func isKeyword(name string) bool {
	switch name {
	case "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
		"char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl", "concept",
		"const", "const_cast", "consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete",
		"do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
		"friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq",
		"nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
		"requires", "restrict", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast",
		"struct", "switch", "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid",
		"typename", "typeof", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor",
		"xor_eq":
		return true
	}
	return false
}

// CheckIdentifier returns an error if C or C++ cannot declare data with that
// name.
func CheckIdentifier(name string) error {
	switch {
	case !identifier(name):
		return fmt.Errorf("symbol %q is not a C identifier: expected letters, digits and _, no digit first", name)
	case isKeyword(name):
		return fmt.Errorf("symbol %q is a keyword of C or C++; choose another name", name)
	}
	return nil
}
