package bundler_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// hostObjects are the inputs to which sections are added.
func hostObjects() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(hosts)), func(name string) bool {
		return filepath.Ext(name) != ".o" && filepath.Ext(name) != ".obj"
	})
}

// Sections are added to host objects as by llvm-objcopy, then listed and removed, and the result is
// the original host object.
func TestObjects(t *testing.T) {
	b := newBench(t)
	var bundles []call
	for i, host := range hostObjects() {
		for _, devices := range [][]string{
			{"openmp-amdgcn-amd-amdhsa--gfx906", "openmp-nvptx64-nvidia-cuda--sm_70"},
			{"hip-amdgcn-amd-amdhsa--gfx90a:xnack+", "hip-amdgcn-amd-amdhsa--gfx90a:xnack-", "hip-amdgcn-amd-amdhsa--gfx1030"},
		} {
			targets, inputs := slices.Clone(devices), []string{"one", "gfx906.o", "empty"}[:len(devices)]
			at := i % (len(devices) + 1)
			targets = slices.Insert(targets, at, hostLinux)
			inputs = slices.Insert(slices.Clone(inputs), at, host)
			bundles = append(bundles, call{args: bundleArgs("o", targets, inputs, "x", "-bundle-align=4096")})
		}
	}
	b.compareAll(t, bundles)
	b.compareBundles(t, bundles, func(_ string, targets []string) []call {
		return []call{
			{args: []string{"-type=o", "-list", "-input=x"}},
			{args: unbundleArgs("o", "x", targets)},
			{args: unbundleArgs("o", "x", targets, "-###")},
			{args: unbundleArgs("o", "x", append([]string{"hip-amdgcn-amd-amdhsa--gfx1201"}, targets...))},
			{args: unbundleArgs("o", "x", append([]string{"hip-amdgcn-amd-amdhsa--gfx1201"}, targets...), "-allow-missing-bundles")},
			// A bundled object is the host of another bundle.
			{args: []string{"-type=o", "-targets=" + hostLinux + ",openmp-x86_64-pc-linux-gnu", "-input=x", "-input=in/two", "-output=y"}},
		}
	})
}

// The host object extracted from a bundled object equals the original.
func TestHostObjectIsIdentity(t *testing.T) {
	b := newBench(t)
	targets := []string{hostLinux, "openmp-amdgcn-amd-amdhsa--gfx906"}
	for _, host := range hostObjects() {
		if strings.HasSuffix(host, ".obj") || host == "host-O2.o" {
			// llvm-objcopy changes the order of strings in COFF objects, and moves an empty
			// .llvm_addrsig section.
			continue
		}
		made, dir := b.run(t, b.ours, call{args: bundleArgs("o", targets, []string{host, "one"}, "x")})
		if made.failed {
			t.Errorf("%s: %s", host, made.stderr)
			continue
		}
		b.runIn(t, dir, b.ours, call{args: unbundleArgs("o", "x", targets)})
		want, err := os.ReadFile(filepath.Join(b.inputs, host))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "out0"))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: comes back with %d bytes instead of %d (%v)", host, len(got), len(want), err)
		}
	}
}

// -### prints LLVM's command and writes the same files.
func TestPrintCommands(t *testing.T) {
	b := newBench(t)
	targets := []string{hostLinux, "openmp-amdgcn-amd-amdhsa--gfx906", "openmp-powerpc64le-ibm-linux-gnu"}
	reversed := []string{targets[2], targets[1], targets[0]}
	var calls []call
	for _, host := range []string{"host.o", "host.obj", "one", "empty", "host.bc"} {
		calls = append(calls, call{args: bundleArgs("o", targets, []string{host, "one", "two"}, "x", "-###")},
			call{args: bundleArgs("o", reversed, []string{"one", "two", host}, "x", "--###")},
			call{args: bundleArgs("bc", targets, []string{host, "one", "two"}, "x", "-###=1")},
			call{args: bundleArgs("o", targets, []string{host, "one", "two"}, "x", "-###=0")})
	}
	calls = append(calls, call{args: bundleArgs("o", targets, []string{"host.o", "one", "two"}, "x", "-###"), env: []string{"TMPDIR=."}})
	b.compareAll(t, calls)
}

// archive makes an archive of files in a directory.
func archive(t *testing.T, dir, name, kind string, files ...string) {
	t.Helper()
	mode := "rcD"
	if kind == "thin" {
		mode, kind = "rcDT", "gnu"
	}
	llvmTool(t, dir, llvm.Tool(t, "llvm-ar"), append([]string{"--format=" + kind, mode, name}, files...)...)
}

