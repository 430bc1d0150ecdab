// Package incremental checks that a change costs what depends on it and no
// more, and that a build survives the death of the worker.
package incremental

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/tests/bazeltest"
	"github.com/rules-offload/rules_offload/tests/llvm"
)

func TestMain(m *testing.M) { llvm.Main(m) }

// work is what a build did: for each mnemonic, the outputs below bazel-bin.
func work(result *bazeltest.Result) map[string][]string {
	done := map[string][]string{}
	for _, spawn := range result.Spawns {
		for _, output := range spawn.Outputs {
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

// killWorkers kills the workers of the Bazel server of an execution root, and
// returns how many there were.
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
		// Other tests, and the build that runs this one, have workers as well.
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
