// Package devicecode compares code of the rules with code that clang's own driver compiles from the
// same sources with the same flags: every value in the metadata of every kernel, and the sizes of
// the functions. By default, it compares one GPU of each kind; for all GPUs, run
//
//	bazel test //tests/devicecode:devicecode_test --//tests/devicecode:all
package devicecode

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
)

const thisPackage = "tests/devicecode"

// modes are the compilation modes and their flags for device code, see offload_device_toolchain.
var modes = map[string][]string{
	"fastbuild": {"-O2"},
	"dbg":       {"-O1", "-g"},
	"opt":       {"-O3", "-DNDEBUG"},
}

// flags are those of the target "flagged".
var flags = []string{
	"-munsafe-fp-atomics", "-ffast-math", "-fgpu-flush-denormals-to-zero", "-mwavefrontsize64",
	"-mllvm", "-amdgpu-early-inline-all=true", "-mllvm", "-amdgpu-function-calls=false",
}

func TestMain(m *testing.M) {
	llvm.Main(m)
}

// built returns the directory with the images of each mode, and that of the sources.
func built(t *testing.T) (images, sources string) {
	t.Helper()
	if root.Bazel() {
		here := filepath.Join(os.Getenv("TEST_SRCDIR"), os.Getenv("TEST_WORKSPACE"), thisPackage)
		return here, filepath.Join(here, "sources")
	}
	project, err := root.Project()
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command(filepath.Join(project, "bazelw"), "build", "//tests/devicecode:dbg", "//tests/devicecode:fastbuild", "//tests/devicecode:opt", "//tests/devicecode:alone_program", "//tests/devicecode:linked_program")
	build.Dir = project
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(project, "bazel-bin", thisPackage), filepath.Join(project, thisPackage, "sources")
}

// run runs one of LLVM's programs and returns its output.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(llvm.Tool(t, name), args...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

var (
	kernelLine   = regexp.MustCompile(`^  - \.(agpr_count|args):`)
	functionLine = regexp.MustCompile(`^ +\d+: [0-9a-f]+ +(\d+) FUNC +\w+ +\w+ +\w+ +(.*)$`)
	nameLine     = regexp.MustCompile(`^    \.name: +(.*)$`)
)

// kernels returns the metadata of each kernel in a code object, and the size of
// each function.
func kernels(t *testing.T, file string) map[string]string {
	t.Helper()
	result := map[string]string{}
	var lines []string
	end := func() {
		for _, line := range lines {
			if match := nameLine.FindStringSubmatch(line); match != nil {
				result[match[1]] = strings.Join(lines, "\n")
			}
		}
		lines = nil
	}
	for line := range strings.SplitSeq(run(t, "", "llvm-readelf", "--notes", "--wide", file), "\n") {
		switch {
		case kernelLine.MatchString(line):
			end()
			lines = append(lines, line)
		case strings.HasPrefix(line, "    ") && lines != nil:
			lines = append(lines, line)
		default:
			end()
		}
	}
	for line := range strings.SplitSeq(run(t, "", "llvm-readelf", "--symbols", "--wide", file), "\n") {
		if match := functionLine.FindStringSubmatch(line); match != nil {
			result["size of "+match[2]] = match[1]
		}
	}
	return result
}

// same compares the kernels of a code object with those of the driver's code object.
func same(t *testing.T, made, wanted string, atLeast int) {
	t.Helper()
	want := kernels(t, wanted)
	got := kernels(t, made)
	n := 0
	for name := range want {
		if !strings.HasPrefix(name, "size of ") {
			n++
		}
	}
	if n < atLeast {
		t.Fatalf("the driver's code object has %d kernels, expected %d at least", n, atLeast)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kernels (-clang's driver +the rule):\n%s", diff)
	}
}

// hip returns the arguments of clang's driver for one architecture.
func hip(arch string, more ...string) []string {
	args := []string{"-nogpulib", "-nogpuinc", "-Wno-unused-command-line-argument", "--offload-device-only", "--no-gpu-bundle-output", "--offload-arch=" + arch}
	return append(args, more...)
}

// filesIn returns the files below a directory, and fails if there are none.
func filesIn(t *testing.T, folder string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files (%v)", folder, err)
	}
	return files
}

