package compilers

import (
	"encoding/json"
	"fmt"
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

// spilling has kernels that need more registers than they may use, by different amounts.
const spilling = `#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#ifdef __gfx90a__
#define FEW(vgprs) __attribute__((amdgpu_num_vgpr(vgprs)))
#else
#define FEW(vgprs) __attribute__((amdgpu_num_vgpr(vgprs + 40)))
#endif
template <int N> __device__ float sum(float *p) {
  float s = 0;
  for (int i = 0; i < N; i++)
    s += p[i] * p[N - i];
  return s;
}
template <int N> __global__ FEW(12) void reversed(float *p, float *q) {
  float v[N];
  for (int i = 0; i < N; i++)
    v[i] = p[i * 64];
  for (int i = 0; i < N; i++)
    q[i] = v[N - 1 - i] * v[i] + sum<N>(p + i);
}
template __global__ void reversed<8>(float *, float *);
template __global__ void reversed<40>(float *, float *);
template __global__ void reversed<48>(float *, float *);
template <int N> __global__ FEW(40) void table(int *p, int at) {
  int v[N];
  for (int i = 0; i < N; i++)
    v[i] = p[i] ^ i;
  for (int i = 0; i < at; i++)
    v[i % N] += v[(i * 7) % N];
  for (int i = 0; i < N; i++)
    p[i] = v[i];
}
template __global__ void table<16>(int *, int);
template __global__ void table<96>(int *, int);
template <typename T> __global__ FEW(40) void matrix(const T *a, const T *b, T *c) {
  T t[4][4] = {};
  for (int k = 0; k < 8; k++)
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 4; j++)
        t[i][j] += a[i * 8 + k] * b[k * 4 + j];
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++)
      c[i * 4 + j] = t[i][j];
}
template __global__ void matrix<float>(const float *, const float *, float *);
template __global__ void matrix<double>(const double *, const double *, double *);
template __global__ void matrix<_Float16>(const _Float16 *, const _Float16 *, _Float16 *);
namespace {
__attribute__((used)) __global__ FEW(24) void hidden(float *p) {
  float a = p[0], b = p[1], c = p[2], d = p[3];
  for (int i = 0; i < 100; i++) {
    float t = a * b + c;
    a = b * d + p[i];
    b = c - t;
    c = d * t + p[i + 1];
    d = t + a;
  }
  p[0] = a + b + c + d;
}
}
`

// said are the values of a kernel in the remarks of the compiler, by their names in offload diff.
type said map[string]int64

var (
	remarkLine = regexp.MustCompile(`remark: +(.*): (.*) \[-Rpass-analysis=kernel-resource-usage\]`)
	remarkName = map[string]string{
		"TotalSGPRs": "sgprs", "VGPRs": "vgprs", "AGPRs": "agprs", "ScratchSize [bytes/lane]": "scratch",
		"SGPRs Spill": "sgpr_spills", "VGPRs Spill": "vgpr_spills", "LDS Size [bytes/block]": "lds",
	}
)

// compileWithRemarks compiles a source for a GPU with the clang of a release, and returns the
// values of each kernel in its remarks.
func compileWithRemarks(t *testing.T, release releases.Release, source, arch, out string) map[string]said {
	t.Helper()
	cmd := release.Command(t, "clang", "-x", "hip", "--offload-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc", "-O3", "-w",
		"-Rpass-analysis=kernel-resource-usage", "--offload-arch="+arch, "-c", source, "-o", out)
	cmd.Dir = filepath.Dir(source)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, text)
	}
	all := map[string]said{}
	var current said
	for _, match := range remarkLine.FindAllStringSubmatch(string(text), -1) {
		if match[1] == "Function Name" {
			current = said{}
			all[match[2]] = current
			continue
		}
		// For a call through a pointer, the remark has no number: only the linker knows it.
		if n, err := strconv.ParseInt(match[2], 10, 64); err == nil && remarkName[match[1]] != "" {
			current[remarkName[match[1]]] = n
		}
	}
	return all
}

