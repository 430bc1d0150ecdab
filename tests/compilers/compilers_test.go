// Package compilers builds a workspace with the clang of other releases of LLVM than 22, from Debian, and looks at what it
// gets: code, targets, programs that register it, and fat files that the tools of the same release read.
//
//	tools/offline/run go test ./tests/compilers
//
// With -all, it builds for all kinds of GPUs that the releases know, in all compilation modes, and also with LLVM 22.
package compilers

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
	"github.com/rules-offload/rules_offload/tests/internal/releases"
)

var all = flag.Bool("all", false, "build for all kinds of GPUs that the releases know, in all modes, also with LLVM 22")

func TestMain(m *testing.M) { llvm.Main(m) }

// archs are the GPUs to build for with each release.
var archs = map[int]struct{ always, more []string }{
	23: {
		[]string{"gfx90a:xnack+", "gfx1100", "gfx1250"},
		[]string{"gfx803", "gfx942", "gfx1030", "gfx1154", "gfx1170", "gfx1201", "gfx1251", "gfx1310", "gfx9-4-generic", "gfx11-7-generic", "gfx12-generic", "gfx12-5-generic"},
	},
	24: {
		[]string{"gfx90a:xnack+", "gfx942", "gfx1170", "gfx1250:xnack-", "gfx12-5-generic"},
		[]string{"gfx803", "gfx906:sramecc+", "gfx1030", "gfx1100", "gfx1154", "gfx1201", "gfx1250-strict", "gfx1251", "gfx1310", "gfx9-4-generic", "gfx11-7-generic", "gfx12-generic", "gfx13-generic"},
	},
}

// programs has the host programs and the kernels of the tests of device code.
var copied = []string{
	"program/alone.cc", "program/counter.hip", "program/first.hip", "program/hip.h", "program/linked.cc", "program/runtime.c",
	"program/second.hip", "program/steps.hip", "sources/device.h", "sources/regions.c",
	"sources/across.hip", "sources/dynamic.hip", "sources/functions.hip", "sources/indirect.hip", "sources/several.hip",
	"sources/shared.hip",
}

// modes are the compilation modes and the flags of device code that each has, see offload_device_toolchain.
var modes = map[string][]string{
	"fastbuild": {"-O2"},
	"dbg":       {"-O1", "-g"},
	"opt":       {"-O3", "-DNDEBUG"},
}

// programs are libraries, with the arguments that clang's driver needs besides their sources.
var programs = map[string][]string{
	"program_alone": nil,
	"program_rdc":   {"-fgpu-rdc"},
	"program_none":  {"-fno-offload-lto"},
	"program_full":  {"-foffload-lto=full"},
	"program_use":   {"-fprofile-instr-use=summed.profdata"},
}

// profile has counts of the kernel summed, whose loop never runs.
const profile = "summed\n18129\n2\n1000\n0\n"

// comparison lists the programs, the modes and the architectures that are compared.
func comparison() (names, inModes, with []string) {
	if *all {
		return slices.Sorted(maps.Keys(programs)), slices.Sorted(maps.Keys(modes)), []string{"gfx90a:xnack+", "gfx942", "gfx1100"}
	}
	return []string{"program_alone", "program_rdc", "program_use"}, []string{"fastbuild"}, []string{"gfx90a:xnack+"}
}

