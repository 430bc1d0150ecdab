package register

import (
	"fmt"

	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
)

// machine holds the properties of registration objects that depend on the
// machine.
type machine struct {
	code            *assembled
	coff            bool
	none, abs64     uint32 // relocations
	prel32          uint32 // the relocation of addresses in .eh_frame
	property, ready uint32 // the protection that the code supports: a GNU property and its bits
	large           uint64 // flag of sections that may be out of reach of code
	filler          byte   // between functions
	unwind          uint32 // type of .eh_frame
}

// The machines.
var (
	x86 = machine{
		code:     &x86Code,
		none:     0,          // R_X86_64_NONE
		abs64:    1,          // R_X86_64_64
		prel32:   2,          // R_X86_64_PC32
		property: 0xc0000002, // GNU_PROPERTY_X86_FEATURE_1_AND
		ready:    1 | 2,      // IBT, SHSTK
		large:    0x10000000, // SHF_X86_64_LARGE
		filler:   0xcc,       // int3
		unwind:   0x70000001, // SHT_X86_64_UNWIND
	}
	aarch64 = machine{
		code:     &aarch64Code,
		none:     0,          // R_AARCH64_NONE
		abs64:    257,        // R_AARCH64_ABS64
		prel32:   261,        // R_AARCH64_PREL32
		property: 0xc0000000, // GNU_PROPERTY_AARCH64_FEATURE_1_AND
		ready:    1 | 2 | 4,  // BTI, PAC, GCS
		filler:   0,          // udf #0
		unwind:   elf.ShtProgbits,
	}
	windows = machine{
		code:   &windowsCode,
		coff:   true,
		abs64:  object.COFFAddr64,
		filler: 0xcc, // int3
	}
)

// constants returns the section of constant data with pointers, to which the loader
// writes in ELF.
func (m *machine) constants() (name string, flags uint64) {
	if m.coff {
		return ".rdata", elf.ShfAlloc
	}
	return ".data.rel.ro", elf.ShfAlloc | elf.ShfWrite
}

// readOnly returns the name of the section of data without pointers.
func (m *machine) readOnly() string {
	if m.coff {
		return ".rdata"
	}
	return ".rodata"
}

// table returns the section for pointers to functions of a priority that run
// before main, or at the end.
func (m *machine) table(priority int, end bool) (name string, typ uint32) {
	switch {
	case m.coff && end:
		return fmt.Sprintf(".CRT$XTA%05d", priority), elf.ShtProgbits
	case m.coff:
		return fmt.Sprintf(".CRT$XCA%05d", priority), elf.ShtProgbits
	case end:
		return fmt.Sprintf(".fini_array.%d", priority), elf.ShtFiniArray
	}
	return fmt.Sprintf(".init_array.%d", priority), elf.ShtInitArray
}

func machineOf(number uint16, coff bool) (*machine, error) {
	switch {
	case number == elf.MachineX8664 && coff:
		return &windows, nil
	case number == elf.MachineX8664:
		return &x86, nil
	case number == elf.MachineAArch64 && !coff:
		return &aarch64, nil
	case coff:
		return nil, fmt.Errorf("machine %d is not x86-64, as COFF requires", number)
	}
	return nil, fmt.Errorf("machine %d is not x86-64 or AArch64", number)
}
