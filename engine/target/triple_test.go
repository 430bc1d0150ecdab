package target

import "testing"

func TestTripleCompatible(t *testing.T) {
	tests := []struct {
		a, b string
		want bool
	}{
		{"amdgcn-amd-amdhsa-", "amdgcn-amd-amdhsa-unknown", true},
		{"amdgcn-amd-amdhsa-", "amdgcn-amd-amdhsa-gnu", false},
		{"amdgcn-amd-amdhsa-", "amdgcn-amd-amdhsa5-", true},
		{"amdgcn-amd-amdhsa-", "amdgcn--amdhsa-", false},
		{"amdgcn-foo-amdhsa-", "amdgcn-bar-amdhsa-baz", true}, // all unknown alike
		{"x86_64-pc-linux-gnu", "amd64-pc-linux6-gnu2", true},
		{"x86_64-pc-linux-gnu", "x86_64-pc-linux-musl", false},
		{"x86_64-pc-linux-gnu", "i686-pc-linux-gnu", false},
		{"x86_64-pc-linux-gnu", "x86_64-pc-linux-gnucoff", false},
		{"x86_64-w64-windows-gnu", "x86_64-pc-windows-gnu", true},
		{"x86_64-w64-windows-msvc", "x86_64-pc-windows-msvc", false},
		{"armv7-pc-linux-gnueabi", "thumbv7a-pc-linux-gnueabi", true},
		{"armv7-pc-linux-gnueabi", "thumbv6-pc-linux-gnueabi", false},
		{"armv7-pc-linux-gnueabi", "aarch64-pc-linux-gnueabi", false},
		{"armv7eb-pc-linux-", "thumbebv7-pc-linux-", true},
		{"arm64-apple-ios-12", "aarch64-apple-ios-simulator", true},
		{"armv7-apple-windows-gnu", "thumbv7-pc-windows-gnu", false},
	}
	for _, tt := range tests {
		if got := ParseTriple(tt.a).CompatibleWith(ParseTriple(tt.b)); got != tt.want {
			t.Errorf("%s with %s: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestParseTriple(t *testing.T) {
	tests := []struct {
		in   string
		want Triple
	}{
		{"", Triple{Format: formatELF}},
		{"amdgcn-amd-amdhsa", Triple{Arch: ArchAMDGCN, Vendor: "amd", OS: OSAMDHSA, Format: formatELF}},
		{"r600", Triple{Arch: ArchR600, Format: formatELF}},
		{"mips64el", Triple{Arch: "mips64el", Env: envGNUABI64, Format: formatELF}},
		{"mipsisa32r6el", Triple{Arch: "mipsel", SubArch: "mips_r6", Env: envGNU, Format: formatELF}},
		{"mipsel-x-windows", Triple{Arch: "mipsel", OS: osWindows, Format: formatCOFF}},
		{"mipsn32r6", Triple{Arch: "mips64", SubArch: "mips_r6", Env: envGNUABIN32, Format: formatELF}},
		{"arm64ec-pc-windows-msvc", Triple{Arch: "aarch64", SubArch: "arm64ec", Vendor: "pc", OS: osWindows, Env: "msvc", Format: formatCOFF}},
		{"x86_64-apple-macosx10-elf", Triple{Arch: "x86_64", Vendor: vendorApple, OS: osMacOS, Format: formatELF}},
		{"ppc64-ibm-aix7", Triple{Arch: "ppc64", Vendor: "ibm", OS: osAIX, Format: formatXCOFF}},
		{"powerpcspe-apple-darwin8", Triple{Arch: "ppc", SubArch: "spe", Vendor: vendorApple, OS: osDarwin, Format: formatMachO}},
		{"s390x-ibm-zos", Triple{Arch: "systemz", Vendor: "ibm", OS: osZOS, Format: formatGOFF}},
		{"spirv64v1.6-intel", Triple{Arch: "spirv64", SubArch: "spirv_v1.6", Vendor: "intel", Format: formatSPIRV}},
		{"dxilv1.9--shadermodel6.9-pixel", Triple{Arch: "dxil", SubArch: "dxil_v1.9", OS: osShaderModel, Env: "pixel", Format: formatDXContainer}},
		{"wasm32--wasip1", Triple{Arch: "wasm32", OS: "wasip1", Format: formatWasm}},
		{"kalimba4", Triple{Arch: "kalimba", Format: formatELF}},
		{"bpf", Triple{Arch: "bpfel", Format: formatELF}},
		{"bpf_be", Triple{Arch: "bpfeb", Format: formatELF}},
		{"armebv7", Triple{Arch: "armeb", SubArch: "v7", Format: formatELF}},
		{"armv6m", Triple{Arch: "thumb", SubArch: "v6m", Format: formatELF}},
		{"thumbv2", Triple{Format: formatELF}},
		{"ve", Triple{Arch: "ve", SubArch: "v7ve", Format: formatELF}}, // LLVM looks for ARM versions everywhere
	}
	for _, tt := range tests {
		tt.want.text = tt.in
		if got := ParseTriple(tt.in); got != tt.want {
			t.Errorf("ParseTriple(%q) = %+v, want %+v", tt.in, got, tt.want)
		}
	}
}
