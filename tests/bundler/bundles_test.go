package bundler_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

var (
	archs     = strings.Fields("x86_64 amd64 i386 i686 aarch64 arm64 arm armv7 thumb powerpc powerpc64le ppc64 riscv64 amdgcn r600 nvptx nvptx64 spirv64 spirv wasm32 mips sparcv9 s390x loongarch64")
	vendors   = append(strings.Fields("unknown pc amd nvidia apple ibm suse intel scei mesa xyz"), "")
	systems   = append(strings.Fields("linux amdhsa cuda windows win32 mingw32 cygwin darwin macosx10.15 amdpal mesa3d freebsd13 none unknown ios hurd xyz"), "")
	envs      = append(strings.Fields("gnu gnueabi gnueabihf musl msvc android androideabi21 elf macho unknown cygnus gnux32 xyz"), "", "", "", "")
	gpus      = strings.Fields("gfx600 gfx803 gfx900 gfx906 gfx908 gfx90a gfx942 gfx950 gfx1010 gfx1030 gfx1100 gfx1151 gfx1201 gfx9-generic gfx10-3-generic gfx9-4-generic")
	nvidias   = strings.Fields("sm_50 sm_70 sm_80 sm_90 sm_90a")
	amdgpu    = "amdgcn-amd-amdhsa-"
	hostLinux = "host-x86_64-unknown-linux-gnu"
)

// settings are the features of a target ID, for processors that have them.
func settings(r *rand.Rand, gpu string) string {
	s := ""
	if gpu == "gfx906" || gpu == "gfx908" || gpu == "gfx90a" || gpu == "gfx942" {
		s = pick(r, []string{"", ":sramecc+", ":sramecc-"})
	}
	if s != "" || gpu == "gfx900" {
		s += pick(r, []string{"", ":xnack+", ":xnack-"})
	}
	return s
}

// target returns a target of any kind and triple.
func anyTarget(r *rand.Rand) string {
	kind := pick(r, []string{"host", "openmp", "openmp", "hip", "hipv4"})
	triple := strings.Join([]string{pick(r, archs), pick(r, vendors), pick(r, systems), pick(r, envs)}, "-")
	switch r.IntN(4) {
	case 0:
		return kind + "-" + triple + "-" + pick(r, nvidias)
	case 1:
		return kind + "-" + triple + "-" + pick(r, gpus)
	case 2:
		return kind + "-" + triple + "-"
	}
	return kind + "-" + triple
}

// deviceTargets returns targets that can be in one bundle, each for another processor.
func deviceTargets(r *rand.Rand, n int) []string {
	seen := make(map[string]bool)
	var targets []string
	for len(targets) < n {
		kind := pick(r, []string{"hip", "hipv4", "openmp"})
		var target, key string
		if kind == "openmp" && r.IntN(3) == 0 {
			sm := pick(r, nvidias)
			key = sm
			target = kind + "-nvptx64-nvidia-cuda--" + sm
		} else {
			gpu := pick(r, gpus)
			key = kind[:3] + gpu // hip and hipv4 match each other, and LLVM's choice between them is arbitrary
			target = kind + "-" + amdgpu + "-" + gpu + settings(r, gpu)
		}
		if !seen[key] {
			seen[key] = true
			targets = append(targets, target)
		}
	}
	return targets
}

// bundleArgs returns the command line that bundles inputs for targets.
func bundleArgs(fileType string, targets, inputs []string, output string, more ...string) []string {
	args := []string{"-type=" + fileType, "-targets=" + strings.Join(targets, ","), "-output=" + output}
	for _, in := range inputs {
		args = append(args, "-input=in/"+in)
	}
	return append(args, more...)
}

// unbundleArgs returns the command line that unbundles targets to files out0, out1 …
func unbundleArgs(fileType, input string, targets []string, more ...string) []string {
	args := []string{"-unbundle", "-type=" + fileType, "-input=" + input, "-targets=" + strings.Join(targets, ",")}
	for i := range targets {
		args = append(args, fmt.Sprintf("-output=out%d", i))
	}
	return append(args, more...)
}

var contents = []string{"one", "two", "three", "empty", "zero", "crlf", "big", "gfx906.o"}

func someContents(r *rand.Rand, n int) []string {
	var list []string
	for range n {
		list = append(list, pick(r, contents))
	}
	return list
}

