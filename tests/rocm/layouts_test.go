package rocm

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

// layouts are the directories of LLVM and of the device libraries in archives of ROCm.
var layouts = []struct{ name, llvm, deviceLibraries string }{
	{"opt", "llvm", "amdgcn/bitcode"},
	{"therock", "lib/llvm", "lib/llvm/amdgcn/bitcode"},
	{"resources", "lib/llvm", "lib/llvm/lib/clang/20/lib/amdgcn/bitcode"},
	{"debian", "lib/llvm", "lib/llvm/lib/clang/21/amdgcn/bitcode"},
}

// TestLayouts makes small archives of ROCm, and programs with their libraries. The compiler is not
// called, so it is an empty file.
func TestLayouts(t *testing.T) {
	dir := t.TempDir()
	contents := map[string]string{"main.cc": mainSource, "kernel.hip": "\n"}
	var build, module strings.Builder
	build.WriteString("load(\"@rules_cc//cc:defs.bzl\", \"cc_test\")\nload(\"@rules_offload//rules:defs.bzl\", \"hip_code_objects\")\n")
	libraries := sharedLibraries(t, dir)
	for _, layout := range layouts {
		files := map[string]string{
			layout.llvm + "/bin/clang":                               "",
			layout.llvm + "/bin/ld.lld":                              "",
			layout.llvm + "/lib/clang/21/include/stddef.h":           "",
			layout.llvm + "/lib/clang/21/include/arm_neon.h":         "",
			layout.deviceLibraries + "/ockl.bc":                      "",
			layout.deviceLibraries + "/oclc_isa_version_942.bc":      "",
			layout.deviceLibraries + "/oclc_isa_version_1100.bc":     "",
			"include/hip/hip_runtime.h":                              "extern \"C\" int hipVersion();\n",
			"include/rocblas/rocblas.h":                              "#include <hip/hip_runtime.h>\nextern \"C\" int rocblasVersion();\n",
			"include/half/half.hpp":                                  "",
			"include/newest/newest.h":                                "#include <rocblas/rocblas.h>\n#include <hsa/hsa/hsa.h>\n#include <newest/hsa/hsa.h>\n",
			"lib/rocblas/library/TensileLibrary.dat":                 "",
			"lib/rocblas/library/TensileLibrary_gfx942.co":           "",
			"lib/rocblas/library/Kernels.so-000-gfx90a-xnack+.hsaco": "",
			"lib/rocblas/library/Kernels.so-000-gfx90a-xnack-.hsaco": "",
			"lib/rocblas/library/extop_gfx1100.co":                   "",
			"share/hip/version":                                      "",
			"include/hsa/hsa.h":                                      "extern \"C\" int hsa();\n",
			// Links that Bazel would follow without end, and one to a file of this machine.
			"include/hsa/hsa":         "-> .",
			"include/hsa/newest":      "-> ../newest",
			"include/newest/hsa":      "-> ../hsa",
			"include/newest/passwd.h": "-> ../../../../../../../../../../../../../../../../etc/passwd",
		}
		for name, content := range libraries {
			files[name] = content
		}
		archive := filepath.Join(dir, layout.name+".tar")
		sum := writeArchive(t, archive, files)
		fmt.Fprintf(&module, "offload.archive_rocm(name = %q, libraries = [\"newest\"], sha256 = %q, strip_prefix = \"rocm\", urls = [\"file://%s\"])\nuse_repo(offload, %[1]q)\n", layout.name, sum, archive)
		fmt.Fprintf(&build, `
cc_test(
    name = "%[1]s_test",
    size = "small",
    srcs = ["main.cc"],
    linkopts = ["-Wl,--no-as-needed"],
    deps = ["@%[1]s//:newest", "@%[1]s//:rocblas"],
)
cc_test(name = "%[1]s_without", srcs = ["main.cc"], tags = ["manual"], deps = ["@%[1]s//:rccl"])
`, layout.name)
	}
	build.WriteString("hip_code_objects(name = \"kernel\", srcs = [\"kernel.hip\"], offload_archs = [\"gfx942\"], tags = [\"manual\"])\n")
	contents["BUILD.bazel"] = build.String()
	w := bazeltest.New(t, filepath.Join(dir, "workspace"), contents)
	w.Module(module.String())

	result := w.Bazel("test", "//...")
	if !strings.Contains(result.Output, "1 links lead out of the archive") || !strings.Contains(result.Output, "include/newest/passwd.h -> /etc/passwd") {
		t.Errorf("no message about a link to /etc/passwd:\n%s", result.Output)
	}
	for _, layout := range layouts {
		got := needed(t, filepath.Join(w.Dir, "bazel-bin", layout.name+"_test"))
		if want := []string{"libamdhip64.so.7", "librocblas.so.5"}; !slices.Equal(got, want) {
			t.Errorf("%s: the program requires %q of ROCm, want %q", layout.name, got, want)
		}
		compiler := []string{"--extra_toolchains=@" + layout.name + "//:all", "--@rules_offload//rules/settings:device_compiler=" + layout.name}
		inputs := w.Bazel(append([]string{"aquery", "inputs(\".*_files/.*\", mnemonic(OffloadHipCompile, //:kernel))", "--output=text"}, compiler...)...).Stdout
		for name, want := range map[string]bool{
			"/rocm/amdgcn/bitcode/ockl.bc":                              true,
			"/rocm/amdgcn/bitcode/oclc_isa_version_942.bc":              true,
			"/rocm/amdgcn/bitcode/oclc_isa_version_1100.bc":             false,
			"/rocm/include/hip/hip_runtime.h":                           true,
			"/rocm/include/rocblas/rocblas.h":                           false,
			"/rocm/" + layout.llvm + "/lib/clang/21/include/stddef.h":   true,
			"/rocm/" + layout.llvm + "/lib/clang/21/include/arm_neon.h": false,
			"/rocm/" + layout.llvm + "/bin/clang":                       true,
			"/rocm/" + layout.llvm + "/bin/ld.lld":                      false,
		} {
			if strings.Contains(inputs, name) != want {
				t.Errorf("%s: %s is an input of a compilation: %t, want %t", layout.name, name, !want, want)
			}
		}
	}

	for archs, want := range map[string][]string{
		"":                               {"Kernels.so-000-gfx90a-xnack+.hsaco", "Kernels.so-000-gfx90a-xnack-.hsaco", "TensileLibrary.dat", "TensileLibrary_gfx942.co", "extop_gfx1100.co"},
		"gfx942":                         {"TensileLibrary.dat", "TensileLibrary_gfx942.co"},
		"gfx90a":                         {"Kernels.so-000-gfx90a-xnack+.hsaco", "Kernels.so-000-gfx90a-xnack-.hsaco", "TensileLibrary.dat"},
		"gfx90a:sramecc+:xnack-,gfx1100": {"Kernels.so-000-gfx90a-xnack-.hsaco", "TensileLibrary.dat", "extop_gfx1100.co"},
		"gfx9-4-generic":                 {"Kernels.so-000-gfx90a-xnack+.hsaco", "Kernels.so-000-gfx90a-xnack-.hsaco", "TensileLibrary.dat", "TensileLibrary_gfx942.co", "extop_gfx1100.co"},
	} {
		listing := w.Bazel("cquery", "@opt//:rocblas", "--output=files", "--output_groups=data", "--@rules_offload//rules/settings:offload_archs="+archs).Stdout
		var got []string
		for line := range strings.Lines(listing) {
			got = append(got, filepath.Base(strings.TrimSpace(line)))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("with offload_archs=%s, rocblas has the data %q, want %q", archs, got, want)
		}
	}

	result, err := w.Try("build", "//:therock_without")
	if err == nil || !strings.Contains(result.Output, "rccl is not in file://") || !strings.Contains(result.Output, "which has half, hip, hsa, newest, rocblas") {
		t.Errorf("a library that is not in the archive: %v\n%s", err, result.Output)
	}
}

