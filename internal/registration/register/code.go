package register

import (
	"slices"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
)

// code is an assembled function. The assembler source in asm has the instructions in readable form.
type code struct {
	text   string  // the instructions
	relocs []reloc // in text
	// unwind describes the stack frame: the instructions of .eh_frame, or the record of .xdata in COFF.
	unwind string
}

// reloc is a relocation in the code of a function.
type reloc struct {
	offset uint64
	typ    uint32
	symbol string
	addend int64
}

// functions are the functions of a registration: the constructor, the corresponding destructor, and
// the function that iterates over the offload entries. They reference each other by the names of
// these fields.
type functions struct {
	register, unregister, globals code
}

// assembled holds the functions of a machine for each runtime.
type assembled struct {
	runtimes    []ofRuntime
	syclPackage functions // for an offload binary that the runtime reads
	nothing     functions // a constructor that does nothing
	// common is the content of the common record of .eh_frame.
	common string
}

// ofRuntime holds the functions for one runtime.
type ofRuntime struct {
	kind offloadbinary.OffloadKind
	functions
}

// of returns the functions that register images with the runtime of r.
func (a *assembled) of(r *Registration) functions {
	if r.Package {
		return a.syclPackage
	}
	i := slices.IndexFunc(a.runtimes, func(o ofRuntime) bool { return o.kind == r.Kind })
	return a.runtimes[i].functions
}
