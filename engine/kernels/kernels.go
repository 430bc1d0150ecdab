// Package kernels describes the kernels of device images: AMD code objects,
// PTX, cubins, SPIR-V and LLVM bitcode. Kernel has the JSON form that
// `offload inspect --kernels`, `offload diff` and `offload report` print.
package kernels

import "github.com/rules-offload/rules_offload/engine/codeobject"

// Image is a device image and what it tells of itself. The fields up to Hash
// say where it was found; Describe does not set them.
type Image struct {
	// Index is the position in what Session.Inspect returns for the file.
	Index int
	// Members are the archive members that lead to the image, the outermost first.
	Members []string
	// Section is the section that holds the image, "" without one.
	Section string
	// ID is the entry ID in a bundle, "" elsewhere.
	ID string
	// Size is the size of the image in bytes.
	Size int64
	// Host reports whether the image is code for the host, an entry of a bundle.
	Host bool
	// Hash is a hash of the bytes, if it was asked for.
	Hash uint64

	// Arch is the target ID of a code object by its ELF flags, and what the
	// container states of other images.
	Arch string
	// Format says what the image is.
	Format Format
	// Version is the version of a code object, 2 to 6; 0 for other images.
	Version int
	// Target is what the ELF header of a code object states.
	Target codeobject.Target
	// Empty reports whether a code object or a SPIR-V module has neither kernels
	// nor exported variables; __hip_cuid_* variables do not count.
	Empty bool
	// Sections are the sections of ELF images that take space in the file, in
	// file order. Their sum is less than Size: headers are not included.
	Sections []Section
	// Kernels are the kernels, by name.
	Kernels []Kernel
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
	Other      Format = "" // nothing is known of its kernels
)

// Section is a section of an ELF image.
type Section struct {
	Name string `json:"name"`
	Size int64  `json:"size"` // bytes in the file
}

// Kernel is a kernel of an image, in the JSON form of all reports. A nil field
// is something that the image does not tell. Sizes are in bytes; Scratch is per
// lane, LDS per workgroup.
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
	VGPRs            *int64     `json:"vgprs"` // AGPRs included where they share a file
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
}

// Occupancy is how many waves of a kernel run on a SIMD at a time at most.
type Occupancy struct {
	WavesPerSIMD int `json:"waves_per_simd"`
	Max          int `json:"max"` // of the processor
	// Limits names the bounds that equal WavesPerSIMD; empty if it is Max.
	// "requested" stands for waves below every bound: the source asked for it.
	Limits []string `json:"limits"`
	Bounds Bounds   `json:"bounds"`
}

// Bounds are the waves per SIMD that each resource alone permits.
type Bounds struct {
	VGPRs     int `json:"vgprs"`
	SGPRs     int `json:"sgprs"`
	Workgroup int `json:"workgroup"`
	LDS       int `json:"lds"`
}
