package flows

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// inPlace makes clang and LLVM's clang-linker-wrapper call this project's program instead of
// clang-offload-bundler and llvm-offload-binary. It returns an argument for clang, and a function
// that returns the tools that have been called since its last call.
func (f *flow) inPlace() (arg string, called func() string) {
	f.Helper()
	bin, log := f.path("bin"), f.path("calls")
	if err := os.MkdirAll(filepath.Join(bin, "real"), 0o755); err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"clang-offload-bundler", "llvm-offload-binary", "clang-offload-packager"} {
		real := filepath.Join(bin, "real", name)
		if err := os.Symlink(llvm.Offload(f), real); err != nil {
			f.Fatal(err)
		}
		script := fmt.Sprintf("#!/bin/sh\necho %s >> '%s'\nexec '%s' \"$@\"\n", name, log, real)
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	// clang-linker-wrapper searches for tools in its own directory, whatever path it is called by.
	wrapper, err := os.ReadFile(llvm.Tool(f, "clang-linker-wrapper"))
	if err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "clang-linker-wrapper"), wrapper, 0o755); err != nil {
		f.Fatal(err)
	}
	f.env = append(f.env, "LD_LIBRARY_PATH="+filepath.Join(llvm.Dir, "../lib"), "PATH="+llvm.Dir+":"+os.Getenv("PATH"))
	return "-B" + bin, func() string {
		calls, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			f.Fatal(err)
		}
		os.Remove(log)
		return strings.Join(strings.Fields(string(calls)), " ")
	}
}

// TestInPlace compiles and links with clang's driver and clang-linker-wrapper, once with this
// project's program instead of two of LLVM's tools, and once with LLVM's own, and compares the
// outputs.
func TestInPlace(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	ours, called := f.inPlace()
	calls := func(step, want string) {
		t.Helper()
		if got := called(); got != want {
			t.Errorf("%s: clang called %q, expected %q", step, got, want)
		}
	}
	both := func(name string, args ...string) {
		t.Helper()
		f.clang(append(args, "-o", "llvm-"+name)...)
		f.clang(append(args, ours, "-o", "ours-"+name)...)
	}
	hip := append(hip[:len(hip):len(hip)], "--offload-arch="+strings.Join(processors, ","))

	// OpenMP: the object, and the program.
	both("saxpy.o", "-O2", "-fopenmp", "-fopenmp-targets="+host, "-c", "saxpy.c")
	calls("OpenMP compilation", "llvm-offload-binary")
	f.same("ours-saxpy.o", "llvm-saxpy.o")
	both("saxpy", "-fopenmp", "-fopenmp-targets="+host, "ours-saxpy.o", "-L"+libraries, "-Wl,-rpath,"+libraries)
	calls("OpenMP link", "")
	if got := f.offloaded("ours-saxpy"); got != "on_host=0 sum=4096.0\n" {
		t.Errorf("OpenMP: printed %q", got)
	}

	// HIP with relocatable device code.
	both("late.o", append(hip, "--offload-new-driver", "-fgpu-rdc", "-c", "kernels.hip")...)
	calls("HIP compilation for late linking", "llvm-offload-binary")
	f.same("ours-late.o", "llvm-late.o")
	f.gcc("-c", "hiprt.c")
	link := []string{"--hip-link", "--offload-new-driver", "-fgpu-rdc", "--offload-arch=" + strings.Join(processors, ","), "-nogpulib", "-no-hip-rt", "ours-late.o", "hiprt.o"}
	both("late", link...)
	calls("HIP link", "clang-offload-bundler")
	if ours, theirs := f.run(f.path("ours-late")), f.run(f.path("llvm-late")); ours != theirs || !strings.Contains(ours, "gfx1030: code object") {
		t.Errorf("HIP, late linking: printed\n%s\nwith LLVM's tools\n%s", ours, theirs)
	}

	// HIP without, by both drivers.
	both("new.o", append(hip, "--offload-new-driver", "-fno-gpu-rdc", "-c", "kernels.hip")...)
	calls("HIP compilation, new driver", "llvm-offload-binary clang-offload-bundler")
	f.same("ours-new.o", "llvm-new.o")
	both("old.o", append(hip, "--no-offload-new-driver", "-c", "kernels.hip")...)
	calls("HIP compilation, old driver", "clang-offload-bundler")
	f.same("ours-old.o", "llvm-old.o")
	f.gcc("ours-old.o", "hiprt.o", "-o", "old")
	if got := f.run(f.path("old")); !strings.Contains(got, "hipv4-"+amd+"--gfx942: code object") || !strings.Contains(got, "launch _Z5scalePf") {
		t.Errorf("HIP, old driver: printed\n%s", got)
	}
}
