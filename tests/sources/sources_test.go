// Package sources compares the source lines that offload reports for device code with those of
// llvm-symbolizer, and disassemblies of images that offload calls redundant.
package sources

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

func TestMain(m *testing.M) { llvm.Main(m) }

const program = `
#include "inlined.h"
typedef struct stream *hipStream_t;
struct dim3 { unsigned x, y, z; };
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, hipStream_t);
#define __global__ __attribute__((global))
__attribute__((device, noinline)) float called(float x) {
  return x * x + 3.f;
}
extern "C" __global__ void first(float *a, int n) {
  for (int i = 0; i < n; i++)
    a[i] = inlined(a[i]) + i;
}
extern "C" __global__ void second(float *a, int n) {
  a[n] = called(a[0]);
#line 4000 "generated/far.inc"
  a[n + 1] = called(inlined(a[1]));
}
`

const header = `
__attribute__((device)) inline float inlined(float x) {
  float y = x / 3;

  return y * y;
}
`

// source is a source file of the JSON reports.
type source struct {
	File  string
	Bytes int64
	Lines []struct{ Line, Bytes int64 }
}

// places returns the bytes of each file:line, and "" for code without a source.
func places(t *testing.T, sources []source) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for _, s := range sources {
		left := s.Bytes
		for _, l := range s.Lines {
			all[fmt.Sprintf("%s:%d", s.File, l.Line)] += l.Bytes
			left -= l.Bytes
		}
		if s.File == "" {
			all[""] += left
		} else if left != 0 {
			t.Errorf("%s: %d bytes are in no line", s.File, left)
		}
	}
	return all
}

// run runs a program in a directory and returns its standard output, and standard error.
func run(t *testing.T, dir, stdin, name string, args ...string) (string, string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, errs.String())
	}
	return out.String(), errs.String()
}

// compile compiles HIP source for a GPU.
func compile(t *testing.T, dir, source, output string, flags ...string) {
	t.Helper()
	args := append([]string{"-x", "hip", "-nogpuinc", "-nogpulib", "--offload-device-only", "--no-gpu-bundle-output", "-O2", source, "-o", output}, flags...)
	run(t, dir, "", llvm.Tool(t, "clang++"), args...)
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

// symbolized returns the bytes of each file:line in a range of code, according to llvm-symbolizer.
func symbolized(t *testing.T, dir, object string, start, size uint64) map[string]int64 {
	t.Helper()
	const word = 4 // the size of an instruction is a multiple
	var addresses strings.Builder
	for at := start; at < start+size; at += word {
		fmt.Fprintf(&addresses, "0x%x\n", at)
	}
	out, _ := run(t, dir, addresses.String(), llvm.Tool(t, "llvm-symbolizer"), "--obj="+object, "--no-inlines", "--functions=none")
	all := map[string]int64{}
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		place := line[:strings.LastIndexByte(line, ':')] // without the column
		if strings.HasPrefix(place, "??") || strings.HasSuffix(place, ":0") {
			place = ""
		}
		all[place] += word
	}
	return all
}