// Archives of bundles are split into archives for one device.
func TestArchives(t *testing.T) {
	b := newBench(t)
	gfx := func(id string) string { return "openmp-amdgcn-amd-amdhsa--" + id }
	hip := func(id string) string { return "hip-amdgcn-amd-amdhsa--" + id }
	// Members that both tools support.
	dir := b.inputs
	for name, args := range map[string][]string{
		"m1.o":                             bundleArgs("o", []string{hostLinux, gfx("gfx906"), gfx("gfx942")}, []string{"host.o", "gfx906.o", "gfx942.o"}, "in/m1.o"),
		"m2.o":                             bundleArgs("o", []string{hostLinux, gfx("gfx906")}, []string{"host-O2.o", "gfx906.bc"}, "in/m2.o"),
		"m3.bc":                            bundleArgs("bc", []string{hip("gfx906"), hip("gfx90a:xnack+"), hip("gfx90a:xnack-")}, []string{"gfx906.bc", "one", "two"}, "in/m3.bc"),
		"a_name_longer_than_16_bytes.x.bc": bundleArgs("bc", []string{hostLinux, hip("gfx906:sramecc+"), hip("gfx1030")}, []string{"host.o", "gfx906.o", "three"}, "in/a_name_longer_than_16_bytes.x.bc"),
		"m4":                               bundleArgs("o", []string{hostLinux, "openmp-nvptx64-nvidia-cuda--sm_70"}, []string{"host.o", "two"}, "in/m4"),
		"m5.i":                             bundleArgs("i", []string{hostLinux, hip("gfx906")}, []string{"one", "two"}, "in/m5.i"),
		"m6.z.bc":                          bundleArgs("bc", []string{hip("gfx906"), hip("gfx942")}, []string{"gfx906.o", "gfx942.bc"}, "in/m6.z.bc", "-compress"),
		"m7.bad.bc":                        bundleArgs("bc", []string{hip("gfx906"), "hipv4-amdgcn-amd-amdhsa--gfx906:xnack+"}, []string{"one", "two"}, "in/m7.bad.bc"),
	} {
		if made, d := b.run(t, b.theirs, call{args: args}); made.failed {
			t.Fatalf("%s in %s: %s", name, d, made.stderr)
		}
	}
	archive(t, dir, "all.a", "gnu", "m1.o", "m2.o", "m3.bc", "a_name_longer_than_16_bytes.x.bc", "m4", "m5.i", "m6.z.bc", "host.o", "one", "empty")
	archive(t, dir, "bsd.a", "bsd", "m1.o", "m3.bc", "a_name_longer_than_16_bytes.x.bc")
	archive(t, dir, "darwin.a", "darwin", "m1.o", "a_name_longer_than_16_bytes.x.bc")
	archive(t, dir, "coff.a", "coff", "m1.o", "a_name_longer_than_16_bytes.x.bc")
	archive(t, dir, "thin.a", "thin", "m1.o", "m3.bc", "a_name_longer_than_16_bytes.x.bc")
	archive(t, dir, "none.a", "gnu", "one", "host.o")
	archive(t, dir, "bad.a", "gnu", "m1.o", "m7.bad.bc")
	archive(t, dir, "twice.a", "gnu", "m3.bc", "m3.bc")
	if err := os.WriteFile(filepath.Join(dir, "zero.a"), []byte("!<arch>\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "short.a"), []byte("!<arch>\nshort"), 0o644); err != nil {
		t.Fatal(err)
	}
	var calls []call
	for _, name := range []string{"all.a", "bsd.a", "darwin.a", "coff.a", "thin.a", "none.a", "bad.a", "twice.a", "zero.a", "short.a", "one", "big", "empty", "nosuch", "m1.o", "m3.bc"} {
		for _, targets := range [][]string{
			{gfx("gfx906")},
			{gfx("gfx906"), gfx("gfx942")},
			{hip("gfx906:xnack+"), hip("gfx906:xnack-"), hip("gfx906")},
			{hip("gfx90a:xnack+"), hip("gfx90a:xnack-")},
			{hip("gfx906:sramecc+:xnack-")},
			{"openmp-nvptx64-nvidia-cuda--sm_70"},
			{hostLinux},
			{"hipv4-amdgcn-amd-amdhsa--gfx906", "hipv4-amdgcn-amd-amdhsa--gfx1030"},
		} {
			options := [][]string{{"-allow-missing-bundles"}, {"-check-input-archive"}, {"-hip-openmp-compatible", "-allow-missing-bundles"}}
			calls = append(calls, call{args: unbundleArgs("a", "in/"+name, targets)},
				call{args: unbundleArgs("a", "in/"+name, targets, options[len(calls)%len(options)]...)})
		}
		calls = append(calls, call{args: []string{"-type=a", "-list", "-input=in/" + name}})
	}
	b.compareAll(t, calls)
}
