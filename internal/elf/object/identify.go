package object

import (
	"bytes"
	"encoding/binary"

	"github.com/rules-offload/rules_offload/internal/elf"
)

// Format is the format of a file according to its first bytes. The formats and
// rules are those of LLVM 22's identify_magic, except that thin archives are a
// separate format.
type Format uint8

// The formats. ELF and COFF are read by Parse; the others are only named.
const (
	Unknown Format = iota
	ELFRelocatable
	ELFExecutable
	ELFSharedObject
	ELFCore
	ELFOther        // an ELF file of any other e_type
	COFFObject      // also bigobj, and machine type 0
	COFFImport      // a member of a short import library
	COFFAnonymous   // the output of cl.exe /GL
	PE              // a Windows executable or DLL
	MachO           // any thin Mach-O file
	MachOUniversal  // several Mach-O files in one
	Wasm            // a WebAssembly module
	XCOFF           // AIX, 32 and 64 bits
	GOFF            // z/OS
	SPIRV           // a SPIR-V module
	Archive         // GNU, BSD, Darwin, COFF or AIX archive
	ThinArchive     // an archive whose members are other files
	Bitcode         // LLVM bitcode, raw or in its wrapper
	ClangAST        // a serialised Clang AST or PCH
	OffloadBinary   // 10 FF 10 AD
	OffloadBundle   // __CLANG_OFFLOAD_BUNDLE__
	OffloadBundleZ  // CCOB
	CUDAFatbinary   // 50 ED 55 BA
	WindowsResource // .res
	PDB
	Minidump
	TAPI
	DXContainer
)

var formatNames = [...]string{
	"unknown", "ELF relocatable object", "ELF executable", "ELF shared object", "ELF core file", "ELF file",
	"COFF object", "COFF import object", "COFF /GL object", "PE image", "Mach-O file", "Mach-O universal file",
	"WebAssembly module", "XCOFF file", "GOFF object", "SPIR-V module", "archive", "thin archive", "LLVM bitcode",
	"Clang AST", "offload package", "offload bundle", "compressed offload bundle", "CUDA fat binary",
	"Windows resource", "PDB file", "minidump", "TAPI file", "DXContainer",
}

// String returns the name of the format for messages, such as "ELF shared
// object".
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return formatNames[Unknown]
}

// IsELF reports whether f is an ELF file of any type.
func (f Format) IsELF() bool { return f >= ELFRelocatable && f <= ELFOther }

// IsCOFF reports whether f is a COFF object or a PE image, which Parse reads as
// COFF.
func (f Format) IsCOFF() bool { return f == COFFObject || f == PE }

var (
	bigObjUUID = []byte("\xc7\xa1\xba\xd1\xee\xba\xa9\x4b\xaf\x20\xfa\xf6\x6a\xa4\xdc\xb8")
	clGLUUID   = []byte("\x38\xfe\xb3\x0c\xa5\xd9\xab\x4d\xac\x9b\xd6\xb6\x22\x26\x53\xc2")
	winResHead = []byte("\x00\x00\x00\x00\x20\x00\x00\x00\xff\xff\x00\x00\xff\xff\x00\x00")
	peMagic    = []byte("PE\x00\x00")
)

// prefixes are the formats with a fixed prefix.
var prefixes = []struct {
	magic  string
	format Format
}{
	{"\x00asm", Wasm},
	{"\x01\xdf", XCOFF},
	{"\x01\xf7", XCOFF},
	{"\x03\xf0\x00", GOFF},
	{"\x03\x02\x23\x07", SPIRV},
	{"\x07\x23\x02\x03", SPIRV},
	{"\x10\xff\x10\xad", OffloadBinary},
	{"\xde\xc0\x17\x0b", Bitcode},
	{"BC\xc0\xde", Bitcode},
	{"CCOB", OffloadBundleZ},
	{"CPCH", ClangAST},
	{"!<arch>\n", Archive},
	{"!<thin>\n", ThinArchive},
	{"<bigaf>\n", Archive},
	{"\x50\xed\x55\xba", CUDAFatbinary},
	{"Microsoft C/C++ MSF 7.00\r\n", PDB},
	{"MDMP", Minidump},
	{"--- !tapi", TAPI},
	{"---\narchs:", TAPI},
	{"{", TAPI},
	{"DXBC", DXContainer},
}

