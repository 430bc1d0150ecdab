// Package incremental checks that a change rebuilds only what depends on it, and that a build
// continues after the death of a worker.
package incremental

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

func TestMain(m *testing.M) { llvm.Main(m, "buildbox-casd") }

// work is the work of a build: for each mnemonic, the outputs below bazel-bin.
func work(result *bazeltest.Result) map[string][]string {
	done := map[string][]string{}
	for _, spawn := range result.Spawns {
		for _, output := range spawn.Outputs {
			if strings.HasSuffix(output, ".unused") {
				continue // the headers that a compilation does not read
			}
			_, name, _ := strings.Cut(output, "/bin/")
			done[spawn.Mnemonic] = append(done[spawn.Mnemonic], name)
		}
	}
	for _, outputs := range done {
		slices.Sort(outputs)
	}
	return done
}

func TestChangesCostWhatDependsOnThem(t *testing.T) {
	workspace := bazeltest.New(t, t.TempDir(), bazeltest.Kernels())
	first := workspace.Bazel("build", "//:all")
	if got, want := first.Count("OffloadHipCompile"), 2*3; got != want {
		t.Errorf("the first build compiled %d times, want %d: once for each source and architecture", got, want)
	}

	if again := workspace.Bazel("build", "//:all"); again.Count("") != 0 {
		t.Errorf("the second build was not empty: %v", work(again))
	}

	source := bazeltest.Kernels()["fill.hip"]
	workspace.Write("fill.hip", strings.Replace(source, "= value", "= value + value", 1))
	want := map[string][]string{
		"OffloadHipCompile": {"kernels/gfx1100/fill.o", "kernels/gfx90a_xnack+/fill.o", "kernels/gfx90a_xnack-/fill.o"},
		"OffloadDeviceLink": {"kernels/gfx1100.co", "kernels/gfx90a_xnack+.co", "kernels/gfx90a_xnack-.co"},
		"OffloadBundle":     {"fat.hipfb"},
		"OffloadCheck":      {"fat.hipfb.entries.json"},
		"OffloadUnbundle":   {"single/gfx1100.co", "single/gfx90a_xnack-.co"},
	}
	if diff := cmp.Diff(want, work(workspace.Bazel("build", "//:all"))); diff != "" {
		t.Errorf("one source changed (-want +done):\n%s", diff)
	}

	rules := bazeltest.Kernels()["BUILD.bazel"]
	workspace.Write("BUILD.bazel", strings.Replace(rules, `"gfx1100"],
)

offload_bundle`, `"gfx1100", "gfx942"],
)

offload_bundle`, 1))
	want = map[string][]string{
		"OffloadHipCompile": {"kernels/gfx942/fill.o", "kernels/gfx942/scale.o"},
		"OffloadDeviceLink": {"kernels/gfx942.co"},
		"OffloadBundle":     {"fat.hipfb"},
		"OffloadCheck":      {"fat.hipfb.entries.json"},
		"OffloadUnbundle":   {"single/gfx1100.co", "single/gfx90a_xnack-.co"},
	}
	if diff := cmp.Diff(want, work(workspace.Bazel("build", "//:all"))); diff != "" {
		t.Errorf("one architecture added (-want +done):\n%s", diff)
	}
}

// libraries are two libraries of the same sources: one links device code for each source, the other
// for both together.
const libraries = `load("@rules_offload//rules:defs.bzl", "hip_library")

[
    hip_library(
        name = name,
        srcs = ["fill.hip", "scale.hip"],
        hdrs = ["device.h", "launch.h"],
        compress = "none",
        offload_archs = ["gfx90a", "gfx1100"],
        rdc = rdc,
    )
    for name, rdc in {"apart": False, "together": True}.items()
]
`

const launch = `#pragma once
typedef decltype(sizeof(0)) size_t;
struct dim3 { unsigned x, y, z; };
typedef struct Stream *hipStream_t;
extern "C" int hipLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, hipStream_t stream);
extern "C" int __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, hipStream_t *stream);
`

