// Package kernels checks the bundle //:kernels_fat with LLVM's tools and ROCm's code object
// manager.
package kernels

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
	"github.com/rules-offload/rules_offload/tests/internal/comgr"
)

// targets are the target IDs of //kernels, with the machine that llvm-readelf prints for the flags
// of a code object.
var targets = map[string]string{
	"gfx906":        "gfx906",
	"gfx90a:xnack+": "gfx90a, xnack+",
	"gfx90a:xnack-": "gfx90a, xnack-",
	"gfx942":        "gfx942",
	"gfx1030":       "gfx1030",
	"gfx1100":       "gfx1100",
	"gfx1201":       "gfx1201",
}

func entryID(targetID string) string { return "hipv4-amdgcn-amd-amdhsa--" + targetID }

func TestMain(m *testing.M) {
	llvm.Main(m, comgr.Header, "cc")
}

// built returns the bundle and the directory of the code objects.
func built(t *testing.T) (bundle, codeObjects string) {
	t.Helper()
	if root.Bazel() {
		bundle, err := root.Runfile("KERNELS_FAT")
		if err != nil {
			t.Fatal(err)
		}
		// //kernels has several files, and the variable names all of them.
		paths := strings.Fields(os.Getenv("KERNELS"))
		if len(paths) == 0 {
			t.Fatal("the test rule must set KERNELS to the rlocationpaths of //kernels")
		}
		return bundle, filepath.Dir(filepath.Join(os.Getenv("TEST_SRCDIR"), paths[0]))
	}
	project, err := root.Project()
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command(filepath.Join(project, "bazelw"), "build", "//:kernels_fat", "//kernels")
	build.Dir = project
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(project, "bazel-bin", "kernels_fat.hipfb"), filepath.Join(project, "bazel-bin", "kernels", "kernels")
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

func same(t *testing.T, what string, got []byte, codeObjects, targetID string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join(codeObjects, strings.ReplaceAll(targetID, ":", "_")+".co"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s: the entry for %s (%d bytes) is not the code object that was built (%d bytes)", what, targetID, len(got), len(want))
	}
}

func TestListIsComplete(t *testing.T) {
	bundle, _ := built(t)
	want := []string{"host-x86_64-unknown-linux-gnu-"}
	for targetID := range targets {
		want = append(want, entryID(targetID))
	}
	got := strings.Fields(run(t, llvm.Tool(t, "clang-offload-bundler"), "-list", "-type=o", "-input="+bundle))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +listed):\n%s", diff)
	}
}

func TestLLVMUnbundlesWhatWasBuilt(t *testing.T) {
	bundle, codeObjects := built(t)
	for targetID := range targets {
		out := filepath.Join(t.TempDir(), "entry.co")
		run(t, llvm.Tool(t, "clang-offload-bundler"), "-unbundle", "-type=o", "-input="+bundle, "-targets="+entryID(targetID), "-output="+out)
		content, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "clang-offload-bundler", content, codeObjects, targetID)
	}
}

// kernelNames has one kernel of each source.
var kernelNames = []string{"gemm_f32", "max_f32", "scan_inclusive_i32"}

func TestCodeObjectsAreForTheirTargets(t *testing.T) {
	_, codeObjects := built(t)
	for targetID, machine := range targets {
		file := filepath.Join(codeObjects, strings.ReplaceAll(targetID, ":", "_")+".co")
		header := run(t, llvm.Tool(t, "llvm-readelf"), "--file-header", file)
		for _, want := range []string{"EM_AMDGPU", "DYN", machine} {
			if !strings.Contains(header, want) {
				t.Errorf("%s: llvm-readelf does not say %q:\n%s", targetID, want, header)
			}
		}
		symbols := run(t, llvm.Tool(t, "llvm-readelf"), "--dyn-syms", file)
		for _, kernel := range kernelNames {
			if !strings.Contains(symbols, " "+kernel+".kd\n") {
				t.Errorf("%s: there is no kernel %s:\n%s", targetID, kernel, symbols)
			}
		}
	}
}

// TestCodeObjectManager unbundles with ROCm's code object manager, which the HIP runtime uses.
func TestCodeObjectManager(t *testing.T) {
	bundle, codeObjects := built(t)
	var targetIDs, entryIDs []string
	for targetID := range targets {
		targetIDs = append(targetIDs, targetID)
		entryIDs = append(entryIDs, entryID(targetID))
	}
	for i, content := range comgr.New(t).Unbundle(bundle, entryIDs...) {
		same(t, "code object manager", content, codeObjects, targetIDs[i])
	}
}
