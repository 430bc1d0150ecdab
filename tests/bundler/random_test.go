package bundler_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var cases = flag.Int("cases", 300, "how many random command lines TestRandom compares")

// processors are the processors of the random command lines: some with features, valid and invalid,
// and unknown ones.
var randomGPUs = append(slices.Clone(gpus), "gfx1250", "gfx1251", "gfx90c", "gfx1013", "gfx1103")

// randomID returns a target ID of an AMD GPU, with any features.
func randomID(r *rand.Rand) string {
	id := pick(r, randomGPUs)
	for _, feature := range []string{":sramecc", ":xnack"} {
		if r.IntN(4) == 0 {
			id += feature + pick(r, []string{"+", "-"})
		}
	}
	return id
}

// randomTarget returns a valid target, or a string that resembles one.
func randomTarget(r *rand.Rand) string {
	switch r.IntN(12) {
	case 0:
		return hostLinux
	case 1:
		return "openmp-nvptx64-nvidia-cuda--" + pick(r, nvidias)
	case 2:
		return pick(r, []string{"openmp-x86_64-pc-linux-gnu", "host-x86_64-pc-linux-gnu", "openmp-aarch64-unknown-linux-gnu", "hip-spirv64-amd-amdhsa--amdgcnspirv"})
	case 3:
		return pick(r, []string{"", "x", "hip", "hip-", "host", "hip-amdgcn", "hip-amdgcn-amd-amdhsa", "zip-amdgcn-amd-amdhsa--gfx906", "hip-nosuch-amd-amdhsa--gfx906"})
	case 4:
		if *number > 22 {
			return pick(r, []string{"hip", "hipv4", "openmp"}) + "-amdgpu" + pick(r, []string{"", "9", "9.0a", "9.06", "11", "12.50"}) + "-amd-amdhsa--" + randomID(r)
		}
	}
	return pick(r, []string{"hip", "hipv4", "hipv4", "openmp"}) + "-" + pick(r, []string{"amdgcn-amd-amdhsa-", "amdgcn-amd-amdhsa-unknown"}) + "-" + randomID(r)
}

var (
	randomTypes = strings.Fields("i ii cui hipi d ll s bc gch ast o a hipfb")
	randomFlags = strings.Fields("-allow-missing-bundles -hip-openmp-compatible -check-input-archive -bundle-align=1 -bundle-align=4096 -bundle-align=0 " +
		"-compression-level=3 -compression-level=19 -compression-level=x -unbundle -list -verbose=0 -compress=0 -nosuch -type=bc -output=again -bundle-align=16")
)

// pool makes bundles with LLVM's tool, in the directory of the inputs, and returns their names with
// their targets.
func (b *bench) pool(t *testing.T, r *rand.Rand) map[string][]string {
	t.Helper()
	pool := map[string][]string{}
	for i := range 24 {
		targets := append([]string{hostLinux}, deviceTargets(r, 1+r.IntN(4))...)
		if i%3 == 0 {
			gpu := pick(r, []string{"gfx1250", "gfx1251", "gfx90c"})
			targets = append(targets, "hip-"+amdgpu+"-"+gpu+pick(r, []string{"", "", ":xnack+"}))
		}
		fileType := pick(r, []string{"bc", "o", "i", "s", "gch"})
		args := bundleArgs(fileType, targets, someContents(r, len(targets)), "x")
		if i%4 == 1 {
			args = append(args, "-compress")
		}
		made, dir := b.run(t, b.theirs, call{args: args})
		if made.failed {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, "x"))
		name := fmt.Sprintf("pool%d", i)
		if err == nil {
			err = os.WriteFile(filepath.Join(b.inputs, name), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		pool[name] = targets
	}
	names := sorted(pool)
	for i := range 4 {
		var members, targets []string
		for range 1 + r.IntN(3) {
			name := pick(r, names)
			members = append(members, name)
			targets = append(targets, pool[name]...)
		}
		archive := fmt.Sprintf("pool%d.a", i)
		llvmTool(t, b.inputs, filepath.Join(filepath.Dir(b.theirs), "llvm-ar"), append([]string{"qc", archive}, members...)...)
		pool[archive] = targets
	}
	return pool
}

func sorted(pool map[string][]string) []string {
	var names []string
	for name := range pool {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// randomCall returns a command line for any operation, valid or invalid.
func randomCall(r *rand.Rand, pool map[string][]string) call {
	names := sorted(pool)
	var words []string
	kind := pick(r, randomTypes)
	targets := []string{}
	input := func() string {
		if r.IntN(12) == 0 {
			return pick(r, []string{"in/nosuch", "in/empty", "in", "in/text", "/dev/null"})
		}
		return "in/" + pick(r, append(contents, "host.o", "host.ll"))
	}
	verb := r.IntN(5)
	switch verb {
	case 0, 1: // bundle
		if r.IntN(3) > 0 {
			targets = append(targets, hostLinux)
		}
		for range r.IntN(4) {
			targets = append(targets, randomTarget(r))
		}
		n := len(targets)
		if r.IntN(10) == 0 {
			n += r.IntN(3) - 1
		}
		for range n {
			words = append(words, "-input="+input())
		}
		if r.IntN(12) > 0 {
			words = append(words, "-output=x")
		}
	case 2: // list
		words = append(words, "-list", "-input=in/"+pick(r, names))
		if strings.HasSuffix(words[1], ".a") {
			kind = "a"
		}
	default: // unbundle
		name := pick(r, names)
		if strings.HasSuffix(name, ".a") && r.IntN(8) > 0 {
			kind = "a"
		} else if r.IntN(3) > 0 {
			kind = pick(r, []string{"bc", "o", "i", "s", "gch"})
		}
		words = append(words, "-unbundle", "-input=in/"+name)
		for range 1 + r.IntN(3) {
			target := pick(r, pool[name])
			switch head, _, _ := strings.Cut(target, ":"); r.IntN(5) {
			case 0:
				target = randomTarget(r)
			case 1:
				if target != hostLinux {
					target = head + pick(r, []string{"", ":xnack+", ":xnack-", ":sramecc+"})
				}
			}
			targets = append(targets, target)
		}
		if len(targets) > 1 && r.IntN(6) == 0 {
			targets[0] = targets[1]
		}
		for i := range targets {
			if r.IntN(25) > 0 {
				words = append(words, fmt.Sprintf("-output=out%d", i))
			}
		}
	}
	if len(targets) > 0 && r.IntN(30) > 0 {
		words = append(words, "-targets="+strings.Join(targets, ","))
	}
	if r.IntN(20) > 0 {
		words = append(words, "-type="+kind)
	}
	for r.IntN(2) == 0 {
		words = append(words, pick(r, randomFlags))
	}
	r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return call{args: words}
}

// TestRandom compares the tools for random command lines of all operations and options, valid and
// invalid.
func TestRandom(t *testing.T) {
	b := newBench(t)
	r := random(31)
	pool := b.pool(t, r)
	n := *cases
	if testing.Short() {
		n /= 3
	}
	var calls []call
	for len(calls) < n {
		calls = append(calls, randomCall(r, pool))
	}
	b.compareEach(t, calls)
}
