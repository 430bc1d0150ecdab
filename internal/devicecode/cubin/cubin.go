// Package cubin reads the kernels of cubins, the ELF files that hold machine
// code for NVIDIA GPUs: their names, code, and the resources that the sections
// .nv.info state. It also reads CUDA fatbinaries. NVIDIA does not document the
// formats; this follows what its tools and LLVM write.
package cubin

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
)

// Object is a cubin.
type Object struct {
	// SM is the compute capability, 80 for sm_80; 0 if the file does not tell.
	SM int
	// Kernels are the kernels in the order of their code sections.
	Kernels []Kernel
	// Sections are the sections that take space in the file.
	Sections []Section
}

// Section is a section of the file.
type Section struct {
	Name []byte
	Size uint64 // bytes
}

// Kernel is a kernel of a cubin. What is nil is not stated.
type Kernel struct {
	Name []byte
	// CodeSize and Shared are the sizes of the code and of the static shared
	// memory, in bytes.
	CodeSize, Shared int64
	// Registers is the number of registers of a thread, Frame what its stack
	// takes at least and Params the size of the parameters, in bytes.
	Registers, Frame, Params *int64
	// MaxThreads is the largest number of threads of a block.
	MaxThreads *int64
	// ReqdWorkgroup is the size that blocks must have.
	ReqdWorkgroup *[3]int64
}

// Is reports whether data begins like a cubin: an ELF file for the machine CUDA.
func Is(data []byte) bool {
	return len(data) >= elf.HeaderSize && string(data[:4]) == elf.Magic && data[5] == 1 && binary.LittleEndian.Uint16(data[18:]) == elf.MachineCUDA
}

// Arch returns the name of the processor, such as sm_80.
func (o *Object) Arch() string {
	if o.SM == 0 {
		return ""
	}
	return fmt.Sprintf("sm_%d", o.SM)
}

// Attributes of .nv.info.
const (
	attrMaxThreads   = 0x05
	attrReqdThreads  = 0x10
	attrFrameSize    = 0x11
	attrMinStackSize = 0x12
	attrParamSize    = 0x19
	attrRegisters    = 0x2f
)

// Parse reads a cubin.
func Parse(data []byte) (*Object, error) {
	f, err := object.Parse(data)
	if err != nil {
		return nil, err
	}
	o := &Object{SM: sm(data, f.Is64)}
	p := parser{file: f, byName: make(map[string]int)}
	for i := range f.Sections {
		s := &f.Sections[i]
		if s.Type != 0 && s.Type != elf.ShtNobits && s.Size > 0 && s.Size <= uint64(len(data)) {
			o.Sections = append(o.Sections, Section{Name: s.Name, Size: s.Size})
		}
		if name, ok := bytes.CutPrefix(s.Name, []byte(".text.")); ok && len(name) > 0 && s.Size < 1<<62 {
			p.byName[string(name)] = len(p.kernels)
			p.kernels = append(p.kernels, Kernel{Name: name, CodeSize: int64(s.Size)})
		}
	}
	if len(p.kernels) > 0 {
		if err := p.read(); err != nil {
			return nil, err
		}
	}
	o.Kernels = p.entries()
	return o, nil
}

// sm returns the compute capability that the flags of the header state: in the
// low byte, or in the second one where the ABI version is 8 or more.
func sm(data []byte, is64 bool) int {
	at := 36
	if is64 {
		at = 48
	}
	const newABI = 8
	if data[8] >= newABI {
		at++
	}
	return int(data[at])
}

// parser collects what the sections tell of the kernels.
type parser struct {
	file    *object.File
	kernels []Kernel
	byName  map[string]int
	entry   []bool // by kernel: a section of its own describes it
	symbols [][]byte
}

