package target

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStandardForm(t *testing.T) {
	tests := []struct{ in, want string }{
		{"host-x86_64-unknown-linux-gnu", "host-x86_64-unknown-linux-gnu-"},
		{"host-x86_64--linux-gnu-", "host-x86_64-unknown-linux-gnu-"},
		{"openmp-x86_64-pc-win32-", "openmp-x86_64-pc-windows-msvc-"},
		{"openmp-i686-w64-mingw32-", "openmp-i686-w64-windows-gnu-"},
		{"openmp-x86_64-pc-cygwin-", "openmp-x86_64-pc-windows-cygnus-"},
		{"openmp-armv7-none-linux-androideabi21", "openmp-armv7-none-linux-android21-"},
		{"openmp-armv7-suse-linux-gnueabi", "openmp-armv7-suse-linux-gnueabihf-"},
		{"hip-amdgcn-amd-amdpal--gfx906", "hip-amdgcn-amd-amdpal-unknown-gfx906"},
		{"hip-amdgcn-amd-amdhsa-unknown-gfx906", "hip-amdgcn-amd-amdhsa--gfx906"},
		{"hip-amdgcn-amd-amdhsa-gnu-gfx906", "hip-amdgcn-amd-amdhsa--gfx906"},
		{"openmp-nvptx64-nvidia-cuda--sm_70", "openmp-nvptx64-nvidia-cuda-unknown-sm_70"},
		{"openmp-nvptx64-nvidia-cuda-sm_70", "openmp-nvptx64-nvidia-cuda-sm_70-"},
		// An environment to LLVM, so the processor is lost.
		{"hip-amdgcn-amd-amdhsa-gfx906", "hip-amdgcn-amd-amdhsa--"},
		// Target IDs stay as they are, also those that LLVM drops.
		{"hip-amdgcn-amd-amdhsa--gfx906:xnack+:sramecc-", "hip-amdgcn-amd-amdhsa--gfx906:xnack+:sramecc-"},
		{"hip-amdgcn-amd-amdhsa--gfx940:xnack+", "hip-amdgcn-amd-amdhsa--gfx940:xnack+"},
		{"hip-amdgcn-amd-amdhsa--gfx9-4-generic:xnack-", "hip-amdgcn-amd-amdhsa--gfx9-4-generic:xnack-"},
		{"hip-amdgcn-amd-amdhsa--gfx906:junk", "hip-amdgcn-amd-amdhsa--gfx906:junk"},
	}
	for _, tt := range tests {
		id, err := ParseLLVM(tt.in)
		if err != nil {
			t.Errorf("ParseLLVM(%q): %v", tt.in, err)
		} else if got := id.String(); got != tt.want {
			t.Errorf("ParseLLVM(%q).String() = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestLLVMForgetsProcessors(t *testing.T) {
	for in, want := range map[string]string{
		"gfx906:xnack+":   "gfx906:xnack+",
		"gfx11-generic":   "gfx11-generic",
		"sm_90a":          "sm_90a",
		"amdgcnspirv":     "amdgcnspirv",
		"generic":         "generic",
		"gfx940":          "",
		"gfx940:xnack+":   "",
		"fiji":            "",
		"GFX906":          "",
		"gfx906-x":        "",
		"":                "",
		"gfx906:anything": "gfx906:anything",
	} {
		id := ID{TargetID: in}
		if got := id.llvm().TargetID; got != want {
			t.Errorf("target ID %q is %q to LLVM, want %q", in, got, want)
		}
	}
}

func TestParseOldForms(t *testing.T) {
	tests := []struct{ in, want string }{
		{"host-x86_64-unknown-linux", "host-x86_64-unknown-linux-unknown-"},
		{"host-x86_64-unknown-linux-gnu", "host-x86_64-unknown-linux-gnu-"},
		{"hip-amdgcn-amd-amdhsa", "hip-amdgcn-amd-amdhsa--"},
		{"hip-amdgcn-amd-amdhsa-gfx906", "hip-amdgcn-amd-amdhsa--gfx906"},
		{"hip-amdgcn-amd-amdhsa-gfx906:xnack-:sramecc+", "hip-amdgcn-amd-amdhsa--gfx906:xnack-:sramecc+"},
		{"hip-amdgcn-amd-amdhsa-gfx10-3-generic", "hip-amdgcn-amd-amdhsa--gfx10-3-generic"},
		{"hip-amdgcn-amd-amdhsa-fiji", "hip-amdgcn-amd-amdhsa--fiji"},
		{"hip-amdgcn-amd-amdhsa-gfx9999", "hip-amdgcn-amd-amdhsa--gfx9999"},
		{"openmp-nvptx64-nvidia-cuda-sm_70", "openmp-nvptx64-nvidia-cuda-unknown-sm_70"},
		{"hip-amdgcn-amd-amdhsa--gfx906", "hip-amdgcn-amd-amdhsa--gfx906"},
		{"openmp-nvptx64-nvidia-cuda-sm_70-", "openmp-nvptx64-nvidia-cuda-unknown-sm_70"},
		{"hip-amdgcn-amd-amdhsa-gfx906:xnack--", "hip-amdgcn-amd-amdhsa--gfx906:xnack-"},
		{"hip-spirv64-amd-amdhsa-amdgcnspirv", "hip-spirv64-amd-amdhsa--amdgcnspirv"},
	}
	for _, tt := range tests {
		id, err := Parse(tt.in)
		if err != nil {
			t.Errorf("Parse(%q): %v", tt.in, err)
		} else if got := id.String(); got != tt.want || id.Text != tt.in {
			t.Errorf("Parse(%q) = %q from %q, want %q", tt.in, got, id.Text, tt.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, s := range []string{"", "hip", "host-x86_64", "hip-amdgcn-amd", "hip-amdgcn-amdhsa-gfx906"} {
		for name, parse := range map[string]func(string) (ID, error){"Parse": Parse, "ParseLLVM": ParseLLVM} {
			var e *FormatError
			if _, err := parse(s); !errors.As(err, &e) || e.Target != s {
				t.Errorf("%s(%q): error %v, want a FormatError", name, s, err)
			}
		}
	}
	if _, err := ParseLLVM("hip-amdgcn-amd-amdhsa"); err == nil {
		t.Error("ParseLLVM takes four fields")
	}
}

func TestValidate(t *testing.T) {
	tests := []struct{ in, want string }{
		{"hip-amdgcn-amd-amdhsa--gfx906", ""},
		{"HIP-amdgcn-amd-amdhsa--gfx906", `invalid target "HIP-amdgcn-amd-amdhsa--gfx906", unknown offloading kind "HIP"`},
		{"hip-zzz-amd-amdhsa-x", `invalid target "hip-zzz-amd-amdhsa-x", unknown target triple "zzz-amd-amdhsa-x"`},
		{"foo-zzz-amd-amdhsa-", `invalid target "foo-zzz-amd-amdhsa-", unknown offloading kind "foo", unknown target triple "zzz-amd-amdhsa-"`},
	}
	for _, tt := range tests {
		id, err := ParseLLVM(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := id.validate(); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("Validate of %q (-want +got):\n%s", tt.in, diff)
		}
	}
}

func TestComplete(t *testing.T) {
	tests := []struct {
		in   string
		kind Kind
		want string // or an error
	}{
		{"gfx942", HIP, "hip-amdgcn-amd-amdhsa--gfx942"},
		{"gfx942", HIPv4, "hipv4-amdgcn-amd-amdhsa--gfx942"},
		{"gfx90a:xnack+:sramecc-", OpenMP, "openmp-amdgcn-amd-amdhsa--gfx90a:sramecc-:xnack+"},
		{"gfx11-generic", HIP, "hip-amdgcn-amd-amdhsa--gfx11-generic"},
		{"fiji", HIP, "hip-amdgcn-amd-amdhsa--gfx803"},
		{"gfx1310", HIP, "hip-amdgcn-amd-amdhsa--gfx1310"},
		{"amdgcnspirv", HIP, "hip-spirv64-amd-amdhsa--amdgcnspirv"},
		{"sm_70", OpenMP, "openmp-nvptx64-nvidia-cuda-unknown-sm_70"},
		{"x86_64-unknown-linux-gnu", Host, "host-x86_64-unknown-linux-gnu-"},
		{"amdgcn-amd-amdhsa--gfx906", HIP, "hip-amdgcn-amd-amdhsa--gfx906"},
		{"hip-amdgcn-amd-amdhsa-gfx906", "", "hip-amdgcn-amd-amdhsa--gfx906"},
		{"hip-amdgcn-amd-amdhsa--gfx906:xnack+:sramecc-", "", "hip-amdgcn-amd-amdhsa--gfx906:sramecc-:xnack+"},
		{"host-x86_64-unknown-linux", "", "host-x86_64-unknown-linux-unknown-"},
		{"openmp-amdgcn-amd-amdhsa--gfx906", HIP, "openmp-amdgcn-amd-amdhsa--gfx906"},

		{"gfx942", "", `target "gfx942" needs an offload kind to complete it, openmp or hip`},
		{"gfx942", Host, `target "gfx942" does not have offload kind host`},
		{"sm_70", HIP, `target "sm_70" does not have offload kind hip, which is for AMD GPUs`},
		{"amdgcn-amd-amdhsa", "", `target "amdgcn-amd-amdhsa" has no offload kind: prefix it with host-, openmp-, hip- or hipv4-`},
		{"mi300", HIP, `target "mi300" is neither an entry ID (kind-arch-vendor-os-env[-targetid]) nor a target ID (gfx942, gfx90a:xnack+, sm_70)`},
		{"hip-gfx942", HIP, `target "hip-gfx942" is neither an entry ID (kind-arch-vendor-os-env[-targetid]) nor a target ID (gfx942, gfx90a:xnack+, sm_70)`},
		{"cuda-nvptx64-nvidia-cuda--sm_70", "", `invalid target "cuda-nvptx64-nvidia-cuda--sm_70", unknown offloading kind "cuda"`},
		{"hip-amdgnc-amd-amdhsa--gfx906", "", `invalid target "hip-amdgnc-amd-amdhsa--gfx906", unknown target triple "amdgnc-amd-amdhsa-"`},
		{"gfx1030:xnack+", HIP, `target ID "gfx1030:xnack+": gfx1030 has no features to set, so not "xnack+"`},
		{"gfx900:sramecc+", HIP, `target ID "gfx900:sramecc+": gfx900 has no feature "sramecc", only xnack`},
		{"gfx906:foo+", HIP, `target ID "gfx906:foo+": gfx906 has no feature "foo", only sramecc and xnack`},
		{"gfx906:xnack", HIP, `target ID "gfx906:xnack": "xnack" does not end in "+" or "-"`},
		{"gfx906:xnack+:xnack-", HIP, `target ID "gfx906:xnack+:xnack-": "xnack" occurs twice`},
		{"sm_70:xnack+", OpenMP, `target ID "sm_70:xnack+": sm_70 has no features to set, so not "xnack+"`},
		{"hip-amdgcn-amd-amdhsa--sm_70", "", `target ID "sm_70": sm_70 is not a processor of amdgcn-amd-amdhsa-`},
		{"openmp-nvptx64-nvidia-cuda--gfx906", "", `target ID "gfx906": gfx906 is not a processor of nvptx64-nvidia-cuda-`},
		{"hip-amdgcn-amd-amdhsa-gfx906:foo", "", `target ID "gfx906:foo": "foo" does not end in "+" or "-"`},
		{"hip-amdgcn-amd-amdhsa--:xnack+", "", `target ID ":xnack+": there is no processor before the first ":"`},
	}
	for _, tt := range tests {
		id, err := Complete(tt.in, tt.kind)
		got := id.Text
		if err != nil {
			got = err.Error()
		} else if id.String() != got {
			t.Errorf("Complete(%q, %q): String %q, Text %q", tt.in, tt.kind, id.String(), got)
		}
		if got != tt.want {
			t.Errorf("Complete(%q, %q) = %q, want %q", tt.in, tt.kind, got, tt.want)
		}
	}
}
