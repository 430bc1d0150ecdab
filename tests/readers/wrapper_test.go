package readers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/releases"
)

// linked are dry runs of clang-linker-wrapper that print the same in a release of LLVM as with the
// drop-in that follows it. The inputs are offload binaries, as -fembed-offload-object embeds them
// in objects.
var linked = map[int][]string{23: {
	"nvidia.pk -o out", "nvidia.pk host.pk -o dir/out", "amd.pk -o out", "xnack.pk amd.pk -o out", "amd.pk amd.pk -o out", "subarch.pk -o out", "amd.pk subarch.pk -o out",
	"host.pk -Lfoo -L bar -rpath a --rpath=b -Wl,x -o out", "host.pk --whole-archive --no-whole-archive -o out", "host.pk -r -o out", "hip.pk -r -o out",
	"hip.pk -o out --compress --compression-level=9", "hip.pk amd.pk nvidia.pk cuda.pk -o out", "cuda.pk --host-triple=i386-pc-linux-gnu -o out",
	"sycl.pk -o out", "amd.pk -mllvm -disable-symbolication --offload-opt=-disable-symbolication -o out", "amd.pk --embed-bitcode -o out", "hip.pk --emit-fatbin-only -o out",
	"amd.pk --device-linker=a=b --device-linker=amdgcn-amd-amdhsa=c --device-compiler=nvptx64-nvidia-cuda=d --device-compiler=-O1 -o out",
	"nvidia.pk --save-temps --wrapper-verbose -r -o dir/out", "cuda.pk --save-temps --wrapper-verbose -o out", "hip.pk --save-temps --wrapper-verbose -o out", "sycl.pk --save-temps --wrapper-verbose -o out",
	"host.pk --save-temps --linker-path=/usr/bin/ld.lld -o out",
	"hip.pk --print-wrapped-module -o out", "cuda.pk --print-wrapped-module -o out", "sycl.pk --print-wrapped-module -o out",
	"hip.pk --print-wrapped-module --host-triple=x86_64-pc-windows-msvc -o out", "cuda.pk --print-wrapped-module --host-triple=x86_64-w64-windows-gnu -o out",
	"hip.pk --print-wrapped-module --host-triple=aarch64-linux-gnu -o out",
	"hip.pk -lnosuch -o out", "hip.pk -o", "riscv.pk -o out", "hip.pk --wrapper-jobs=0 -o out", "--version",
}, 24: {
	"amd.pk xnack.pk -o out", "xnack.pk amd.pk -o out", "amd.pk subarch.pk -o out", "subarch.pk amd.pk xnack.pk -o out", "amd.pk major.pk minor.pk -o out", "minor.pk hip.pk -o out",
	"major.pk --device-linker=amdgpu-amd-amdhsa=a --device-linker=amdgpu9-amd-amdhsa=b --device-compiler=amdgpu10.3-amd-amdhsa=c --device-compiler=amdgcn-amd-amdhsa=d -o out",
	"nvidia.pk -o out", "sycl.pk -o out", "hip.pk --print-wrapped-module -o out", "cuda.pk --print-wrapped-module --host-triple=x86_64-pc-windows-msvc -o out",
	"hip.pk --print-wrapped-module --host-triple=aarch64-linux-gnu -o out", "--version",
}}

// Intended differences: the entry of the host in a bundle for HIP, and LLVM's wrapper requests
// entries of amdgpu that no runtime reads.
var intended = regexp.MustCompile(`targets=host-[^,]*|hip-amd[^-]*`)

