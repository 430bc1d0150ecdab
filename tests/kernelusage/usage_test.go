// Package kernelusage compares the engine's values of kernels with the remarks of the compiler:
// -Rpass-analysis=kernel-resource-usage.
package kernelusage

import (
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/releases"
)

//go:embed program/kernels.hip
var source []byte

func TestMain(m *testing.M) { llvm.Main(m) }

// targets are the processors to compile for, with the compiler flags that change the values.
var targets = []struct {
	arch  string
	flags []string
}{
	{"gfx701", nil},
	{"gfx802", nil}, // each wave has 96 SGPRs
	{"gfx803", nil},
	{"gfx900:xnack+", nil},
	{"gfx906", []string{"-mcode-object-version=4"}},
	{"gfx908", nil},
	{"gfx90a", nil},
	{"gfx942:sramecc+:xnack-", []string{"-mcode-object-version=5"}},
	{"gfx1010", nil},
	{"gfx1030", []string{"-mwavefrontsize64"}},
	{"gfx1032", []string{"-mcumode"}},
	{"gfx1100", []string{"-mwavefrontsize64", "-mcumode"}},
	{"gfx1201", nil},
	{"gfx1250", nil},
}

// kernel has the compared values.
type kernel struct {
	Arch, Name          string
	SGPRs, VGPRs, AGPRs int64
	SGPRSpills          int64 `json:"sgpr_spills"`
	VGPRSpills          int64 `json:"vgpr_spills"`
	Scratch, LDS        int64
	DynamicStack        *bool `json:"dynamic_stack"`
	Occupancy           *struct {
		Waves int64 `json:"waves_per_simd"`
	}
}

func TestCompilerRemarks(t *testing.T) {
	file, clang, offload := writeSource(t), llvm.Tool(t, "clang"), llvm.Offload(t)
	for _, target := range targets {
		t.Run(target.arch+strings.Join(target.flags, ""), func(t *testing.T) {
			t.Parallel()
			compileAndCompare(t, file, offload, clang, target.arch, target.flags)
		})
	}
}

// TestRemarksOfReleases compares with releases of LLVM that count SGPRs in another way. It fetches them, which Bazel's
// tests must not; .ci/run runs it.
func TestRemarksOfReleases(t *testing.T) {
	file, offload := writeSource(t), llvm.Offload(t)
	for number, arch := range map[int]string{23: "gfx90a", 24: "gfx908"} {
		t.Run(strconv.Itoa(number), func(t *testing.T) {
			t.Parallel()
			compileAndCompare(t, file, offload, releases.Get(t, number).Command(t, "clang").Path, arch, nil)
		})
	}
}

func writeSource(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kernels.hip")
	if err := os.WriteFile(file, source, 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// compileAndCompare compares the figures of all kernels in a source.
func compileAndCompare(t *testing.T, file, offload, clang, arch string, flags []string) {
	t.Helper()
	object := filepath.Join(t.TempDir(), "kernels.co")
	args := append([]string{
		"-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc", "-O2", "-w",
		"-Rpass-analysis=kernel-resource-usage", "--offload-arch=" + arch, file, "-o", object,
	}, flags...)
	remarks, err := exec.Command(clang, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, remarks)
	}
	said := parseRemarks(t, string(remarks))
	out, err := exec.Command(offload, "inspect", "--kernels", "--json", object).Output()
	if err != nil {
		t.Fatal(err)
	}
	var kernels []kernel
	if err := json.Unmarshal(out, &kernels); err != nil {
		t.Fatal(err)
	}
	if len(kernels) != len(said) || len(said) < 24 {
		t.Fatalf("%d kernels, the compiler named %d", len(kernels), len(said))
	}
	for _, k := range kernels {
		compare(t, arch, k, said[k.Name])
	}
}

// compare compares a kernel with the remarks on it.
func compare(t *testing.T, arch string, k kernel, said map[string]string) {
	t.Helper()
	if k.Arch != arch {
		t.Errorf("%s: arch %s, want %s", k.Name, k.Arch, arch)
	}
	if k.Occupancy == nil {
		t.Errorf("%s: no occupancy", k.Name)
		return
	}
	dynamic := "nothing said"
	if k.DynamicStack != nil {
		dynamic = map[bool]string{true: "True", false: "False"}[*k.DynamicStack]
	}
	vgprs := k.VGPRs
	if k.AGPRs > 0 {
		// The remark has them separately. The metadata has the sum, or the larger number if the
		// register files are separate.
		vgprs = -1
	}
	for remark, got := range map[string]int64{
		"TotalSGPRs": k.SGPRs, "VGPRs": vgprs, "AGPRs": k.AGPRs, "ScratchSize [bytes/lane]": k.Scratch,
		"Occupancy [waves/SIMD]": k.Occupancy.Waves, "SGPRs Spill": k.SGPRSpills, "VGPRs Spill": k.VGPRSpills,
		"LDS Size [bytes/block]": k.LDS,
	} {
		want, ok := said[remark] // no AGPRs on processors without them
		if !ok && remark == "AGPRs" {
			want = "0"
		}
		if !figure.MatchString(want) {
			// A call through a pointer: the compiler writes the remark before the linker knows the
			// number.
			if !strings.Contains(k.Name, "indirect") {
				t.Errorf("%s: the compiler says %s is %q, want a number", k.Name, remark, want)
			}
			continue
		}
		if g := jsonNumber(got); got >= 0 && g != want {
			t.Errorf("%s: %s is %s, the compiler says %q", k.Name, remark, g, want)
		}
	}
	if k.DynamicStack != nil && dynamic != said["Dynamic Stack"] {
		t.Errorf("%s: dynamic stack: %s, the compiler says %s", k.Name, dynamic, said["Dynamic Stack"])
	}
}

func jsonNumber(n int64) string {
	b, _ := json.Marshal(n)
	return string(b)
}

var figure = regexp.MustCompile(`^[0-9]+$`)

var remark = regexp.MustCompile(`remark: +(.*): (.*) \[-Rpass-analysis=kernel-resource-usage\]`)

// parseRemarks returns the remarks by function and value.
func parseRemarks(t *testing.T, text string) map[string]map[string]string {
	all := make(map[string]map[string]string)
	var current map[string]string
	for _, m := range remark.FindAllStringSubmatch(text, -1) {
		if m[1] == "Function Name" {
			current = make(map[string]string)
			all[m[2]] = current
			continue
		}
		if current == nil {
			t.Fatalf("a remark before the name of a function: %s", m[0])
		}
		current[m[1]] = m[2]
	}
	return all
}
