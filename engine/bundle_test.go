package engine

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

func bundleSession(dir string) *Session {
	return New(Config{Dir: dir, Budget: budget.New(2, 64<<20)})
}

// bundledHost returns an ELF object.
func bundledHost(t interface{ Fatal(...any) }) []byte {
	return fixture.HostObject(t, "\xc3")
}

var processors = []string{"gfx803", "gfx900", "gfx906:xnack+", "gfx906:xnack-", "gfx90a:sramecc+:xnack-", "gfx942", "gfx1030", "gfx1100", "gfx1201", "gfx9999", "gfx11-generic"}

// Bundling and then unbundling is the identity, for every type and option.
func TestBundleUnbundle(t *testing.T) {
	host := bundledHost(t)
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "engine")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s := bundleSession(dir)
		opt := BundleOptions{
			Type:       bundle.FileType(rapid.SampledFrom([]string{"i", "ii", "cui", "hipi", "d", "ll", "s", "bc", "gch", "ast", "o"}).Draw(t, "type")),
			Align:      rapid.Uint64Range(1, 70).Draw(t, "align"),
			ShareEqual: rapid.Bool().Draw(t, "share"),
			Output:     "bundle",
		}
		if rapid.Bool().Draw(t, "compress") {
			opt.Compress = &Compression{
				Level:   rapid.IntRange(-1, 12).Draw(t, "level"),
				Version: rapid.SampledFrom([]int{0, 2, 3}).Draw(t, "version"),
				Frames:  rapid.SampledFrom([]ccob.Frames{ccob.FramesAuto, ccob.FramesEntry, ccob.FramesOne}).Draw(t, "frames"),
			}
		}
		names := rapid.SliceOfNDistinct(rapid.SampledFrom(processors), 1, 8, rapid.ID[string]).Draw(t, "processors")
		kind := target.Kind(rapid.SampledFrom([]string{"hip", "hipv4", "openmp"}).Draw(t, "kind"))
		for i, name := range names {
			names[i] = string(kind) + "-amdgcn-amd-amdhsa--" + name
		}
		hostAt := -1
		if kind == target.OpenMP || rapid.Bool().Draw(t, "host") {
			hostAt = rapid.IntRange(0, len(names)).Draw(t, "host at")
			names = slices.Insert(names, hostAt, "host-x86_64-unknown-linux-gnu")
		}
		content := rapid.SliceOfN(rapid.Byte(), 0, 300)
		contents := make([][]byte, len(names))
		for i, name := range names {
			id, err := target.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			contents[i] = content.Draw(t, "content")
			if i == hostAt && rapid.Bool().Draw(t, "host is an object") {
				contents[i] = host
			}
			input := fmt.Sprint("in", i)
			if err := os.WriteFile(filepath.Join(dir, input), contents[i], 0o644); err != nil {
				t.Fatal(err)
			}
			opt.Entries = append(opt.Entries, BundleEntry{Target: id, Input: input})
		}
		if _, err := s.Bundle(context.Background(), opt); err != nil {
			t.Fatal(err)
		}

		s = bundleSession(dir)
		listed, err := s.List(context.Background(), ListOptions{Type: opt.Type, Input: "bundle"})
		if err != nil {
			t.Fatal(err)
		}
		if len(listed) != len(names) {
			t.Fatalf("%d entries are listed, %d were bundled", len(listed), len(names))
		}
		unbundle := UnbundleOptions{Type: opt.Type, Input: "bundle"}
		for i, entry := range opt.Entries {
			unbundle.Requests = append(unbundle.Requests, UnbundleRequest{Target: entry.Target, Output: fmt.Sprint("out", i)})
		}
		if _, err := s.Unbundle(context.Background(), unbundle); err != nil {
			t.Fatal(err)
		}
		for i, want := range contents {
			got, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("out", i)))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%s comes back as %.100q, was %.100q", names[i], got, want)
			}
		}
	})
}

// An archive of bundles, taken apart, has every entry of every bundle.
func TestArchiveUnbundle(t *testing.T) {
	dir := t.TempDir()
	ids := []string{"hip-amdgcn-amd-amdhsa--gfx906", "hip-amdgcn-amd-amdhsa--gfx942"}
	var inputs []string
	for i := range 12 {
		s := bundleSession(dir)
		opt := BundleOptions{Type: "bc", Align: 16, Output: fmt.Sprintf("member%d.bc", i)}
		if i%3 == 1 {
			opt.Compress = &Compression{Level: 3}
		}
		if i%3 == 2 {
			opt.Type = "o"
			opt.Output = fmt.Sprintf("member%d.o", i)
			opt.Entries = append(opt.Entries, BundleEntry{Target: parse(t, "host-x86_64-unknown-linux-gnu"), Input: "host.o"})
			if err := os.WriteFile(filepath.Join(dir, "host.o"), bundledHost(t), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for k, id := range ids {
			name := fmt.Sprintf("in%d.%d", i, k)
			if err := os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "image %d of %d", k, i), 0o644); err != nil {
				t.Fatal(err)
			}
			opt.Entries = append(opt.Entries, BundleEntry{Target: parse(t, id), Input: name})
		}
		if _, err := s.Bundle(context.Background(), opt); err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, opt.Output)
	}
	s := bundleSession(dir)
	if err := s.Archive(context.Background(), ArchiveOptions{Inputs: inputs, Output: "all.a", Check: true}); err != nil {
		t.Fatal(err)
	}
	listed, err := s.List(context.Background(), ListOptions{Input: "all.a"})
	if err != nil {
		t.Fatal(err)
	}
	if len(listed) != 12*2+4 {
		t.Errorf("%d entries are listed, want %d", len(listed), 12*2+4)
	}
	opt := UnbundleOptions{Type: bundle.ArchiveType, Input: "all.a", Check: true, Requests: []UnbundleRequest{
		{Target: parse(t, ids[0]), Output: "0.a"}, {Target: parse(t, ids[1]), Output: "1.a"}, {Target: parse(t, "host-x86_64-unknown-linux-gnu"), Output: "host.a"},
	}}
	if _, err := s.Unbundle(context.Background(), opt); err != nil {
		t.Fatal(err)
	}
	for k, want := range []int{12, 12, 4} {
		data, err := os.ReadFile(filepath.Join(dir, opt.Requests[k].Output))
		if err != nil {
			t.Fatal(err)
		}
		archive, err := ar.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for m, err := range archive.Members() {
			if err != nil {
				t.Fatal(err)
			}
			content := fmt.Sprintf("image %d of %d", k, n)
			if k == 2 {
				content = string(bundledHost(t))
			}
			if string(m.Data) != content {
				t.Errorf("member %d of %s, %s, is %.50q, want %.50q", n, opt.Requests[k].Output, m.Name, m.Data, content)
			}
			n++
		}
		if n != want {
			t.Errorf("%s has %d members, want %d", opt.Requests[k].Output, n, want)
		}
	}
}

func parse(t testing.TB, id string) target.ID {
	t.Helper()
	parsed, err := target.Parse(id)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}