// changed returns a line for each value of a kernel that differs between remarks, and for each kernel that only one compiler names.
func changed(arch string, old, new map[string]said) (lines []string) {
	for name, o := range old {
		n, ok := new[name]
		if !ok {
			lines = append(lines, fmt.Sprintf("%s %s removed", arch, name))
			continue
		}
		for value := range o {
			if known(value, o, n) && o[value] != n[value] {
				lines = append(lines, fmt.Sprintf("%s %s %s %d", arch, name, value, n[value]-o[value]))
			}
		}
	}
	for name := range new {
		if _, ok := old[name]; !ok {
			lines = append(lines, fmt.Sprintf("%s %s added", arch, name))
		}
	}
	return lines
}

// known reports whether both remarks have a value. Metadata has the sum of VGPRs and AGPRs as VGPRs.
func known(value string, o, n said) bool {
	if value == "vgprs" && (o["agprs"] > 0 || n["agprs"] > 0) {
		return false
	}
	_, inOld := o[value]
	_, inNew := n[value]
	return inOld && inNew
}

// difference is the JSON of offload diff.
type difference struct {
	Kernels []struct {
		Arch, Name, Demangled, Change string
		Deltas                        map[string]int64
		NewRemarks                    []struct{ Pass, Text string } `json:"new_remarks"`
	}
	Failures    []struct{ Rule, Arch, Kernel string }
	Suggestions []struct{ Name string }
}

// diff runs offload diff and returns its JSON.
func diff(t *testing.T, args ...string) (d difference) {
	t.Helper()
	out, err := exec.Command(llvm.Offload(t), append([]string{"diff", "--json"}, args...)...).Output()
	if err != nil && len(out) == 0 {
		t.Fatalf("diff %q: %v", args, err)
	}
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestUpgradeCounts compares offload diff of two releases with an independent count: every value in
// the compilers' remarks, of kernels in files and in directories.
func TestUpgradeCounts(t *testing.T) {
	project, err := root.Project()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sources := []string{filepath.Join(dir, "spilling.hip"), filepath.Join(project, "tests/kernelusage/program/kernels.hip")}
	for _, name := range []string{"several", "shared", "tables", "templates"} {
		sources = append(sources, filepath.Join(project, "tests/devicecode/sources", name+".hip"))
	}
	if err := os.WriteFile(sources[0], []byte(spilling), 0o666); err != nil {
		t.Fatal(err)
	}
	archs := []string{"gfx90a:xnack+", "gfx1100"}
	stated := map[int]map[string]map[string]said{} // by release, GPU and kernel
	for _, number := range []int{22, 23, 24} {
		stated[number] = map[string]map[string]said{}
		release := releases.Get(t, number)
		for _, arch := range archs {
			stated[number][arch] = map[string]said{}
			for i, source := range sources {
				if i == 1 && arch != archs[0] {
					continue // it has many kernels
				}
				out := filepath.Join(dir, fmt.Sprint(number), fmt.Sprintf("%d-%s.co", i, arch))
				if err := os.MkdirAll(filepath.Dir(out), 0o777); err != nil {
					t.Fatal(err)
				}
				for name, values := range compileWithRemarks(t, release, source, arch, out) {
					stated[number][arch][fmt.Sprint(i, " ", name)] = values
				}
			}
		}
		// The same code is present twice, as in a library and its archive.
		first, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(number), "0-gfx1100.co"))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprint(number), "copy.co"), first, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, pair := range [][2]int{{22, 23}, {23, 24}, {22, 24}} {
		var want, got []string
		worse := map[string]bool{}
		for _, arch := range archs {
			lines := changed(arch, stated[pair[0]][arch], stated[pair[1]][arch])
			for _, line := range lines {
				words := strings.Fields(line) // GPU, number of the source, kernel, value, change
				want = append(want, strings.Join(slices.Delete(slices.Clone(words), 1, 2), " "))
				if len(words) == 5 && words[4][0] != '-' && slices.Contains([]string{"vgpr_spills", "scratch"}, words[3]) {
					worse[words[0]+" "+words[2]+" "+strings.ReplaceAll(words[3], "_", "-")] = true
				}
			}
		}
		old, new := filepath.Join(dir, fmt.Sprint(pair[0])), filepath.Join(dir, fmt.Sprint(pair[1]))
		d := diff(t, "--fail-on=vgpr_spills,scratch", old, new)
		for _, k := range d.Kernels {
			if k.Change != "changed" {
				got = append(got, k.Arch+" "+k.Name+" "+k.Change)
			}
			for value, delta := range k.Deltas {
				name := k.Arch + " " + k.Name + " " + value
				if value == "code_size" || value == "occupancy" {
					continue // no remark states the size, and LLVM 22 and 23 compute the occupancy by SGPRs differently
				}
				if bothState(stated, pair, k.Arch, k.Name, value) {
					got = append(got, fmt.Sprint(name, " ", delta))
				}
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d to %d (-remarks +offload diff):\n%s", pair[0], pair[1], diff)
		}
		failed := map[string]bool{}
		for _, f := range d.Failures {
			failed[f.Arch+" "+f.Kernel+" "+f.Rule] = true
		}
		if diff := cmp.Diff(worse, failed); diff != "" || len(failed) != len(d.Failures) {
			t.Errorf("%d to %d: regressions (-remarks +offload diff):\n%s", pair[0], pair[1], diff)
		}
		t.Logf("%d to %d: %d changes, %d regressions", pair[0], pair[1], len(want), len(worse))
		if pair[0] == 22 && (len(want) < 20 || len(worse) == 0) {
			t.Errorf("%d to %d: only %d changes, %d regressions", pair[0], pair[1], len(want), len(worse))
		}
	}
}