// TestSymbolizer compares all code of objects with each form of line tables.
func TestSymbolizer(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "src/program.hip"), program)
	write(t, filepath.Join(dir, "include/inlined.h"), header)
	for _, flags := range []string{
		"--offload-arch=gfx90a -g", "--offload-arch=gfx1100 -gline-tables-only", "--offload-arch=gfx90a -g -gdwarf-4", "--offload-arch=gfx1201 -gline-tables-only -gdwarf-3",
		"--offload-arch=gfx90a -g -gz=zlib", "--offload-arch=gfx942 -g -gz=zstd", "--offload-arch=gfx90a -g -ffile-compilation-dir=.", "--offload-arch=gfx9-4-generic -g -gdwarf64",
	} {
		compile(t, dir, "src/program.hip", "program.co", append(strings.Fields(flags), "-Iinclude")...)
		file, err := elf.Open(filepath.Join(dir, "program.co"))
		if err != nil {
			t.Fatal(err)
		}
		text := file.Section(".text")
		if strings.Contains(flags, "-gz") && file.Section(".debug_line").Flags&elf.SHF_COMPRESSED == 0 {
			t.Fatalf("%s: .debug_line is not compressed", flags)
		}
		symbols, err := file.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		out, _ := run(t, dir, "", llvm.Offload(t), "report", "--json=-", "program.co")
		var report struct {
			Files []struct {
				Kernels []struct {
					Name     string
					CodeSize int64 `json:"code_size"`
					Sources  []source
				}
				Sources []struct {
					Code    int64
					Reason  string
					Sources []source
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatal(err)
		}
		image := report.Files[0].Sources[0]
		want := symbolized(t, dir, "program.co", text.Addr, text.Size)
		if diff := cmp.Diff(want, places(t, image.Sources)); diff != "" || image.Code != int64(text.Size) {
			t.Errorf("%s: %d of %d bytes, %s (-llvm-symbolizer +offload):\n%s", flags, image.Code, text.Size, image.Reason, diff)
		}
		// Both kernels contain code of the header, and #line names a missing file.
		for _, name := range []string{"include/inlined.h", "generated/far.inc:4000"} {
			if !strings.Contains(fmt.Sprint(want), name) {
				t.Errorf("%s: no code from %s: %v", flags, name, want)
			}
		}
		if len(report.Files[0].Kernels) != 2 {
			t.Errorf("%s: %d kernels", flags, len(report.Files[0].Kernels))
		}
		for _, k := range report.Files[0].Kernels {
			for _, s := range symbols {
				if s.Name != k.Name {
					continue
				}
				if diff := cmp.Diff(symbolized(t, dir, "program.co", s.Value, s.Size), places(t, k.Sources)); diff != "" || uint64(k.CodeSize) != s.Size {
					t.Errorf("%s: %s, %d of %d bytes (-llvm-symbolizer +offload):\n%s", flags, k.Name, k.CodeSize, s.Size, diff)
				}
			}
		}
	}
}

// TestKept checks the lines of a library that was stripped, compressed, pruned and split.
func TestKept(t *testing.T) {
	dir := t.TempDir()
	offload := llvm.Offload(t)
	write(t, filepath.Join(dir, "math.hip"), program)
	write(t, filepath.Join(dir, "inlined.h"), header)
	flags := []string{"-x", "hip", "-nogpuinc", "-nogpulib", "--offload-arch=gfx90a", "--offload-arch=gfx1100", "-O2", "-g", "-gz"}
	run(t, dir, "", llvm.Tool(t, "clang++"), append(flags, "--no-offload-new-driver", "--offload-compress", "-fPIC", "-c", "math.hip", "-o", "math.o")...)
	run(t, dir, "", llvm.Tool(t, "clang++"), "-fuse-ld=lld", "-shared", "math.o", "-o", "libmath.so")
	lines := func(file string) string {
		t.Helper()
		out, errs := run(t, dir, "", offload, "inspect", "--sources", file)
		if errs != "" {
			t.Errorf("%s: %s", file, errs)
		}
		var kept []string // rows of gfx90a without the number of the image
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); f[1] == "gfx90a" {
				kept = append(kept, strings.Join(f[1:], " "))
			}
		}
		return strings.Join(kept, "\n")
	}
	want := lines("libmath.so")
	if !strings.Contains(want, "math.hip:") {
		t.Fatalf("no lines of math.hip:\n%s", want)
	}
	run(t, dir, "", llvm.Tool(t, "llvm-strip"), "libmath.so", "-o", "stripped.so")
	run(t, dir, "", offload, "prune", "--input=stripped.so", "--output=pruned.so", "--keep=gfx90a")
	run(t, dir, "", offload, "kpack", "split", "--group=math", "--input=stripped.so", "--output=host.so", "--kpack-dir=.kpack")
	for _, file := range []string{"stripped.so", "pruned.so", ".kpack/math_gfx90a.kpack"} {
		if diff := cmp.Diff(want, lines(file)); diff != "" {
			t.Errorf("%s (-whole +got):\n%s", file, diff)
		}
	}
	// Without debug information, or without code, a message says so.
	run(t, dir, "", offload, "extract", "--input=libmath.so", "--image=arch=gfx90a,file=whole.co")
	run(t, dir, "", llvm.Tool(t, "llvm-strip"), "whole.co", "-o", "bare.co")
	for file, message := range map[string]string{
		"bare.co": "bare.co: image 0 (gfx90a): no line tables: compile with -gline-tables-only or -g",
		"host.so": "host.so: its device code is in kpack archives: .kpack/math_@GFXARCH@.kpack",
	} {
		if out, errs := run(t, dir, "", offload, "inspect", "--sources", file); out != "" || !strings.Contains(errs, message) {
			t.Errorf("%s: found %q and %q, expected %q", file, out, errs, message)
		}
	}
}

// section is a section in the JSON of offload.
type section struct {
	Name, Kind string
	Size       int64
}