// TestTargets compares how triples of all kinds are written with LLVM's tool.
func TestTargets(t *testing.T) {
	b := newBench(t)
	r := random(4)
	var calls []call
	for range 150 {
		target := anyTarget(r)
		targets, inputs := []string{target}, []string{"one"}
		if strings.HasPrefix(target, "openmp") {
			targets, inputs = append(targets, hostLinux), append(inputs, "two")
		}
		calls = append(calls, call{args: bundleArgs(pick(r, []string{"bc", "i", "s", "ll"}), targets, inputs, "x")})
	}
	for _, target := range []string{
		"openmp-x86_64-pc-linux-gnu", "hip-amdgcn-amd-amdhsa-unknown-gfx906", "openmp-nvptx64-nvidia-cuda--sm_70", "openmp-nvptx64-nvidia-cuda-sm_70",
		"hip-amdgcn-amd-amdhsa-gfx906", "hip-amdgcn-amd-amdhsa", "openmp-x86_64--linux-gnu", "openmp-x86_64-pc-linux-gnu-gfx906", "hip-spirv64-amd-amdhsa-",
		"hip-amdgcn-amd-amdhsa--gfx906:xnack+:sramecc+", "HIP-amdgcn-amd-amdhsa--gfx906", "hip-spirv64-amd-amdhsa--amdgcnspirv",
		"hip---amdhsa--gfx906", "-amdgcn-amd-amdhsa--gfx906", "hip-amdgcn-amd-amdhsa--",
	} {
		calls = append(calls, call{args: bundleArgs("bc", []string{hostLinux, target}, []string{"one", "two"}, "x")})
	}
	b.compareAll(t, calls)
}

// Binary and text bundles, and their listings, equal LLVM's byte by byte.
func TestBundleAndList(t *testing.T) {
	b := newBench(t)
	r := random(5)
	var calls []call
	for i := range 110 {
		targets := deviceTargets(r, 1+r.IntN(12))
		if i%3 != 0 || hasOpenMP(targets) {
			at := r.IntN(len(targets) + 1)
			targets = append(targets[:at], append([]string{hostLinux}, targets[at:]...)...)
		}
		fileType := pick(r, []string{"bc", "gch", "ast", "o", "i", "ii", "cui", "hipi", "d", "ll", "s"})
		args := bundleArgs(fileType, targets, someContents(r, len(targets)), "x")
		if r.IntN(2) == 0 {
			args = append(args, fmt.Sprintf("-bundle-align=%d", pick(r, []int{1, 2, 3, 8, 16, 100, 4096, 5000})))
		}
		calls = append(calls, call{args: args})
	}
	b.compareAll(t, calls)
	b.compareBundles(t, calls, func(fileType string, _ []string) []call {
		return []call{{args: []string{"-type=" + fileType, "-list", "-input=x"}}}
	})
}

func hasOpenMP(targets []string) bool {
	for _, t := range targets {
		if strings.HasPrefix(t, "openmp") {
			return true
		}
	}
	return false
}

// compareBundles makes bundles with LLVM's tool, and calls then with the file type and the targets
// of each, to compare both tools.
func (b *bench) compareBundles(t *testing.T, bundles []call, then func(fileType string, targets []string) []call) {
	t.Helper()
	n := 0
	for _, c := range bundles {
		made, dir := b.run(t, b.theirs, c)
		if made.failed {
			continue
		}
		fileType := strings.TrimPrefix(c.args[0], "-type=")
		targets := strings.Split(strings.TrimPrefix(c.args[1], "-targets="), ",")
		for _, next := range then(fileType, targets) {
			n++
			theirs := b.after(t, dir, b.theirs, next)
			ours := b.after(t, dir, b.ours, next)
			if theirs.failed {
				theirs.files, ours.files = nil, nil
			}
			diff(t, c.String()+" ; "+next.String(), theirs, ours)
		}
	}
	t.Logf("%d cases", n)
}

