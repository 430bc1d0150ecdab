// Package elf names the numbers of the ELF format: the generic ABI, the
// extensions of GNU, LLVM and Android, and the machines of hosts and GPUs. It
// replaces debug/elf, whose types add debug/dwarf and tables of names to the start
// of each process. The independent checkers, packages check and elfcheck, do not
// use it.
package elf

// Magic is the beginning of each ELF file.
const Magic = "\x7fELF"

// IdentSize is the size of the identification at the start of the header, in bytes.
const IdentSize = 16

// Classes, in byte 4 of the header.
const (
	Class32 = 1
	Class64 = 2
)

// Byte orders, in byte 5 of the header.
const (
	LittleEndian = 1
	BigEndian    = 2
)

// HeaderSize32 is the size of Elf32_Ehdr, in bytes.
const HeaderSize32 = 52

// Sizes of the structures of 64-bit files, in bytes.
const (
	HeaderSize  = 64 // Elf64_Ehdr
	SegmentSize = 56 // Elf64_Phdr
	SectionSize = 64 // Elf64_Shdr
	SymbolSize  = 24 // Elf64_Sym
	RelaSize    = 24 // Elf64_Rela
	DynamicSize = 16 // Elf64_Dyn
)

// Segment is a program header, with the layout of Elf64_Phdr. Sizes are in bytes.
type Segment struct {
	Type, Flags                                   uint32
	Offset, Addr, PAddr, FileSize, MemSize, Align uint64
}

// SectionHeader is a section header, with the layout of Elf64_Shdr. Sizes are in bytes.
type SectionHeader struct {
	Name, Type                uint32 // Name is an offset in the section names
	Flags, Addr, Offset, Size uint64
	Link, Info                uint32
	Align, EntSize            uint64
}

// OSABIHSA is the ABI of AMD code objects, in byte 7 of the header.
const OSABIHSA = 64

// Types of files.
const (
	EtRel  = 1
	EtExec = 2
	EtDyn  = 3
)

// Machines.
const (
	MachineMIPS      uint16 = 8
	MachinePPC64     uint16 = 21
	MachineS390      uint16 = 22
	MachineARM       uint16 = 40
	MachineX8664     uint16 = 62
	MachineHexagon   uint16 = 164
	MachineAArch64   uint16 = 183
	MachineCUDA      uint16 = 190
	MachineIntelGT   uint16 = 205
	MachineAMDGPU    uint16 = 224
	MachineRISCV     uint16 = 243
	MachineLoongArch uint16 = 258
)

// Types of segments.
const (
	PtNull        = 0
	PtLoad        = 1
	PtDynamic     = 2
	PtInterp      = 3
	PtNote        = 4
	PtPhdr        = 6
	PtTLS         = 7
	PtGNUProperty = 0x6474e553
)

// Types of sections.
const (
	ShtNull        = 0 // no section
	ShtProgbits    = 1 // the program's own data
	ShtSymtab      = 2
	ShtStrtab      = 3
	ShtRela        = 4
	ShtHash        = 5
	ShtDynamic     = 6
	ShtNote        = 7
	ShtNobits      = 8 // uses memory but no space in the file
	ShtRel         = 9
	ShtDynsym      = 11
	ShtInitArray   = 14 // constructors
	ShtFiniArray   = 15 // destructors
	ShtGroup       = 17
	ShtSymtabShndx = 18
	ShtRelr        = 19
	ShtCrel        = 0x40000014
	ShtDependent   = 0x6fff4c04 // SHT_LLVM_DEPENDENT_LIBRARIES: names of libraries for the linker
	ShtOffloading  = 0x6fff4c0b // SHT_LLVM_OFFLOADING: embedded device images
	ShtGNUHash     = 0x6ffffff6
	ShtGNUVerdef   = 0x6ffffffd
	ShtGNUVerneed  = 0x6ffffffe
	ShtGNUVersym   = 0x6fffffff
)

// Flags of sections.
const (
	ShfWrite      = 0x1
	ShfAlloc      = 0x2
	ShfExec       = 0x4
	ShfInfoLink   = 0x40
	ShfGroup      = 0x200
	ShfTLS        = 0x400
	ShfCompressed = 0x800
	ShfRetain     = 0x200000
	ShfExclude    = 0x80000000
)

// GrpComdat is the flag of groups of sections that the linker keeps once.
const GrpComdat = 1

// Reserved section indices.
const (
	ShnUndef     = 0
	ShnLoReserve = 0xff00
	ShnAbs       = 0xfff1
	ShnCommon    = 0xfff2
	ShnXindex    = 0xffff
)

// Bindings, types and visibilities of symbols.
const (
	BindLocal  = 0
	BindGlobal = 1
	BindWeak   = 2

	TypeNone    = 0
	TypeObject  = 1
	TypeFunc    = 2
	TypeSection = 3
	TypeFile    = 4

	VisHidden = 2
)

// Tags of the dynamic section.
const (
	DtNull     = 0
	DtPltSize  = 2
	DtHash     = 4
	DtStrtab   = 5
	DtSymtab   = 6
	DtRela     = 7
	DtRelaSize = 8
	DtStrsz    = 10
	DtRel      = 17
	DtPltRel   = 20
	DtJmpRel   = 23
	DtRelrSize = 35
	DtRelr     = 36
	DtCrel     = 0x40000026
	DtGNUHash  = 0x6ffffef5
	DtVersym   = 0x6ffffff0
	DtFlags1   = 0x6ffffffb
	DtVerdef   = 0x6ffffffc
	DtVerneed  = 0x6ffffffe

	DtAndroidRel  = 0x6000000f
	DtAndroidRela = 0x60000011
	DtAndroidRelr = 0x6fffe000
)
