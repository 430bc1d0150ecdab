package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
)

// bare is a rule with as many actions as a hip_library of four sources for four GPUs, and no other
// work.
const bare = `def _bare_impl(ctx):
    outs = []
    for i in range(50):
        out = ctx.actions.declare_file("{}/{}.o".format(ctx.label.name, i))
        args = ctx.actions.args()
        args.add("-o", out)
        args.add(ctx.files.srcs[i % 4])
        ctx.actions.run(executable = ctx.executable._program, arguments = [args], inputs = [ctx.files.srcs[i % 4]], outputs = [out])
        outs.append(out)
    return [DefaultInfo(files = depset(outs))]

bare = rule(
    implementation = _bare_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = True),
        "_program": attr.label(default = "@rules_offload//rules/toolchain:program", executable = True, cfg = "exec"),
    },
)
`

// libraries makes count libraries of four sources: HIP for four GPUs below hip/,
// C++ below cc/, and targets with bare actions below bare/.
func libraries(count int) map[string]string {
	const each = 30
	files := map[string]string{"BUILD.bazel": "", "bare/BUILD.bazel": "", "bare/bare.bzl": bare}
	for p := range (count + each - 1) / each {
		n := min(each, count-p*each)
		files[fmt.Sprintf("hip/p%d/BUILD.bazel", p)] = fmt.Sprintf(`load("@rules_offload//rules:defs.bzl", "hip_library")

[
    hip_library(
        name = "l%%d" %% i,
        srcs = ["s%%d.hip" %% s for s in range(4)],
        offload_archs = ["gfx90a", "gfx942", "gfx1100", "gfx1201"],
    )
    for i in range(%d)
]
`, n)
		files[fmt.Sprintf("cc/p%d/BUILD.bazel", p)] = fmt.Sprintf(`load("@rules_cc//cc:defs.bzl", "cc_library")

[
    cc_library(
        name = "l%%d" %% i,
        srcs = ["s%%d.cc" %% s for s in range(4)],
    )
    for i in range(%d)
]
`, n)
		files[fmt.Sprintf("bare/p%d/BUILD.bazel", p)] = fmt.Sprintf(`load("//bare:bare.bzl", "bare")

[
    bare(
        name = "l%%d" %% i,
        srcs = ["s%%d.cc" %% s for s in range(4)],
    )
    for i in range(%d)
]
`, n)
		for s := range 4 {
			files[fmt.Sprintf("bare/p%d/s%d.cc", p, s)] = ""
			files[fmt.Sprintf("hip/p%d/s%d.hip", p, s)] = ""
			files[fmt.Sprintf("cc/p%d/s%d.cc", p, s)] = ""
		}
	}
	return files
}

// analysis is the cost of analyzing targets.
type analysis struct {
	seconds float64 // processor time of the server
	heap    int     // MB after garbage collection
}

// analyze analyzes targets again, in a configuration that is new to the server.
func analyze(t *testing.T, w *bazeltest.Workspace, round int, target string) analysis {
	t.Helper()
	pid := strings.TrimSpace(w.Bazel("info", "server_pid").Stdout)
	before := processorTime(t, pid)
	w.Bazel("build", "--nobuild", "--define", fmt.Sprintf("round=%d", round), target)
	seconds := processorTime(t, pid) - before
	heap := strings.TrimSuffix(strings.TrimSpace(w.Bazel("info", "used-heap-size-after-gc").Stdout), "MB")
	megabytes, err := strconv.Atoi(heap)
	if err != nil {
		t.Fatal(err)
	}
	return analysis{seconds, megabytes}
}

// processorTime returns the seconds that a process used.
func processorTime(t *testing.T, pid string) float64 {
	t.Helper()
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	ticks := 0.0
	for _, field := range strings.Fields(rest)[11:13] {
		n, err := strconv.ParseFloat(field, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return ticks / 100
}

func median(values []float64) float64 {
	values = slices.Clone(values)
	slices.Sort(values)
	return values[len(values)/2]
}

// TestAnalysis compares the analysis of 1,200 hip_library targets, or of sixty without -full, with
// that of as many cc_library targets, and with as many actions of a rule that only declares them.
// The program is prebuilt.
func TestAnalysis(t *testing.T) {
	count := 60
	if *full {
		count = 1200
	}
	w := bazeltest.New(t, t.TempDir(), libraries(count))
	var ratios []float64
	for round := range 2 * rounds() {
		cc := analyze(t, w, round, "//cc/...")
		bare := analyze(t, w, round, "//bare/...")
		hip := analyze(t, w, round, "//hip/...")
		t.Logf("%d libraries: %.1f s and %d MB for cc_library; %.1f s and %d MB for bare actions; %.1f s and %d MB for hip_library", count, cc.seconds, cc.heap, bare.seconds, bare.heap, hip.seconds, hip.heap)
		if round > 0 { // The first round is slow, and loads packages.
			ratios = append(ratios, hip.seconds/cc.seconds)
		}
	}
	t.Logf("%d libraries: hip_library takes %.2f times as long, median of %d", count, median(ratios), len(ratios))
}

// TestChain analyzes chains of device_deps. The time must grow with their length,
// not with its square.
func TestChain(t *testing.T) {
	files := map[string]string{"a.hip": ""}
	for _, depth := range []int{100, 200} {
		files[fmt.Sprintf("chain%d/BUILD.bazel", depth)] = fmt.Sprintf(`load("@rules_offload//rules:defs.bzl", "hip_library")

[
    hip_library(
        name = "l%%d" %% i,
        srcs = ["//:a.hip"],
        device_deps = [":l%%d" %% (i - 1)] if i else [],
        device_link = i == %[1]d - 1,
        offload_archs = ["gfx90a", "gfx942"],
        rdc = True,
    )
    for i in range(%[1]d)
]
`, depth)
	}
	files["BUILD.bazel"] = `exports_files(["a.hip"])` + "\n"
	w := bazeltest.New(t, t.TempDir(), files)
	var ratios []float64
	for round := range 4 {
		short := analyze(t, w, round, "//chain100:l99")
		long := analyze(t, w, round, "//chain200:l199")
		t.Logf("%.2f s for 100 libraries, %.2f s for 200", short.seconds, long.seconds)
		if round > 0 {
			ratios = append(ratios, long.seconds/short.seconds)
		}
	}
	if ratio := median(ratios); ratio > 3 {
		t.Errorf("a chain of twice the length takes %.1f times as long, want 2", ratio)
	}
}