// each calls fn for each mode and image of a target, in parallel.
func each(t *testing.T, name string, fn func(t *testing.T, mode, arch, image, sources string)) {
	images, sources := built(t)
	for mode := range modes {
		folder := filepath.Join(images, mode, name)
		for _, file := range filesIn(t, folder) {
			// ARCH.co, or ARCH/SOURCE.co for a single source.
			arch, source, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(file, filepath.Ext(file)), folder+"/"), "/")
			if i := strings.Index(arch, "_"); strings.HasPrefix(arch, "gfx") && i >= 0 {
				arch = strings.ReplaceAll(arch, "_", ":")
			}
			t.Run(strings.TrimSuffix(mode+"/"+arch+"/"+source, "/"), func(t *testing.T) {
				t.Parallel()
				limit <- struct{}{}
				defer func() { <-limit }()
				fn(t, mode, arch, file, sources)
			})
		}
	}
}

// limit holds as many compilations as there are processors.
var limit = make(chan struct{}, runtime.NumCPU())

// inRDC returns all sources, or with alone those that do not need another source.
func inRDC(t *testing.T, sources string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(sources, "*.hip"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d sources in %s (%v)", len(files), sources, err)
	}
	return files
}

func alone(t *testing.T, sources string) []string {
	t.Helper()
	return slices.DeleteFunc(inRDC(t, sources), func(file string) bool {
		return slices.Contains([]string{"across.hip", "functions.hip"}, filepath.Base(file))
	})
}

// TestAlone compares code without -fgpu-rdc: a code object for each source.
func TestAlone(t *testing.T) {
	each(t, "alone", func(t *testing.T, mode, arch, image, sources string) {
		got := kernels(t, image)
		want := map[string]string{}
		for _, source := range alone(t, sources) {
			out := filepath.Join(t.TempDir(), "driver.co")
			run(t, sources, "clang", append(hip(arch, modes[mode]...), "-x", "hip", source, "-o", out)...)
			for name, kernel := range kernels(t, out) {
				want[name] = kernel
			}
		}
		if len(want) < 40 {
			t.Fatalf("the driver made %d kernels and functions", len(want))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("kernels (-clang's driver +the rule):\n%s", diff)
		}
	})
}

// TestLinked compares code of all sources with the output of -fgpu-rdc --hip-link.
func TestLinked(t *testing.T) {
	each(t, "linked", func(t *testing.T, mode, arch, image, sources string) {
		out := filepath.Join(t.TempDir(), "driver.co")
		args := append(hip(arch, modes[mode]...), "-fgpu-rdc", "--hip-link", "-o", out, "-x", "hip")
		run(t, sources, "clang", append(args, inRDC(t, sources)...)...)
		same(t, image, out, 25)
	})
}

// TestFlags compares code that is compiled with flags that change it.
func TestFlags(t *testing.T) {
	each(t, "flagged", func(t *testing.T, mode, arch, image, sources string) {
		out := filepath.Join(t.TempDir(), "driver.co")
		args := append(hip(arch, modes[mode]...), flags...)
		args = append(args, "-fgpu-rdc", "--hip-link", "-o", out, "-x", "hip")
		run(t, sources, "clang", append(args, inRDC(t, sources)...)...)
		same(t, image, out, 25)
	})
	each(t, "flagged_alone", func(t *testing.T, mode, arch, image, sources string) {
		want := map[string]string{}
		for _, source := range []string{"atomics.hip", "several.hip", "shared.hip"} {
			out := filepath.Join(t.TempDir(), "driver.co")
			args := append(hip(arch, modes[mode]...), flags...)
			run(t, sources, "clang", append(args, "-x", "hip", source, "-o", out)...)
			for name, kernel := range kernels(t, out) {
				want[name] = kernel
			}
		}
		if diff := cmp.Diff(want, kernels(t, image)); diff != "" || len(want) < 10 {
			t.Errorf("%d kernels and functions (-clang's driver +the rule):\n%s", len(want), diff)
		}
	})
}

