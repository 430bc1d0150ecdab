// Package rocm builds and runs programs with Debian's packages of ROCm: from an archive, and as the
// ROCm of the machine.
package rocm

import (
	"bytes"
	"context"
	"debug/elf"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
	"github.com/rules-offload/rules_offload/tests/internal/reapi"
)

// all runs all tests, which takes minutes: rocThrust and hipCUB have many headers.
var all = flag.Bool("all", false, "build every program of examples/rocm, also by remote execution and with the ROCm of a folder")

func TestMain(m *testing.M) { llvm.Main(m, "clang", "buildbox-casd") }

// releases are those of ROCm that Debian packages, and the number of their runtime.
var releases = map[string]int{"6.4": 6, "7.2": 7}

// archive returns the tag of MODULE.bazel for an archive of ROCm.
func archive(t *testing.T, release string) string {
	t.Helper()
	tag, err := command(t, release, "--tag", "rocm").Output()
	if err != nil {
		t.Fatalf("tools/offline/rocm: %v", err)
	}
	return string(tag)
}

func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	project, err := root.Project()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(project, "tools", "offline", "rocm"), args...)
	cmd.Stderr = os.Stderr
	return cmd
}

const useOffload = "offload = use_extension(\"@rules_offload//rules:extensions.bzl\", \"offload\")\n"

// example is examples/rocm with the ROCm of a tag.
func example(t *testing.T, tag string) *bazeltest.Workspace {
	t.Helper()
	w := bazeltest.Example(t, "rocm")
	w.Write("rocm.MODULE.bazel", useOffload+tag)
	return w
}

// targets are those that a run of the tests builds.
func targets(release string) []string {
	switch {
	case *all && release == "7.2":
		// Its archive has no rocRAND.
		return []string{"//...", "-//random/..."}
	case *all:
		return []string{"//..."}
	}
	return []string{"//saxpy:saxpy_test", "//primitives:prim_test"}
}

// portable is a target with HIP's headers, whose code is SPIR-V.
const portable = `load("@rules_offload//rules:defs.bzl", "hip_code_objects")

hip_code_objects(
    name = "portable",
    srcs = ["//saxpy:saxpy.hip"],
    offload_archs = ["amdgcnspirv"],
)
`

// TestArchive builds programs with only an archive, and starts them: HIP's runtime registers their
// kernels and finds no GPU.
func TestArchive(t *testing.T) {
	for release := range releases {
		t.Run(release, func(t *testing.T) { testArchive(t, release) })
	}
}

func testArchive(t *testing.T, release string) {
	w := example(t, archive(t, release))
	w.Bazel("build", "//:result_test.sh", bazeltest.Prebuilt)
	if found := fetched(t, w); found != "" {
		t.Errorf("%s was fetched, and nothing was compiled with it", found)
	}
	result := w.Bazel(append([]string{"test", bazeltest.Prebuilt, "--"}, targets(release)...)...)
	if fetched(t, w) == "" {
		t.Error("the archive was not fetched")
	}
	checkInputs(t, result)

	program := filepath.Join(w.Dir, "bazel-bin", "saxpy", "saxpy")
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "AMD_LOG_LEVEL=4")
	output, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "hipGetDeviceCount") || !strings.Contains(string(output), "no GPU: ") {
		t.Errorf("%s did not call HIP's runtime: %v\n%s", program, err, output)
	}
	if got, want := needed(t, program), []string{fmt.Sprint("libamdhip64.so.", releases[release])}; !slices.Equal(got, want) {
		t.Errorf("the program requires %q of ROCm, want %q as with hipcc", got, want)
	}
	for _, pid := range mapped(t, program) {
		if !strings.Contains(pid, "rocm_files") {
			t.Errorf("the program has loaded %s, which is not of the archive", pid)
		}
	}
	// The runtime loads this one by name, so that the program finds it only among its runfiles.
	if found, err := filepath.Glob(program + "_test.runfiles/_main/_solib_*/*/rocm/lib/libamd_comgr.so*"); err != nil || len(found) == 0 {
		t.Errorf("libamd_comgr.so is not a runfile of the program (%v)", err)
	}
	if release == "7.2" {
		rocm := fetched(t, w)
		checkHipcc(t, w, rocm)
		checkPortable(t, w)
		checkSystem(t, w, release, rocm)
	}
}