// bothState reports whether remarks of both releases state a value of a kernel.
func bothState(stated map[int]map[string]map[string]said, pair [2]int, arch, kernel, value string) bool {
	for name, old := range stated[pair[0]][arch] {
		_, symbol, _ := strings.Cut(name, " ")
		if symbol == kernel && known(value, old, stated[pair[1]][arch][name]) {
			return true
		}
	}
	return false
}

const upgradeBuild = `load("@rules_offload//rules:defs.bzl", "hip_binary", "hip_code_objects", "offload_compiler_diff")

hip_code_objects(
    name = "kernels",
    srcs = ["spilling.hip"],
    copts = [
        "-O3",
        "-w",
    ],
    offload_archs = ["gfx90a:xnack+"],
)

[
    offload_compiler_diff(
        name = "upgrade" + suffix,
        accepted = accepted,
        fail_on = ["vgpr-spills", "scratch"],
        new_compiler = "clang_23",
        old_compiler = "offload_system_clang",
        suggest = ["O2", "no-unroll"],
        srcs = [":kernels"],
    )
    for suffix, accepted in {
        "": None,
        "_accepted": "accepted.txt",
    }.items()
]

offload_compiler_diff(
    name = "flags",
    fail_on = ["occupancy"],
    new_compiler = "clang_23",
    new_copts = ["-O1", "-mllvm", "-inline-threshold=1"],
    new_lto = "full",
    old_compiler = "clang_23",
    srcs = [":kernels"],
)
`

// hasRemarks requires remarks of passes about the new code of some kernel.
func hasRemarks(t *testing.T, d difference, passes ...string) {
	t.Helper()
	found := map[string]bool{}
	for _, k := range d.Kernels {
		for _, r := range k.NewRemarks {
			found[r.Pass] = true
		}
	}
	for _, pass := range passes {
		if !found[pass] {
			t.Errorf("no remarks of %s, only %v", pass, found)
		}
	}
}

