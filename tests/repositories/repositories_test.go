// Package repositories checks the repositories that the module extension
// declares: what they download, with which credentials, for which platforms,
// and what they do not fetch.
package repositories

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

func TestMain(m *testing.M) { llvm.Main(m, "clang") }

// archive writes a tar archive, and returns its URL and its SHA-256.
func archive(t *testing.T, w *bazeltest.Workspace, name string, files map[string]string) (url, sum string) {
	t.Helper()
	var data bytes.Buffer
	out := tar.NewWriter(&data)
	for path, content := range files {
		if err := out.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	w.Write(name, data.String())
	return "file://" + filepath.Join(w.Dir, name), fmt.Sprintf("%x", sha256.Sum256(data.Bytes()))
}

// fetched returns the repositories that exist, by the names that the extension
// gave them.
func fetched(t *testing.T, w *bazeltest.Workspace) []string {
	t.Helper()
	base := strings.TrimSpace(w.Bazel("info", "output_base").Stdout)
	entries, err := os.ReadDir(filepath.Join(base, "external"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		_, name, ok := strings.Cut(strings.ReplaceAll(entry.Name(), "+", "~"), "~offload~")
		if ok && entry.IsDir() {
			names = append(names, name)
		}
	}
	return names
}

// succeeds and fails run a build that only analyzes.
func succeeds(t *testing.T, w *bazeltest.Workspace, args ...string) {
	t.Helper()
	w.Bazel(append([]string{"build", "--nobuild"}, args...)...)
}

func fails(t *testing.T, w *bazeltest.Workspace, want string, args ...string) {
	t.Helper()
	if result, err := w.Try(append([]string{"build", "--nobuild"}, args...)...); err == nil || !strings.Contains(result.Output, want) {
		t.Errorf("%q: %v, want %q in\n%s", args, err, want, result.Output)
	}
}

// TestCredentials downloads programs and archives from a server that requires a password, or below /bearer/ a token.
func TestCredentials(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), bazeltest.Kernels())
	served := http.FileServer(http.Dir(w.Dir))
	server := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		scheme, want := "Basic", "Basic "+base64.StdEncoding.EncodeToString([]byte("me:secret"))
		if strings.HasPrefix(r.URL.Path, "/bearer/") {
			scheme, want = "Bearer", "Bearer secret"
		}
		if r.Header.Get("Authorization") != want {
			to.Header().Set("WWW-Authenticate", scheme)
			to.WriteHeader(http.StatusUnauthorized)
			return
		}
		served.ServeHTTP(to, r)
	}))
	t.Cleanup(server.Close)
	host, _, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	const program = "#!/bin/sh\n"
	for _, name := range []string{"offload", "again", "third", "wrong"} {
		w.Write(name, program)
	}
	sum := sha256.Sum256([]byte(program))
	integrity := "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
	w.Write("netrc", "machine "+host+" login me password secret\n")
	w.WriteProgram("helper", "#!/bin/sh\necho '{\"headers\": {\"Authorization\": [\"Basic "+base64.StdEncoding.EncodeToString([]byte("me:secret"))+"\"]}}'\n")
	prebuilt := fmt.Sprintf(`
URL, NETRC = "%s", "%s"
offload.prebuilt(name = "without", integrity = "%s", urls = [URL + "/offload"])
offload.prebuilt(name = "again", integrity = "%[3]s", urls = [URL + "/again"])
offload.prebuilt(name = "third", integrity = "%[3]s", urls = [URL + "/third"])
offload.prebuilt(name = "with", integrity = "%[3]s", netrc = NETRC, urls = [URL + "/offload"])
offload.prebuilt(name = "wrong", integrity = "sha256-%s", netrc = NETRC, urls = [URL + "/wrong"])
use_repo(offload, "again", "third", "with", "without", "wrong")
`, server.URL, filepath.Join(w.Dir, "netrc"), integrity, base64.StdEncoding.EncodeToString(make([]byte, 32)))

	_, token := archive(t, w, "bearer/llvm.tar", map[string]string{"lib/llvm/bin/clang": "", "lib/llvm/bin/ld.lld": ""})
	_, core := archive(t, w, "core.tar", map[string]string{"lib/llvm/bin/clang": "", "include/hip/hip_runtime.h": ""})
	_, libraries := archive(t, w, "libraries.tar", map[string]string{"lib/llvm/bin/ld.lld": "", "lib/llvm/amdgcn/bitcode/ockl.bc": ""})
	w.Module(prebuilt + fmt.Sprintf(`
[
    offload.archive_clang(name = name, auth_patterns = patterns, netrc = NETRC, sha256 = "%s", strip_prefix = "lib/llvm", urls = [URL + "/bearer/llvm.tar"])
    for name, patterns in {"llvm_basic": {}, "llvm_token": {"%s": "Bearer <password>"}}.items()
]
[
    offload.archive_rocm(name = name, netrc = netrc, sha256 = "%s", urls = [URL + "/core.tar"])
    for name, netrc in {"rocm_without": "", "rocm_with": NETRC}.items()
]
offload.overlay(name = "rocm_with", sha256 = "%s", urls = [URL + "/libraries.tar"])
use_repo(offload, "llvm_basic", "llvm_token", "rocm_with", "rocm_without")
`, token, host, core, libraries))

	use := func(name string, flags ...string) []string {
		return append(flags, "--extra_toolchains=@"+name+"//:all", "--repository_cache=", "//:fat")
	}
	compile := func(name string) []string { return use(name, "--@rules_offload//rules/settings:device_compiler="+name) }
	const unauthorized = "401 Unauthorized"
	fails(t, w, unauthorized, use("without")...)
	succeeds(t, w, use("with")...)
	succeeds(t, w, use("again", "--repo_env=NETRC="+filepath.Join(w.Dir, "netrc"))...)
	succeeds(t, w, use("third", "--credential_helper=%workspace%/helper")...)
	fails(t, w, "Checksum was sha256-", use("wrong")...)
	fails(t, w, unauthorized, compile("llvm_basic")...)
	succeeds(t, w, compile("llvm_token")...)
	fails(t, w, unauthorized, compile("rocm_without")...)
	succeeds(t, w, compile("rocm_with")...)
}

