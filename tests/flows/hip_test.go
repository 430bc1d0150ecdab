package flows

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// hip are the arguments of clang for HIP without ROCm. Without -cuid, clang computes the ID of the
// compilation unit from the path.
var hip = []string{"-nogpulib", "-nogpuinc", "-O2", "-cuid=flow", "-x", "hip"}

var processors = []string{"gfx90a", "gfx1030", "gfx942"}

func (f *flow) hip(args ...string) {
	f.Helper()
	f.clang(append(hip[:len(hip):len(hip)], args...)...)
}

// launched is the output of a program that launches the kernels, sorted where the linker determines
// the order.
var launched = strings.Split(`fat binary, page aligned: yes
  host-x86_64-unknown-linux-gnu-: empty
  KIND-amdgcn-amd-amdhsa--gfx90a: code object
  KIND-amdgcn-amd-amdhsa--gfx1030: code object
  KIND-amdgcn-amd-amdhsa--gfx942: code object
function _Z4fillILi5EEvPi _Z4fillILi5EEvPi -1 0
function _Z5scalePf _Z5scalePf -1 0
managed variable total size=4 align=4 live=1
variable counter counter extern=0 size=4 constant=0 global=0 live=1
variable factor factor extern=0 size=4 constant=1 global=0 live=1
launch _Z5scalePf grid 2,1,1 block 64
launch _Z4fillILi5EEvPi grid 1,3,1 block 32
unregister once`, "\n")

// launches runs a program and compares its output with launched. kind is the offload kind of the
// entries of its bundle.
func (f *flow) launches(program, kind string) {
	f.Helper()
	got := strings.Split(strings.TrimSpace(f.run(f.path(program))), "\n")
	registration := func(line string) bool {
		return strings.HasPrefix(line, "function") || strings.HasPrefix(line, "variable") || strings.HasPrefix(line, "managed")
	}
	if first := slices.IndexFunc(got, registration); first >= 0 {
		last := first
		for last < len(got) && registration(got[last]) {
			last++
		}
		slices.Sort(got[first:last])
	}
	var want []string
	for _, line := range launched {
		want = append(want, strings.ReplaceAll(line, "KIND", kind))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("%s (-want +got):\n%s", program, diff)
	}
}

// TestHIP compiles each architecture separately and combines the code objects in one bundle,
// which the host object includes.
func TestHIP(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	bundle := []string{"bundle", "--output=kernels.hipfb", "--align=4096", "--entry=host-x86_64-unknown-linux-gnu="}
	for _, arch := range processors {
		f.hip("--offload-device-only", "--no-gpu-bundle-output", "--offload-arch="+arch, "kernels.hip", "-o", arch+".co")
		bundle = append(bundle, "--entry="+arch+"="+arch+".co")
	}
	f.offload(bundle...)
	f.hip("--offload-host-only", "--offload-arch="+strings.Join(processors, ","), "-Xclang", "-fcuda-include-gpubinary", "-Xclang", "kernels.hipfb", "-c", "kernels.hip", "-o", "kernels.o")
	f.gcc("-c", "hiprt.c")
	for _, ld := range []string{"bfd", "lld"} {
		f.gcc(append(linker(ld), "kernels.o", "hiprt.o", "-o", "kernels-"+ld)...)
		f.launches("kernels-"+ld, "hipv4")
	}
	f.offload("extract", "--image=arch=gfx942,file=again.co", "kernels-bfd")
	f.same("again.co", "gfx942.co")
}

// rdc compiles for a device link: device code for every architecture, in an offload binary in the
// host object.
func (f *flow) rdc() {
	f.Helper()
	pack := []string{"pack", "--output=kernels.package"}
	for _, arch := range processors {
		f.hip("--offload-device-only", "-fgpu-rdc", "--offload-arch="+arch, "-c", "kernels.hip", "-o", arch+".bc")
		pack = append(pack, "--image=file="+arch+".bc,triple="+amd+",arch="+arch+",kind=hip")
	}
	f.offload(pack...)
	f.hip("--offload-host-only", "--offload-new-driver", "-fgpu-rdc", "-c", "kernels.hip", "-o", "host.o")
	f.offload("embed", "--input=host.o", "--output=kernels.o", "kernels.package")
	f.gcc("-c", "hiprt.c")
	f.gcc("-fPIC", "-shared", "hiprt.c", "-o", "libhiprt.so")
}

