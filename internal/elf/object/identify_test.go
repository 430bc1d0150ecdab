package object

import (
	"strings"
	"testing"
)

func TestIdentify(t *testing.T) {
	zeros := strings.Repeat("\x00", 64)
	elf := func(order, typ byte) string {
		b := []byte("\x7fELF\x02\x01\x01" + zeros)
		b[5] = order
		b[16+order-1] = typ
		return string(b)
	}
	for _, test := range []struct {
		name, data string
		want       Format
	}{
		{"empty", "", Unknown},
		{"three bytes", "BC\xc0", Unknown},
		{"text", "int main() {}", Unknown},
		{"bitcode", "BC\xc0\xde....", Bitcode},
		{"wrapped bitcode", "\xde\xc0\x17\x0b", Bitcode},
		{"elf short", "\x7fELF\x02\x01", Unknown},
		{"elf rel", elf(1, 1), ELFRelocatable},
		{"elf rel big-endian", elf(2, 1), ELFRelocatable},
		{"elf exec", elf(1, 2), ELFExecutable},
		{"elf shared", elf(1, 3), ELFSharedObject},
		{"elf core", elf(1, 4), ELFCore},
		{"elf of the machine's own type", elf(1, 0x40), ELFOther},
		{"zeros", zeros, COFFObject},
		{"bigobj", "\x00\x00\xff\xff\x02\x00\x64\x86\x00\x00\x00\x00" + string(bigObjUUID) + zeros, COFFObject},
		{"cl /GL", "\x00\x00\xff\xff\x02\x00\x64\x86\x00\x00\x00\x00" + string(clGLUUID) + zeros, COFFAnonymous},
		{"import", "\x00\x00\xff\xff\x00\x00\x64\x86" + zeros, COFFImport},
		{"resource", string(winResHead) + zeros, WindowsResource},
		{"wasm", "\x00asm\x01\x00\x00\x00", Wasm},
		{"coff amd64", "\x64\x86\x01\x00", COFFObject},
		{"coff i386", "\x4c\x01\x01\x00", COFFObject},
		{"coff arm64", "\x64\xaa\x01\x00", COFFObject},
		{"coff arm64ec", "\x41\xa6\x01\x00", COFFObject},
		{"pe", "MZ" + zeros[:0x3a] + "\x40\x00\x00\x00PE\x00\x00", PE},
		{"dos", "MZ" + zeros, Unknown},
		{"pe header past the end", "MZ" + zeros[:0x3a] + "\xff\xff\xff\xff", Unknown},
		{"mach-o", "\xcf\xfa\xed\xfe\x07\x00\x00\x01\x03\x00\x00\x00\x01" + zeros, MachO},
		{"mach-o big-endian", "\xfe\xed\xfa\xce\x00\x00\x00\x12\x00\x00\x00\x00\x00\x00\x00\x02" + zeros, MachO},
		{"mach-o of no type", "\xcf\xfa\xed\xfe" + zeros, Unknown},
		{"universal", "\xca\xfe\xba\xbe\x00\x00\x00\x02", MachOUniversal},
		{"java class", "\xca\xfe\xba\xbe\x00\x00\x00\x34", Unknown},
		{"archive", "!<arch>\nx", Archive},
		{"thin archive", "!<thin>\nx", ThinArchive},
		{"aix archive", "<bigaf>\nx", Archive},
		{"package", "\x10\xff\x10\xad", OffloadBinary},
		{"bundle", "__CLANG_OFFLOAD_BUNDLE__\x00", OffloadBundle},
		{"bundle of the magic alone", "__CLANG_OFFLOAD_BUNDLE__", Unknown},
		{"compressed bundle", "CCOB", OffloadBundleZ},
		{"ast", "CPCH", ClangAST},
		{"fatbin", "\x50\xed\x55\xba", CUDAFatbinary},
		{"spir-v", "\x03\x02\x23\x07", SPIRV},
		{"xcoff", "\x01\xdf\x00\x00", XCOFF},
		{"goff", "\x03\xf0\x00\x00", GOFF},
	} {
		if got := Identify([]byte(test.data)); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestFormatNames(t *testing.T) {
	if len(formatNames) != int(DXContainer)+1 {
		t.Errorf("%d names for %d formats", len(formatNames), DXContainer+1)
	}
	if got := Format(200).String(); got != "unknown" {
		t.Errorf("got %q", got)
	}
}

func TestIsObject(t *testing.T) {
	elf := fixture(t, "x86_64.o")
	for _, test := range []struct {
		name string
		data []byte
		want bool
	}{
		{"elf", elf, true},
		{"coff", fixture(t, "x86_64-coff.o"), true},
		{"zeros are an empty coff object", make([]byte, 20), true},
		{"too few zeros", make([]byte, 19), false},
		{"elf cut short", elf[:len(elf)-1], false},
		{"starts like elf", append([]byte("\x7fELF\x02\x01\x01"), "not an object at all, just an image of some kind"...), false},
		{"starts like coff", []byte("\x00\x00this is no object of any kind"), false},
		{"wasm", []byte("\x00asm\x01\x00\x00\x00"), true},
		{"bitcode", []byte("BC\xc0\xde\x35\x14\x00\x00"), false},
		{"text", []byte("hello, world"), false},
	} {
		if got := IsObject(test.data); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