func TestLibrary(t *testing.T) {
	each(t, "library", func(t *testing.T, mode, arch, image, sources string) {
		out := filepath.Join(t.TempDir(), "driver.co")
		args := append(hip(arch, modes[mode]...), "-fgpu-rdc", "--hip-link", "-o", out, "-x", "hip")
		run(t, sources, "clang", append(args, "across.hip", "functions.hip", "sort.hip")...)
		same(t, image, out, 5)
	})
}

// TestLibraries compares code of a library with code of each of its sources alone.
func TestLibraries(t *testing.T) {
	each(t, "libraries", func(t *testing.T, mode, arch, image, sources string) {
		source := strings.TrimSuffix(filepath.Base(image), ".co") + ".hip"
		out := filepath.Join(t.TempDir(), "driver.co")
		run(t, sources, "clang", append(hip(arch, modes[mode]...), "-x", "hip", source, "-o", out)...)
		same(t, image, out, 2)
	})
}

// TestOneLink compares code of two libraries with one link of both: in a program, and in a library
// that uses sources of another.
func TestOneLink(t *testing.T) {
	for name, files := range map[string][]string{
		"program_code": {"across.hip", "functions.hip"},
		"borrowing":    {"../program/uses_pure.hip", "../program/pure.hip"},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, name, func(t *testing.T, mode, arch, image, sources string) {
				out := filepath.Join(t.TempDir(), "driver.co")
				args := append(hip(arch, modes[mode]...), "-fgpu-rdc", "--hip-link", "-o", out, "-x", "hip")
				run(t, sources, "clang", append(args, files...)...)
				same(t, image, out, 1)
			})
		})
	}
}

// TestPrograms runs programs with a stand-in for HIP's runtime.
func TestPrograms(t *testing.T) {
	images, _ := built(t)
	for name, want := range map[string][]string{
		"alone_program": {
			"fat binary __CLANG_OFFLOAD_BUNDLE__",
			"fat binary __CLANG_OFFLOAD_BUNDLE__",
			"kernel _ZN12_GLOBAL__N_16kernelEPi",
			"kernel _ZN12_GLOBAL__N_16kernelEPi",
			"launch _ZN12_GLOBAL__N_16kernelEPi",
			"launch _ZN12_GLOBAL__N_16kernelEPi",
			"set _ZN12_GLOBAL__N_16factorE",
			"set _ZN12_GLOBAL__N_16factorE",
			"unregistered",
			"unregistered",
			"variable _ZN12_GLOBAL__N_16factorE",
			"variable _ZN12_GLOBAL__N_16factorE",
		},
		"linked_program": {
			"fat binary __CLANG_OFFLOAD_BUNDLE__",
			"kernel _Z11step_kernelPi",
			"kernel _Z12reset_kernelv",
			"launch _Z11step_kernelPi",
			"launch _Z12reset_kernelv",
			"set count",
			"unregistered",
			"variable count",
		},
	} {
		out, err := exec.Command(filepath.Join(images, name)).Output()
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSpace(string(out)), "\n")
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestCopies checks device_deps with code that has a variable, code that has none, and code
// that is not required.
func TestCopies(t *testing.T) {
	_, sources := built(t)
	program, dir := filepath.Join(sources, "..", "program"), t.TempDir()
	for _, name := range []string{"counter", "pure", "steps", "uses_pure"} {
		run(t, program, "clang", "-nogpulib", "-nogpuinc", "-O2", "-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "--offload-arch=gfx90a",
			"-fgpu-rdc", "-emit-llvm", "-c", name+".hip", "-o", filepath.Join(dir, name+".bc"))
	}
	for _, test := range []struct{ object, want string }{
		{"uses_pure", ""},
		{"steps", "//app: device_deps: variable count would exist twice: the source in //counter that defines it also defines _Z4nextv"},
	} {
		cmd := exec.Command(llvm.Offload(t), "check-device-deps", "--target=//app", "--output=checked", "--library=//counter=counter.bc", "--library=//pure=pure.bc", test.object+".bc")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if (err == nil) != (test.want == "") || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: %v\n%s", test.object, err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "checked")); err != nil && test.want == "" {
			t.Error(err)
		}
		os.Remove(filepath.Join(dir, "checked"))
	}
}