// TestOverlay combines two archives to one ROCm.
func TestOverlay(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), bazeltest.Kernels())
	core, coreSum := archive(t, w, "core.tar", map[string]string{
		"core/include/hip/hip_runtime.h": "",
		"core/lib/llvm/bin/clang":        "",
		"core/lib/llvm/bin/ld.lld":       "",
		"core/share/hip/version":         "old",
	})
	more, moreSum := archive(t, w, "more.tar", map[string]string{
		"more/include/rocprim/rocprim.hpp":  "#include <hip/hip_runtime.h>\n",
		"more/lib/llvm/amdgcn/bitcode/a.bc": "",
		"more/share/hip/version":            "new",
	})
	bitcode, bitcodeSum := archive(t, w, "bitcode.tar", map[string]string{"ockl.bc": ""})
	tag := fmt.Sprintf("\noffload.archive_rocm(name = \"rocm\", sha256 = %q, strip_prefix = \"core\", urls = [%q])\nuse_repo(offload, \"rocm\", \"rocm_files\")\n", coreSum, core)
	w.Module(tag)
	use := []string{"--extra_toolchains=@rocm//:all", "--@rules_offload//rules/settings:device_compiler=rocm", "//:kernels"}
	fails(t, w, "device libraries (amdgcn/bitcode/ockl.bc) is missing in the archive", use...)

	overlay := func(name, url, sum, rest string) string {
		return fmt.Sprintf("offload.overlay(name = %q, sha256 = %q, urls = [%q]%s)\n", name, sum, url, rest)
	}
	w.Module(tag +
		overlay("rocm", more, moreSum, `, strip_prefix = "more"`) +
		overlay("rocm", bitcode, bitcodeSum, `, directory = "lib/llvm/amdgcn/bitcode", platform = "linux-x86_64"`))
	succeeds(t, w, use...)
	if result := w.Bazel("query", "@rocm_files//:rocprim"); !strings.Contains(result.Stdout, "//:rocprim") {
		t.Errorf("no rocprim: %s", result.Output)
	}
	base := strings.TrimSpace(w.Bazel("info", "output_base").Stdout)
	versions, err := filepath.Glob(filepath.Join(base, "external", "*rocm_files", "rocm", "share", "hip", "version"))
	if err != nil || len(versions) != 1 {
		t.Fatalf("%q, %v", versions, err)
	}
	if content, err := os.ReadFile(versions[0]); err != nil || string(content) != "new" {
		t.Errorf("the version is %q, %v, want that of the second archive", content, err)
	}

	for tags, want := range map[string]string{
		tag + overlay("rock", more, moreSum, ""):                                                                 `offload.overlay: "rock" is not the name of a tag archive_rocm`,
		tag + overlay("rocm", more, moreSum, `, platform = "linux-aarch64"`):                                     `offload.overlay: "rocm": the tag archive_rocm is not for linux-aarch64, but for linux-x86_64`,
		`offload.archive_clang(name = "a")`:                                                                      `offload.archive_clang: "a" has no urls: set urls, or platforms`,
		`offload.archive_clang(name = "a", platforms = {"x": []}, urls = ["b"])`:                                 `offload.archive_clang: "a" has platforms, and urls or a checksum of one download`,
		`offload.archive_clang(name = "a", platforms = {"linux-x86_64": ["b"]}, checksums = {"linux-arm": "c"})`: `offload.archive_clang: "a": "linux-arm" is not in platforms: found linux-x86_64`,
		"offload.from_source()\noffload.from_source()":                                                           `offload.from_source: found 2 tags, expected one`,
	} {
		w.Module(tags)
		fails(t, w, want, "//:kernels")
	}
}

