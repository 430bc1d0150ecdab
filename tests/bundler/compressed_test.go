package bundler_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Our program lists and unbundles bundles that LLVM's tool compressed.
func TestReadCompressed(t *testing.T) {
	b := newBench(t)
	r := random(7)
	var bundles []call
	for i := range 30 {
		targets := append([]string{hostLinux}, deviceTargets(r, 1+r.IntN(6))...)
		fileType := pick(r, []string{"bc", "gch", "o", "i", "s"})
		inputs := append([]string{"three"}, someContents(r, len(targets)-1)...) // an object is not compressed
		args := bundleArgs(fileType, targets, inputs, "x", "-compress", fmt.Sprintf("-compression-level=%d", i%20-1))
		c := call{args: args}
		if i%2 == 0 {
			c.env = []string{"COMPRESSED_BUNDLE_FORMAT_VERSION=2"}
		}
		bundles = append(bundles, c)
	}
	b.compareBundles(t, bundles, func(fileType string, targets []string) []call {
		return []call{
			{args: []string{"-type=" + fileType, "-list", "-input=x"}},
			{args: []string{"-type=" + fileType, "-list", "-input=x", "-verbose"}},
			{args: unbundleArgs(fileType, "x", targets)},
			{args: unbundleArgs(fileType, "x", targets[:1], "-verbose")},
			{args: unbundleArgs(fileType, "x", append([]string{"openmp-x86_64-pc-linux-gnu"}, targets...), "-allow-missing-bundles")},
		}
	})
}

// LLVM's tool lists and unbundles our compressed bundles, and computes the same hash.
func TestWriteCompressed(t *testing.T) {
	b := newBench(t)
	r := random(8)
	for i := range 30 {
		targets := append([]string{hostLinux}, deviceTargets(r, 1+r.IntN(6))...)
		fileType := pick(r, []string{"bc", "gch", "o", "i", "s"})
		inputs := append([]string{"three"}, someContents(r, len(targets)-1)...)
		c := call{args: bundleArgs(fileType, targets, inputs, "x", "-compress", "-bundle-align=64")}
		if i%2 == 0 {
			c.env = []string{"COMPRESSED_BUNDLE_FORMAT_VERSION=2"}
		}
		made, dir := b.run(t, b.ours, c)
		if made.failed {
			t.Errorf("%v: %s", c, made.stderr)
			continue
		}
		for _, next := range []call{{args: []string{"-type=" + fileType, "-list", "-input=x"}}, {args: unbundleArgs(fileType, "x", targets)}} {
			diff(t, c.String()+" ; "+next.String(), b.after(t, dir, b.theirs, next), b.after(t, dir, b.ours, next))
		}
		verbose := b.after(t, dir, b.theirs, call{args: unbundleArgs(fileType, "x", targets, "-verbose")})
		if !strings.Contains(verbose.stderr, "Hashes match: Yes") {
			t.Errorf("%v: LLVM finds another hash:\n%s", c, verbose.stderr)
		}
		for k, in := range inputs {
			want, err := os.ReadFile(filepath.Join(b.inputs, in))
			if err != nil {
				t.Fatal(err)
			}
			if got := verbose.files[fmt.Sprintf("out%d", k)]; !strings.HasSuffix(got, " "+string(want)) {
				t.Errorf("%v: entry %d is not what went in", c, k)
			}
		}
	}
}

// -verbose prints the same text, except for sizes that depend on the encoder.
func TestVerboseCompression(t *testing.T) {
	b := newBench(t)
	targets := []string{"hip-amdgcn-amd-amdhsa--gfx900", "hip-amdgcn-amd-amdhsa--gfx906"}
	for _, more := range [][]string{{}, {"-compression-level=9"}, {"-compression-level=-5"}, {"-compression-level=999"}} {
		c := call{args: bundleArgs("bc", targets, []string{"one", "big"}, "x", append(more, "-compress", "-verbose")...)}
		theirs, _ := b.run(t, b.theirs, c)
		ours, _ := b.run(t, b.ours, c)
		theirs.files, ours.files = nil, nil
		theirs.stderr, ours.stderr = withoutSizes(theirs.stderr), withoutSizes(ours.stderr)
		diff(t, c.String(), theirs, ours)
	}
}

// withoutSizes removes the values of lines about the size of compressed data.
func withoutSizes(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		name, _, _ := strings.Cut(line, ":")
		if slices.Contains([]string{"Total file size (including headers)", "Binary size after compression", "Compression rate", "Compression ratio"}, name) {
			lines[i] = name
		}
	}
	return strings.Join(lines, "\n")
}

// Damaged compressed bundles cause LLVM's messages where LLVM's tool rejects them.
func TestDamagedCompressed(t *testing.T) {
	b := newBench(t)
	targets := []string{"hip-amdgcn-amd-amdhsa--gfx900", "hip-amdgcn-amd-amdhsa--gfx906"}
	made, dir := b.run(t, b.theirs, call{args: bundleArgs("bc", targets, []string{"one", "big"}, "x", "-compress")})
	if made.failed {
		t.Fatal(made.stderr)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 4, 7, 8, 12, 20, 31} {
		c := call{args: []string{"-type=bc", "-list", "-input=x"}}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x"), whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		diff(t, fmt.Sprintf("%d bytes", n), b.after(t, dir, b.theirs, c), b.after(t, dir, b.ours, c))
	}
	method := slices.Clone(whole)
	method[6] = 7
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"), method, 0o644); err != nil {
		t.Fatal(err)
	}
	c := call{args: []string{"-type=bc", "-list", "-input=x"}}
	diff(t, "method 7", b.after(t, dir, b.theirs, c), b.after(t, dir, b.ours, c))
}
