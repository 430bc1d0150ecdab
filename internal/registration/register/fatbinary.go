package register

import (
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

// FatBinary is an object that defines a symbol for a HIP fat binary, and registers
// nothing. Host code that clang compiled with neither -fgpu-rdc nor the fat binary
// references the symbol, __hip_fatbin or one with this prefix, and registers it.
type FatBinary struct {
	// Machine is elf.MachineX8664 or elf.MachineAArch64.
	Machine uint16
	// Symbol is the name of the symbol, which other objects of the same link see.
	Symbol string
	// Content is the fat binary. Its alignment is 4096 bytes.
	Content content.Content
	// Unused leaves the fat binary and the symbol out: no object refers to them.
	Unused bool
}

// Write writes the object. Its bytes depend only on the fields.
func (f *FatBinary) Write(out content.Sink) error {
	m, err := newBare(f.Machine, false)
	if err != nil {
		return err
	}
	if f.Content.Len() == 0 {
		return errors.New("the fat binary is empty")
	}
	if !identifier(f.Symbol) {
		return fmt.Errorf("symbol %q is not a C identifier", f.Symbol)
	}
	if f.Unused {
		return m.finish(out)
	}
	hip := runtimes.Of(offloadbinary.HIP)
	m.define(f.Symbol, m.Section(object.BuilderSection{
		Name: hip.Sections.Image, Type: elf.ShtProgbits, Flags: m.machine.imageFlags(f.Content.Len()), Align: alignOf(hip), Content: f.Content,
	}), uint64(f.Content.Len()))
	return m.finish(out)
}

// Requirement is an object that links only if another object defines certain
// symbols, see [Object.Define].
type Requirement struct {
	// Machine is elf.MachineX8664 or elf.MachineAArch64.
	Machine uint16
	// Symbols must be defined elsewhere. They can have any characters; linkers print
	// those that are missing.
	Symbols []string
	// Define are symbols by which linkers find the object in an archive.
	Define []string
}

// Write writes the object. Its bytes depend only on the fields.
func (r *Requirement) Write(out content.Sink) error {
	m, err := newBare(r.Machine, false)
	if err != nil {
		return err
	}
	if len(r.Symbols) == 0 {
		return errors.New("no symbol to require")
	}
	const pointer = 8
	section := m.Section(object.BuilderSection{
		Name: ".data.rel.ro.required", Type: elf.ShtProgbits, Flags: elf.ShfAlloc | elf.ShfWrite, Align: pointer,
		Content: content.Memory(make([]byte, pointer*len(r.Symbols))),
	})
	for i, name := range r.Symbols {
		symbol := m.Symbol(object.BuilderSymbol{Name: name, Bind: elf.BindGlobal, Visibility: elf.VisHidden})
		m.Relocate(section, uint64(pointer*i), m.machine.abs64, symbol, 0)
	}
	for _, name := range r.Define {
		m.define(name, section, 0)
	}
	// With --gc-sections, linkers keep constructors and the symbols that they reference.
	nothing := []byte(m.machine.code.nothing.register.text)
	text := m.Section(object.BuilderSection{
		Name: ".text.required", Type: elf.ShtProgbits, Flags: elf.ShfAlloc | elf.ShfExec, Align: 16, Content: content.Memory(nothing),
	})
	constructors := m.Section(object.BuilderSection{
		Name: ".init_array.101", Type: elf.ShtInitArray, Flags: elf.ShfAlloc | elf.ShfWrite, Align: pointer, Content: content.Memory(make([]byte, pointer)),
	})
	m.Relocate(constructors, 0, m.machine.abs64, m.local(".required", text, 0, uint64(len(nothing)), elf.TypeFunc), 0)
	m.Relocate(constructors, 0, m.machine.none, m.local(".required.symbols", section, 0, 0, elf.TypeObject), 0)
	return m.finish(out)
}

// newBare returns a module without offload entries.
func newBare(number uint16, coff bool) (*module, error) {
	machine, err := machineOf(number, coff)
	if err != nil {
		return nil, err
	}
	m := &module{machine: machine, outside: map[string]object.SymbolID{}, unwinding: unwinding{common: machine.code.common, prel32: machine.prel32}}
	if coff {
		m.builder = new(object.COFFBuilder)
	} else {
		m.builder = object.NewBuilder(number)
	}
	return m, nil
}

// define adds a symbol that other objects of the same link see.
func (m *module) define(name string, section object.SectionID, size uint64) {
	m.Symbol(object.BuilderSymbol{
		Name: name, Section: section, Size: size, Bind: elf.BindGlobal, Type: elf.TypeObject, Visibility: elf.VisHidden,
	})
}