// TestForgottenLink links a program without the object that defines a required symbol, with each
// linker and with --gc-sections.
func TestForgottenLink(t *testing.T) {
	dir := t.TempDir()
	offload := func(args ...string) {
		t.Helper()
		cmd := exec.Command(llvm.Offload(t), args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	const symbol = "hip_device_link of //math"
	for name, content := range map[string]string{"main.c": "int main() { return 0; }", "bundle": "fat binary",
		"runtime.c": "void *__hipRegisterFatBinary(void *p) { return p; }\nvoid __hipUnregisterFatBinary(void *p) {}\nvoid __hipRegisterFunction() {}\n" +
			"void __hipRegisterVar() {}\nvoid __hipRegisterManagedVar() {}\nvoid __hipRegisterSurface() {}\nvoid __hipRegisterTexture() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	offload("require", "--triple=x86_64-unknown-linux-gnu", "--output=require.o", symbol)
	offload("register", "--kind=hip", "--triple=x86_64-unknown-linux-gnu", "--define="+symbol, "--output=register.o", "bundle")
	for _, linker := range []string{"lld", "bfd"} {
		for _, gc := range []string{"-Wl,--gc-sections", "-Wl,--no-gc-sections"} {
			link := func(objects ...string) (string, error) {
				cmd := exec.Command(llvm.Tool(t, "clang"), append([]string{"-fuse-ld=" + linker, gc, "-o", "program", "main.c", "runtime.c"}, objects...)...)
				cmd.Dir = dir
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			if out, err := link("require.o"); err == nil || !strings.Contains(out, symbol) {
				t.Errorf("%s %s: a program without a device link: %v\n%s", linker, gc, err, out)
			}
			if out, err := link("require.o", "register.o"); err != nil {
				t.Errorf("%s %s: %v\n%s", linker, gc, err, out)
			} else if out, err := exec.Command(filepath.Join(dir, "program")).CombinedOutput(); err != nil {
				t.Errorf("%s %s: the program: %v\n%s", linker, gc, err, out)
			}
			if out, err := link("require.o", "register.o", "register.o"); err == nil || !strings.Contains(out, symbol) {
				t.Errorf("%s %s: a program with two device links: %v\n%s", linker, gc, err, out)
			}
		}
	}
}

// TestBitcode compares kernels that call a device_bitcode_library with kernels that have the same
// functions in their source: the functions are inlined, and no other function of the library
// remains.
func TestBitcode(t *testing.T) {
	for _, name := range []string{"bitcode_kernels", "bitcode_library"} {
		t.Run(name, func(t *testing.T) {
			each(t, name, func(t *testing.T, mode, arch, image, sources string) {
				out := filepath.Join(t.TempDir(), "driver.co")
				args := append(hip(arch, modes[mode]...), "-DHERE", "-x", "hip", "../bitcode/kernels.hip", "-o", out)
				if name == "bitcode_library" {
					args = append(args, "-fgpu-rdc")
				}
				run(t, sources, "clang", args...)
				if diff := cmp.Diff(withoutLanguage(kernels(t, out)), withoutLanguage(kernels(t, image))); diff != "" {
					t.Errorf("kernels (-written in the source +from the library):\n%s", diff)
				}
			})
		})
	}
	each(t, "bitcode_region", func(t *testing.T, mode, arch, image, sources string) {
		// Symbols of the image, including undefined ones.
		symbols := run(t, "", "llvm-nm", image)
		if strings.Contains(symbols, "scale") || strings.Contains(symbols, "unknown") || !strings.Contains(symbols, "region") {
			t.Errorf("the function is not inlined:\n%s", symbols)
		}
	})
}

var language = regexp.MustCompile(`\n    \.language(_version)?:.*(\n      - .*)*`)

// withoutLanguage removes the source language from the metadata of kernels: clang marks kernels
// that link bitcode of OpenCL C as OpenCL C.
func withoutLanguage(kernels map[string]string) map[string]string {
	result := map[string]string{}
	for name, kernel := range kernels {
		result[name] = language.ReplaceAllString(kernel, "")
	}
	return result
}

// TestOpenMP compares code of target regions with that of clang -fopenmp.
func TestOpenMP(t *testing.T) {
	for name, test := range map[string]struct {
		sources, flags []string
		kernels        int
	}{
		"regions":     {[]string{"regions.c"}, nil, 2},
		"mathematics": {[]string{"mathematics.cc", "roots.c"}, []string{"-mcode-object-version=5", "-Xopenmp-target=amdgcn-amd-amdhsa", "-mcumode", "-Xarch_device", "-fno-unroll-loops"}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, name, func(t *testing.T, mode, arch, image, sources string) {
				dir := t.TempDir()
				link := []string{"--save-temps", "--host-triple=x86_64-pc-linux-gnu", "--linker-path=/bin/true",
					"--device-linker=amdgcn-amd-amdhsa=--unresolved-symbols=ignore-all"}
				for _, flag := range modes[mode] {
					if strings.HasPrefix(flag, "-O") || strings.HasPrefix(flag, "-g") {
						link = append(link, "--device-compiler=amdgcn-amd-amdhsa="+flag)
					}
				}
				link = append(link, "-o", "program")
				for _, source := range test.sources {
					object := filepath.Join(dir, source+".o")
					args := append([]string{"-fopenmp", "-fPIC", "-Wno-openmp-target", "--offload-arch=" + strings.TrimSuffix(arch, ":"), "-nogpulib"}, modes[mode]...)
					if strings.HasSuffix(source, ".cc") {
						args = append(args, "-std=c++17") // Bazel's
					}
					args = append(args, test.flags...)
					run(t, sources, "clang", append(args, "-c", source, "-o", object)...)
					link = append(link, object)
				}
				// The names of kernels contain the numbers of the file's device and inode, and so
				// do the names of shared data; the values do not.
				run(t, dir, "clang-linker-wrapper", link...)
				linked, err := filepath.Glob(filepath.Join(dir, "*.img"))
				if err != nil || len(linked) != 1 {
					t.Fatalf("clang-linker-wrapper kept %q (%v)", linked, err)
				}
				want, got := unnumbered(kernels(t, linked[0])), unnumbered(kernels(t, image))
				if diff := cmp.Diff(want, got); diff != "" || len(want) < 2*test.kernels {
					t.Errorf("%d kernels and functions (-clang's driver +the rule):\n%s", len(want), diff)
				}
			})
		})
	}
}

// TestOpenMPForNVIDIA compiles the bitcode of the rule for NVIDIA's GPUs and that of clang
// -fopenmp-target-jit further, and compares the results.
func TestOpenMPForNVIDIA(t *testing.T) {
	each(t, "jit", func(t *testing.T, mode, arch, image, sources string) {
		dir := t.TempDir()
		link := []string{"--save-temps", "--embed-bitcode", "--host-triple=x86_64-pc-linux-gnu", "--linker-path=/bin/true"}
		for _, flag := range append([]string{"-flto=full", "--cuda-feature=+ptx70"}, modes[mode]...) {
			if !strings.HasPrefix(flag, "-D") {
				link = append(link, "--device-compiler=nvptx64-nvidia-cuda="+flag)
			}
		}
		link = append(link, "-o", "program")
		for source, flag := range map[string]string{"mathematics.cc": "-std=c++17", "regions.c": "-std=gnu17"} {
			object := filepath.Join(dir, source+".o")
			args := append([]string{"-fopenmp", "-fopenmp-target-jit", "-fPIC", "--offload-arch=" + arch, "--cuda-feature=+ptx70", "-nogpulib", flag}, modes[mode]...)
			run(t, sources, "clang", append(args, "-c", source, "-o", object)...)
			link = append(link, object)
		}
		run(t, dir, "clang-linker-wrapper", link...)
		linked, err := filepath.Glob(filepath.Join(dir, "*.img"))
		if err != nil || len(linked) != 1 {
			t.Fatalf("clang-linker-wrapper kept %q (%v)", linked, err)
		}
		assemble := func(bitcode, name string) map[string]int {
			out := filepath.Join(dir, name)
			run(t, dir, "clang", "--target=nvptx64-nvidia-cuda", "-march="+arch, "--cuda-feature=+ptx70", "-O3", "-S", "-x", "ir", bitcode, "-o", out)
			result := map[string]int{}
			for kernel, n := range instructions(t, out) {
				result[numbers.ReplaceAllString(kernel, "$1")] = n
			}
			return result
		}
		want, got := assemble(linked[0], "driver.ptx"), assemble(image, "rule.ptx")
		if len(want) != 5 || len(got) != 5 {
			t.Fatalf("instructions of the driver's kernels are %v, of the rule's %v", want, got)
		}
		for name, n := range got {
			if n == 0 || n > want[name] {
				t.Errorf("%s has %d instructions, clang's driver makes %d", name, n, want[name])
			}
		}
	})
}

// TestFatObjects compares the output of offload_link for fat objects with that of clang's driver
// when it links a program.
func TestFatObjects(t *testing.T) {
	images, _ := built(t)
	for mode, flags := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			folder, dir := filepath.Join(images, mode), t.TempDir()
			args := []string{"--offload-new-driver", "-fgpu-rdc", "--hip-link", "-no-hip-rt", "-nogpulib", "-save-temps", "-fuse-ld=/bin/true", "-Wno-fuse-ld-path", "-Wno-unused-command-line-argument",
				"--offload-arch=gfx942", "--offload-arch=gfx1100", "-o", "program"}
			args = append(args, flags...)
			for _, name := range []string{"across", "functions", "sort"} {
				args = append(args, filepath.Join(folder, name+"_fat", thisPackage, name+".o"))
			}
			run(t, dir, "clang", args...)
			for _, arch := range []string{"gfx942", "gfx1100"} {
				linked, err := filepath.Glob(filepath.Join(dir, "*"+arch+"*.img"))
				if err != nil || len(linked) != 1 {
					t.Fatalf("clang kept %q (%v)", linked, err)
				}
				image := filepath.Join(dir, arch+".co")
				cmd := exec.Command(llvm.Offload(t), "extract", "--image=kind=hip,arch="+arch+",file="+image, filepath.Join(folder, "fat", thisPackage, "fat.register.o"))
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				same(t, image, linked[0], 5)
			}
		})
	}
}

