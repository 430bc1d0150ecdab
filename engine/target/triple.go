package target

import (
	"slices"
	"strings"
)

// Arch, SubArch, Vendor, OS, Env and ObjectFormat are the properties of a
// triple that LLVM recognises. Spellings that are equivalent in LLVM (amd64 and
// x86_64) have the same value; the zero value stands for unknown names.
type (
	Arch         string
	SubArch      string
	Vendor       string
	OS           string
	Env          string
	ObjectFormat string
)

// The values that other packages use.
const (
	ArchUnknown Arch = ""
	ArchAMDGCN  Arch = "amdgcn"
	ArchR600    Arch = "r600"
	OSAMDHSA    OS   = "amdhsa"
)

const (
	vendorApple Vendor = "apple"
	vendorSUSE  Vendor = "suse"

	osAIX         OS = "aix"
	osBridgeOS    OS = "bridgeos"
	osDarwin      OS = "darwin"
	osDriverKit   OS = "driverkit"
	osIOS         OS = "ios"
	osMacOS       OS = "macos"
	osShaderModel OS = "shadermodel"
	osTvOS        OS = "tvos"
	osUEFI        OS = "uefi"
	osWatchOS     OS = "watchos"
	osWindows     OS = "windows"
	osXROS        OS = "xros"
	osZOS         OS = "zos"

	envAndroid   Env = "android"
	envGNU       Env = "gnu"
	envGNUABI64  Env = "gnuabi64"
	envGNUABIN32 Env = "gnuabin32"
	envGNUEABI   Env = "gnueabi"

	formatCOFF        ObjectFormat = "coff"
	formatDXContainer ObjectFormat = "dxcontainer"
	formatELF         ObjectFormat = "elf"
	formatGOFF        ObjectFormat = "goff"
	formatMachO       ObjectFormat = "macho"
	formatSPIRV       ObjectFormat = "spirv"
	formatWasm        ObjectFormat = "wasm"
	formatXCOFF       ObjectFormat = "xcoff"
)

// Triple is a target triple as given, and its properties as LLVM recognises
// them.
type Triple struct {
	text string

	Arch    Arch
	SubArch SubArch
	Vendor  Vendor
	OS      OS
	Env     Env
	Format  ObjectFormat
}

// ParseTriple parses "arch-vendor-os-env". Any part may be missing or unknown.
// It does not move parts to their fields; Normalize does.
func ParseTriple(s string) Triple {
	fields := strings.SplitN(s, "-", 4)
	t := Triple{text: s, Arch: parseArch(fields[0]), SubArch: parseSubArch(fields[0])}
	if len(fields) == 1 {
		t.Env = impliedEnv(fields[0])
	}
	if len(fields) > 1 {
		t.Vendor = vendorNames.of(fields[1])
	}
	if len(fields) > 2 {
		t.OS = parseOS(fields[2])
	}
	if len(fields) > 3 {
		t.Env = parseEnv(fields[3])
		t.Format = parseFormat(fields[3])
	}
	if t.Format == "" {
		t.Format = t.defaultFormat()
	}
	return t
}

// String returns the triple as given.
func (t Triple) String() string { return t.text }

// Normalize returns the triple in LLVM's normal form with four fields.
func (t Triple) Normalize() string { return Normalize(t.text, 4) }

// isAMDGPU reports whether the processors of the triple are AMD GPUs, whose
// target IDs may name settings.
func (t Triple) isAMDGPU() bool { return t.Arch == ArchAMDGCN || t.Arch == ArchR600 }

// CompatibleWith reports whether code for the two triples is interchangeable,
// like LLVM's Triple::isCompatibleWith. Like the latter, it is not symmetric if
// only one of them is an Apple or a Windows GNU triple.
func (t Triple) CompatibleWith(o Triple) bool {
	if t.Arch == ArchAMDGCN && o.Arch == ArchAMDGCN {
		if !t.sameISA(o) {
			return false
		}
	} else if t.SubArch != o.SubArch {
		return false
	}
	if t.OS != o.OS {
		return false
	}
	mixed := armAndThumb(t.Arch, o.Arch)
	if t.Arch != o.Arch && !mixed {
		return false
	}
	// For MinGW, C compilers use the vendor w64, and Rust uses pc.
	ignoreVendor := t.OS == osWindows && t.Env == envGNU && !(mixed && t.Vendor == vendorApple)
	if t.Vendor != o.Vendor && !ignoreVendor {
		return false
	}
	if t.Vendor == vendorApple {
		return true // there, the environment field is a version
	}
	return t.Env == o.Env && t.Format == o.Format
}

