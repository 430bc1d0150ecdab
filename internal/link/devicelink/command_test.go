package devicelink

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
)

func TestCommand(t *testing.T) {
	full := CommandOptions{
		Clang: "clang", Output: "dir/out", Release: 22, SaveTemps: true, EmbedBitcode: true,
		LLVM:      []LLVMArg{{"-a", true}, {"-b", false}},
		Linker:    []string{"foo=bar", amd + "=x=y", cpu + "=c", "amdgcn=no"},
		Compiler:  []string{"-O2", nvidia + "=-n", nvidia},
		Libraries: []string{"-L", "dir", "lib.a"},
	}
	plain := CommandOptions{Clang: "clang", Output: "a.out", Release: 23}
	lld := CommandOptions{Clang: "clang", Output: "a.out", SaveTemps: true, HostLLD: true}
	tests := []struct {
		name string
		link Link
		opt  *CommandOptions
		want string
	}{
		{"AMD", Link{Triple: amd, Arch: "gfx90a:xnack+", Kinds: offloadbinary.HIP}, &full,
			"clang --no-default-config -o x.img -dumpdir dir/out.amdgcn.gfx90a:xnack+.img. --target=amdgcn-amd-amdhsa -mcpu=gfx90a:xnack+ -flto " +
				"-Xlinker --plugin-opt=-a -Xlinker --plugin-opt=-b -Wl,--no-undefined 1.o 2.o -Xlinker -mllvm=-a -Wl,--save-temps -Wl,--lto-emit-llvm " +
				"-Xlinker foo=bar -Xlinker x=y -O2 " + nvidia},
		{"AMD, release 23", Link{Triple: amd, Arch: "gfx90a", Kinds: offloadbinary.HIP}, &plain,
			"clang --no-default-config -o x.img -dumpdir a.out.amdgcn.gfx90a.img. --target=amdgcn-amd-amdhsa -mcpu=gfx90a -Wl,--no-undefined 1.o 2.o"},
		{"NVIDIA", Link{Triple: nvidia, Arch: "sm_70", Kinds: offloadbinary.CUDA}, &full,
			"clang --no-default-config -o x.img -dumpdir dir/out.nvptx64.sm_70.img. --target=nvptx64-nvidia-cuda -march=sm_70 " +
				"-Xlinker --plugin-opt=-a -Xlinker --plugin-opt=-b 1.o 2.o -Xlinker -mllvm=-a -Wl,--save-temps -Wl,--lto-emit-llvm " +
				"-Xlinker foo=bar -O2 -n " + nvidia},
		{"CPU", Link{Triple: cpu, Arch: "generic", Kinds: offloadbinary.OpenMP}, &full,
			"clang --no-default-config -o x.img -dumpdir dir/out.x86_64..img. --target=x86_64-pc-linux-gnu " +
				"-Xlinker --plugin-opt=-a -Xlinker --plugin-opt=-b -Wl,--no-undefined 1.o 2.o -Wl,-Bsymbolic -shared -L dir lib.a " +
				"-Xlinker -mllvm=-a -Wl,--lto-emit-llvm -Xlinker foo=bar -Xlinker c -O2 " + nvidia},
		{"CPU with lld", Link{Triple: cpu, Arch: "znver4", Kinds: offloadbinary.OpenMP}, &lld,
			"clang --no-default-config -o x.img -dumpdir a.out.x86_64.znver4.img. --target=x86_64-pc-linux-gnu -march=znver4 -Wl,--no-undefined 1.o 2.o -Wl,-Bsymbolic -shared -Wl,--save-temps"},
		{"SYCL", Link{Triple: "spirv64-unknown-unknown", Kinds: offloadbinary.SYCL}, &plain,
			"clang --no-default-config -o x.img -dumpdir a.out.spirv64..img. --target=spirv64-unknown-unknown 1.o 2.o --sycl-link -Xlinker -triple=spirv64-unknown-unknown -Xlinker -arch="},
		{"separators", Link{Triple: amd, Arch: "a/b", Kinds: offloadbinary.HIP}, &plain,
			"clang --no-default-config -o x.img -dumpdir a.out.amdgcn.a_b.img. --target=amdgcn-amd-amdhsa -mcpu=a/b -Wl,--no-undefined 1.o 2.o"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := strings.Join(test.link.Command(test.opt, []string{"1.o", "2.o"}, "x.img"), " ")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Which links an argument is for.
func TestArgIsFor(t *testing.T) {
	l := &Link{Triple: amd, Arch: "gfx90a:sramecc+:xnack-"}
	for name, want := range map[string]bool{
		"":                       true,
		amd:                      true,
		"gfx90a":                 true,
		"gfx90a:xnack-":          true,
		"gfx90a:xnack-:sramecc+": true,
		"gfx90a:xnack+":          false,
		"gfx90":                  false,
		cpu:                      false,
	} {
		if got := (Arg{Triple: name}).isFor(l); got != want {
			t.Errorf("%q is for %s %s: %v, expected %v", name, l.Triple, l.Arch, got, want)
		}
	}
	if (Arg{Triple: "gfx90a"}).isFor(&Link{Triple: cpu}) {
		t.Error("gfx90a is for a CPU")
	}
}
