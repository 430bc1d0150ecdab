// Package embedding spells how host files hold device code: the sections, symbols and records that
// compilers write, and that the runtimes of HIP, CUDA and OpenMP, and ROCm's kpack, read. All
// packages that read or write them take the names from here.
package embedding

import (
	"encoding/binary"
	"iter"
	"strings"

	"github.com/rules-offload/rules_offload/internal/elf"
)

// Sections with device code.
const (
	// HIPSection has the fat binaries of HIP: bundles.
	HIPSection = ".hip_fatbin"
	// CUDASection has the fat binaries of CUDA.
	CUDASection = ".nv_fatbin"
	// CUDARelocatableSection has those of relocatable device code, before its device link.
	CUDARelocatableSection = "__nv_relfatbin"
	// OffloadSection has offload binaries. In ELF files, it has the type object.ShtOffloading.
	OffloadSection = ".llvm.offloading"
	// RelocatableSection has the images of a relocatable link: they are registered, and no later
	// device link links them.
	RelocatableSection = ".llvm.offloading.relocatable"
)

// IsHIPSection reports whether a section is HIPSection by its name, which linkers for Windows cut and to which
// some compilers add a suffix.
func IsHIPSection(name string) bool { return strings.HasPrefix(name, HIPSection[:8]) }

// IsCUDASection reports whether a section has fat binaries of CUDA, by its name.
func IsCUDASection(name string) bool {
	return strings.HasPrefix(name, CUDASection) || name == CUDARelocatableSection
}

// IsOffloadSection reports whether a section of an ELF file has offload binaries, by its type. objcopy adds such sections
// by name only, without the type. Longer names are not recognized, because the result of a relocatable device link is in
// such a section.
func IsOffloadSection(name string, typ uint32) bool {
	return typ == elf.ShtOffloading || typ == elf.ShtProgbits && name == OffloadSection
}

// Sections and symbols that refer to device code.
const (
	// HIPWrappers has the records that are passed to HIP's runtime, see Record.
	HIPWrappers = ".hipFatBinSegment"
	// CUDAWrappers has those of CUDA.
	CUDAWrappers = ".nvFatBinSegment"
	// HIPSymbol is the prefix of the symbol by which host code refers to a HIP fat binary in
	// another object.
	HIPSymbol = "__hip_fatbin"
	// EntriesSection is the section into which compilers put offload entries.
	EntriesSection = "llvm_offload_entries"
	// EntryPrefix is the prefix of the symbols of offload entries.
	EntryPrefix = ".offloading.entry."
	// KpackSection has the marker of a file whose code is in kpack archives.
	KpackSection = ".rocm_kpack_ref"
)

// Magics of records.
const (
	// MagicHIP is the magic of a record for a bundle: "HIPF" as a number.
	MagicHIP = 0x48495046
	// MagicKpack is the magic of a record for a kpack marker: the bytes "HIPK".
	MagicKpack = 0x4b504948
	// MagicCUDA is the magic of CUDA's records.
	MagicCUDA = 0x466243b1
)

// RecordSize is the size of a record, in bytes.
const RecordSize = 24

// Record is a record of HIPWrappers, of version 1.
type Record struct {
	Magic  uint32 // MagicHIP or MagicKpack
	Index  uint32 // of MagicKpack: the number of the code object
	Target uint64 // the address of the fat binary or of the marker
}

// Records returns the records in the content of HIPWrappers with their offsets, which are
// multiples of 8 after first. Other bytes are skipped.
func Records(data []byte, first uint64) iter.Seq2[uint64, Record] {
	le := binary.LittleEndian
	return func(yield func(uint64, Record) bool) {
		for at := first; uint64(len(data)) >= RecordSize && at <= uint64(len(data))-RecordSize; {
			b := data[at:]
			magic := le.Uint32(b)
			if magic != MagicHIP && magic != MagicKpack || le.Uint32(b[4:]) != 1 {
				at += 8
				continue
			}
			if !yield(at, Record{Magic: magic, Index: le.Uint32(b[16:]), Target: le.Uint64(b[8:])}) {
				return
			}
			at += RecordSize
		}
	}
}