// TestLinksLike compares dry runs of clang-linker-wrapper with those of LLVM 23 and 24.
func TestLinksLike(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "code"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	pack(t, dir, map[string][]string{
		"nvidia":  {"kind=openmp,triple=nvptx64-nvidia-cuda,arch=sm_70", "kind=openmp,triple=nvptx64-nvidia-cuda,arch=sm_80"},
		"cuda":    {"kind=cuda,triple=nvptx64-nvidia-cuda,arch=sm_70", "kind=cuda,triple=nvptx64-nvidia-cuda,arch=sm_89"},
		"amd":     {"kind=openmp,triple=amdgcn-amd-amdhsa,arch=gfx90a"},
		"xnack":   {"kind=openmp,triple=amdgcn-amd-amdhsa,arch=gfx90a:xnack+", "kind=openmp,triple=amdgcn-amd-amdhsa,arch=gfx90a:xnack-"},
		"subarch": {"kind=hip,triple=amdgpu9.0a-amd-amdhsa,arch=gfx90a", "kind=hip,triple=amdgpu9.08-amd-amdhsa,arch=gfx908"},
		"major":   {"kind=openmp,triple=amdgpu9-amd-amdhsa"},
		"minor":   {"kind=openmp,triple=amdgpu9.00-amd-amdhsa", "kind=openmp,triple=amdgcn-amd-amdhsa,arch=gfx900"},
		"hip":     {"kind=hip,triple=amdgcn-amd-amdhsa,arch=gfx90a", "kind=hip,triple=amdgcn-amd-amdhsa,arch=gfx1030"},
		"sycl":    {"kind=sycl,triple=spirv64-unknown-unknown"},
		"host":    {"kind=openmp,triple=x86_64-pc-linux-gnu,arch=generic"},
		"riscv":   {"kind=openmp,triple=riscv64-linux-gnu"},
	})
	ours := llvm.DropIn(t, "clang-linker-wrapper")
	for number, lines := range linked {
		r := releases.Get(t, number)
		for _, line := range lines {
			args := append([]string{"--dry-run", "--host-triple=x86_64-pc-linux-gnu", "--linker-path=/usr/bin/ld"}, strings.Fields(line)...)
			theirs := r.Command(t, "clang-linker-wrapper", args...)
			mine := exec.Command(ours, args...)
			mine.Env = append(os.Environ(), fmt.Sprint("OFFLOAD_LLVM_VERSION=", number))
			var got [2]string
			for i, cmd := range []*exec.Cmd{theirs, mine} {
				cmd.Dir = dir
				out, _ := cmd.CombinedOutput() // the exit code is compared
				text := regexp.MustCompile(`"?[^" ]*/(clang-linker-wrapper|clang-offload-bundler|clang|llvm-[a-z-]+)\b`).ReplaceAllString(string(out), "$1")
				text = regexp.MustCompile(`[^ =]*/(offload-dry-run/)?([^ /]*)-[0-9a-f]{6}\.`).ReplaceAllString(text, "$2.")
				text = intended.ReplaceAllString(text, "")
				got[i] = strings.Join([]string{text, cmd.ProcessState.String()}, "\n")
			}
			if diff := cmp.Diff(strings.Split(got[0], "\n"), strings.Split(got[1], "\n")); diff != "" {
				t.Errorf("%s (-LLVM %d +ours):\n%s", line, number, diff)
			}
		}
	}
}

// pack makes offload binaries of an empty file, each with images that are
// described by their properties.
func pack(t *testing.T, dir string, packages map[string][]string) {
	t.Helper()
	for name, list := range packages {
		args := []string{"-o", name + ".pk"}
		for _, properties := range list {
			args = append(args, "--image=file=code,"+properties)
		}
		cmd := exec.Command(llvm.Tool(t, "llvm-offload-binary"), args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestWrapsLike compares the modules of llvm-offload-wrapper with those of LLVM 23, which has more
// kinds than LLVM 22.
func TestWrapsLike(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"code": "code", "image": "an image"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	pack(t, dir, map[string][]string{"openmp": {"kind=openmp,triple=a", "kind=openmp,triple=b"}, "sycl": {"kind=sycl,triple=spirv64-unknown-unknown"}})
	r, ours := releases.Get(t, 23), llvm.DropIn(t, "llvm-offload-wrapper")
	run := func(cmd *exec.Cmd) {
		t.Helper()
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	module := func() string {
		t.Helper()
		run(exec.Command(llvm.Tool(t, "llvm-dis"), "out.bc", "-o", "out.ll"))
		text, err := os.ReadFile(filepath.Join(dir, "out.ll"))
		if err != nil {
			t.Fatal(err)
		}
		// LLVM's tool omits the data layout, and the alignment of HIP images.
		without := regexp.MustCompile("(?m)^target datalayout = .*\n").ReplaceAllString(string(text), "")
		return strings.ReplaceAll(without, ", align 4096", "")
	}
	for _, line := range []string{
		"--kind=openmp image openmp.pk --triple=x86_64-linux-gnu", "--kind=openmp --relocatable image --triple=x86_64-linux-gnu", "--kind=hip image --triple=x86_64-linux-gnu",
		"--kind=cuda image --triple=x86_64-pc-windows-msvc", "--kind=sycl sycl.pk --triple=x86_64-linux-gnu", "--kind=sycl image --triple=aarch64-linux-gnu", "--kind=hip image --triple=arm64-apple-macos",
	} {
		args := append(strings.Fields(line), "-o", "out.bc")
		run(r.Command(t, "llvm-offload-wrapper", args...))
		want := module()
		mine := exec.Command(ours, args...)
		mine.Env = append(os.Environ(), "OFFLOAD_LLVM_VERSION=23")
		run(mine)
		if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(module(), "\n")); diff != "" {
			t.Errorf("%s (-LLVM 23 +ours):\n%s", line, diff)
		}
	}
}