const build = `load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")
load("@rules_offload//rules:defs.bzl", "hip_code_objects", "hip_device_link", "hip_library", "offload_bundle", "offload_link", "openmp_library")

# What clang's driver makes of each source alone, and of several.
hip_code_objects(
    name = "alone",
    srcs = ["sources/several.hip"],
    hdrs = ["sources/device.h"],
)

hip_code_objects(
    name = "linked",
    srcs = ["sources/across.hip", "sources/functions.hip", "sources/shared.hip"],
    hdrs = ["sources/device.h"],
    rdc = True,
)

offload_bundle(
    name = "bundle",
    compress = "none",
    images = [":linked"],
)

offload_bundle(
    name = "compressed",
    compress = "zstd",
    images = [":linked"],
)

# Programs of all sources.
[
    hip_library(
        name = "program_" + name,
        srcs = glob(
            ["sources/*.hip"],
            exclude = [] if name == "rdc" else ["sources/across.hip", "sources/functions.hip"],
        ),
        hdrs = ["sources/device.h"],
        additional_compiler_inputs = ["summed.profdata"],
        copts = ["-fprofile-instr-use=$(location summed.profdata)"] if name == "use" else [],
        lto = name if name in ["full", "none"] else "default",
        rdc = name == "rdc",
    )
    for name in ["alone", "full", "none", "rdc", "use"]
]

hip_library(
    name = "alone_code",
    srcs = ["program/first.hip", "program/second.hip"],
    hdrs = ["program/hip.h"],
)

cc_binary(
    name = "alone_program",
    srcs = ["program/alone.cc"],
    deps = [":alone_code"],
)

[
    hip_library(
        name = name,
        srcs = ["program/{}.hip".format(name)],
        hdrs = ["program/hip.h"],
        device_link = False,
        rdc = True,
        deps = deps,
    )
    for name, deps in {
        "counter": [],
        "steps": [":counter"],
    }.items()
]

hip_device_link(
    name = "linked_code",
    deps = [":steps"],
)

cc_binary(
    name = "linked_program",
    srcs = ["program/linked.cc"],
    deps = [":linked_code"],
)

cc_library(
    name = "runtime",
    srcs = ["program/runtime.c"],
)

openmp_library(
    name = "regions",
    srcs = ["sources/regions.c"],
    # There is no device runtime.
    arch_linkopts = {"amdgcn-amd-amdhsa": ["-Wl,--unresolved-symbols=ignore-all"]},
)

# Objects of clang's driver.
offload_link(
    name = "fat",
    srcs = ["across_fat.o", "functions_fat.o", "shared_fat.o"],
)
`

// clang is the compiler of an LLVM release.
type clang struct {
	releases.Release
	t       *testing.T
	folder  string // with the sources
	archs   []string
	offload string
	driver  string // the program clang, empty for that of the release
}