// An edit of one source repeats the actions that the documentation of hip_library lists.
func TestEditOfALibrary(t *testing.T) {
	contents := map[string]string{"BUILD.bazel": libraries, "launch.h": launch}
	for _, name := range []string{"device.h", "fill.hip", "scale.hip"} {
		contents[name] = bazeltest.Kernels()[name]
		if name != "device.h" {
			contents[name] = "#include \"launch.h\"\n" + contents[name]
		}
	}
	w := bazeltest.New(t, t.TempDir(), contents)
	w.Bazel("build", "//:apart", "//:together")
	edit := func(name, from, to string) map[string][]string {
		contents[name] = strings.Replace(contents[name], from, to, 1)
		w.Write(name, contents[name])
		return work(w.Bazel("build", "//:apart", "//:together"))
	}
	// Device code changes, and host code does not.
	want := map[string][]string{
		"OffloadHipCompile":     {"apart/gfx1100/fill.o", "apart/gfx90a/fill.o", "together/gfx1100/fill.bc", "together/gfx90a/fill.bc"},
		"OffloadHipHostCompile": {"apart/host/fill.o", "together/host/fill.o"},
		"OffloadDeviceLink":     {"apart/gfx1100/fill.co", "apart/gfx90a/fill.co", "together/gfx1100.co", "together/gfx90a.co"},
		"OffloadBundle":         {"apart/fill.hipfb", "together.hipfb"},
		"OffloadCheck":          {"apart/fill.hipfb.entries.json", "together.hipfb.entries.json"},
		"OffloadRegister":       {"apart/host/fill.fatbin.o", "together.register.o"},
		"CppArchive":            {"libapart.a", "libtogether.a"},
	}
	if diff := cmp.Diff(want, edit("fill.hip", "= value", "= value + value")); diff != "" {
		t.Errorf("a kernel changed (-want +done):\n%s", diff)
	}
	// A changed comment changes no file but the source.
	want = map[string][]string{
		"OffloadHipCompile":     want["OffloadHipCompile"],
		"OffloadHipHostCompile": want["OffloadHipHostCompile"],
	}
	if diff := cmp.Diff(want, edit("fill.hip", "= value + value;", "= value + value; // twice")); diff != "" {
		t.Errorf("a comment changed (-want +done):\n%s", diff)
	}
}

// parts are bundles of prebuilt images, large enough that one has several frames.
const parts = `load("@rules_offload//rules:defs.bzl", "offload_bundle", "offload_images")

offload_images(
    name = "images",
    srcs = {
        "gfx90a.co": "gfx90a",
        "gfx942.co": "gfx942",
        "gfx1030.co": "gfx1030",
        "gfx1100.co": "gfx1100",
        "gfx1201.co": "gfx1201",
    },
)

offload_bundle(
    name = "fat",
    compress = "zstd",
    images = [":images"],
)

offload_bundle(
    name = "whole",
    compress = "zstd",
    images = [":images"],
    incremental = "off",
)
`

