package linkerwrapper

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// openMP are arguments of clang's driver for links of OpenMP programs.
var openMP = []string{"-O2", "-fopenmp", "-fopenmp-targets=" + host, "-L" + libraries, "-Wl,-rpath," + libraries}

// offloaded runs a program of the bench on a device or on the host.
func (b *bench) offloaded(name string) string {
	b.Helper()
	b.env = append(b.env, "OMP_TARGET_OFFLOAD=MANDATORY")
	return b.run(b.path(name))
}

// TestOpenMP links OpenMP programs through clang's driver.
func TestOpenMP(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"bfd", []string{"saxpy.o"}, "on_host=0 sum=4096.0\n"},
		{"lld", []string{"saxpy.o", "-fuse-ld=lld"}, "on_host=0 sum=4096.0\n"},
		{"garbage collection by bfd", []string{"saxpy.o", "-Wl,--gc-sections"}, "on_host=0 sum=4096.0\n"},
		{"garbage collection by lld", []string{"saxpy.o", "-fuse-ld=lld", "-Wl,--gc-sections"}, "on_host=0 sum=4096.0\n"},
		{"garbage collection of archives", []string{"regions.o", "liblibrary.a", "-fuse-ld=lld", "-Wl,--gc-sections"}, "library=45,49 own=7 on_host=0\n"},
		{"link time optimization", []string{"saxpy-lto.o", "-flto", "-fuse-ld=lld"}, "on_host=0 sum=4096.0\n"},
		{"library", []string{"regions.o", "-L.", "-llibrary"}, "library=45,49 own=7 on_host=0\n"},
		{"static position", []string{"saxpy.o", "-no-pie"}, "on_host=0 sum=4096.0\n"},
		{"whole archive", []string{"-Wl,--whole-archive", "libsaxpy.a", "-Wl,--no-whole-archive"}, "on_host=0 sum=4096.0\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := *b
			b.TB = t
			b.clang(slices.Concat([]string{b.by(true)}, openMP, test.args, []string{"-o", "program"})...)
			if got := b.offloaded("program"); got != test.want {
				t.Errorf("printed %q", got)
			}
		})
	}
	b.tidy()
}

// TestSymbols compares the symbols and sections of programs with those of
// programs that LLVM's wrapper links.
func TestSymbols(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, args := range map[string][]string{
		"openmp":  append(slices.Clone(openMP), "saxpy.o"),
		"library": append(slices.Clone(openMP), "-shared", "library.o"),
		"hip":     {"--hip-link", "--offload-new-driver", "-fgpu-rdc", "--offload-arch=gfx90a,gfx1030", "-no-hip-rt", "kernels.o", "hiprt.o"},
		"static":  append(slices.Clone(openMP), "-r", "--offload-link", "library.o"),
	} {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.TB = t
			for _, ours := range []bool{false, true} {
				b.clang(append([]string{b.by(ours), "-o", name + map[bool]string{false: ".llvm", true: ".ours"}[ours]}, args...)...)
			}
			for _, tool := range [][]string{{"llvm-nm", "--format=posix", "--no-sort"}, {"llvm-readelf", "-SW"}} {
				var got [2]string
				for i, suffix := range []string{".llvm", ".ours"} {
					var lines []string
					for line := range strings.Lines(b.run(llvm.Tool(t, tool[0]), append(tool[1:], name+suffix)...)) {
						fields := strings.Fields(line)
						switch {
						case tool[0] == "llvm-nm" && len(fields) > 1:
							lines = append(lines, strings.Join(fields[:2], " "))
						case len(fields) > 3 && fields[0] == "[":
							lines = append(lines, fields[2]+" "+fields[3])
						case len(fields) > 3 && strings.HasPrefix(fields[0], "["):
							lines = append(lines, fields[1]+" "+fields[2])
						}
					}
					// Names of isolated entries contain a checksum. After a relocatable link, LLVM
					// leaves the images where the next device link finds them.
					text := strings.Join(slices.Sorted(slices.Values(lines)), "\n")
					text = suffixes.ReplaceAllString(text, "llvm_offload_entries_H")
					got[i] = strings.ReplaceAll(text, ".llvm.offloading.relocatable LLVM_OFFLOADING", ".llvm.offloading.relocatable PROGBITS")
				}
				if diff := cmp.Diff(strings.Split(got[0], "\n"), strings.Split(got[1], "\n")); diff != "" {
					t.Errorf("%s (-LLVM +ours):\n%s", tool[0], diff)
				}
			}
		})
	}
}