var numbers = regexp.MustCompile(`__omp_offloading_(?:[0-9a-f]+_[0-9a-f]+_)?(\w+?)_l\d+`)

// unnumbered removes the source location from the names of OpenMP kernels.
func unnumbered(kernels map[string]string) map[string]string {
	result := map[string]string{}
	for name, kernel := range kernels {
		result[numbers.ReplaceAllString(name, "$1")] = numbers.ReplaceAllString(kernel, "$1")
	}
	return result
}

// TestPortable compares SPIR-V.
func TestPortable(t *testing.T) {
	each(t, "portable", func(t *testing.T, mode, arch, image, sources string) {
		if mode == "dbg" {
			return // contains the path of the source
		}
		out := filepath.Join(t.TempDir(), "driver.spv")
		run(t, sources, "clang", append(hip(arch, modes[mode]...), "-use-spirv-backend", "-x", "hip", "several.hip", "-o", out)...)
		want, got := size(t, out), size(t, image)
		if want < 1000 || got > want {
			t.Errorf("SPIR-V has %d bytes, clang's driver makes %d", got, want)
		}
	})
}

// TestPTX compares the number of instructions of each kernel in PTX of one source and of two linked
// sources.
func TestPTX(t *testing.T) {
	for name, kernels := range map[string]int{"ptx": 4, "ptx_linked": 5} {
		t.Run(name, func(t *testing.T) {
			each(t, name, func(t *testing.T, mode, arch, image, sources string) {
				want, got := map[string]int{}, instructions(t, image)
				wantDirectives, gotDirectives := map[string][]string{}, directives(t, image)
				for _, source := range []string{"kernels.cu", "more.cu"} {
					out := filepath.Join(t.TempDir(), "driver.ptx")
					args := append([]string{"-nocudainc", "-nocudalib", "--cuda-device-only", "-S", "--offload-arch=" + arch, "--cuda-feature=+ptx70"}, modes[mode]...)
					run(t, sources, "clang", append(args, "-x", "cuda", source, "-o", out)...)
					for kernel, n := range instructions(t, out) {
						want[kernel] = n
					}
					for kernel, lines := range directives(t, out) {
						wantDirectives[kernel] = lines
					}
				}
				if len(got) != kernels || len(want) != 5 {
					t.Fatalf("kernels are %v; clang's driver makes %v", got, want)
				}
				for name, n := range got {
					if n == 0 || n > want[name] {
						t.Errorf("%s has %d instructions, clang's driver makes %d", name, n, want[name])
					}
					if diff := cmp.Diff(wantDirectives[name], gotDirectives[name]); diff != "" {
						t.Errorf("%s: limits, stack and shared memory (-clang's driver +the rule):\n%s", name, diff)
					}
				}
			})
		})
	}
}