// TestProfile finds the counters of instrumented device code in a compressed library and after
// pruning, and compares their sections with the ELF file.
func TestProfile(t *testing.T) {
	dir := t.TempDir()
	offload := llvm.Offload(t)
	write(t, filepath.Join(dir, "math.hip"), program)
	write(t, filepath.Join(dir, "inlined.h"), header)
	run(t, dir, "", llvm.Tool(t, "clang++"), "-x", "hip", "-nogpuinc", "-nogpulib", "--offload-arch=gfx90a", "--offload-arch=gfx1100", "-O2", "-g",
		"-Xarch_gfx90a", "-fprofile-instr-generate", "-Xarch_gfx90a", "-fcoverage-mapping", "--no-offload-new-driver", "--offload-compress", "-fPIC", "-c", "math.hip", "-o", "math.o")
	run(t, dir, "", llvm.Tool(t, "clang++"), "-fuse-ld=lld", "-shared", "math.o", "-o", "libmath.so")
	run(t, dir, "", offload, "prune", "--input=libmath.so", "--output=pruned.so", "--keep=gfx90a")
	run(t, dir, "", offload, "extract", "--input=libmath.so", "--image=arch=gfx90a,file=image.co")
	file, err := elf.Open(filepath.Join(dir, "image.co"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var want, counted []section
	counters, bytes := int64(0), int64(0)
	for _, s := range file.Sections[1:] {
		kind := ""
		switch {
		case s.Type == elf.SHT_NOBITS || s.FileSize == 0:
			continue
		case s.Name == ".text":
			kind = "code"
		case strings.HasPrefix(s.Name, ".debug_"):
			kind = "debug"
		case strings.HasPrefix(s.Name, "__llvm_"):
			kind = "profile"
			counted = append(counted, section{Name: s.Name, Size: int64(s.FileSize)})
			bytes += int64(s.FileSize)
			if s.Name == "__llvm_prf_cnts" {
				counters = int64(s.FileSize)
			}
		}
		want = append(want, section{s.Name, kind, int64(s.FileSize)})
	}
	slices.SortFunc(counted, func(a, b section) int { return strings.Compare(a.Name, b.Name) })
	if len(counted) != 5 || counters == 0 {
		t.Fatalf("clang made the sections %v, expected counters, data, names and two of coverage", counted)
	}
	for _, name := range []string{"image.co", "libmath.so", "pruned.so"} {
		out, _ := run(t, dir, "", offload, "inspect", "--sections", "--json", name)
		var images []struct {
			Arch     string
			Sections []section
		}
		if err := json.Unmarshal([]byte(out), &images); err != nil {
			t.Fatal(err)
		}
		for _, img := range images {
			if img.Arch == "gfx90a" {
				if diff := cmp.Diff(want, img.Sections); diff != "" {
					t.Errorf("%s (-file +inspect):\n%s", name, diff)
				}
			} else if slices.ContainsFunc(img.Sections, func(s section) bool { return s.Kind == "profile" }) {
				t.Errorf("%s: %s has counters: %v", name, img.Arch, img.Sections)
			}
		}
		table, _ := run(t, dir, "", offload, "inspect", "--sections", name)
		if want := fmt.Sprintf(" gfx90a %d profile __llvm_prf_cnts ", counters); !strings.Contains(strings.Join(strings.Fields(table), " "), want) {
			t.Errorf("%s: the table has no row%q:\n%s", name, want, table)
		}
		var report struct {
			Profile []struct {
				Arch                    string
				Images, Counters, Bytes int64
				Sections                []section
			}
		}
		out, _ = run(t, dir, "", offload, "report", "--json=-", "--markdown=summary.md", "--html=page.html", name)
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatal(err)
		}
		if len(report.Profile) != 1 {
			t.Fatalf("%s: the report has counters of %d architectures, expected 1", name, len(report.Profile))
		}
		p := report.Profile[0]
		if p.Arch != "gfx90a" || p.Images != 1 || p.Counters != counters || p.Bytes != bytes || !slices.Equal(p.Sections, counted) {
			t.Errorf("%s: the report has %+v, expected %v", name, p, counted)
		}
		for _, name := range []string{"summary.md", "page.html"} {
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.ReplaceAll(string(content), `\`, ""); !strings.Contains(text, "__llvm_covfun, __llvm_covmap, __llvm_prf_cnts, __llvm_prf_data, __llvm_prf_names") {
				t.Errorf("%s does not name the sections of counters", name)
			}
		}
	}
}

// TestRedundant disassembles images with equal bytes of code for the processors of each, and
// compares the result with the report of offload. Some bytes are different instructions on another
// processor.
func TestRedundant(t *testing.T) {
	dir := t.TempDir()
	offload, objdump := llvm.Offload(t), llvm.Tool(t, "llvm-objdump")
	const plain = `extern "C" __attribute__((global)) void k(float *a, float b) { a[__builtin_amdgcn_workitem_id_x()] = b * 3; }`
	for _, test := range []struct {
		name, source string
		archs        []string
		// printed is whether the disassembler prints the same text for all processors, and
		// redundant whether the generic processor has these instructions, too.
		printed, redundant bool
	}{
		{"plain 9", plain, []string{"gfx900", "gfx906", "gfx90c"}, true, true},
		{"plain 10", plain, []string{"gfx1030", "gfx1032"}, true, true},
		{"plain 11", plain, []string{"gfx1101", "gfx1103"}, true, true},
		{"features", plain, []string{"gfx900:xnack+", "gfx906:xnack+"}, true, true},
		{"two families", plain, []string{"gfx942", "gfx1200"}, false, false},
		// v_mad_mix_f32 and v_fma_mix_f32 have the same encoding.
		{"mix", `extern "C" __attribute__((global)) void k(float *a, _Float16 *b) { *a = (float)b[0] * (float)b[1] + (float)b[2]; }`, []string{"gfx900", "gfx906"}, false, false},
		// The same instruction writes another number format.
		{"fp8", `extern "C" __attribute__((global)) void k(int *a, float b) { *a = __builtin_amdgcn_cvt_pk_fp8_f32(b, b, 0, false); }`, []string{"gfx942", "gfx950"}, true, false},
	} {
		write(t, filepath.Join(dir, "k.hip"), test.source)
		args := []string{"bundle", "--compress", "--output=all.hipfb", "--entry=host-x86_64-unknown-linux-gnu="}
		var texts, dumps []string
		for _, arch := range test.archs {
			file := strings.ReplaceAll(arch, ":", "_") + ".co"
			compile(t, dir, "k.hip", file, "--offload-arch="+arch, "-ffp-contract=fast", "-fgpu-flush-denormals-to-zero")
			args = append(args, "--entry="+arch+"="+file)
			object, err := elf.Open(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := object.Section(".text").Data()
			if err != nil {
				t.Fatal(err)
			}
			object.Close()
			texts = append(texts, string(text))
			dump, _ := run(t, dir, "", objdump, "-d", "--no-leading-addr", file)
			_, dump, _ = strings.Cut(dump, "file format")
			dumps = append(dumps, dump)
		}
		for i := range texts {
			if (texts[i] == texts[0]) != (test.name != "two families") && i > 0 || (dumps[i] == dumps[0]) != test.printed && i > 0 {
				t.Errorf("%s: the compiler makes other code for %s than expected: %s\n%s", test.name, test.archs[i], dumps[0], dumps[i])
			}
		}
		run(t, dir, "", offload, args...)
		out, _ := run(t, dir, "", offload, "report", "--json=-", "--disassembler="+objdump, "all.hipfb")
		var report struct {
			Files     []struct{ Images []struct{ Size int64 } }
			Redundant []struct {
				Archs                []string
				Generic              string
				Images, Bytes, Saved int64
			}
		}
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatal(err)
		}
		if !test.redundant {
			if len(report.Redundant) != 0 {
				t.Errorf("%s: %+v", test.name, report.Redundant)
			}
			continue
		}
		size, largest := int64(0), int64(0)
		for _, img := range report.Files[0].Images {
			size += img.Size
			largest = max(largest, img.Size)
		}
		if len(report.Redundant) != 1 {
			t.Errorf("%s: %+v", test.name, report.Redundant)
			continue
		}
		got := report.Redundant[0]
		generic, features, _ := strings.Cut(got.Generic, ":")
		_, want, _ := strings.Cut(test.archs[0], ":")
		if !cmp.Equal(got.Archs, test.archs) || got.Images != int64(len(test.archs)) || got.Bytes != size || got.Saved != size-largest || features != want {
			t.Errorf("%s: %+v of %d bytes, the largest %d", test.name, got, size, largest)
		}
		// Code for the generic target has these instructions.
		compile(t, dir, "k.hip", "generic.co", "--offload-arch="+got.Generic)
		dump, _ := run(t, dir, "", objdump, "-d", "--no-leading-addr", "--mcpu="+generic, strings.ReplaceAll(test.archs[0], ":", "_")+".co")
		if _, dump, _ = strings.Cut(dump, "file format"); dump != dumps[0] {
			t.Errorf("%s: as %s, the code is %s\nnot %s", test.name, generic, dump, dumps[0])
		}
	}
	// Without the disassembler, the report has no such list.
	if out, _ := run(t, dir, "", offload, "report", "--json=-", "all.hipfb"); strings.Contains(out, "redundant") {
		t.Error("redundant architectures without a disassembler")
	}
}