// image returns bytes that resemble machine code, and are similar for every seed.
func image(seed uint64) string {
	words, own := rand.New(rand.NewPCG(1, 1)), rand.New(rand.NewPCG(seed, 2))
	var dict [512]uint64
	for i := range dict {
		dict[i] = words.Uint64() & 0x07ff00ff3f0001ff
	}
	var b []byte
	for n := 4<<20 + int(seed)*1000; len(b) < n; {
		w := dict[words.IntN(len(dict))]
		if own.IntN(64) == 0 {
			w ^= uint64(own.Uint32())
		}
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return string(b)
}

// A compressed bundle consists of parts: a changed image repeats the compression of its part. The
// result equals the bundle of a single action.
func TestChangedImageCompressesItsPart(t *testing.T) {
	contents := map[string]string{"BUILD.bazel": parts}
	processors := []string{"gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"}
	for i, p := range processors {
		contents[p+".co"] = image(uint64(i))
	}
	w := bazeltest.New(t, t.TempDir(), contents)
	// The images are not code objects, which the validation would report.
	build := []string{"build", "//:all", "--norun_validations"}
	check := func() {
		t.Helper()
		if !bytes.Equal(w.Read("fat.hipfb"), w.Read("whole.hipfb")) {
			t.Error("the bundle differs from the one of a single action")
		}
		args := []string{"-unbundle", "-type=o", "-input=" + filepath.Join(w.Dir, "bazel-bin/fat.hipfb")}
		var ids []string
		for _, p := range processors {
			ids = append(ids, "hipv4-amdgcn-amd-amdhsa--"+p)
			args = append(args, "-output="+filepath.Join(w.Dir, p+".out"))
		}
		bundler := llvm.Tool(t, "clang-offload-bundler")
		if out, err := exec.Command(bundler, append(args, "-targets="+strings.Join(ids, ","))...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		list, err := exec.Command(bundler, "-list", "-type=o", args[2]).CombinedOutput()
		lines := strings.Fields(string(list))
		slices.Sort(lines)
		want := append([]string{"host-x86_64-unknown-linux-gnu-"}, ids...)
		slices.Sort(want)
		if diff := cmp.Diff(want, lines); diff != "" || err != nil {
			t.Errorf("LLVM lists (-want +got):\n%s%v", diff, err)
		}
		for _, p := range processors {
			got, err := os.ReadFile(filepath.Join(w.Dir, p+".out"))
			if err != nil || string(got) != contents[p+".co"] {
				t.Errorf("%s: %d other bytes: %v", p, len(got), err)
			}
		}
	}
	w.Bazel(build...)
	check()

	contents["gfx1030.co"] = image(9)
	w.Write("gfx1030.co", contents["gfx1030.co"])
	want := map[string][]string{
		"OffloadCompressPart": {"fat.hipfb.1.part"},
		"OffloadCompressPlan": {"fat.hipfb.plan"},
		"OffloadBundle":       {"fat.hipfb", "whole.hipfb"},
	}
	if diff := cmp.Diff(want, work(w.Bazel(build...))); diff != "" {
		t.Errorf("one image changed (-want +done):\n%s", diff)
	}
	check()

	// A bundle that a setting compresses has a single action, unless another setting requests
	// parts.
	w.Write("BUILD.bazel", strings.ReplaceAll(parts, `compress = "zstd"`, `compress = "auto"`))
	settings := func(list ...string) []string {
		args := slices.Clone(build)
		for _, s := range list {
			args = append(args, "--@rules_offload//rules/settings:"+s)
		}
		return args
	}
	result := w.Bazel(settings("compress=zstd", "compression_level=2")...)
	if n := result.Count("OffloadCompressPart"); n != 0 {
		t.Errorf("%d parts were made of what a setting compresses", n)
	}
	result = w.Bazel(settings("compress=zstd", "compression_level=2", "incremental=on")...)
	if n := result.Count("OffloadCompressPart"); n != 3 {
		t.Errorf("%d parts of one bundle, want 3", n)
	}
}

func TestBuildAfterDeathOfTheWorker(t *testing.T) {
	workspace := bazeltest.New(t, t.TempDir(), bazeltest.Kernels())
	build := []string{"build", "//:all", "--strategy=OffloadBundle=worker", "--strategy=OffloadUnbundle=worker"}
	workspace.Bazel(build...)
	if killed := killWorkers(t, workspace.Execroot()); killed == 0 {
		t.Fatal("there was no worker to kill")
	}
	workspace.Write("scale.hip", strings.Replace(bazeltest.Kernels()["scale.hip"], "*=", "+=", 1))
	if result := workspace.Bazel(build...); result.Count("OffloadBundle") != 1 {
		t.Errorf("the bundle was not built again: %v", work(result))
	}
}

// killWorkers kills the workers of the Bazel server of an execution root, and returns their number.
func killWorkers(t *testing.T, execroot string) int {
	t.Helper()
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, name := range commands {
		command, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(command), "--persistent_worker") {
			continue
		}
		// Other tests, and the build that runs this test, have workers as well.
		process := filepath.Dir(name)
		if cwd, err := os.Readlink(filepath.Join(process, "cwd")); err != nil || cwd != execroot {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed++
	}
	return killed
}