var ptxEntry = regexp.MustCompile(`\.entry (\w+)\(`)

// resources are the directives of a kernel for its launch and its memory.
var resources = regexp.MustCompile(`^\.(maxntid|reqntid|minnctapersm|maxnreg|local|shared)\b`)

// directives returns the resources of each kernel in PTX.
func directives(t *testing.T, file string) map[string][]string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	result, kernel := map[string][]string{}, ""
	for line := range strings.SplitSeq(string(content), "\n") {
		line = strings.TrimSpace(line)
		switch match := ptxEntry.FindStringSubmatch(line); {
		case match != nil:
			kernel = match[1]
		case line == "}":
			kernel = ""
		case kernel != "" && resources.MatchString(line):
			// The name of a depot contains the number of its function.
			line, _, _ = strings.Cut(line, " //")
			result[kernel] = append(result[kernel], depot.ReplaceAllString(strings.TrimSpace(line), "__local_depot"))
		}
	}
	return result
}

var depot = regexp.MustCompile(`__local_depot\d+`)

// instructions returns the number of instructions of each kernel in PTX.
func instructions(t *testing.T, file string) map[string]int {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	result, kernel := map[string]int{}, ""
	for line := range strings.SplitSeq(string(content), "\n") {
		line = strings.TrimSpace(line)
		switch match := ptxEntry.FindStringSubmatch(line); {
		case match != nil:
			kernel = match[1]
		case line == "}":
			kernel = ""
		case kernel != "" && strings.HasSuffix(line, ";") && !strings.HasPrefix(line, "."):
			result[kernel]++
		}
	}
	return result
}