// checkHipcc compares the code of a program with that of hipcc.
func checkHipcc(t *testing.T, w *bazeltest.Workspace, rocm string) {
	t.Helper()
	for _, source := range []string{"saxpy/saxpy", "primitives/prim"} {
		for _, arch := range []string{"gfx90a", "gfx1100"} {
			folder, name := filepath.Split(source)
			out := filepath.Join(t.TempDir(), "hipcc.co")
			cmd := exec.Command(filepath.Join(rocm, "bin", "hipcc"), "--offload-arch="+arch, "--offload-device-only", "--no-gpu-bundle-output", "-O2",
				"-c", filepath.Join(w.Dir, source+".hip"), "-o", out)
			cmd.Env = append(os.Environ(), "ROCM_PATH="+rocm, "HIP_PATH="+rocm, "HIP_CLANG_PATH="+filepath.Join(rocm, "lib", "llvm", "bin"))
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", cmd.Args, err, output)
			}
			theirs, ours := code(t, out), code(t, filepath.Join(w.Dir, "bazel-bin", folder, name+"_hip", arch+".co"))
			if len(theirs[".text"]) == 0 || !maps.EqualFunc(theirs, ours, bytes.Equal) {
				t.Errorf("%s for %s: hipcc's code has %d bytes, the rule's has %d, expected the same", source, arch, len(theirs[".text"]), len(ours[".text"]))
			}
		}
	}
}

// code returns the sections of a code object with instructions and with the descriptors of kernels.
func code(t *testing.T, name string) map[string][]byte {
	t.Helper()
	file, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sections := map[string][]byte{}
	for _, name := range []string{".text", ".rodata"} {
		if section := file.Section(name); section != nil {
			if sections[name], err = section.Data(); err != nil {
				t.Fatal(err)
			}
		}
	}
	return sections
}

// checkPortable compiles a source with HIP's headers to SPIR-V, as clang's driver does.
func checkPortable(t *testing.T, w *bazeltest.Workspace) {
	t.Helper()
	w.Write("portable/BUILD.bazel", portable)
	w.Write("saxpy/BUILD.bazel", string(must(os.ReadFile(filepath.Join(w.Dir, "saxpy", "BUILD.bazel"))))+"\nexports_files([\"saxpy.hip\"])\n")
	w.Bazel("build", "//portable", bazeltest.Prebuilt)
	if data := must(os.ReadFile(filepath.Join(w.Dir, "bazel-bin", "portable", "portable", "amdgcnspirv.spv"))); !bytes.HasPrefix(data, []byte{3, 2, 0x23, 7}) {
		t.Errorf("the code begins with %x, expected SPIR-V", data[:min(4, len(data))])
	}
}

// checkSystem builds a program with a directory as the ROCm of the machine.
func checkSystem(t *testing.T, w *bazeltest.Workspace, release, rocm string) {
	t.Helper()
	w.Write("rocm.MODULE.bazel", useOffload+archive(t, release)+"offload.system_clang(name = \"machine\", path = \""+rocm+"/lib/llvm\", rocm_path = \""+rocm+"\")\nuse_repo(offload, \"machine\")\n")
	const setting = "--@rules_offload//rules/settings:"
	w.Bazel("test", "//saxpy:saxpy_test", bazeltest.Prebuilt, "--extra_toolchains=@machine//:all", setting+"device_compiler=machine")
	if got, want := needed(t, filepath.Join(w.Dir, "bazel-bin", "saxpy", "saxpy")), []string{fmt.Sprint("libamdhip64.so.", releases[release])}; !slices.Equal(got, want) {
		t.Errorf("with the ROCm of the machine, the program requires %q of it, want %q", got, want)
	}
}

// mapped returns the files of HIP's runtime that a program loads.
func mapped(t *testing.T, program string) []string {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "LD_TRACE_LOADED_OBJECTS=1")
	output, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for line := range strings.Lines(string(output)) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " => ")
		if slices.ContainsFunc([]string{"libamdhip64", "libhsa-runtime64", "libnuma"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			files = append(files, path)
		}
	}
	if len(files) < 3 {
		t.Errorf("HIP's runtime is not among\n%s", output)
	}
	return files
}

