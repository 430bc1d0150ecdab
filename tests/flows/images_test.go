package flows

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listed returns the images in a file as offload inspect lists them.
func (f *flow) listed(name string) (found []string) {
	f.Helper()
	var images []struct {
		Kind, Triple, Arch, Format, Section string
		Size                                int
	}
	if err := json.Unmarshal([]byte(f.offload("inspect", "--json", name)), &images); err != nil {
		f.Fatal(err)
	}
	for _, i := range images {
		if i.Kind == "host" {
			continue
		}
		if i.Size == 0 {
			f.Errorf("%s: an empty image for %s", name, i.Triple)
		}
		found = append(found, strings.TrimSpace(fmt.Sprint(i.Kind, " ", i.Triple, " ", i.Arch, " ", i.Format, " ", i.Section)))
	}
	return found
}

func (f *flow) lists(name string, want ...string) {
	f.Helper()
	if diff := cmp.Diff(want, f.listed(name)); diff != "" {
		f.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// objdump fails unless llvm-objdump prints the expected lines for the images in a file.
func (f *flow) objdump(name string, want ...string) {
	f.Helper()
	printed := strings.Join(strings.Fields(f.tool("llvm-objdump", "--offloading", name)), " ")
	for _, w := range want {
		if !strings.Contains(printed, w) {
			f.Errorf("llvm-objdump --offloading %s: no %q in\n%s", name, w, printed)
		}
	}
}

const nvidia = "nvptx64-nvidia-cuda"

// TestPTX compiles for NVIDIA's GPUs as far as is possible without CUDA, packs and embeds the
// result, then lists and extracts it.
func TestPTX(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	cuda := []string{"-x", "cuda", "-nocudalib", "-nocudainc", "-O2", "--cuda-feature=+ptx70"}
	for _, arch := range []string{"sm_70", "sm_80"} {
		f.clang(append(cuda, "--cuda-device-only", "--offload-arch="+arch, "-S", "kernel.cu", "-o", arch+".s")...)
		if ptx := string(f.read(arch + ".s")); !strings.Contains(ptx, ".target "+arch) || !strings.Contains(ptx, ".entry fill") {
			t.Errorf("%s: the assembly is\n%s", arch, ptx)
		}
	}
	pack := []string{"--image=file=sm_70.s,triple=" + nvidia + ",arch=sm_70,kind=cuda", "--image=file=sm_80.s,triple=" + nvidia + ",arch=sm_80,kind=cuda"}
	f.offload(append([]string{"pack", "--output=ptx.package"}, pack...)...)
	f.tool("llvm-offload-binary", append([]string{"-o", "llvm.package"}, pack...)...)
	f.same("ptx.package", "llvm.package")
	want := []string{"cuda " + nvidia + " sm_70 ptx", "cuda " + nvidia + " sm_80 ptx"}
	f.lists("ptx.package", want...)
	f.objdump("ptx.package", "kind ptx arch sm_70 triple "+nvidia+" producer cuda", "kind ptx arch sm_80")

	f.gcc("-c", "plain.c", "-o", "plain.o")
	f.offload("embed", "--input=plain.o", "--output=fat.o", "ptx.package")
	f.lists("fat.o", want[0]+" .llvm.offloading", want[1]+" .llvm.offloading")
	f.offload("extract", "--image=arch=sm_80,file=again.s", "fat.o")
	f.same("again.s", "sm_80.s")

	// Bitcode that clang embeds for a device link.
	f.clang(append(cuda, "--offload-new-driver", "-fgpu-rdc", "-foffload-lto", "--offload-arch=sm_70", "-c", "kernel.cu", "-o", "late.o")...)
	f.lists("late.o", "cuda "+nvidia+" sm_70 llvm ir .llvm.offloading")
	f.clang("-fopenmp", "-fopenmp-targets="+nvidia, "--offload-arch=sm_70", "-nogpulib", "-nocudalib", "-foffload-lto", "--cuda-feature=+ptx70", "-O1", "-c", "region.c", "-o", "openmp.o")
	f.lists("openmp.o", "openmp "+nvidia+" sm_70 llvm ir .llvm.offloading")
	f.offload("extract", "--image=arch=sm_70,file=ours.bc", "openmp.o")
	f.tool("llvm-offload-binary", "openmp.o", "--image=arch=sm_70,file=llvm.bc")
	f.same("ours.bc", "llvm.bc")
	// The link is planned as by clang-linker-wrapper; it requires NVIDIA's tools.
	if plan := f.link("--plan", "openmp.o"); !strings.Contains(plan, "--target="+nvidia) || !strings.Contains(plan, "-march=sm_70") {
		t.Errorf("the plan is\n%s", plan)
	}
}

// TestSPIRV repeats the steps of TestPTX with SPIR-V, for OpenCL, HIP and OpenMP.
func TestSPIRV(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	isSPIRV := func(name string) {
		t.Helper()
		if !strings.HasPrefix(string(f.read(name)), "\x03\x02\x23\x07") {
			t.Errorf("%s: no SPIR-V", name)
		}
	}
	f.clang("--target=spirv64-unknown-unknown", "-cl-std=CL2.0", "-x", "cl", "-O2", "-c", "kernel.cl", "-o", "kernel.spv")
	isSPIRV("kernel.spv")
	pack := []string{"--image=file=kernel.spv,triple=spirv64-unknown-unknown,kind=sycl"}
	f.offload(append([]string{"pack", "--output=spirv.package"}, pack...)...)
	f.lists("spirv.package", "sycl spirv64-unknown-unknown  spirv")
	// Version 1 contains the number of the format, which LLVM 22 reads but does not write.
	f.objdump("spirv.package", "triple spirv64-unknown-unknown producer sycl")
	f.offload("extract", "--image=format=spirv,file=again.spv", "spirv.package")
	f.same("again.spv", "kernel.spv")
	f.tool("llvm-offload-binary", "spirv.package", "--image=triple=spirv64-unknown-unknown,file=llvm.spv")
	f.same("llvm.spv", "kernel.spv")

	// HIP's portable code is an entry of a bundle.
	device := []string{"--offload-device-only", "-use-spirv-backend"}
	f.hip(append(device, "--no-gpu-bundle-output", "--offload-arch=amdgcnspirv", "kernels.hip", "-o", "portable.spv")...)
	isSPIRV("portable.spv")
	f.hip(append(device, "--no-gpu-bundle-output", "--offload-arch=gfx90a", "kernels.hip", "-o", "gfx90a.co")...)
	f.hip(append(device, "--offload-arch=amdgcnspirv,gfx90a", "kernels.hip", "-o", "llvm.hipfb")...)
	f.offload("bundle", "--output=ours.hipfb", "--align=4096", "--entry=host-x86_64-unknown-linux-gnu=", "--entry=gfx90a=gfx90a.co", "--entry=amdgcnspirv=portable.spv")
	want := []string{"hipv4 " + amd + " gfx90a elf", "hipv4 spirv64-amd-amdhsa amdgcnspirv spirv"}
	f.lists("ours.hipfb", want...)
	theirs := f.listed("llvm.hipfb") // in the order of clang
	slices.Sort(theirs)
	if diff := cmp.Diff(want, theirs); diff != "" {
		t.Errorf("clang's bundle (-want +got):\n%s", diff)
	}
	f.offload("extract", "--image=arch=amdgcnspirv,file=ours.spv", "ours.hipfb")
	f.offload("extract", "--image=arch=amdgcnspirv,file=theirs.spv", "llvm.hipfb")
	f.same("ours.spv", "portable.spv")
	isSPIRV("theirs.spv")
	f.offload("check", "--input=ours.hipfb", "--entry=host-x86_64-unknown-linux-gnu=", "--entry=gfx90a=gfx90a.co", "--entry=amdgcnspirv=portable.spv")

	// clang names the image of a fat object .o, so the package has the format ELF.
	f.clang("-fopenmp", "-fopenmp-targets=spirv64-intel", "-nogpulib", "-O1", "-c", "region.c", "-o", "openmp.o")
	f.lists("openmp.o", "openmp spirv64-intel generic elf .llvm.offloading")
	f.offload("extract", "--image=triple=spirv64-intel,file=openmp.spv", "openmp.o")
	isSPIRV("openmp.spv")
}
