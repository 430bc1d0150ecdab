// Package runtimes has one table of the runtimes that load device code, by offload kind: what a program registers with
// each, and how links pack it. What only one runtime does, such as the records of SYCL, is code of the package that writes it.
package runtimes

import (
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/embedding"
)

// Form is what a program registers.
type Form int

// Forms.
const (
	// Images are any number of images, in offload binaries or single, through a descriptor.
	Images Form = iota
	// FatBinary is one file with all images, through a wrapper and a handle.
	FatBinary
	// OffloadBinary is the offload binary of a device linker, or its images; see dialect.Dialect.SYCLBinaries.
	OffloadBinary
)

// Packing is how the results of device links are combined for a runtime.
type Packing int

// Packings.
const (
	Binaries Packing = iota // an offload binary for each result
	Bundle                  // a bundle
	NVIDIA                  // a fat binary of NVIDIA's program fatbinary
	Linked                  // the device linker writes one file with all images
)

// Runtime is a runtime.
type Runtime struct {
	Kind offloadbinary.OffloadKind
	// Title is the name in texts, such as OpenMP. Functions of the runtime of a fat binary begin with __ and the name of Kind.
	Title   string
	Form    Form
	Packing Packing
	// Alone reports that its images cannot be linked with images of other kinds.
	Alone bool
	// NoEntries reports that it does not register the offload entries of the program.
	NoEntries bool

	// The others are of fat binaries.

	// Sections are those of the fat binary and of the wrapper.
	Sections, MachO Sections
	Magic           uint32 // of the wrapper
	// Mapped reports that the runtime maps images, which are aligned to pages.
	Mapped bool
	// Ends reports that the runtime is called after the last entry: RegisterFatBinaryEnd.
	Ends bool
	// Textures reports that the runtime registers surfaces and textures.
	Textures bool
}

// Sections are the names of two sections.
type Sections struct{ Image, Wrapper string }

// Table has the runtimes in the order of the bits of their kinds.
var Table = [...]Runtime{
	{Kind: offloadbinary.OpenMP, Title: "OpenMP", Form: Images, Packing: Binaries},
	{
		Kind: offloadbinary.CUDA, Title: "CUDA", Form: FatBinary, Packing: NVIDIA, Ends: true, Magic: embedding.MagicCUDA,
		Sections: Sections{embedding.CUDASection, embedding.CUDAWrappers}, MachO: Sections{"__NV_CUDA,__nv_fatbin", "__NV_CUDA,__fatbin"},
	},
	{
		Kind: offloadbinary.HIP, Title: "HIP", Form: FatBinary, Packing: Bundle, Mapped: true, Textures: true, Magic: embedding.MagicHIP,
		Sections: Sections{embedding.HIPSection, embedding.HIPWrappers}, MachO: Sections{"__HIP,__hip_fatbin", "__HIP,__fatbin"},
	},
	{Kind: offloadbinary.SYCL, Title: "SYCL", Form: OffloadBinary, Packing: Linked, Alone: true, NoEntries: true},
}

// Of returns the runtime of one kind, or nil if it has none.
func Of(kind offloadbinary.OffloadKind) *Runtime {
	for i := range Table {
		if Table[i].Kind == kind {
			return &Table[i]
		}
	}
	return nil
}

// Names returns the names of the kinds, such as openmp.
func Names() []string {
	names := make([]string, len(Table))
	for i := range Table {
		names[i] = Table[i].Kind.String()
	}
	return names
}

// Functions returns the prefix of the functions of the runtime of a fat binary, such as __hip.
func (r *Runtime) Functions() string { return "__" + r.Kind.String() }