// testLog returns the output of a test of the workspace.
func testLog(t *testing.T, w *bazeltest.Workspace, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(w.Dir, "bazel-testlogs", name, "test.log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestUpgradeRule builds offload_compiler_diff with two releases and with two sets of flags.
func TestUpgradeRule(t *testing.T) {
	w := bazeltest.New(t, t.TempDir(), map[string]string{"BUILD.bazel": upgradeBuild, "spilling.hip": spilling, "accepted.txt": ""})
	w.Module(fmt.Sprintf("\noffload.system_clang(name = \"clang_23\", path = %q, rocm_path = \"none\")\nuse_repo(offload, \"clang_23\")\nregister_toolchains(\"@clang_23//:all\")\n",
		filepath.Dir(releases.Get(t, 23).Bin())))
	result, err := w.Try("test", "//:upgrade_test")
	message := ""
	if err != nil && strings.Contains(result.Output, "FAIL: //:upgrade_test") {
		message = testLog(t, w, "upgrade_test")
	}
	if !strings.Contains(message, "limits exceeded: ") || !strings.Contains(message, "For the report, run: bazel run //:upgrade") {
		t.Fatalf("%v\n%s\n%s", err, result.Output, message)
	}
	// The result equals that of the verb for the same files.
	var built difference
	if err := json.Unmarshal(w.Read("upgrade.json"), &built); err != nil {
		t.Fatal(err)
	}
	files := map[int]string{}
	for _, number := range []int{22, 23} {
		files[number] = filepath.Join(t.TempDir(), "kernels.co")
		compileWithRemarks(t, releases.Get(t, number), filepath.Join(w.Dir, "spilling.hip"), "gfx90a:xnack+", files[number])
	}
	verb := diff(t, "--fail-on=vgpr_spills,scratch", files[22], files[23])
	if diff := cmp.Diff(verb.Failures, built.Failures); diff != "" || len(verb.Failures) == 0 || len(verb.Kernels) != len(built.Kernels) {
		t.Errorf("-verb +rule:\n%s", diff)
	}
	hasRemarks(t, built, "regalloc", "kernel-resource-usage")
	if strings.Contains(result.Output, "TotalSGPRs") {
		t.Errorf("the build prints remarks:\n%s", result.Output)
	}
	// The lines of the message accept the differences; another line is stale.
	var lines []string
	for _, match := range regexp.MustCompile(`(?m)add to .*?: (.*)$`).FindAllStringSubmatch(message, -1) {
		lines = append(lines, match[1])
	}
	w.Write("accepted.txt", strings.Join(lines, "\n"))
	w.Bazel("test", "//:upgrade_accepted_test")
	w.Write("accepted.txt", strings.Join(append(lines, "scratch gfx90a:xnack+ gone +4"), "\n"))
	if _, err := w.Try("test", "//:upgrade_accepted_test"); err == nil || !strings.Contains(testLog(t, w, "upgrade_accepted_test"), "accepts no difference, delete it: scratch gfx90a:xnack+ gone +4") {
		t.Errorf("a stale line: %v", err)
	}
	result = w.Bazel("build", "//:upgrade", "//:flags", "--output_groups=+suggest")
	if n := result.Count("OffloadHipCompile"); n != 3 {
		t.Errorf("%d compilations, expected 2 for suggestions and 1 for flags", n)
	}
	if strings.Contains(result.Output, "TotalSGPRs") {
		t.Errorf("the build prints remarks:\n%s", result.Output)
	}
	var tried, flags difference
	for name, to := range map[string]*difference{"upgrade.suggest": &tried, "flags": &flags} {
		if err := json.Unmarshal(w.Read(name+".json"), to); err != nil {
			t.Fatal(err)
		}
	}
	hasRemarks(t, flags, "kernel-resource-usage")
	if len(tried.Suggestions) != 2 || len(flags.Kernels) == 0 {
		t.Errorf("%d suggestions, %d kernels differ between flags", len(tried.Suggestions), len(flags.Kernels))
	}
}