// coffMachines are the machine types that make a file a COFF object.
var coffMachines = [...]uint16{
	0x014c, 0x01c4, 0x01f0, 0x0183, 0x0184, 0x0166, 0x0150,
	0x024c, 0x02c4, 0x02f0, 0x0283, 0x0284, 0x0266, 0x0250, 0x0290, 0x0268,
	0x8664, 0xaa64, 0xa641, 0xa64e,
}

// Identify returns the format of data according to only its magic. data may be
// a prefix of the file, of 64 bytes or more. A file that Identify reports as an
// object need not be one: LLVM identifies two zero bytes as a COFF object.
func Identify(data []byte) Format {
	if len(data) < 4 {
		return Unknown
	}
	for _, p := range prefixes {
		if len(data) >= len(p.magic) && string(data[:len(p.magic)]) == p.magic {
			return p.format
		}
	}
	switch data[0] {
	case 0:
		return identifyZero(data)
	case 0x7f:
		return identifyELF(data)
	case 0xca:
		if (data[1] == 0xfe && data[2] == 0xba && data[3]|1 == 0xbf) && len(data) >= 8 && data[7] < 43 {
			return MachOUniversal
		}
	case 0xfe, 0xce, 0xcf:
		return identifyMachO(data)
	case 'M':
		if data[1] == 'Z' && len(data) >= 0x40 {
			off := uint64(binary.LittleEndian.Uint32(data[0x3c:]))
			if off < uint64(len(data)) && bytes.HasPrefix(data[off:], peMagic) {
				return PE
			}
		}
	case '_':
		if len(data) > len(bundleMagic) && string(data[:len(bundleMagic)]) == bundleMagic {
			return OffloadBundle
		}
	}
	machine := binary.LittleEndian.Uint16(data)
	for _, m := range coffMachines {
		if machine == m {
			return COFFObject
		}
	}
	return Unknown
}

const bundleMagic = "__CLANG_OFFLOAD_BUNDLE__"

func identifyZero(data []byte) Format {
	const uuidAt = 12
	if bytes.HasPrefix(data, []byte("\x00\x00\xff\xff")) {
		if len(data) < uuidAt+16 {
			return COFFImport
		}
		switch uuid := data[uuidAt : uuidAt+16]; {
		case bytes.Equal(uuid, bigObjUUID):
			return COFFObject
		case bytes.Equal(uuid, clGLUUID):
			return COFFAnonymous
		}
		return COFFImport
	}
	if bytes.HasPrefix(data, winResHead) {
		return WindowsResource
	}
	if data[1] == 0 {
		return COFFObject
	}
	return Unknown
}

func identifyELF(data []byte) Format {
	if len(data) < 18 || string(data[:4]) != elf.Magic {
		return Unknown
	}
	high, low := data[17], data[16]
	if data[5] == 2 {
		high, low = low, high
	}
	if high == 0 && low >= 1 && low <= 4 {
		return [...]Format{ELFRelocatable, ELFExecutable, ELFSharedObject, ELFCore}[low-1]
	}
	return ELFOther
}

func identifyMachO(data []byte) Format {
	var order binary.ByteOrder
	size := 28
	switch string(data[:4]) {
	case "\xfe\xed\xfa\xcf":
		size = 32
		fallthrough
	case "\xfe\xed\xfa\xce":
		order = binary.BigEndian
	case "\xcf\xfa\xed\xfe":
		size = 32
		fallthrough
	case "\xce\xfa\xed\xfe":
		order = binary.LittleEndian
	default:
		return Unknown
	}
	if len(data) < size {
		return Unknown
	}
	if t := order.Uint32(data[12:]); t >= 1 && t <= 12 {
		return MachO
	}
	return Unknown
}

// IsObject reports whether LLVM opens data as an object file, which determines whether a bundle
// of `-type=o` has section form or binary form (clang/lib/Driver/OffloadBundler.cpp of LLVM
// 22). The headers must be inside the file, but may be invalid, so that Parse or Rewrite fails.
// Use Parse to distinguish objects from images that only start like one.
func IsObject(data []byte) bool {
	switch f := Identify(data); {
	case f.IsELF(), f.IsCOFF():
		_, err := open(data, nil)
		return err == nil
	case f == MachO:
		order := binary.ByteOrder(binary.LittleEndian)
		if data[0] == 0xfe {
			order = binary.BigEndian
		}
		return uint64(order.Uint32(data[20:]))+28 <= uint64(len(data))
	case f == Wasm:
		return len(data) >= 8 && binary.LittleEndian.Uint32(data[4:]) == 1
	case f == XCOFF:
		return len(data) >= 20
	}
	return false
}