// fetched returns the directory of the repository of the archive, or "".
func fetched(t *testing.T, w *bazeltest.Workspace) string {
	t.Helper()
	base := strings.TrimSpace(w.Bazel("info", "output_base").Stdout)
	found, err := filepath.Glob(filepath.Join(base, "external", "*rocm_files", "rocm"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(found, " ")
}

// checkInputs checks that compilations get the headers that they may read, and no others.
func checkInputs(t *testing.T, result *bazeltest.Result) {
	t.Helper()
	seen := map[string]bool{}
	for _, spawn := range result.Spawns {
		files, size := 0, int64(0)
		has := map[string]bool{}
		for _, input := range spawn.Inputs {
			files++
			size += input.Size
			_, below, _ := strings.Cut(input.Path, "_files/rocm/")
			for _, part := range []string{"include/hip/", "include/rocprim/", "include/thrust/", "include/rocrand/", "amdgcn/bitcode/ockl.bc", "lib/llvm/bin/lld", "/oclc_isa_version_90a.bc", "/oclc_isa_version_1100.bc"} {
				if strings.Contains("/"+below, "/"+strings.TrimPrefix(part, "/")) {
					has[part] = true
				}
			}
		}
		name := spawn.Mnemonic
		if strings.HasPrefix(name, "Offload") && len(spawn.Outputs) > 0 {
			t.Logf("%-22s %-60s %5d files, %11d bytes", name, spawn.Outputs[0], files, size)
		}
		var want []string
		switch {
		case name == "OffloadHipCompile":
			arch, other := "/oclc_isa_version_90a.bc", "/oclc_isa_version_1100.bc"
			if strings.Contains(spawn.Outputs[0], "gfx1100") {
				arch, other = other, arch
			}
			want = []string{"include/hip/", "amdgcn/bitcode/ockl.bc", arch}
			if has[other] {
				t.Errorf("%s has the device libraries of another GPU", spawn.Outputs[0])
			}
		case name == "OffloadHipHostCompile":
			want = []string{"include/hip/"}
		case name == "OffloadDeviceLink":
			want = []string{"lib/llvm/bin/lld"}
			if has["include/hip/"] {
				t.Errorf("%s: a link has headers", spawn.Outputs[0])
			}
		default:
			continue
		}
		seen[name] = true
		for _, part := range want {
			if !has[part] {
				t.Errorf("%s of %s does not have %s", name, spawn.Outputs[0], part)
			}
		}
		for _, part := range []string{"include/rocprim/", "include/thrust/", "include/rocrand/"} {
			if has[part] && strings.Contains(spawn.Outputs[0], "/saxpy/") {
				t.Errorf("%s of %s has %s, which it does not depend on", name, spawn.Outputs[0], part)
			}
		}
	}
	for _, name := range []string{"OffloadHipCompile", "OffloadHipHostCompile", "OffloadDeviceLink"} {
		if !seen[name] {
			t.Errorf("there was no action %s", name)
		}
	}
}

// TestRemote builds the programs with remote execution and starts them here: the server runs on
// this machine.
func TestRemote(t *testing.T) {
	if !*all {
		t.Skip("only with -all")
	}
	server, err := reapi.Start(context.Background(), reapi.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	w := example(t, archive(t, "6.4"))
	result := w.Bazel("test", "//...", bazeltest.Prebuilt, "--remote_executor="+server.Address(), "--spawn_strategy=remote", "--noremote_local_fallback")
	for _, spawn := range result.Spawns {
		if spawn.Runner != "remote" {
			t.Errorf("%s was run by %s: %v", spawn.Mnemonic, spawn.Runner, spawn.Outputs)
		}
	}
}

// TestFolder builds a program with the ROCm of a directory, as with that of the machine.
func TestFolder(t *testing.T) {
	if !*all {
		t.Skip("only with -all")
	}
	path, err := command(t).Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if output, err := exec.Command("tar", "-xf", strings.TrimSpace(string(path)), "-C", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	folder = filepath.Join(folder, "rocm")
	w := example(t, "offload.system_clang(name = \"rocm\", path = \""+folder+"/lib/llvm\", rocm_path = \""+folder+"\")\n")
	w.Bazel("test", "//...", bazeltest.Prebuilt)
}