// read reads the sections of the kernels and of the file.
func (p *parser) read() error {
	p.entry = make([]bool, len(p.kernels))
	for i := range p.file.Sections {
		s := &p.file.Sections[i]
		for _, prefix := range []string{".nv.shared.", ".nv.info.", ".nv.constant0."} {
			name, ok := bytes.CutPrefix(s.Name, []byte(prefix))
			if !ok {
				continue
			}
			k, ok := p.byName[string(name)]
			if !ok {
				continue
			}
			p.entry[k] = p.entry[k] || prefix != ".nv.shared."
			switch prefix {
			case ".nv.shared.":
				p.kernels[k].Shared = int64(min(s.Size, 1<<62))
			case ".nv.info.":
				if err := p.info(i, k); err != nil {
					return err
				}
			}
		}
	}
	for i := range p.file.Sections {
		if string(p.file.Sections[i].Name) == ".nv.info" {
			if err := p.info(i, -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries returns the kernels: functions that are called have code sections,
// too, but neither parameters nor attributes of their own.
func (p *parser) entries() []Kernel {
	var list []Kernel
	for i, k := range p.kernels {
		if p.entry[i] {
			list = append(list, k)
		}
	}
	if list == nil {
		return p.kernels
	}
	return list
}

// info reads the records of section i, which are about kernel k, or about
// symbols if k is -1.
func (p *parser) info(i, k int) error {
	data, err := p.file.Data(i)
	if err != nil {
		return err
	}
	base := p.file.Sections[i].Offset
	for at := 0; at < len(data); {
		rest := data[at:]
		if len(rest) < 4 {
			if len(bytes.Trim(rest, "\x00")) == 0 {
				return nil
			}
			return fmt.Errorf(".nv.info at byte 0x%x: found %d bytes, expected a record of 4 or more", base+uint64(at), len(rest))
		}
		format, attr, value := rest[0], rest[1], binary.LittleEndian.Uint16(rest[2:])
		at += 4
		var payload []byte
		if format == 4 {
			if int(value) > len(rest)-4 {
				return fmt.Errorf(".nv.info at byte 0x%x: a record of %d bytes, found %d", base+uint64(at-4), value, len(rest)-4)
			}
			payload = rest[4 : 4+int(value)]
			at += int(value)
		}
		if err := p.record(k, attr, format, value, payload); err != nil {
			return err
		}
	}
	return nil
}

// record applies a record.
func (p *parser) record(k int, attr, format byte, value uint16, payload []byte) error {
	word := func(i int) *int64 {
		if len(payload) < 4*i+4 {
			return nil
		}
		return new(int64(binary.LittleEndian.Uint32(payload[4*i:])))
	}
	switch attr {
	case attrRegisters, attrFrameSize, attrMinStackSize:
		symbol, n := word(0), word(1)
		if symbol == nil || n == nil {
			return nil
		}
		k, err := p.symbol(*symbol)
		if err != nil || k == nil {
			return err
		}
		switch attr {
		case attrRegisters:
			k.Registers = n
		case attrFrameSize:
			k.Frame = n
		}
		return nil
	}
	if k < 0 {
		return nil
	}
	switch x, y, z := word(0), word(1), word(2); {
	case attr == attrParamSize && format == 3:
		p.kernels[k].Params = new(int64(value))
	case z == nil || *x|*y|*z >= 1<<20:
	case attr == attrMaxThreads:
		p.kernels[k].MaxThreads = new(*x * *y * *z)
	case attr == attrReqdThreads:
		p.kernels[k].ReqdWorkgroup = &[3]int64{*x, *y, *z}
	}
	return nil
}

// symbol returns the kernel that a symbol names, nil if it names no kernel.
func (p *parser) symbol(i int64) (*Kernel, error) {
	if p.symbols == nil {
		for s, err := range p.file.Symbols() {
			if err != nil {
				return nil, err
			}
			p.symbols = append(p.symbols, s.Name)
		}
	}
	if i >= int64(len(p.symbols)) {
		return nil, nil
	}
	if k, ok := p.byName[string(p.symbols[i])]; ok {
		return &p.kernels[k], nil
	}
	return nil, nil
}