func size(t *testing.T, file string) int64 {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestDebugInformation verifies the debug information of -c dbg with llvm-dwarfdump, and checks its
// file names.
func TestDebugInformation(t *testing.T) {
	images, _ := built(t)
	for name, source := range map[string]string{
		"alone":        thisPackage + "/sources/sort.hip",
		"borrowing":    thisPackage + "/program/uses_pure.hip",
		"libraries":    thisPackage + "/sources/tables.hip",
		"library":      thisPackage + "/sources/sort.hip",
		"linked":       thisPackage + "/sources/sort.hip",
		"mathematics":  "//" + thisPackage + "/sources/mathematics.cc",
		"program_code": thisPackage + "/sources/across.hip",
		"regions":      "//" + thisPackage + "/sources/regions.c",
	} {
		t.Run(name, func(t *testing.T) {
			files := filesIn(t, filepath.Join(images, "dbg", name))
			var names string
			for _, file := range files {
				if out := run(t, "", "llvm-dwarfdump", "--verify", file); !strings.Contains(out, "No errors.") {
					t.Errorf("%s: llvm-dwarfdump says\n%s", file, out)
				}
				units := run(t, "", "llvm-dwarfdump", "--debug-info", "--recurse-depth=0", file)
				names += units
				for line := range strings.SplitSeq(units, "\n") {
					for _, attribute := range []string{"DW_AT_name", "DW_AT_comp_dir"} {
						if _, after, ok := strings.Cut(line, attribute); ok && strings.Contains(after, `("/`) && !strings.Contains(after, `("//tests/`) {
							t.Errorf("%s: %s", file, strings.TrimSpace(line))
						}
					}
				}
			}
			if !strings.Contains(names, strconv.Quote(source)) {
				t.Errorf("no unit is called %s:\n%s", source, names)
			}
		})
	}
}
