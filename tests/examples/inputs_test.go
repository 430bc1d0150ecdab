package examples

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

// compilers replaces the compiler of the machine in MODULE.bazel of an example by archives: clang,
// and a C++ toolchain with a sysroot.
const compilers = `
http_archive = use_repo_rule("@bazel_tools//tools/build_defs/repo:http.bzl", "http_archive")

http_archive(
    name = "toolchain",
    build_file = "//prebuilt:toolchain.BUILD",
    sha256 = %[1]q,
    urls = [%[2]q],
)

offload = use_extension("@rules_offload//rules:extensions.bzl", "offload")
offload.archive_clang(
    name = "clang",
    sha256 = %[1]q,
    urls = [%[2]q],
)
use_repo(offload, "clang")

register_toolchains("@clang//:all", "@toolchain//:toolchain")
`

// TestInputsAreComplete builds the examples in a sandbox that contains only the inputs of each
// action and a shell: no headers, libraries or compilers of the machine.
func TestInputsAreComplete(t *testing.T) {
	file := func(name string) string { // of this directory
		if !root.Bazel() {
			return name
		}
		return filepath.Join(bazeltest.Sources(t), "tests/examples", name)
	}
	dir := t.TempDir()
	prepare := exec.CommandContext(t.Context(), "bash", file("machine.sh"), filepath.Dir(filepath.Dir(llvm.Tool(t, "clang"))), dir)
	if out, err := prepare.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	archive := filepath.Join(dir, "compiler.tar")
	content, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, content); err != nil {
		t.Fatal(err)
	}
	toolchain, err := os.ReadFile(file("testdata/toolchain.BUILD"))
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"build", "//...", bazeltest.Prebuilt, "--spawn_strategy=linux-sandbox", "--experimental_use_hermetic_linux_sandbox", "--sandbox_add_mount_pair=/proc"}
	for to, from := range map[string]string{"/bin": "bin", "/usr/bin": "bin", "/lib/x86_64-linux-gnu": "lib", "/lib64": "lib64"} {
		flags = append(flags, "--sandbox_add_mount_pair="+filepath.Join(dir, "machine", from)+":"+to)
	}
	for _, example := range []string{"hip_kernels", "monorepo", "openmp_cpu", "remote_execution"} {
		t.Run(example, func(t *testing.T) {
			w := bazeltest.Example(t, example)
			edit(t, w, "MODULE.bazel", func(text string) string {
				before, _, found := strings.Cut(text, "offload = use_extension(")
				if !found {
					t.Fatalf("MODULE.bazel has another form:\n%s", text)
				}
				for name, version := range map[string]string{"platforms": "0.0.10", "rules_cc": "0.0.17"} {
					if !strings.Contains(before, `"`+name+`"`) {
						before += fmt.Sprintf("bazel_dep(name = %q, version = %q)\n", name, version)
					}
				}
				return before + fmt.Sprintf(compilers, fmt.Sprintf("%x", hash.Sum(nil)), "file://"+archive)
			})
			edit(t, w, ".bazelrc", func(text string) string { return strings.ReplaceAll(text, "@offload_system_clang//", "@clang//") })
			w.Write("prebuilt/toolchain.BUILD", string(toolchain))
			result := w.Bazel(flags...)
			if result.Count("OffloadHipCompile")+result.Count("OffloadOpenMpCompile") == 0 {
				t.Error("no device code was compiled")
			}
			for _, spawn := range result.Spawns {
				if spawn.Runner != "linux-sandbox" {
					t.Errorf("%s ran by %s, want linux-sandbox", spawn.Mnemonic, spawn.Runner)
				}
			}
		})
	}
}

// edit changes a file of a workspace.
func edit(t *testing.T, w *bazeltest.Workspace, name string, change func(string) string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	w.Write(name, change(string(text)))
}
