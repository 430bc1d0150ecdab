// Package scale measures what Bazel and `offload` need for workspaces with many bundles.
package scale

import (
	"flag"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/bazeltest"
	"github.com/rules-offload/rules_offload/tests/internal/workspaces"
)

func TestMain(m *testing.M) { llvm.Main(m) }

// elapsed matches the time of a build, in seconds, in Bazel's output.
var elapsed = regexp.MustCompile(`Elapsed time: ([0-9.]+)s`)

// seconds returns the time of a build.
func seconds(t testing.TB, result *bazeltest.Result) float64 {
	t.Helper()
	match := elapsed.FindStringSubmatch(result.Output)
	if match == nil {
		t.Fatalf("Bazel does not say how long it took:\n%s", result.Output)
	}
	took, err := strconv.ParseFloat(match[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return took
}

// full enables measurements. Without it, the tests run once with a few targets.
var full = flag.Bool("full", false, "measure, which takes some minutes")

// rounds is the number of measurements of each variant. The variants alternate, so that other load
// affects all of them.
func rounds() int {
	if *full {
		return 4
	}
	return 1
}

// TestThousandBundles builds a thousand bundles, or twenty without -full, with workers and with a
// process for each, and logs the ratio of the times. The numbers depend on the machine, so the test
// only requires that both succeed.
func TestThousandBundles(t *testing.T) {
	scale := workspaces.Workspace{Packages: 20, Bundles: 50, Archs: []string{
		"gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1031", "gfx1032", "gfx1100", "gfx1101", "gfx1200", "gfx1201",
	}}
	if !*full {
		scale.Packages, scale.Bundles = 2, 10
	}
	workspace := bazeltest.New(t, t.TempDir(), scale.Files())
	// The images are not code, so their validation would fail.
	settings := "--@rules_offload//rules/settings:validation=false"

	build := func(name, runner string, flags ...string) float64 {
		t.Helper()
		want := scale.Count()
		if runner == "" {
			want = 0
		} else {
			workspace.Bazel("clean")
			workspace.Bazel("build", "//...", settings, "--nobuild")
		}
		result := workspace.Bazel(append([]string{"build", "//...", settings}, flags...)...)
		if got := result.Count("OffloadBundle"); got != want {
			t.Errorf("%s: %d bundles were made, want %d", name, got, want)
		}
		for _, spawn := range result.Spawns {
			if spawn.Runner != runner {
				t.Fatalf("%s was run by %s, want %s", spawn.Mnemonic, spawn.Runner, runner)
			}
		}
		return seconds(t, result)
	}
	worker := func() float64 {
		return build("multiplex worker", "worker", "--strategy=OffloadBundle=worker")
	}
	worker() // The first build of a Bazel server is slow.
	ratios := map[string][]float64{}
	for range rounds() {
		base := worker()
		t.Logf("multiplex worker: %.1f ms for each bundle", base*1000/float64(scale.Count()))
		for _, way := range []struct {
			name, runner string
			flags        []string
		}{
			{"nothing to do", "", nil},
			{"process", "local", []string{"--strategy=OffloadBundle=local"}},
			{"process in a sandbox", "linux-sandbox", []string{"--strategy=OffloadBundle=linux-sandbox"}},
		} {
			ratios[way.name] = append(ratios[way.name], build(way.name, way.runner, way.flags...)/base)
		}
	}
	for name, all := range ratios {
		slices.Sort(all)
		t.Logf("%s: %.2f … %.2f times the worker", name, all[0], all[len(all)-1])
	}
}