// TestHIP compares how programs call the runtime.
func TestHIP(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	link := []string{"--hip-link", "--offload-new-driver", "-fgpu-rdc", "--offload-arch=gfx90a,gfx1030", "-no-hip-rt", "hiprt.o"}
	b.clang(append(link, b.by(false), "kernels.o", "-o", "llvm")...)
	// LLVM's image loses its alignment.
	want := strings.Replace(b.run(b.path("llvm")), "aligned: no", "aligned: yes", 1)
	for _, args := range [][]string{
		{"kernels.o"}, {"kernels.o", "-fuse-ld=lld"}, {"kernels.o", "-fuse-ld=lld", "-Wl,--gc-sections"}, {"kernels.o", "-Wl,--gc-sections"},
		{"-Wl,--whole-archive", "libkernels.a", "-Wl,--no-whole-archive"}, {"kernels.o", "--offload-jobs=2"},
	} {
		b.clang(slices.Concat(link, []string{b.by(true), "-o", "ours"}, args)...)
		if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(b.run(b.path("ours")), "\n")); diff != "" {
			t.Errorf("%q (-LLVM +ours):\n%s", args, diff)
		}
	}

	// The bundle alone, plain and compressed, equals LLVM's byte by byte.
	for _, args := range [][]string{nil, {"--compress"}, {"--compress", "--compression-level=9"}} {
		args = append([]string{"--emit-fatbin-only", "kernels.o", "--host-triple=" + amd}, args...)
		b.run(llvm.Tool(t, "clang-linker-wrapper"), append(args, "-o", "llvm.hipfb")...)
		b.run(b.ours, append(args, "-o", "ours.hipfb")...)
		if len(args) == 3 {
			if !bytes.Equal(b.read("llvm.hipfb"), b.read("ours.hipfb")) {
				t.Error("the bundles differ")
			}
			continue
		}
		for _, name := range []string{"llvm", "ours"} {
			b.run(llvm.Tool(t, "clang-offload-bundler"), "-unbundle", "-type=o", "-targets=hip-amdgcn-amd-amdhsa--gfx90a", "-input="+name+".hipfb", "-output="+name+".co")
		}
		if !bytes.Equal(b.read("llvm.co"), b.read("ours.co")) {
			t.Errorf("%q: the code objects differ", args)
		}
	}
	b.run(b.ours, "--emit-fatbin-only", "plain.o", "-o", "none.hipfb")
	if _, err := os.Stat(b.path("none.hipfb")); err == nil {
		t.Error("a bundle of nothing")
	}
	if r := b.call(b.ours, "--emit-fatbin-only", "kernels.o", "saxpy.o", "-o", "two.hipfb", "--device-compiler="+host+"=-L"+libraries, "--device-compiler="+host+"=-lomptarget"); r.Code != 1 || !strings.Contains(r.Stderr, "error: Expected a single bundled image for direct fat binary output\n") {
		t.Errorf("two bundles: %+v", r)
	}
	b.tidy()
}

// TestRelocatable builds relocatable libraries and links each into a program that has its own
// target regions, with our wrapper and with LLVM's.
func TestRelocatable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	relocatable := append(slices.Clone(openMP), "--offload-link", "-r", "library.o")
	b.clang(append(relocatable, b.by(true), "-o", "ours.o")...)
	b.clang(append(relocatable, b.by(true), "-fuse-ld=lld", "-o", "ours-lld.o")...)
	b.clang(append(relocatable, b.by(false), "-o", "llvm.o")...)
	for library, wrappers := range map[string][]bool{
		"ours.o": {true, false}, "ours-lld.o": {true, false},
		// A program with its own regions and LLVM's library aborts unless our wrapper links it.
		"llvm.o": {true},
	} {
		for _, ours := range wrappers {
			b.clang(slices.Concat(openMP, []string{b.by(ours), "regions.o", library, "-o", "program"})...)
			if got := b.offloaded("program"); got != "library=45,49 own=7 on_host=0\n" {
				t.Errorf("%s: printed %q", library, got)
			}
		}
		// A relocatable library of relocatable libraries.
		b.clang(slices.Concat(openMP, []string{b.by(true), "--offload-link", "-r", library, "-o", "again.o"})...)
		b.clang(slices.Concat(openMP, []string{b.by(true), "regions.o", "again.o", "-o", "program"})...)
		if got := b.offloaded("program"); got != "library=45,49 own=7 on_host=0\n" {
			t.Errorf("%s, twice: printed %q", library, got)
		}
		// Without offloading flags.
		b.run("gcc", "plain.c", library, "-o", "plain", "-L"+libraries, "-lomptarget", "-Wl,-rpath,"+libraries)
		if got := b.offloaded("plain"); got != "library=45,49\n" {
			t.Errorf("%s: printed %q", library, got)
		}
	}
	// Objects without offload entries are accepted, too.
	b.run(b.ours, "--linker-path=/usr/bin/ld", "-r", "plain.o", "-o", "nothing.o")
	b.tidy()
}

// TestDeterminism checks that the output has the same bytes for every number of jobs and in every
// directory.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	var first []byte
	for i := range 4 {
		b := newBench(t)
		b.run(b.ours, "--host-triple="+host, "--linker-path=/usr/bin/ld", "-r", "kernels.o", "library.o", "-o", "out.o", "--wrapper-jobs="+string(rune('1'+i)),
			"--device-compiler="+host+"=-L"+libraries, "--device-compiler="+host+"=-lomptarget")
		data := b.read("out.o")
		if first == nil {
			first = data
		} else if !bytes.Equal(first, data) {
			t.Errorf("%d jobs: other bytes", i+1)
		}
		b.tidy()
	}
}

// TestFound checks each way in which clang finds the wrapper.
func TestFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	link := slices.Concat(openMP, []string{"saxpy.o", "-o", "program", "-###"})
	for name, run := range map[string]func() string{
		"-B":            func() string { return b.clang(append(link, b.by(true))...) },
		"COMPILER_PATH": func() string { b.env = append(b.env, "COMPILER_PATH="+filepath.Dir(b.ours)); return b.clang(link...) },
	} {
		if out := run(); !strings.Contains(out, `"`+b.ours+`"`) {
			t.Errorf("%s: clang runs\n%s", name, out)
		}
	}
}
