package flows

import (
	"strings"
	"testing"
)

// openMP are the arguments that make fat objects of OpenMP programs.
var openMP = []string{"-O2", "-fPIC", "-fopenmp", "-fopenmp-targets=" + host}

// fatObject compiles a source with clang's driver, for the host and the device.
func (f *flow) fatObject(source, output string) {
	f.Helper()
	f.clang(append(openMP[:len(openMP):len(openMP)], "-c", source, "-o", output)...)
}

// TestOpenMP links output of clang's driver in one step.
func TestOpenMP(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.fatObject("saxpy.c", "saxpy.o")
	f.link(append(deviceRuntime, "--output=registration.o", "saxpy.o")...)
	for _, ld := range []string{"bfd", "lld"} {
		args := append([]string{"-o", "saxpy-" + ld, "saxpy.o", "registration.o", "-Wl,--gc-sections"}, runtime...)
		f.gcc(append(args, linker(ld)...)...)
		if got := f.offloaded("saxpy-" + ld); got != "on_host=0 sum=4096.0\n" {
			t.Errorf("%s: printed %q", ld, got)
		}
	}
}

// steps builds a program with one tool for each step, as actions do, and keeps the output of each
// step.
func (f *flow) steps(source, program string) {
	f.Helper()
	code := f.read(source)
	// The source comes from standard input, so that names of kernels have no inode numbers.
	f.pipe(code, clangPath(f), "-O2", "-fopenmp", "-fopenmp-targets="+host, "--offload-host-only", "-fPIC", "-emit-llvm", "-c", "-x", "c", "-", "-o", "host.bc")
	f.pipe(code, clangPath(f), "--target="+host, "-O2", "-fPIC", "-fopenmp", "-Xclang", "-aux-triple", "-Xclang", host, "-Xclang", "-fopenmp-is-target-device",
		"-Xclang", "-fopenmp-host-ir-file-path", "-Xclang", "host.bc", "-c", "-x", "c", "-", "-o", "device.o")
	f.clang("-O2", "-fPIC", "-fopenmp", "-c", "-x", "ir", "host.bc", "-o", "host.o")
	f.offload("pack", "--output=device.package", "--image=file=device.o,triple="+host+",arch=generic,kind=openmp")
	f.offload("embed", "--input=host.o", "--output=fat.o", "device.package")
	f.offload("extract", "--image=kind=openmp,file=extracted.o", "fat.o")
	f.same("extracted.o", "device.o")
	f.clang("--target="+host, "-shared", "-Wl,-Bsymbolic", "-Wl,--no-undefined", "-o", "linked.img", "extracted.o", "-L"+libraries, "-lomp", "-lomptarget")
	f.offload("pack", "--output=linked.package", "--image=file=linked.img,triple="+host+",arch=,kind=openmp")
	f.offload("register", "--kind=openmp", "--triple="+host, "--output=registration.o", "linked.package")
	f.gcc(append([]string{"fat.o", "registration.o", "-o", program}, runtime...)...)
}

// TestOpenMPSteps also checks that every step writes the same bytes in another directory.
func TestOpenMPSteps(t *testing.T) {
	t.Parallel()
	first, second := newFlow(t), newFlow(t)
	for _, f := range []*flow{first, second} {
		f.steps("saxpy.c", "saxpy")
		if got := f.offloaded("saxpy"); got != "on_host=0 sum=4096.0\n" {
			t.Errorf("printed %q", got)
		}
	}
	for _, name := range []string{"device.o", "device.package", "fat.o", "linked.img", "linked.package", "registration.o", "saxpy"} {
		if string(first.read(name)) != string(second.read(name)) {
			t.Errorf("%s differs from folder to folder", name)
		}
	}

	// A bare image is registered like one in an offload binary.
	f := first
	f.offload("register", "--kind=openmp", "--triple="+host, "--output=bare.o", "linked.img")
	f.gcc(append([]string{"fat.o", "bare.o", "-o", "bare"}, runtime...)...)
	f.offloaded("bare")
}