// run runs a tool of the release, or a program, and returns what it prints.
func (c *clang) run(tool string, args ...string) string {
	c.t.Helper()
	if tool == "clang" && c.driver != "" {
		tool = c.driver
	}
	cmd := exec.Command(tool, args...)
	if !filepath.IsAbs(tool) {
		cmd = c.Command(c.t, tool, args...)
	}
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = c.folder, &stderr
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("%s %s: %v\n%s%s", tool, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

// driver returns the arguments of clang's driver for HIP. The compilation modes use -O2 by default.
var driver = []string{"-nogpulib", "-nogpuinc", "-O2", "-x", "hip", "--no-gpu-bundle-output", "-Wno-unused-command-line-argument"}

// device compiles device code for a GPU with clang's driver.
func (c *clang) device(arch string, args ...string) string {
	c.t.Helper()
	out := filepath.Join(c.t.TempDir(), "driver.co")
	c.run("clang", slices.Concat(driver, []string{"--offload-device-only", "--offload-arch=" + arch, "-o", out}, args)...)
	return out
}

// notes returns the notes of a code object: its target, and all values of its kernels.
func (c *clang) notes(file string) string {
	c.t.Helper()
	_, notes, ok := strings.Cut(c.run("llvm-readelf", "--notes", file), "\n")
	if !ok || !strings.Contains(notes, ".vgpr_count") {
		c.t.Fatalf("%s has no notes of kernels", file)
	}
	return notes
}

// TestCompilers builds the workspace with each release.
func TestCompilers(t *testing.T) {
	project, err := root.Project()
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{"BUILD.bazel": build}
	for _, name := range copied {
		content, err := os.ReadFile(filepath.Join(project, "tests", "devicecode", name))
		if err != nil {
			t.Fatal(err)
		}
		contents[name] = string(content)
	}
	contents["debug/BUILD.bazel"] = debugBuild
	contents["debug/device.h"] = contents["sources/device.h"]
	contents["debug/shared.hip"] = contents["sources/shared.hip"]
	contents["debug/main.cc"] = "int main() {}\n"
	w := bazeltest.New(t, t.TempDir(), contents)
	w.Write("summed.proftext", profile)
	if out, err := exec.Command(llvm.Tool(t, "llvm-profdata"), "merge", filepath.Join(w.Dir, "summed.proftext"), "-o", filepath.Join(w.Dir, "summed.profdata")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tags := ""
	numbers := []int{23, 24}
	if *all {
		numbers = append(numbers, 22)
	}
	for _, number := range numbers {
		folder := filepath.Dir(releases.Get(t, number).Bin())
		tags += fmt.Sprintf("\noffload.system_clang(name = \"clang_%d\", path = %q, rocm_path = \"none\")\nuse_repo(offload, \"clang_%d\")\n", number, folder, number)
	}
	folders := map[string]string{}
	for name, v := range vendors {
		folders[name] = v.make(t, filepath.Join(t.TempDir(), name))
		tags += fmt.Sprintf("\noffload.system_clang(name = %[1]q, path = %[2]q, rocm_path = \"none\")\nuse_repo(offload, %[1]q)\n", name, folders[name])
	}
	w.Module(tags)
	const setting = "--@rules_offload//rules/settings:"
	for _, number := range numbers {
		t.Run(strconv.Itoa(number), func(t *testing.T) {
			c := &clang{Release: releases.Get(t, number), t: t, folder: w.Dir, offload: llvm.Offload(t)}
			name := fmt.Sprint("clang_", number)
			build := func(archs []string, args ...string) {
				t.Helper()
				c.archs = archs
				flags := []string{"build", "--extra_toolchains=@" + name + "//:all", setting + "device_compiler=" + name, setting + "offload_archs=" + strings.Join(archs, ","), setting + "hip_runtime=//:runtime"}
				if _, err := w.Try(append(flags, args...)...); err != nil {
					t.Fatal(err)
				}
			}
			names, inModes, with := comparison()
			for _, mode := range inModes {
				build(with, append(prefixed("//:", names), "--compilation_mode="+mode)...)
				for _, name := range names {
					c.checkDriver(name, mode)
				}
				c.checkProfile(with[0], mode)
			}
			if number == 22 {
				return // Other tests use its tools.
			}
			c.archs = archs[number].always
			if *all {
				c.archs = slices.Concat(c.archs, archs[number].more)
			}
			c.fatObjects()
			build(c.archs, append([]string{"--", "//...", "-//debug/..."}, prefixed("-//:", slices.Sorted(maps.Keys(programs)))...)...)
			c.checkCode()
			c.checkBundles()
			c.checkPrograms()
			c.checkLink()
			c.checkOpenMP()
			if number == 24 {
				c.checkDebug(build)
			}
		})
	}
	for name, v := range vendors {
		t.Run(name, func(t *testing.T) {
			c := &clang{Release: releases.Get(t, 23), t: t, folder: w.Dir, archs: []string{"gfx90a:xnack+"}, offload: llvm.Offload(t), driver: filepath.Join(folders[name], "bin", "clang")}
			testVendor(t, c, w, name, v, func(args ...string) *bazeltest.Result {
				t.Helper()
				result, err := w.Try(append([]string{"build", "--extra_toolchains=@" + name + "//:all", setting + "device_compiler=" + name, setting + "offload_archs=gfx90a:xnack+", setting + "hip_runtime=//:runtime"}, args...)...)
				if err != nil {
					t.Fatal(err)
				}
				return result
			})
		})
	}
	// A compiler that is too old for a GPU, with one rule of each kind.
	for target, arch := range map[string]string{"//:alone": "gfx1170", "//:steps": "gfx1310", "//:regions": "gfx1250-strict:xnack-"} {
		processor, _, _ := strings.Cut(arch, ":")
		result, err := w.Try("build", target, "--nobuild", setting+"offload_archs=gfx90a,"+arch)
		if want := "offload_archs: " + processor + " is a processor that the device compiler, clang 22, does not support"; err == nil || !strings.Contains(result.Output, want) {
			t.Errorf("%s with clang 22: %v\n%s\nexpected: %s", target, err, result.Output, want)
		}
	}
}

func (c *clang) bin(name string) string { return filepath.Join(c.folder, "bazel-bin", name) }

// fileName returns the name that the rules give to the files of a GPU.
func fileName(arch string) string { return strings.ReplaceAll(arch, ":", "_") }

var linkedSources = []string{"sources/across.hip", "sources/functions.hip", "sources/shared.hip"}

// fatObjects makes the objects for offload_link with clang's driver.
func (c *clang) fatObjects() {
	c.t.Helper()
	args := slices.Concat([]string{"-nogpulib", "-nogpuinc", "-O2", "-x", "hip", "-fPIC", "-fgpu-rdc", "-c"}, prefixed("--offload-arch=", c.archs))
	for i, object := range fatObjects() {
		c.run("clang", slices.Concat(args, []string{linkedSources[i], "-o", object})...)
	}
}

// fatObjects are the names of the fat objects of linkedSources.
func fatObjects() []string {
	var names []string
	for _, source := range linkedSources {
		names = append(names, strings.TrimSuffix(filepath.Base(source), ".hip")+"_fat.o")
	}
	return names
}

func prefixed(prefix string, list []string) []string {
	var result []string
	for _, s := range list {
		result = append(result, prefix+s)
	}
	return result
}

// checkCode compares code with that of clang's driver: the target in its notes and all values of
// kernels.
func (c *clang) checkCode() {
	c.t.Helper()
	for arch, linked := range c.linked() {
		c.same("alone of "+arch, c.device(arch, "sources/several.hip"), c.bin("alone/"+fileName(arch)+".co"))
		c.same("linked of "+arch, linked, c.bin("linked/"+fileName(arch)+".co"))
	}
}

// checkDriver compares the kernels of a library with those that clang's driver compiles for host
// and device together: there it can use link-time optimization, with --offload-device-only it does
// not.
func (c *clang) checkDriver(name, mode string) {
	c.t.Helper()
	sources, err := filepath.Glob(filepath.Join(c.folder, "sources/*.hip"))
	if err != nil {
		c.t.Fatal(err)
	}
	images := "*.co"
	if name != "program_rdc" {
		images = "*/sources/*.co"
		sources = slices.DeleteFunc(sources, func(source string) bool {
			return slices.Contains([]string{"across.hip", "functions.hip"}, filepath.Base(source))
		})
	}
	out := filepath.Join(c.t.TempDir(), "driver.so")
	c.run("clang", slices.Concat([]string{"-nogpulib", "-nogpuinc", "-Wno-unused-command-line-argument", "-fPIC", "-shared", "-nostdlib", "-no-hip-rt",
		"--hip-link", "-fuse-ld=lld", "-o", out}, prefixed("--offload-arch=", c.archs), modes[mode], programs[name], []string{"-x", "hip"}, sources)...)
	found, err := filepath.Glob(c.bin(name + "/" + images))
	if err != nil {
		c.t.Fatal(err)
	}
	want, got := c.figures(out), map[string]any{}
	for _, image := range found {
		maps.Copy(got, c.figures(image))
	}
	if least := 15 * len(c.archs); len(want) < least {
		c.t.Fatalf("%s: clang's driver made %d kernels, expected %d at least", name, len(want), least)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("%s of %s (-clang's driver +the rule):\n%s", mode, name, diff)
	}
}

// checkProfile requires that a profile changes the code of its kernel.
func (c *clang) checkProfile(arch, mode string) {
	c.t.Helper()
	var kernels [2]any
	for i, name := range []string{"program_alone", "program_use"} {
		kernels[i] = c.figures(c.bin(name + "/" + fileName(arch) + "/sources/several.co"))[arch+" summed"]
	}
	if kernels[0] == nil || kernels[1] == nil || mode != "dbg" && cmp.Equal(kernels[0], kernels[1]) {
		c.t.Errorf("%s: the kernel without a profile is %v, with one %v", mode, kernels[0], kernels[1])
	}
}

// figures returns the values that the program reports for each kernel in a file, by architecture
// and name.
func (c *clang) figures(file string) map[string]any {
	c.t.Helper()
	var kernels []map[string]any
	if err := json.Unmarshal([]byte(c.ours("inspect", "--kernels", "--json", file)), &kernels); err != nil {
		c.t.Fatal(err)
	}
	result := map[string]any{}
	for _, kernel := range kernels {
		for _, place := range []string{"id", "image", "members", "section"} {
			delete(kernel, place)
		}
		result[fmt.Sprint(kernel["arch"], " ", kernel["name"])] = kernel
	}
	return result
}

// same compares the notes of two code objects.
func (c *clang) same(name, theirs, ours string) {
	c.t.Helper()
	if diff := cmp.Diff(c.notes(theirs), c.notes(ours)); diff != "" {
		c.t.Errorf("%s (-clang's driver +the rule):\n%s", name, diff)
	}
}

// linked returns the code object of each GPU that clang's driver links from the fat objects.
func (c *clang) linked() map[string]string {
	c.t.Helper()
	dir := c.t.TempDir()
	args := []string{"-fgpu-rdc", "--hip-link", "-no-hip-rt", "-nogpulib", "-O2", "-save-temps", "-fuse-ld=/bin/true", "-Wno-fuse-ld-path",
		"-Wno-unused-command-line-argument", "-o", filepath.Join(dir, "program")}
	args = append(args, prefixed("--offload-arch=", c.archs)...)
	c.run("clang", append(args, fatObjects()...)...)
	result := map[string]string{}
	for _, arch := range c.archs {
		linked, err := filepath.Glob(filepath.Join(dir, "*"+strings.ReplaceAll(arch, ":", "?")+".img"))
		if err != nil || len(linked) != 1 {
			all, _ := filepath.Glob(filepath.Join(dir, "*"))
			c.t.Fatalf("clang kept %q of %s (%v), %q", linked, arch, err, all)
		}
		result[arch] = linked[0]
	}
	return result
}

// ours runs a verb of the program and returns what it prints.
func (c *clang) ours(args ...string) string {
	c.t.Helper()
	return c.run(c.offload, args...)
}

// checkBundles reads bundles with the tools of the release, and compares the values of inspect with
// the notes of the kernels.
func (c *clang) checkBundles() {
	c.t.Helper()
	ids := []string{"host-x86_64-unknown-linux-gnu-"}
	for _, arch := range c.archs {
		ids = append(ids, "hipv4-amdgcn-amd-amdhsa--"+arch)
	}
	slices.Sort(ids)
	for _, name := range []string{"bundle", "compressed"} {
		bundle := c.bin(name + ".hipfb")
		listed := strings.Fields(c.run("clang-offload-bundler", "-list", "-type=o", "-input="+bundle))
		slices.Sort(listed)
		if diff := cmp.Diff(ids, listed); diff != "" {
			c.t.Errorf("%s (-expected +listed by clang-offload-bundler):\n%s", name, diff)
		}
		for _, arch := range c.archs {
			out := filepath.Join(c.t.TempDir(), "unbundled")
			c.run("clang-offload-bundler", "-unbundle", "-type=o", "-input="+bundle, "-targets=hipv4-amdgcn-amd-amdhsa--"+arch, "-output="+out)
			c.equal(name+" of "+arch, c.bin("linked/"+fileName(arch)+".co"), out)
		}
	}
	for _, arch := range c.archs {
		var kernels []struct {
			Arch, Name  string
			VGPRs, LDS  int64
			SGPRs, Size int64
		}
		file := c.bin("linked/" + fileName(arch) + ".co")
		if err := json.Unmarshal([]byte(c.ours("inspect", "--kernels", "--json", file)), &kernels); err != nil {
			c.t.Fatal(err)
		}
		got := map[string]string{}
		for _, k := range kernels {
			if k.Arch != arch {
				c.t.Errorf("%s: inspect says that %s is for %s", arch, k.Name, k.Arch)
			}
			got[k.Name] = fmt.Sprint(k.SGPRs, " ", k.VGPRs)
		}
		want := map[string]string{}
		for _, match := range figures.FindAllStringSubmatch(c.notes(file), -1) {
			want[match[1]] = match[2] + " " + match[3]
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) != 6 {
			c.t.Errorf("registers of %d kernels of %s (-llvm-readelf +inspect):\n%s", len(want), arch, diff)
		}
	}
}

var figures = regexp.MustCompile(`(?s)\.name: +(\w+)\n.*?\.sgpr_count: +(\d+)\n.*?\.vgpr_count: +(\d+)\n`)

// equal compares two files.
func (c *clang) equal(name, expected, got string) {
	c.t.Helper()
	var contents [2][]byte
	for i, file := range []string{expected, got} {
		content, err := os.ReadFile(file)
		if err != nil {
			c.t.Fatal(err)
		}
		contents[i] = content
	}
	if len(contents[0]) == 0 || !bytes.Equal(contents[0], contents[1]) {
		c.t.Errorf("%s: %s has %d bytes, and %s %d others", name, expected, len(contents[0]), got, len(contents[1]))
	}
}

// checkPrograms runs programs with a stand-in for HIP's runtime, and extracts their code with the
// disassembler of the release.
func (c *clang) checkPrograms() {
	c.t.Helper()
	for name, want := range map[string]struct {
		lines   []string
		bundles int
	}{
		"alone_program": {[]string{"fat binary __CLANG_OFFLOAD_BUNDLE__", "kernel _ZN12_GLOBAL__N_16kernelEPi", "launch _ZN12_GLOBAL__N_16kernelEPi",
			"set _ZN12_GLOBAL__N_16factorE", "unregistered", "variable _ZN12_GLOBAL__N_16factorE"}, 2},
		"linked_program": {[]string{"fat binary __CLANG_OFFLOAD_BUNDLE__", "kernel _Z11step_kernelPi", "kernel _Z12reset_kernelv", "launch _Z11step_kernelPi",
			"launch _Z12reset_kernelv", "set count", "unregistered", "variable count"}, 1},
	} {
		got := strings.Split(strings.TrimSpace(c.run(c.bin(name))), "\n")
		slices.Sort(got)
		if diff := cmp.Diff(want.lines, slices.Compact(got)); diff != "" {
			c.t.Errorf("%s (-expected +printed):\n%s", name, diff)
		}
		// The disassembler writes the files to its working directory.
		copied := filepath.Join(c.t.TempDir(), name)
		program, err := os.ReadFile(c.bin(name))
		if err == nil {
			err = os.WriteFile(copied, program, 0o666)
		}
		if err != nil {
			c.t.Fatal(err)
		}
		c.run("llvm-objdump", "--offloading", copied)
		for _, arch := range c.archs {
			found, err := filepath.Glob(copied + ".*amdgcn-amd-amdhsa--" + arch)
			if err != nil || len(found) != want.bundles {
				everything, _ := filepath.Glob(copied + "*")
				c.t.Errorf("%s: llvm-objdump wrote %q for %s (%v), %q in all", name, found, arch, err, everything)
			}
			for _, file := range found {
				c.notes(file)
			}
		}
	}
}

// checkLink compares the output of offload_link for objects of clang's driver with that of clang.
func (c *clang) checkLink() {
	c.t.Helper()
	linked := c.linked()
	for _, object := range fatObjects() {
		listing := c.run("llvm-objdump", "--offloading", object)
		if n := strings.Count(listing, "producer        hip"); n != len(c.archs) || strings.Contains(listing, "amdgcn") != (c.Number < 24) {
			c.t.Errorf("%s has %d images:\n%s", object, n, listing)
		}
	}
	for arch, theirs := range linked {
		out := filepath.Join(c.t.TempDir(), "extracted.co")
		c.ours("extract", "--image=kind=hip,arch="+arch+",file="+out, c.bin("fat.register.o"))
		c.same("fat of "+arch, theirs, out)
	}
}

// checkOpenMP compares target regions with those of clang's driver.
func (c *clang) checkOpenMP() {
	c.t.Helper()
	dir := c.t.TempDir()
	args := []string{"-fopenmp", "-fPIC", "-O2", "-nogpulib", "-save-temps=obj", "-fuse-ld=/bin/true", "-Wno-fuse-ld-path", "-Wno-openmp-target", "-Wno-unused-command-line-argument",
		"-L" + filepath.Join(filepath.Dir(llvm.Dir), "lib"), "-Xoffload-linker", "--unresolved-symbols=ignore-all", "-o", filepath.Join(dir, "program"), "sources/regions.c"}
	c.run("clang", append(args, prefixed("--offload-arch=", c.archs)...)...)
	for _, arch := range c.archs {
		theirs := filepath.Join(dir, "*"+strings.ReplaceAll(arch, ":", "?")+".img")
		found, err := filepath.Glob(theirs)
		if err != nil || len(found) != 1 {
			c.t.Fatalf("%s: clang kept %q (%v)", theirs, found, err)
		}
		numbered := func(file string) string {
			return noteSize.ReplaceAllString(regionName.ReplaceAllString(c.notes(file), "$1"), "")
		}
		if diff := cmp.Diff(numbered(found[0]), numbered(c.bin("regions/"+fileName(arch)+".img"))); diff != "" {
			c.t.Errorf("target regions of %s (-clang's driver +the rule):\n%s", arch, diff)
		}
	}
}

// regionName matches the device, the inode and the line of a source in the name of a target region.
var regionName = regexp.MustCompile(`__omp_offloading_(?:[0-9a-f]+_[0-9a-f]+_)?(\w+?)_l\d+`)

// noteSize matches the size of the note of kernels, which depends on their names.
var noteSize = regexp.MustCompile(`0x[0-9a-f]{8}`)
