// Package kernels describes the kernels of device images: AMD code objects,
// PTX, cubins, SPIR-V and LLVM bitcode. Kernel has the JSON form that
// `offload inspect --kernels`, `offload diff` and `offload report` print.
package kernels

import "github.com/rules-offload/rules_offload/engine/target"

// Image describes a device image. The fields up to Hash identify where it was
// found; Describe does not set them.
type Image struct {
	// Index is the index in the images that Session.Inspect returns for the file.
	Index int
	// Members are the archive members that contain the image, outermost first.
	Members []string
	// Section is the section that contains the image, or "".
	Section string
	// ID is the entry ID in a bundle; "" outside bundles.
	ID string
	// Size is the size of the image in bytes.
	Size int64
	// Host reports whether the image is a bundle entry with code for the host.
	Host bool
	// Hash is a hash of the bytes, if requested.
	Hash uint64

	// Arch is the target ID in the ELF flags of a code object or, for other
	// images, the arch stated by the container.
	Arch string
	// Format is the format of the image.
	Format Format
	// Version is the version of a code object, 2 to 6; 0 for other images.
	Version int
	// Target is the target in the ELF header of a code object.
	Target target.CodeObject
	// Empty reports whether a code object or a SPIR-V module has neither kernels
	// nor exported variables; __hip_cuid_* variables do not count.
	Empty bool
	// Sections are the sections of ELF images that use space in the file, in file
	// order. The sum of their sizes is less than Size, because it does not include
	// headers.
	Sections []Section
	// Kernels are the kernels, by name.
	Kernels []Kernel
	// Sources are the source files of all code, padding included, if ReadSources found them. The
	// file with the most bytes is first.
	Sources []Source
	// CodeHash is a hash of the code and constants of a code object, if ReadSources was called:
	// equal for images that differ in their target only.
	CodeHash string
	// NoSources is the reason why ReadSources did not find sources.
	NoSources string
}

// Format is the format of an image.
type Format string

// The formats.
const (
	CodeObject Format = "code object"
	PTX        Format = "ptx"
	Cubin      Format = "cubin"
	SPIRV      Format = "spirv"
	Bitcode    Format = "bitcode"
	Other      Format = "" // unknown; kernels are not read
)

// Section is a section of an ELF image.
type Section struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // bytes in the file
}

// Kernel is a kernel of an image, in the JSON form of all reports. A field is
// nil if the image does not state it. Sizes are in bytes; Scratch is per lane,
// LDS per workgroup.
type Kernel struct {
	Image            int        `json:"image"` // Image.Index
	Members          []string   `json:"members"`
	Section          string     `json:"section"`
	ID               string     `json:"id"`
	Arch             string     `json:"arch"`
	Name             string     `json:"name"`
	Demangled        string     `json:"demangled"` // Name if it is not mangled
	Version          *int64     `json:"version"`
	CodeSize         *int64     `json:"code_size"`
	SGPRs            *int64     `json:"sgprs"`
	VGPRs            *int64     `json:"vgprs"` // includes AGPRs if they share a register file
	AGPRs            *int64     `json:"agprs"`
	SGPRSpills       *int64     `json:"sgpr_spills"`
	VGPRSpills       *int64     `json:"vgpr_spills"`
	Scratch          *int64     `json:"scratch"`
	LDS              *int64     `json:"lds"`
	Kernarg          *int64     `json:"kernarg"`
	MaxWorkgroupSize *int64     `json:"max_workgroup_size"`
	ReqdWorkgroup    *[3]int64  `json:"reqd_workgroup_size"`
	WavefrontSize    *int64     `json:"wavefront_size"`
	DynamicStack     *bool      `json:"dynamic_stack"`
	WGPMode          *bool      `json:"wgp_mode"`
	OMPMode          *string    `json:"omp_mode"` // generic, spmd or generic-spmd
	Occupancy        *Occupancy `json:"occupancy"`
	// BeforeLLVM23 is the occupancy by the rule of LLVM 22 and older, nil where all releases have the same rule. Compare uses
	// it if the builds have code of compilers with both rules.
	BeforeLLVM23 *Occupancy `json:"-"`
	// Sources are the source files of the code, if ReadSources found them. Their bytes add up to
	// CodeSize.
	Sources []Source `json:"sources,omitempty"`
}

// Occupancy is the largest number of waves of a kernel that run on a SIMD at a
// time.
type Occupancy struct {
	WavesPerSIMD int `json:"waves_per_simd"`
	Max          int `json:"max"` // of the processor
	// Limits names the bounds that equal WavesPerSIMD; empty if it is Max.
	// "requested" means that the source requested fewer waves than every bound.
	Limits []string `json:"limits"`
	Bounds Bounds   `json:"bounds"`
}

// Bounds are the waves per SIMD that each resource permits by itself.
type Bounds struct {
	VGPRs     int `json:"vgprs"`
	SGPRs     int `json:"sgprs"`
	Workgroup int `json:"workgroup"`
	LDS       int `json:"lds"`
}