// moduleWith returns the MODULE.bazel of a module with tags of the extension.
func moduleWith(name, tags string) string {
	return fmt.Sprintf(`module(name = %q, version = "1.0")

bazel_dep(name = "rules_offload")

offload = use_extension("@rules_offload//rules:extensions.bzl", "offload")
%s`, name, tags)
}

// TestTagsOfDependencies uses compilers that modules below the root module declare.
func TestTagsOfDependencies(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), bazeltest.Kernels())
	rocm, sum := archive(t, w, "rocm.tar", map[string]string{
		"include/hip/hip_runtime.h":       "",
		"include/rocprim/rocprim.hpp":     "#include <hip/hip_runtime.h>\n",
		"lib/llvm/amdgcn/bitcode/ockl.bc": "",
		"lib/llvm/bin/clang":              "",
		"lib/llvm/bin/ld.lld":             "",
		"share/hip/version":               "",
	})
	tag := func(flags string) string {
		return fmt.Sprintf("offload.archive_rocm(name = \"rocm\", compile_flags = [%s], sha256 = %q, urls = [%q])\n", flags, sum, rocm)
	}
	const deps = `
bazel_dep(name = "one", version = "1.0")
local_path_override(module_name = "one", path = "one")
bazel_dep(name = "two", version = "1.0")
local_path_override(module_name = "two", path = "two")
`
	const use = "use_repo(offload, \"rocm\")\n"
	w.Write(".bazelignore", "one\ntwo\n")
	w.Write("one/BUILD.bazel", `load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(name = "sorted", deps = ["@rules_offload//rocm:rocprim"], visibility = ["//visibility:public"])

cc_library(name = "multiplied", deps = ["@rules_offload//rocm:rocblas"], visibility = ["//visibility:public"])
`)
	w.Write("two/BUILD.bazel", "")
	withCc := "bazel_dep(name = \"rules_cc\", version = \"0.0.17\")\n"
	register := "register_toolchains(\"@rocm//:all\")\n"
	w.Write("one/MODULE.bazel", moduleWith("one", tag("")+use+withCc+register))
	w.Write("two/MODULE.bazel", moduleWith("two", tag("")+use))
	w.Module(deps)
	compiler := []string{"--@rules_offload//rules/settings:device_compiler=rocm", "//:kernels", "@one//:sorted"}
	succeeds(t, w, compiler...)

	// The library has the name that all modules share, and comes from the ROCm of the compiler.
	if deps := w.Bazel("cquery", "deps(@one//:sorted)", compiler[0]).Stdout; !strings.Contains(deps, "rocm_files//:rocprim") || strings.Contains(deps, "offload_system_clang//:rocprim") {
		t.Errorf("rocprim is not that of the module's ROCm:\n%s", deps)
	}
	fails(t, w, "//rocm:rocblas: rocblas is not in "+rocm+", which has hip, hip_headers, rocprim: install it there, or use another ROCm", compiler[0], "@one//:multiplied")
	w.Module(deps + "offload.system_clang(name = \"plain\", rocm_path = \"none\")\nuse_repo(offload, \"plain\")\n")
	fails(t, w, "//rocm:rocblas: rocblas is not in ROCm, which was not found on this machine: install it there",
		"--extra_toolchains=@plain//:all", "--@rules_offload//rules/settings:device_compiler=plain", "@one//:multiplied")

	flagsOf := func() []string {
		for _, command := range w.Commands(`mnemonic("OffloadHipCompile", //:kernels)`, compiler[0]) {
			return command.Arguments
		}
		t.Fatal("no compilation")
		return nil
	}
	// The root module decides.
	w.Write("two/MODULE.bazel", moduleWith("two", tag(`"-DTWO"`)+use))
	w.Module(deps + tag(`"-DROOT"`))
	if flags := flagsOf(); !slices.Contains(flags, "-DROOT") || slices.Contains(flags, "-DTWO") {
		t.Errorf("the compilation has %q, want the flag of the root module", flags)
	}
	w.Module(deps)
	fails(t, w, `offload.archive_rocm: the modules one@1.0 and two@1.0 declare "rocm" differently (compile_flags): declare it in the root module, whose tag is then used for both: offload.archive_rocm(name = "rocm", ...)`, compiler...)
	w.Write("two/MODULE.bazel", moduleWith("two", `offload.system_clang(name = "rocm")`+"\n"+use))
	fails(t, w, `the modules one@1.0 and two@1.0 declare "rocm" differently (archive_rocm and system_clang)`, compiler...)

	// Whether the compiler of the machine is another one, only the root module says.
	w.Write("two/MODULE.bazel", moduleWith("two", `offload.system_clang(path = "/nowhere")`))
	succeeds(t, w, "//:kernels")
}