// TestHIPLateLinking links device code for all compilation units together.
func TestHIPLateLinking(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.rdc()
	// In separate steps.
	bundle := []string{"bundle", "--output=linked.hipfb", "--align=4096", "--kind=hip", "--entry=host-x86_64-unknown-linux-gnu="}
	for _, arch := range processors {
		f.offload("extract", "--image=arch="+arch+",file=extracted-"+arch+".bc", "kernels.o")
		f.same("extracted-"+arch+".bc", arch+".bc")
		f.clang("--target="+amd, "-mcpu="+arch, "-nogpulib", "-flto", "-Wl,--no-undefined", "extracted-"+arch+".bc", "-o", arch+".co")
		bundle = append(bundle, "--entry="+arch+"="+arch+".co")
	}
	f.offload(bundle...)
	f.offload("register", "--kind=hip", "--triple="+host, "--output=registration.o", "linked.hipfb")
	for _, ld := range []string{"bfd", "lld"} {
		f.gcc(append(linker(ld), "kernels.o", "registration.o", "hiprt.o", "-o", "steps-"+ld)...)
		f.launches("steps-"+ld, "hip")
		f.gcc(append(linker(ld), "-shared", "-Wl,-z,defs,-z,text", "-fPIC", "kernels.o", "registration.o", "-L.", "-lhiprt", "-o", "libkernels.so", "-Wl,-rpath,"+f.dir)...)
		f.offload("extract", "--image=arch=gfx1030,file=again.co", "libkernels.so")
		f.same("again.co", "gfx1030.co")
	}

	// In one step; the order of entries is LLVM's.
	f.link("--scratch=.scratch", "--output=at-once.o", "kernels.o")
	f.gcc("kernels.o", "at-once.o", "hiprt.o", "-o", "at-once")
	want := f.run(f.path("steps-bfd"))
	got := f.run(f.path("at-once"))
	slicesEqual(t, strings.Split(want, "\n"), strings.Split(got, "\n"))

	// The bundle equals that of clang-linker-wrapper.
	f.tool("clang-linker-wrapper", "--host-triple="+host, "--linker-path=/usr/bin/ld", "--emit-fatbin-only", "-o", "llvm.hipfb", "kernels.o")
	f.same(".scratch/linked.hipfb", "llvm.hipfb")

	// As a relocatable library, linked into a program by LLVM's tools: they call the runtime in the
	// same way.
	f.hip("--hip-link", "--offload-new-driver", "-fgpu-rdc", "--offload-arch="+strings.Join(processors, ","), "-no-hip-rt", "-x", "none", "kernels.o", "hiprt.o", "-o", "by-llvm")
	byLLVM := strings.Replace(f.run(f.path("by-llvm")), "aligned: no", "aligned: yes", 1)
	slicesEqual(t, strings.Split(byLLVM, "\n"), strings.Split(got, "\n"))
	f.link("--relocatable", "--output=library.o", "kernels.o")
	f.gcc("library.o", "hiprt.o", "-o", "isolated")
	slicesEqual(t, strings.Split(want, "\n"), strings.Split(f.run(f.path("isolated")), "\n"))
}

// slicesEqual compares lines in any order.
func slicesEqual(t *testing.T, want, got []string) {
	t.Helper()
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTwoLibraries links two libraries with kernels into one program, each with its own fat binary:
// neither may register the other's kernels.
func TestTwoLibraries(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.rdc()
	f.link("--relocatable", "--output=first.o", "kernels.o")
	f.write("second.hip", []byte("#include \"hip.h\"\n__global__ void other(int *p) { *p = 1; }\n"))
	f.hip("--offload-new-driver", "-fgpu-rdc", "--offload-arch=gfx90a", "-cuid=second", "-c", "second.hip", "-o", "second-fat.o")
	f.link("--relocatable", "--output=second.o", "second-fat.o")
	f.gcc("first.o", "second.o", "hiprt.o", "-o", "both")

	// The same without a relocatable link.
	for _, library := range []struct{ suffix, host string }{{"first", "kernels.o"}, {"second", "second-fat.o"}} {
		f.link("--scratch=."+library.suffix, "--output=ignored.o", library.host)
		f.offload("isolate", "--suffix="+library.suffix, "--input="+library.host, "--output="+library.suffix+"-host.o")
		f.offload("register", "--kind=hip", "--triple="+host, "--entries=llvm_offload_entries_"+library.suffix, "--keep-entries="+library.suffix+"-host.o",
			"--output="+library.suffix+"-registration.o", "."+library.suffix+"/linked.hipfb")
	}
	f.gcc(append(linker("lld"), "-Wl,--gc-sections", "first-host.o", "first-registration.o", "second-host.o", "second-registration.o", "hiprt.o", "-o", "each")...)
	f.registersOnce("both")
	f.registersOnce("each")
}

func (f *flow) registersOnce(program string) {
	f.Helper()
	got := f.run(f.path(program))
	for line, times := range map[string]int{
		"fat binary, page aligned: yes\n": 2, "function _Z5otherPi ": 1, "function _Z5scalePf ": 1, "launch _Z5scalePf ": 1, "unregister once\n": 2,
	} {
		if n := strings.Count(got, line); n != times {
			f.Errorf("%s: %d times %q, expected %d, in\n%s", program, n, line, times, got)
		}
	}
}