// TestEmbed links embedded images with LLVM's tools.
func TestEmbed(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.steps("saxpy.c", "saxpy")
	f.clang("-fopenmp", "-fopenmp-targets="+host, "fat.o", "-o", "by-llvm", "-L"+libraries, "-Wl,-rpath,"+libraries)
	f.offloaded("by-llvm")

	// A second offload binary follows the first, in ELF and in COFF.
	f.offload("pack", "--output=gpu.package", "--image=file=device.o,triple="+amd+",arch=gfx90a,kind=hip")
	f.offload("embed", "--input=fat.o", "--output=both.o", "gpu.package")
	f.pipe([]byte("int x = 1;"), clangPath(f), "--target=x86_64-pc-windows-msvc", "-c", "-x", "c", "-", "-o", "host.obj")
	f.offload("embed", "--input=host.obj", "--output=both.obj", "device.package", "gpu.package")
	for _, name := range []string{"both.o", "both.obj"} {
		listing := f.tool("llvm-objdump", "--offloading", name)
		for _, want := range []string{"arch            generic", "producer        openmp", "arch            gfx90a", "producer        hip"} {
			if !strings.Contains(listing, want) {
				t.Errorf("%s: no %q in\n%s", name, want, listing)
			}
		}
	}

	// objcopy adds a section by name only; it must become a section that linkers recognize.
	f.tool("llvm-objcopy", "--add-section=.llvm.offloading=device.package", "host.o", "objcopy.o")
	f.offload("embed", "--input=objcopy.o", "--output=typed.o", "gpu.package")
	if n := strings.Count(f.tool("llvm-readelf", "-SW", "typed.o"), "LLVM_OFFLOADING"); n != 2 {
		t.Errorf("%d sections of device images, expected 2", n)
	}
	f.tool("ld.lld", "-r", "-o", "merged.o", "typed.o")

	for _, refused := range [][2]string{
		{"host.o", "device.o"},     // not an offload binary
		{"saxpy", "gpu.package"},   // not an object
		{"saxpy.c", "gpu.package"}, // neither
	} {
		f.fails(offloadPath(f), "embed", "--input="+refused[0], "--output=refused.o", refused[1])
	}
}

// TestSharedLibrary registers images when a library is loaded.
func TestSharedLibrary(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.fatObject("library.c", "library.o")
	f.link(append(deviceRuntime, "--output=registration.o", "library.o")...)
	for _, ld := range []string{"bfd", "lld"} {
		name := "libflow-" + ld + ".so"
		args := append([]string{"-shared", "-Wl,-z,defs,-z,text", "-o", name, "library.o", "registration.o"}, runtime...)
		f.gcc(append(args, linker(ld)...)...)
		f.gcc("plain.c", "-o", "plain-"+ld, "-L.", "-l:"+name, "-Wl,-rpath,"+f.dir)
		if got := f.offloaded("plain-" + ld); got != "library=45,49\n" {
			t.Errorf("%s: printed %q", ld, got)
		}
		f.fatObject("regions.c", "regions.o")
		f.link(append(deviceRuntime, "--output=own.o", "regions.o")...)
		f.gcc(append([]string{"regions.o", "own.o", "-o", "regions-" + ld, "-L.", "-l:" + name, "-Wl,-rpath," + f.dir}, runtime...)...)
		if got := f.offloaded("regions-" + ld); got != "library=45,49 own=7 on_host=0\n" {
			t.Errorf("%s: printed %q", ld, got)
		}
		// The image can be extracted from the library.
		f.offload("extract", "--image=kind=openmp,file=again.img", name)
		f.tool("llvm-offload-binary", name, "--image=file=llvm.img,kind=openmp")
		f.same("again.img", "llvm.img")
	}
}

// TestMixedTargets adds an image for a GPU, which cannot run here.
func TestMixedTargets(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.clang("-O2", "-fopenmp", "-fopenmp-targets="+amd+","+host, "-Xopenmp-target="+amd, "--offload-arch=gfx90a", "-nogpulib", "-c", "saxpy.c", "-o", "saxpy.o")
	// A stand-in for OpenMP's device runtime, which Debian does not have.
	unresolved := "--device-arg=" + amd + "=-Wl,--unresolved-symbols=ignore-all"
	f.link(append(deviceRuntime, unresolved, "--output=registration.o", "saxpy.o")...)
	f.gcc(append([]string{"saxpy.o", "registration.o", "-o", "saxpy"}, runtime...)...)
	if got := f.offloaded("saxpy"); got != "on_host=0 sum=4096.0\n" {
		t.Errorf("printed %q", got)
	}
	listing := f.tool("llvm-objdump", "--offloading", "saxpy")
	if first, second := strings.Index(listing, host), strings.Index(listing, amd); first < 0 || second < first {
		t.Errorf("the program holds\n%s", listing)
	}
}

