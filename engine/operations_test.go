package engine

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
)

func TestList(t *testing.T) {
	plain := bundled(t, "gfx906", "gfx90a")
	ids := []string{"host-x86_64-unknown-linux-gnu-", gfx + "gfx906", gfx + "gfx90a"}
	inputs := map[string][]byte{
		"plain": plain, "packed": compressed(t, plain), "both": append(append([]byte{}, plain...), compressed(t, plain)...),
		"lib.a": archive(t, "one.o", string(plain), "text", "text"), "text": []byte("text"), "cut": plain[:100],
	}
	for _, test := range []struct {
		name  string
		opt   ListOptions
		want  []string
		bad   string
		check func(t *testing.T, listed []ListedEntry)
	}{
		{name: "plain", opt: ListOptions{Input: "plain"}, want: ids},
		{name: "compressed", opt: ListOptions{Input: "packed"}, want: ids, check: func(t *testing.T, listed []ListedEntry) {
			if !listed[1].Compressed {
				t.Error("an entry is not said to be compressed")
			}
		}},
		{name: "several", opt: ListOptions{Input: "both"}, want: append(append([]string{}, ids...), ids...), check: func(t *testing.T, listed []ListedEntry) {
			if listed[0].Bundle != 1 || listed[5].Bundle != 2 {
				t.Errorf("bundles %d and %d", listed[0].Bundle, listed[5].Bundle)
			}
		}},
		{name: "archive", opt: ListOptions{Input: "lib.a"}, want: ids, check: func(t *testing.T, listed []ListedEntry) {
			if listed[0].Member != "one.o" {
				t.Errorf("member %q", listed[0].Member)
			}
		}},
		{name: "archive as an object", opt: ListOptions{Input: "lib.a", Type: bundle.ObjectType}},
		{name: "no bundle", opt: ListOptions{Input: "text"}},
		{name: "cut", opt: ListOptions{Input: "cut"}, bad: "cut: number of entries at byte 0x18"},
		{name: "missing file", opt: ListOptions{Input: "lost"}, bad: "'lost': No such file or directory"},
		{name: "unknown type", opt: ListOptions{Input: "plain", Type: "x"}, bad: "unknown file type \"x\": expected i, ii, cui, hipi, d, ll, s, bc, gch, ast, o or a"},
		{name: "too large", opt: ListOptions{Input: "packed", Read: ReadOptions{MaxSize: 1}}, bad: "packed: byte 0x0: the uncompressed bundle has"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _ := newSession(t, inputs)
			listed, err := s.List(context.Background(), test.opt)
			if test.bad != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.bad) {
					t.Errorf("error %v, want %s", err, test.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range listed {
				got = append(got, e.ID)
			}
			sortTwice := cmp.Transformer("sorted", func(list []string) map[string]int {
				count := map[string]int{}
				for _, s := range list {
					count[s]++
				}
				return count
			})
			if diff := cmp.Diff(test.want, got, sortTwice); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if test.check != nil {
				test.check(t, listed)
			}
		})
	}
}

// Stats get every bundle once, in the order of the file.
func TestReadStats(t *testing.T) {
	plain := bundled(t, "gfx906")
	packed := compressed(t, plain)
	s, _ := newSession(t, map[string][]byte{"in": append(append([]byte{}, packed...), plain...)})
	var told []bool
	if _, err := s.List(context.Background(), ListOptions{Input: "in", Type: bundle.ObjectType, Read: ReadOptions{Stats: func(b images.Bundle) {
		told = append(told, b.Header != nil)
		if b.Header != nil && b.Hash != b.Header.Hash {
			t.Errorf("hash 0x%x, the header has 0x%x", b.Hash, b.Header.Hash)
		}
	}}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]bool{true, false}, told); diff != "" {
		t.Errorf("compressed (-want +got):\n%s", diff)
	}
}

