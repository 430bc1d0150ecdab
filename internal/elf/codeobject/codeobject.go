// Package codeobject reads AMD code objects: the ELF files that hold device
// code for amdgcn processors, versions 2 to 6, linked or relocatable, stripped
// or without section headers. It reads the target, the kernels with their
// metadata and descriptors, and the sections. The format is that of LLVM's "User
// Guide for AMDGPU Backend" (https://llvm.org/docs/AMDGPUUsage.html).
//
// All numbers of a file are checked before they are used, and memory is taken
// in proportion to the size of the file only.
package codeobject

import (
	"bytes"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
)

// Object is a code object. It refers to the bytes that it was parsed from.
type Object struct {
	target.CodeObject
	// Relocatable reports whether the object has not been linked.
	Relocatable bool
	// HasMetadata reports whether a note describes the kernels.
	HasMetadata bool
	// Kernels are the kernels in the order of the metadata. Without metadata, they
	// are the kernels with a descriptor, in the order of the symbols.
	Kernels []Kernel
	// Sections are the sections in file order; empty without section headers.
	Sections []Section
	// Clang is the newest release of clang that the section .comment names, 0 without one: strip removes the section.
	Clang target.Release
	// Variables is the number of exported variables: data symbols that are
	// neither kernel descriptors nor __hip_cuid_*.
	Variables int

	elf *file
}

// Section is a section of the file.
type Section struct {
	Name []byte
	// Size is the size of the section in the file, in bytes.
	Size uint64
}

// Kernel is a kernel of a code object. Fields of type *int64 and *bool are nil
// if the metadata does not have the key.
type Kernel struct {
	// Name and Symbol are the name of the kernel and of its descriptor. They may
	// contain any bytes.
	Name, Symbol []byte

	KernargSize, LDS, Scratch *int64 // bytes; scratch per lane
	WavefrontSize             *int64
	SGPRs, VGPRs, AGPRs       *int64
	SGPRSpills, VGPRSpills    *int64
	MaxWorkgroupSize          *int64
	ReqdWorkgroupSize         *[3]int64
	DynamicStack              *bool
	WGPMode                   *bool

	// CodeSize is the size of the kernel's code in bytes, not including functions
	// that it calls; nil if the symbol is missing.
	CodeSize *int64
	// Descriptor is the kernel descriptor; nil if it is missing.
	Descriptor *Descriptor
	// OpenMP is the execution environment of an OpenMP kernel; nil for other
	// kernels.
	OpenMP *OpenMP
}

// OpenMP is the execution environment of an OpenMP kernel, as stored in the
// image.
type OpenMP struct {
	// Mode is 1 for generic, 2 for SPMD, 3 for generic code transformed to SPMD.
	Mode uint8
}

// Is reports whether data begins like an AMD code object: a 64-bit ELF file for
// the machine AMDGPU.
func Is(data []byte) bool {
	return len(data) >= elf.HeaderSize && string(data[:6]) == elf.Magic+"\x02\x01" && u16(data[18:]) == elf.MachineAMDGPU
}

// Parse reads a code object. An object without metadata is not an error.
// Damaged metadata and tables are, and the errors state the offset in data.
func Parse(data []byte) (*Object, error) {
	f, err := open(data)
	if err != nil {
		return nil, err
	}
	o := &Object{CodeObject: targetOf(data), Relocatable: f.Format == object.ELFRelocatable, Sections: f.sectionList(), elf: f}
	o.Clang = target.Release(f.clang())
	if err := f.readSymbols(); err != nil {
		return nil, err
	}
	if err := o.readNotes(); err != nil {
		return nil, err
	}
	if !o.HasMetadata {
		o.kernelsOfDescriptors()
	}
	o.Variables = f.variables
	for i := range o.Kernels {
		o.complete(&o.Kernels[i])
	}
	return o, nil
}

// ParseTarget reads the target of a code object from only its ELF header.
func ParseTarget(data []byte) (target.CodeObject, error) {
	if !Is(data) {
		return target.CodeObject{}, notCodeObject(data)
	}
	return targetOf(data), nil
}

// targetOf is ParseTarget for data that begins like a code object.
func targetOf(data []byte) target.CodeObject {
	const maxABI = 4
	flags := u32(data[48:])
	t := target.CodeObject{Mach: uint8(flags), Processor: target.AMDGPUByMach(uint8(flags))}
	if osabi, abi := data[7], data[8]; osabi == elf.OSABIHSA && abi <= maxABI {
		t.Version = int(abi) + 2
	}
	t.Features = target.FeatureStatesOf(t.Version, flags)
	if t.Version == 6 {
		t.Generic = int(flags >> 24)
	}
	return t
}

// Empty reports whether the object has neither kernels nor exported variables.
func (o *Object) Empty() bool { return len(o.Kernels) == 0 && o.Variables == 0 }

// kernelsOfDescriptors lists the kernels of an object that has no metadata.
func (o *Object) kernelsOfDescriptors() {
	for _, s := range o.elf.ordered {
		name := s.Name
		if base, ok := bytes.CutSuffix(name, []byte(".kd")); ok && s.Type == elf.TypeObject && s.Size == descriptorSize && len(base) > 0 {
			o.Kernels = append(o.Kernels, Kernel{Name: base, Symbol: name})
		}
	}
}

// complete sets the fields of a kernel that depend on its symbols.
func (o *Object) complete(k *Kernel) {
	if s := o.elf.find(k.Name, ""); s != nil {
		k.CodeSize = number(s.Size)
	}
	if s := o.elf.find(k.Symbol, ""); s != nil && o.Version > 2 {
		k.Descriptor = parseDescriptor(o.elf.Contents(s, descriptorSize))
	}
	const environment = 24 // the smallest size, in bytes
	if s := o.elf.find(k.Name, "_kernel_environment"); s != nil {
		if b := o.elf.Contents(s, environment); b != nil {
			k.OpenMP = &OpenMP{Mode: b[2]}
		}
	} else if s := o.elf.find(k.Name, "_exec_mode"); s != nil {
		if b := o.elf.Contents(s, 1); b != nil {
			k.OpenMP = &OpenMP{Mode: b[0]}
		}
	}
}

// number returns a pointer to n as an int64, or nil if it does not fit.
func number(n uint64) *int64 {
	if v := int64(n); v >= 0 {
		return &v
	}
	return nil
}
