package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

// library is a kernel library built by these rules, and by a genrule that calls clang once for all
// sources and architectures.
type library struct {
	Copies int      // copies of each of the project's kernels, under other names
	Archs  []string // the architectures
	edits  int
}

// kernels are the sources of //kernels, and header is the header that all of them include.
var kernels = []string{"gemm", "reduce", "scan"}

const header = "kernels/device.h"

// kernelsFolder returns where the sources of //kernels are.
func kernelsFolder(t testing.TB) string {
	t.Helper()
	if root.Bazel() {
		header, err := root.Runfile("KERNELS_HEADER")
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(header)
	}
	project, err := root.Project()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(project, "kernels")
}

func (l *library) sources() []string {
	var sources []string
	for copied := range l.Copies {
		for _, name := range kernels {
			sources = append(sources, fmt.Sprintf("%s_%d.hip", name, copied))
		}
	}
	return sources
}

// files are the sources and the BUILD file. Both targets are for the same
// architectures, with the same flags.
func (l *library) files(t testing.TB) map[string]string {
	t.Helper()
	files := map[string]string{"BUILD.bazel": l.buildFile()}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(kernelsFolder(t), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	files[header] = read("device.h")
	for copied := range l.Copies {
		// Kernels have names such as sum_f32, and each must be unique.
		rename := strings.NewReplacer("32(", fmt.Sprintf("32_%d(", copied), "64(", fmt.Sprintf("64_%d(", copied))
		for _, name := range kernels {
			files[fmt.Sprintf("%s_%d.hip", name, copied)] = rename.Replace(read(name + ".hip"))
		}
	}
	return files
}

func (l *library) buildFile() string {
	var archs, flags, sources strings.Builder
	for _, arch := range l.Archs {
		fmt.Fprintf(&archs, "%q, ", arch)
		fmt.Fprintf(&flags, " --offload-arch=%s", arch)
	}
	for _, source := range l.sources() {
		fmt.Fprintf(&sources, "%q, ", source)
	}
	return fmt.Sprintf(`load("@rules_offload//rules:defs.bzl", "hip_code_objects", "offload_bundle")

SOURCES = [%[1]s]

hip_code_objects(
    name = "code",
    srcs = SOURCES,
    hdrs = ["kernels/device.h"],
    copts = ["-O3"],
    offload_archs = [%[2]s],
)

offload_bundle(
    name = "rules",
    images = [":code"],
)

genrule(
    name = "genrule",
    srcs = SOURCES + ["kernels/device.h"],
    outs = ["genrule.hipfb"],
    cmd = "%[4]s/clang -x hip -nogpuinc -nogpulib -O3 -I. -fgpu-rdc --offload-device-only%[3]s " +
          " ".join(["$(location %%s)" %% s for s in SOURCES]) + " -o $@",
)
`, sources.String(), archs.String(), flags.String(), llvm.Dir)
}

// edit appends text to a file, different each time.
func (l *library) edit(t testing.TB, workspace *bazeltest.Workspace, name string) {
	t.Helper()
	l.edits++
	content, err := os.ReadFile(filepath.Join(workspace.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("static __device__ __attribute__((used)) int edit_%d = %[1]d;\n", l.edits)
	if name != header {
		text = fmt.Sprintf("extern \"C\" __global__ void edit_%d(int *out) { *out = %[1]d; }\n", l.edits)
	}
	workspace.Write(name, string(content)+text)
}

// TestChanges makes changes repeatedly: everything, one more architecture, and another edited
// source. It logs the ratio of the times that a genrule and these rules take until the bundle is up
// to date.
func TestChanges(t *testing.T) {
	archs := []string{"gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx906", "gfx1201", "gfx908", "gfx1101"}
	type size struct {
		name           string
		copies, before int
		more           []string
	}
	sizes := []size{{"small", 1, 2, archs[2:5]}, {"large", 4, 5, archs[5:]}}
	if !*full {
		sizes = []size{{"tiny", 1, 1, archs[1:2]}}
	}
	for _, size := range sizes {
		t.Run(size.name, func(t *testing.T) {
			compareWithGenrule(t, &library{Copies: size.copies, Archs: slices.Clone(archs[:size.before])}, size.more)
		})
	}
}

func compareWithGenrule(t *testing.T, lib *library, more []string) {
	workspace := bazeltest.New(t, t.TempDir(), lib.files(t))
	workspace.Bazel("build", "//...") // The first build of a Bazel server is slow.
	var changes []string
	ratios := map[string][]float64{}
	turn := 0
	compare := func(change string) {
		t.Helper()
		targets := []string{"//:rules", "//:genrule"}
		if turn++; turn%2 == 0 {
			slices.Reverse(targets)
		}
		took, actions := map[string]float64{}, map[string]int{}
		for _, target := range targets {
			result := workspace.Bazel("build", target)
			took[target], actions[target] = seconds(t, result), result.Count("")
		}
		ratio := took["//:genrule"] / took["//:rules"]
		if ratios[change] == nil {
			changes = append(changes, change)
		}
		ratios[change] = append(ratios[change], ratio)
		t.Logf("%d sources, %d architectures, %s: the genrule takes %.1f times as long (%.1f s, %.1f s for %d actions of the rules)",
			len(lib.sources()), len(lib.Archs), change, ratio, took["//:genrule"], took["//:rules"], actions["//:rules"])
	}
	for range min(2, rounds()) {
		lib.edit(t, workspace, header)
		compare("everything changed")
	}
	for _, arch := range more {
		lib.Archs = append(lib.Archs, arch)
		workspace.Write("BUILD.bazel", lib.buildFile())
		compare("one architecture added")
		for range min(2, rounds()) {
			sources := lib.sources()
			lib.edit(t, workspace, sources[lib.edits%len(sources)])
			compare("one source edited")
		}
	}
	for _, change := range changes {
		all := ratios[change]
		slices.Sort(all)
		t.Logf("%s: %.1f … %.1f times, median %.1f, of %d", change, all[0], all[len(all)-1], all[len(all)/2], len(all))
	}
}