// needed returns the libraries of ROCm that a program requires, sorted.
func needed(t *testing.T, program string) []string {
	t.Helper()
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	names, err := file.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc([]string{"libc.", "libm.", "libgcc_s.", "libstdc++."}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
	})
	slices.Sort(names)
	return names
}

const mainSource = `
#include <newest/newest.h>
#if __HIP_PLATFORM_AMD__ != 1
#error "no definition of __HIP_PLATFORM_AMD__"
#endif
int main() { return rocblasVersion() == 7 && hipVersion() == 7 ? 0 : 1; }
`

// sharedLibraries makes libraries that require each other like ROCm's: by name, in their directory
// and in rocm_sysdeps.
func sharedLibraries(t *testing.T, dir string) map[string]string {
	t.Helper()
	made := map[string]string{}
	for _, library := range []struct{ file, soname, source, flag string }{
		{"lib/rocm_sysdeps/lib/librocm_sysdeps_numa.so.1", "librocm_sysdeps_numa.so.1", "int numa() { return 7; }", ""},
		{"lib/libhsa-runtime64.so.1.2", "libhsa-runtime64.so.1", "int numa(); int hsa() { return numa(); }", "lib/rocm_sysdeps/lib/librocm_sysdeps_numa.so.1"},
		{"lib/libamdhip64.so.7.0", "libamdhip64.so.7", "int hsa(); int hipVersion() { return hsa(); }", "lib/libhsa-runtime64.so.1.2"},
		{"lib/librocblas.so.5.0", "librocblas.so.5", "int hipVersion(); int rocblasVersion() { return hipVersion(); }", "lib/libamdhip64.so.7.0"},
	} {
		out := filepath.Join(dir, library.file)
		if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
			t.Fatal(err)
		}
		args := []string{"-shared", "-fPIC", "-nostdlib", "-x", "c", "-", "-x", "none", "-o", out, "-Wl,-soname," + library.soname, "-Wl,-rpath,$ORIGIN:$ORIGIN/rocm_sysdeps/lib"}
		if library.flag != "" {
			args = append(args, filepath.Join(dir, library.flag))
		}
		cmd := exec.Command(llvm.Tool(t, "clang"), args...)
		cmd.Stdin = strings.NewReader(library.source)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, output)
		}
		made[library.file] = string(must(os.ReadFile(out)))
		// The names that programs and linkers search for are links.
		name := filepath.Dir(library.file) + "/" + library.soname
		if name != library.file {
			made[name] = "-> " + filepath.Base(library.file)
			made[strings.TrimRight(name, ".0123456789")] = "-> " + library.soname
		}
	}
	return made
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// writeArchive makes a tar file of a directory rocm with files, or links where a content begins with an arrow, and returns
// its SHA-256 in hex.
func writeArchive(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	var data bytes.Buffer
	archive := tar.NewWriter(&data)
	for path, content := range files {
		header := &tar.Header{Name: "rocm/" + path, Mode: 0o755, Size: int64(len(content))}
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			header.Typeflag, header.Linkname, header.Size, content = tar.TypeSymlink, target, 0, ""
		}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data.Bytes()))
}