// Requests get the same entries as from LLVM's tool, and missing entries cause its messages.
func TestUnbundle(t *testing.T) {
	b := newBench(t)
	r := random(6)
	var bundles []call
	for range 60 {
		targets := deviceTargets(r, 1+r.IntN(8))
		targets = append([]string{hostLinux}, targets...)
		fileType := pick(r, []string{"bc", "gch", "ast", "o", "i", "cui", "d", "ll", "s"})
		bundles = append(bundles, call{args: bundleArgs(fileType, targets, someContents(r, len(targets)), "x")})
	}
	b.compareBundles(t, bundles, func(fileType string, targets []string) []call {
		var calls []call
		for range 3 {
			requests := requests(r, targets)
			var more []string
			if r.IntN(3) == 0 {
				more = append(more, "-allow-missing-bundles")
			}
			if r.IntN(4) == 0 {
				more = append(more, "-hip-openmp-compatible")
			}
			calls = append(calls, call{args: unbundleArgs(fileType, "x", requests, more...)})
		}
		return calls
	})
}

// requests returns targets to request: some of the bundle, some with other features, and some that
// are missing. No two match the same entry, which LLVM's tool does not support.
func requests(r *rand.Rand, stored []string) []string {
	seen := make(map[string]bool)
	var list []string
	for range 1 + r.IntN(len(stored)) {
		target := pick(r, stored)
		if target != hostLinux && r.IntN(3) == 0 {
			target = pick(r, deviceTargets(r, 1))
		}
		head, _, _ := strings.Cut(target, ":")
		if i := strings.LastIndex(head, "gfx"); i >= 0 && r.IntN(3) == 0 {
			target = head + settings(r, head[i:])
		}
		_, processor, _ := strings.Cut(head, "--")
		if target == hostLinux {
			processor = target
		}
		if !seen[processor] && !ambiguous(stored, processor) {
			seen[processor] = true
			list = append(list, target)
		}
	}
	if list == nil {
		return []string{hostLinux}
	}
	return list
}

// ambiguous reports whether several entries may match a request for a processor.
func ambiguous(stored []string, processor string) bool {
	n := 0
	for _, s := range stored {
		head, _, _ := strings.Cut(s, ":")
		if strings.HasSuffix(head, "--"+processor) {
			n++
		}
	}
	return n > 1
}

// Inputs that are not bundles.
func TestNoBundle(t *testing.T) {
	b := newBench(t)
	var calls []call
	targets := []string{hostLinux, "openmp-x86_64-pc-linux-gnu"}
	for _, fileType := range []string{"bc", "o", "i", "s", "ll", "ast", "a", "zz"} {
		for _, file := range []string{"one", "empty", "zero", "big", "host.o", "host.bc", "host.s", "nosuch", "text"} {
			input := "in/" + file
			calls = append(calls, call{args: []string{"-type=" + fileType, "-list", "-input=" + input}},
				call{args: unbundleArgs(fileType, input, targets)},
				call{args: unbundleArgs(fileType, input, targets, "-allow-missing-bundles")})
		}
	}
	b.compareAll(t, calls)
}

// Standard input and output have the file name "-".
func TestStandardStreams(t *testing.T) {
	b := newBench(t)
	hip := "hip-amdgcn-amd-amdhsa--gfx906"
	calls := []call{
		{args: []string{"-type=bc", "-targets=" + hostLinux + "," + hip, "-input=-", "-input=in/two", "-output=x"}, stdin: "from a pipe"},
		{args: []string{"-type=bc", "-targets=" + hostLinux + "," + hip, "-input=in/one", "-input=in/two", "-output=-"}},
		{args: []string{"-type=i", "-targets=" + hostLinux + "," + hip, "-input=in/one", "-input=-", "-output=-"}, stdin: "x"},
		{args: []string{"-type=i", "-list", "-input=-"}, stdin: "\n// __CLANG_OFFLOAD_BUNDLE____START__ a-b-c-d-e\nx\n// __CLANG_OFFLOAD_BUNDLE____END__ a-b-c-d-e\n"},
		{args: []string{"-type=i", "-unbundle", "-targets=host-x86_64-unknown-linux-gnu", "-output=-", "-input=-"}, stdin: "\n// __CLANG_OFFLOAD_BUNDLE____START__ host-x86_64-unknown-linux-gnu-\nx\n// __CLANG_OFFLOAD_BUNDLE____END__ \n"},
		{args: []string{"-type=bc", "-list", "-input=-"}, stdin: ""},
		{args: []string{"-type=o", "-targets=" + hostLinux, "-input=-", "-output=/dev/null"}, stdin: "abc"},
		{args: []string{"-type=bc", "-targets=" + hostLinux + "," + hip, "-input=/dev/null", "-input=/dev/null", "-output=x"}},
	}
	b.compareAll(t, calls)
}