// TestTidy checks which repositories `bazel mod tidy` imports into the root module. Bazel gives the changes to buildozer, in
// whose place a program writes them to a file.
func TestTidy(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), nil)
	module, err := os.ReadFile(filepath.Join(w.Dir, "MODULE.bazel"))
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(module), "use_repo(")
	if !found {
		t.Fatalf("%s", module)
	}
	_, _ = w.Try("mod", "tidy") // which makes the directory of buildozer
	base := strings.TrimSpace(w.Bazel("info", "output_base").Stdout)
	directories, err := filepath.Glob(filepath.Join(base, "external", "buildozer*buildozer_binary"))
	if err != nil || len(directories) != 1 {
		t.Fatalf("%q, %v", directories, err)
	}
	log := filepath.Join(w.Dir, "changes")
	if err := os.WriteFile(filepath.Join(directories[0], "buildozer.exe"), []byte("#!/bin/sh\nexec cat > "+log+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const (
		dev  = "dev = use_extension(\"@rules_offload//rules:extensions.bzl\", \"offload\", dev_dependency = True)\n"
		tags = "offload.system_clang(name = \"of_users\", path = \"/sw\")\n"
	)
	for _, test := range []struct {
		name, tags string
		want       []string
	}{
		{"no tags", "", []string{"use_repo_add offload offload_system_clang|"}},
		{"tags", tags + "offload.prebuilt(name = \"mine\", urls = [\"file:///mine\"])\n", []string{"use_repo_add offload mine of_users|"}},
		{"tags of tests", dev + "dev.system_clang(name = \"of_tests\", path = \"/sw\")\n" + tags, []string{"use_repo_add offload of_users|", "use_repo_add dev of_tests|"}},
		{"others", tags + "use_repo(offload, \"of_users\", \"offload_programs\")\n", []string{"use_repo_remove offload offload_programs|"}},
	} {
		w.Write("MODULE.bazel", before+test.tags)
		w.Write("changes", "")
		w.Bazel("mod", "tidy")
		changes, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if !strings.Contains(string(changes), want) {
				t.Errorf("%s: want %s in %s", test.name, want, changes)
			}
		}
	}
}

