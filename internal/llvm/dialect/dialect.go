// Package dialect has the differences between the releases of LLVM in what links and registrations pass to clang, to
// linkers, to runtimes and to readers of LLVM IR, and in what device code assumes. A difference is a field of Dialect, set in one table: code asks the
// field, never the number of the release. The table of package internal/cmd/release has the differences of command lines.
package dialect

import "github.com/rules-offload/rules_offload/engine/target"

// Dialect is what a release of LLVM expects. The zero value is that of LLVM 22 and older.
type Dialect struct {
	// ClangLTO reports that device links of clang use LTO for AMD GPUs without -flto.
	ClangLTO bool
	// ClangSYCL reports that clang passes the triple and the processor to clang-sycl-linker.
	ClangSYCL bool
	// SameTargets reports that clang-linker-wrapper joins the images of one target, by any of its triples, but not those of
	// targets that agree, such as gfx90a and gfx90a:xnack+.
	SameTargets bool
	// CompatibleTriples reports that an argument for a triple, of --device-linker and --device-compiler, is for links
	// of compatible triples, too.
	CompatibleTriples bool
	// IntelBinaries reports that Intel's OpenMP runtime reads SPIR-V in offload binaries, not in ELF files.
	IntelBinaries bool
	// SYCLBinaries reports that the SYCL runtime registers an offload binary, not each image.
	SYCLBinaries bool
	// TrapHandler reports that the occupancy of a kernel depends on the SGPRs of the trap handler.
	TrapHandler bool
	// IR is the form of the modules of registrations.
	IR IR
}

// IR is what a release of LLVM writes in the module of a registration.
type IR struct {
	// UnsanitizedWrapper reports that sanitizers do not change the descriptor of a fat binary.
	UnsanitizedWrapper bool
	// MachOEntries reports that Mach-O objects have a section for offload entries.
	MachOEntries bool
	// DataLayout reports that modules have the data layout of the host.
	DataLayout bool
	// BoundingEntries reports that modules for Windows have an offload entry before the first one and after the last.
	BoundingEntries bool
	// RetainedEntries reports that linkers keep the section of the offload entries.
	RetainedEntries bool
	// ByteOffsets reports that addresses in arrays are offsets in bytes, not in elements.
	ByteOffsets bool
}

// dialects has a row for each of the releases in package target.
var dialects = [...]Dialect{
	target.LLVM22: {},
	target.LLVM23: {
		ClangLTO: true, IntelBinaries: true, SYCLBinaries: true, TrapHandler: true,
		IR: IR{UnsanitizedWrapper: true, MachOEntries: true},
	},
	target.LLVM24: {
		ClangLTO: true, IntelBinaries: true, SYCLBinaries: true, TrapHandler: true,
		ClangSYCL: true, SameTargets: true, CompatibleTriples: true,
		IR: IR{
			UnsanitizedWrapper: true, MachOEntries: true,
			DataLayout: true, BoundingEntries: true, RetainedEntries: true, ByteOffsets: true,
		},
	},
}

// Of returns the dialect of a release, see target.Release.Nearest.
func Of(r target.Release) *Dialect { return &dialects[r.Nearest()] }