// armAndThumb reports whether a and b are the ARM and Thumb instruction sets of
// the same byte order.
func armAndThumb(a, b Arch) bool {
	switch a {
	case "arm":
		return b == "thumb"
	case "thumb":
		return b == "arm"
	case "armeb":
		return b == "thumbeb"
	case "thumbeb":
		return b == "armeb"
	}
	return false
}

func (t Triple) isDarwin() bool {
	switch t.OS {
	case osBridgeOS, osDarwin, osDriverKit, osIOS, osMacOS, osTvOS, osWatchOS, osXROS:
		return true
	}
	return false
}

// defaultFormat returns the object format of a triple that does not specify
// one.
func (t Triple) defaultFormat() ObjectFormat {
	switch t.Arch {
	case ArchUnknown, "aarch64", "aarch64_32", "arm", "thumb", "x86", "x86_64":
		if t.OS == osWindows || t.OS == osUEFI {
			return formatCOFF
		}
		if t.isDarwin() {
			return formatMachO
		}
	case "mipsel":
		if t.OS == osWindows {
			return formatCOFF
		}
	case "ppc", "ppc64":
		if t.OS == osAIX {
			return formatXCOFF
		}
		if t.isDarwin() {
			return formatMachO
		}
	case "systemz":
		if t.OS == osZOS {
			return formatGOFF
		}
	case "wasm32", "wasm64":
		return formatWasm
	case "spirv", "spirv32", "spirv64":
		return formatSPIRV
	case "dxil":
		return formatDXContainer
	}
	return formatELF
}

func parseArch(s string) Arch {
	for i := range archTable {
		if slices.Contains(archTable[i].names, s) {
			return archTable[i].arch
		}
	}
	switch {
	case strings.HasPrefix(s, "kalimba"):
		return "kalimba"
	case strings.HasPrefix(s, "arm"), strings.HasPrefix(s, "thumb"), strings.HasPrefix(s, "aarch64"):
		return parseARMArch(s)
	case strings.HasPrefix(s, amdgpu):
		return ArchAMDGCN
	case s == "bpf_be" || s == "bpfeb":
		return "bpfeb"
	case s == "bpf" || s == "bpf_le" || s == "bpfel":
		return "bpfel" // plain bpf has the byte order of the host; ours is little-endian
	}
	return ArchUnknown
}

func parseSubArch(s string) SubArch {
	switch {
	case strings.HasPrefix(s, "mips") && (strings.HasSuffix(s, "r6") || strings.HasSuffix(s, "r6el")):
		return "mips_r6"
	case s == "powerpcspe":
		return "spe"
	case s == "arm64e", s == "arm64ec", s == "aarch64_lfi":
		return SubArch(s)
	case strings.HasPrefix(s, "spirv"):
		return versionSuffix(s, "spirv_v1.", '6')
	case strings.HasPrefix(s, "dxil"):
		return versionSuffix(s, "dxil_v1.", '9')
	case strings.HasPrefix(s, amdgpu):
		return parseISA(s[len(amdgpu):])
	}
	return armArchOf(s).value
}

// versionSuffix returns prefix+"N" if s ends in "v1.N" for a digit N of 0 to
// last.
func versionSuffix(s, prefix string, last byte) SubArch {
	n := len(s) - 1
	if s[n] >= '0' && s[n] <= last && strings.HasSuffix(s[:n], "v1.") {
		return SubArch(prefix + s[n:])
	}
	return ""
}

func parseOS(s string) OS {
	for _, e := range osTable {
		if strings.HasPrefix(s, e.name) {
			return e.value
		}
	}
	return ""
}

func parseEnv(s string) Env {
	for _, e := range envTable {
		if strings.HasPrefix(s, e.name) {
			return e.value
		}
	}
	return ""
}

func parseFormat(s string) ObjectFormat {
	for _, e := range formatTable {
		if strings.HasSuffix(s, e.name) {
			return e.value
		}
	}
	return ""
}

// impliedEnv returns the environment of a triple that consists of only an
// architecture.
func impliedEnv(arch string) Env {
	switch {
	case strings.HasPrefix(arch, "mipsn32"):
		return envGNUABIN32
	case strings.HasPrefix(arch, "mips64"), strings.HasPrefix(arch, "mipsisa64"):
		return envGNUABI64
	case strings.HasPrefix(arch, "mipsisa32"),
		arch == "mips", arch == "mipsel", arch == "mipsr6", arch == "mipsr6el":
		return envGNU
	}
	return ""
}