// TestArchives links images of archive members.
func TestArchives(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.fatObject("library.c", "library.o")
	f.fatObject("regions.c", "regions.o")
	f.tool("llvm-ar", "rcs", "liblibrary.a", "library.o")
	f.link(append(deviceRuntime, "--output=registration.o", "regions.o", "liblibrary.a")...)
	f.gcc(append([]string{"regions.o", "registration.o", "liblibrary.a", "-o", "regions"}, runtime...)...)
	if got := f.offloaded("regions"); got != "library=45,49 own=7 on_host=0\n" {
		t.Errorf("printed %q", got)
	}
	// Without an object for the target, no image of the archive is needed.
	if got := f.fails(offloadPath(f), "link", "--triple="+host, "--output=none.o", "liblibrary.a"); !strings.Contains(got, "no device image in the inputs") {
		t.Errorf("printed %q", got)
	}
	f.link(append(deviceRuntime, "--whole-archive", "--output=whole.o", "liblibrary.a")...)
	f.gcc(append([]string{"plain.c", "whole.o", "liblibrary.a", "-o", "plain"}, runtime...)...)
	f.offloaded("plain")
}

// TestRelocatable links a library relocatably, and then into programs that have target regions of
// their own, which clang's driver links.
func TestRelocatable(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.fatObject("library.c", "library.o")
	f.link(append(deviceRuntime, "--relocatable", "--output=whole.o", "library.o")...)
	f.link(append(deviceRuntime, "--relocatable", "--output=again.o", "library.o")...)
	f.same("whole.o", "again.o")

	// In separate steps.
	f.offload("extract", "--image=kind=openmp,file=device.o", "library.o")
	f.clang("--target="+host, "-shared", "-Wl,-Bsymbolic", "-Wl,--no-undefined", "-o", "linked.img", "device.o", "-L"+libraries, "-lomp", "-lomptarget")
	f.offload("pack", "--output=linked.package", "--image=file=linked.img,triple="+host+",arch=,kind=openmp")
	f.offload("register", "--relocatable", "--kind=openmp", "--triple="+host, "--output=registration.o", "linked.package")
	f.run("ld", "-r", "-o", "merged.o", "library.o", "registration.o")
	f.offload("isolate", "--input=merged.o", "--output=steps.o")

	for _, object := range []string{"whole.o", "steps.o"} {
		f.tool("llvm-ar", "rcs", "liblibrary.a", object)
		f.gcc(append([]string{"plain.c", "liblibrary.a", "-o", "plain"}, runtime...)...)
		if got := f.offloaded("plain"); got != "library=45,49\n" {
			t.Errorf("%s: printed %q", object, got)
		}
		for _, ld := range []string{"bfd", "lld"} {
			args := append(openMP[:len(openMP):len(openMP)], "regions.c", "liblibrary.a", "-o", "regions", "-L"+libraries, "-Wl,-rpath,"+libraries)
			f.clang(append(args, linker(ld)...)...)
			if got := f.offloaded("regions"); got != "library=45,49 own=7 on_host=0\n" {
				t.Errorf("%s, %s: printed %q", object, ld, got)
			}
		}
		f.clang("-c", "-O2", "-fopenmp", "-fopenmp-targets="+host, "regions.c", "-o", "regions.o")
		f.link(append(deviceRuntime, "--output=own.o", "regions.o", "liblibrary.a")...)
		args := append([]string{"-Wl,--gc-sections", "regions.o", "own.o", "liblibrary.a", "-o", "regions"}, runtime...)
		f.gcc(append(args, linker("lld")...)...)
		if got := f.offloaded("regions"); got != "library=45,49 own=7 on_host=0\n" {
			t.Errorf("%s: printed %q", object, got)
		}
	}

	// Images that a later device link would link again are detected.
	f.offload("register", "--kind=openmp", "--triple="+host, "--output=plain-registration.o", "linked.package")
	f.run("ld", "-r", "-o", "wrong.o", "library.o", "plain-registration.o")
	if got := f.fails(offloadPath(f), "isolate", "--input=wrong.o", "--output=refused.o"); !strings.Contains(got, "--relocatable") {
		t.Errorf("printed %q", got)
	}
}