func TestPack(t *testing.T) {
	inputs := map[string][]byte{"a.o": []byte("\x7fELF a"), "b.bc": []byte("BC\xc0\xdeb"), "c": []byte("text")}
	for _, test := range []struct {
		name    string
		images  []string
		opt     PackOptions
		want    []string // kind, offload kind, properties
		unknown []string
		bad     string
	}{
		{name: "two", images: []string{"file=a.o,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=hip", "file=b.bc,kind=openmp"},
			want: []string{"elf hip [{arch gfx90a} {triple amdgcn-amd-amdhsa}]", "llvm ir openmp []"}},
		{name: "version 2", images: []string{"file=a.o"}, opt: PackOptions{Version: 2}, want: []string{"elf none []"}},
		{name: "several files", images: []string{"file=a.o,file=b.bc,kind=hip"}, want: []string{"elf hip []", "llvm ir hip []"}},
		{name: "unknown format", images: []string{"file=c"}, want: []string{"none none []"}, unknown: []string{"c"}},
		{name: "no file", images: []string{"kind=hip"}, bad: ErrNoFile.Error()},
		{name: "missing file", images: []string{"file=lost"}, bad: "'lost': No such file or directory"},
		{name: "over an input", images: []string{"file=a.o"}, opt: PackOptions{Output: "a.o"}, bad: "'a.o': is the same file as the input"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, dir := newSession(t, inputs)
			opt := test.opt
			if opt.Output == "" {
				opt.Output = "out"
			}
			for _, image := range test.images {
				opt.Images = append(opt.Images, ParseProperties(image))
			}
			unknown, err := s.Pack(context.Background(), opt)
			if test.bad != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.bad) {
					t.Errorf("error %v, want %s", err, test.bad)
				}
				if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
					t.Error("a failure left an output")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.unknown, unknown); diff != "" {
				t.Errorf("unknown (-want +got):\n%s", diff)
			}
			data, err := os.ReadFile(filepath.Join(dir, "out"))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for p, err := range offloadbinary.Parse(content.Memory(data), offloadbinary.Options{}) {
				if err != nil {
					t.Fatal(err)
				}
				for _, img := range p.Images {
					line := img.Kind.String() + " " + img.Offload.String() + " ["
					for i, p := range img.Properties {
						if i > 0 {
							line += " "
						}
						line += "{" + p.Key + " " + p.Value + "}"
					}
					got = append(got, line+"]")
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	body := "\x7fELFgfx90a"
	inputs := map[string][]byte{"bundle": bundled(t, "gfx90a"), "image": []byte(body), "other": []byte("other"), "cut": bundled(t, "gfx90a")[:0x1001]}
	host, own := BundleEntry{Target: parse(t, "host-x86_64-unknown-linux-gnu-")}, BundleEntry{Target: parse(t, gfx+"gfx90a"), Input: "image"}
	changed := own
	changed.Input = "other"
	for _, test := range []struct {
		name string
		opt  CheckOptions
		bad  string
	}{
		{name: "any entries", opt: CheckOptions{Input: "bundle"}},
		{name: "these entries", opt: CheckOptions{Input: "bundle", Entries: []BundleEntry{host, own}}},
		{name: "an entry too much", opt: CheckOptions{Input: "bundle", Entries: []BundleEntry{host}}, bad: "bundle: "},
		{name: "another content", opt: CheckOptions{Input: "bundle", Entries: []BundleEntry{host, changed}}, bad: "bundle: "},
		{name: "too large", opt: CheckOptions{Input: "bundle", MaxSize: 100}, bad: "bundle: "},
		{name: "cut", opt: CheckOptions{Input: "cut"}, bad: "cut: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, dir := newSession(t, inputs)
			test.opt.Report = "report.json"
			_, err := s.Check(context.Background(), test.opt)
			report, readErr := os.ReadFile(filepath.Join(dir, "report.json"))
			if test.bad != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.bad) {
					t.Errorf("error %v, want %s", err, test.bad)
				}
				if readErr == nil {
					t.Error("a failure left a report")
				}
				return
			}
			if err != nil || readErr != nil {
				t.Fatal(err, readErr)
			}
			var entries []map[string]any
			if err := json.Unmarshal(report, &entries); err != nil || len(entries) != 2 {
				t.Errorf("the report is %s", report)
			}
		})
	}
}

// A bundle made in parts equals the one that Bundle writes.
func TestParts(t *testing.T) {
	ctx := context.Background()
	inputs := map[string][]byte{"gfx906": unevenWords(1, 5000), "gfx908": unevenWords(2, 7000), "gfx1030": unevenWords(3, 3000)}
	var entries []BundleEntry
	for _, arch := range []string{"gfx906", "gfx908", "gfx1030"} {
		entries = append(entries, BundleEntry{Target: parse(t, gfx+arch), Input: arch})
	}
	s, dir := newSession(t, inputs)
	const align, level = 4096, 3
	if _, err := s.Bundle(ctx, BundleOptions{Entries: entries, Output: "whole", Align: align, Compress: &Compression{Level: level, Frames: ccob.FramesEntry}}); err != nil {
		t.Fatal(err)
	}
	if err := s.CompressPlan(ctx, CompressPlanOptions{Entries: entries, Output: "plan", Align: align, Level: level, Frames: ccob.FramesEntry}); err != nil {
		t.Fatal(err)
	}
	var parts []string
	for i, entry := range entries {
		part := entry.Input + ".part"
		parts = append(parts, part)
		if err := s.CompressPart(ctx, PartOptions{Inputs: []string{entry.Input}, Output: part, Align: align, Pad: i < len(entries)-1, Level: level}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Assemble(ctx, AssembleOptions{Plan: "plan", Parts: parts, Output: "assembled"}); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if read("whole") != read("assembled") {
		t.Error("the bundle made in parts differs")
	}
	for name, opt := range map[string]AssembleOptions{
		"a part too few": {Plan: "plan", Parts: parts[1:], Output: "bad"},
		"other order":    {Plan: "plan", Parts: []string{parts[1], parts[0], parts[2]}, Output: "bad"},
		"no plan":        {Plan: "gfx906", Parts: parts, Output: "bad"},
	} {
		if err := s.Assemble(ctx, opt); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := os.Stat(filepath.Join(dir, "bad")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a failure left an output", name)
		}
	}
}

// A session without a configuration works in the directory of the process.
func TestNewDefaults(t *testing.T) {
	name := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(name, bundled(t, "gfx90a"), 0o666); err != nil {
		t.Fatal(err)
	}
	listed, err := New(Config{}).List(context.Background(), ListOptions{Input: name})
	if err != nil || len(listed) != 2 {
		t.Errorf("%v, %v", listed, err)
	}
}