// TestOtherBazel uses an output base with the repositories of another release of Bazel.
func TestOtherBazel(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), bazeltest.Kernels())
	succeeds(t, w, "//:fat")
	base := strings.TrimSpace(w.Bazel("info", "output_base").Stdout)
	files, err := filepath.Glob(filepath.Join(base, "external", "*offload_bazel", "version.bzl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	ours, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	theirs := strings.Replace(string(ours), "MULTIPLEX_SANDBOXING = True", "MULTIPLEX_SANDBOXING = False", 1)
	if theirs == string(ours) {
		t.Fatalf("%s", ours)
	}
	w.Bazel("shutdown")
	if err := os.WriteFile(files[0], []byte(theirs), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, command := range w.Commands(`mnemonic("OffloadBundle", //:fat)`) {
		if _, ok := command.Requirements["supports-multiplex-sandboxing"]; !ok {
			t.Errorf("the requirements are those of the other Bazel: %v", command.Requirements)
		}
	}
}

// TestPlatforms uses the compilers and programs of two execution platforms, which one tag declares.
func TestPlatforms(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), map[string]string{
		"BUILD.bazel": `load("@rules_offload//rules:defs.bzl", "hip_code_objects", "offload_bundle")

[
    platform(name = cpu, constraint_values = ["@platforms//cpu:" + cpu, "@platforms//os:linux"])
    for cpu in ["aarch64", "riscv64", "x86_64"]
]

hip_code_objects(name = "kernels", srcs = ["a.hip"], offload_archs = ["gfx942"])

offload_bundle(name = "fat", images = [":kernels"])
`,
		"a.hip": "",
		// A C++ toolchain that runs anywhere: compilations prefer an execution platform that has one.
		"cc/BUILD.bazel": bazeltest.CcToolchain{CPU: "x86_64", Config: `compiler = "gcc", tool_paths = {tool: "/bin/false" for tool in TOOLS}`}.BuildFile(),
	})
	compiler := func(name string) (string, string) {
		return archive(t, w, name+".tar", map[string]string{name + "/bin/clang": "", name + "/bin/ld.lld": ""})
	}
	x86, x86Sum := compiler("x86")
	arm, armSum := compiler("arm")
	program := "file://" + filepath.Join(w.Dir, "tools/offload")
	content, err := os.ReadFile(filepath.Join(w.Dir, "tools/offload"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	w.Module(fmt.Sprintf(`
offload.archive_clang(
    name = "llvm",
    checksums = {"linux-aarch64": %q, "linux-x86_64": %q},
    platforms = {"linux-aarch64": [%q], "linux-riscv64": ["file:///nowhere"], "linux-x86_64": [%q]},
    strip_prefix = "x86",
    strip_prefixes = {"linux-aarch64": "arm"},
)
offload.prebuilt(
    name = "program",
    checksums = {"linux-aarch64": "%x", "linux-x86_64": "sha256-%s"},
    platforms = {"linux-aarch64": [%[7]q], "linux-x86_64": [%[7]q]},
)
use_repo(offload, "llvm", "program")
`, armSum, x86Sum, arm, x86, sum, base64.StdEncoding.EncodeToString(sum[:]), program))
	flags := []string{"--extra_toolchains=//cc:toolchain,@llvm//:all,@program//:all", "--@rules_offload//rules/settings:device_compiler=llvm"}

	for cpu, other := range map[string]string{"x86_64": "aarch64", "aarch64": "x86_64"} {
		platform := "--extra_execution_platforms=//:" + cpu
		all := w.Commands(`mnemonic("Offload(HipCompile|DeviceLink|Bundle)", deps(//:fat))`, append(flags, platform)...)
		if len(all) != 3 {
			t.Errorf("%s: %d actions, want 3", cpu, len(all))
		}
		for _, command := range all {
			ofOther := func(argument string) bool { return strings.Contains(argument, "linux_"+other) }
			if !strings.HasSuffix(command.Arguments[0], "program_linux_"+cpu+"/offload") || slices.ContainsFunc(command.Arguments, ofOther) {
				t.Errorf("%s: %s runs %q", cpu, command.Mnemonic, command.Arguments)
			}
			compiler := func(argument string) bool { return strings.HasSuffix(argument, "llvm_linux_"+cpu+"/bin/clang") }
			if command.Mnemonic != "OffloadBundle" && !slices.ContainsFunc(command.Arguments, compiler) {
				t.Errorf("%s: %s does not run the compiler of the platform: %q", cpu, command.Mnemonic, command.Arguments)
			}
			if want := "//:" + cpu; !strings.HasSuffix(command.Platform, want) {
				t.Errorf("%s is for the platform %s, want %s", command.Mnemonic, command.Platform, want)
			}
		}
	}
	names := fetched(t, w)
	if slices.Contains(names, "llvm_linux_riscv64") || !slices.Contains(names, "llvm_linux_aarch64") {
		t.Errorf("fetched %q", names)
	}
}

// TestNative checks that Bazel looks for GPUs only where "native" is used.
func TestNative(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), map[string]string{
		"BUILD.bazel": `load("@rules_offload//rules:defs.bzl", "hip_code_objects", "offload_bundle", "offload_per_arch")
load("@rules_offload//rules/private:rocm_library.bzl", "rocm_library")

hip_code_objects(name = "kernels", srcs = ["a.hip"])

offload_per_arch(name = "named", images = [":kernels"], offload_archs = ["gfx90a", "mi300"])

offload_per_arch(name = "of_setting", images = [":kernels"])

offload_bundle(name = "fat", images = [":of_setting"])

rocm_library(name = "library", data = ["Kernels_gfx90a.co", "Kernels_gfx942.co"])

filegroup(name = "data", srcs = [":library"], output_group = "data")
`,
		"a.hip":             "__attribute__((global)) void a() {}\n",
		"Kernels_gfx90a.co": "",
		"Kernels_gfx942.co": "",
	})
	setting := "--@rules_offload//rules/settings:offload_archs="
	succeeds(t, w, "//:named", "//:fat", "//:library", setting+"gfx1100,cdna2")
	if names := fetched(t, w); slices.Contains(names, "offload_native") {
		t.Errorf("without native, Bazel looked for GPUs: fetched %q", names)
	}
	native := []string{setting + "native", "--repo_env=OFFLOAD_ARCHS=gfx942,gfx1100"}
	var archs []string
	for _, command := range w.Commands(`mnemonic("OffloadHipCompile", deps(//:fat))`, native...) {
		for _, argument := range command.Arguments {
			if arch, ok := strings.CutPrefix(argument, "--offload-arch="); ok {
				archs = append(archs, arch)
			}
		}
	}
	slices.Sort(archs)
	if want := []string{"gfx1100", "gfx942"}; !slices.Equal(archs, want) {
		t.Errorf("native: compiled for %q, want %q", archs, want)
	}
	result := w.Bazel(append([]string{"cquery", "//:data", "--output=files"}, native...)...)
	if got := strings.TrimSpace(result.Stdout); got != "Kernels_gfx942.co" {
		t.Errorf("native: the data of a library are %q", got)
	}
	if names := fetched(t, w); !slices.Contains(names, "offload_native") {
		t.Errorf("with native, Bazel did not look for GPUs: fetched %q", names)
	}
}

// TestFromSource builds the program with a stand-in for Go: one line says what analysis waits for.
func TestFromSource(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), map[string]string{"BUILD.bazel": "exports_files([\"go\"])\n"})
	w.WriteProgram("go", "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\necho '#!/bin/sh' > \"$2\"\nchmod +x \"$2\"\n")
	w.Module("\noffload.from_source(go = \"//:go\")\nuse_repo(offload, \"offload_programs\")\n")
	result := w.Bazel("build", "--nobuild", "@rules_offload//rules/toolchain:program", "--extra_toolchains=@offload_programs//:all")
	if want := "offload: Go builds the program for linux/amd64 from source: a minute or two the first time"; strings.Count(result.Output, want) != 1 {
		t.Errorf("expected one line with %q in\n%s", want, result.Output)
	}
}
