package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// members returns the names and contents of an archive's members.
func members(t testing.TB, data []byte) map[string]string {
	t.Helper()
	archive, err := ar.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for m, err := range archive.Members() {
		if err != nil {
			t.Fatal(err)
		}
		all[m.Name] = string(m.Data)
	}
	return all
}

const gfx = "hipv4-amdgcn-amd-amdhsa--"

func TestUnbundleArchive(t *testing.T) {
	lib := archive(t,
		"plain.o", string(bundled(t, "gfx90a", "gfx942")),
		"packed.o", string(compressed(t, bundled(t, "gfx90a", "gfx1100"))),
		"host.o", string(elfObject(t, ".text", "code")),
		"text.txt", "text")
	conflict := archive(t, "bad.o", string(bundled(t, "gfx90a", "gfx90a:xnack+")))
	for _, test := range []struct {
		name    string
		archive []byte
		targets []string
		opt     UnbundleOptions
		want    []map[string]string
		err     string
	}{
		{
			name: "two targets", archive: lib, targets: []string{gfx + "gfx90a", gfx + "gfx942"},
			want: []map[string]string{
				{"plain-hipv4-amdgcn-amd-amdhsa--gfx90aplain.bc": "\x7fELFgfx90a", "packed-hipv4-amdgcn-amd-amdhsa--gfx90apacked.bc": "\x7fELFgfx90a"},
				{"plain-hipv4-amdgcn-amd-amdhsa--gfx942plain.bc": "\x7fELFgfx942"},
			},
		},
		{
			name: "missing", archive: lib, targets: []string{gfx + "gfx900"},
			err: "in.a: no entry matches hipv4-amdgcn-amd-amdhsa--gfx900",
		},
		{
			name: "missing is allowed", archive: lib, targets: []string{gfx + "gfx900"},
			opt: UnbundleOptions{AllowMissing: true}, want: []map[string]string{{}},
		},
		{
			name: "conflict", archive: conflict, targets: []string{gfx + "gfx90a"},
			opt: UnbundleOptions{Check: true},
			err: "in.a(bad.o): hipv4-amdgcn-amd-amdhsa--gfx90a and hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+ cannot be in one bundle: either all entries for hipv4-amdgcn-amd-amdhsa--gfx90a set xnack, or none",
		},
		{name: "conflict is not looked for", archive: conflict, targets: []string{gfx + "gfx90a"}, want: []map[string]string{
			{"bad-hipv4-amdgcn-amd-amdhsa--gfx90abad.bc": "\x7fELFgfx90a"},
		}},
		{name: "no archive", archive: []byte("text"), targets: []string{gfx + "gfx90a"}, err: `in.a: archive member at byte 0x0: found "text"`},
		{name: "damaged member", archive: archive(t, "a.o", string(bundled(t, "gfx90a")[:100])), targets: []string{gfx + "gfx90a"}, err: "in.a(a.o): "},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, dir := newSession(t, map[string][]byte{"in.a": test.archive})
			opt := test.opt
			opt.Type, opt.Input = bundle.ArchiveType, "in.a"
			for i, id := range test.targets {
				opt.Requests = append(opt.Requests, UnbundleRequest{Target: parse(t, id), Output: string(rune('0'+i)) + ".a"})
			}
			_, err := s.Unbundle(context.Background(), opt)
			if test.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), test.err) {
					t.Errorf("error %v, want %s", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range test.want {
				data, err := os.ReadFile(filepath.Join(dir, opt.Requests[i].Output))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, members(t, data)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", test.targets[i], diff)
				}
			}
		})
	}
}

// Archive keeps the order of its inputs, and rejects entries that cannot be in one bundle.
func TestArchive(t *testing.T) {
	one, two := bundled(t, "gfx90a"), bundled(t, "gfx942")
	s, dir := newSession(t, map[string][]byte{"host.o": elfObject(t, ".text", "code"), "lib.a": archive(t, "one.o", string(one)), "dir/one.o": one, "two.o": two, "bad.o": bundled(t, "gfx90a", "gfx90a:xnack+")})
	if err := s.Archive(context.Background(), ArchiveOptions{Inputs: []string{"two.o", "dir/one.o"}, Output: "out.a", Check: true}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "out.a"))
	if err != nil {
		t.Fatal(err)
	}
	if want := archive(t, "two.o", string(two), "one.o", string(one)); !bytes.Equal(contentsOf(got), contentsOf(want)) {
		t.Errorf("the archive is %q, want %q", got, want)
	}
	for input, want := range map[string]string{
		"host.o": "host.o: found ELF relocatable object without a bundle, expected a bundle or a bundled object",
		"lib.a":  "lib.a: found an archive, expected a bundle or a bundled object",
	} {
		err := s.Archive(context.Background(), ArchiveOptions{Inputs: []string{"two.o", input}, Output: "bad.a", Check: true})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, expected %s", err, want)
		}
	}
	err = s.Archive(context.Background(), ArchiveOptions{Inputs: []string{"bad.o"}, Output: "bad.a", Check: true})
	var conflict *MemberConflictError
	if !errors.As(err, &conflict) || conflict.Member != "bad.o" || conflict.Archive != "bad.a" {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "bad.a")); err == nil {
		t.Error("a failure left an output")
	}
}

// contentsOf returns the names and contents of an archive's members, in order.
func contentsOf(data []byte) []byte {
	archive, err := ar.Parse(data)
	if err != nil {
		return nil
	}
	var all []byte
	for m, err := range archive.Members() {
		if err != nil {
			return nil
		}
		all = append(append(all, m.Name...), m.Data...)
	}
	return all
}

// The time to check very many bundles in one member grows with their number. If it grew with the
// square, this test would exceed the time limit of all tests. The check can be cancelled.
func TestCheckOfManyBundles(t *testing.T) {
	const number = 1 << 17
	one := fixture.BundleOf(t, bundle.Options{Align: 1}, bundle.Item{ID: "hip-amdgcn-amd-amdhsa--gfx90a"})
	s, _ := newSession(t, map[string][]byte{"in.a": archive(t, "many.o", string(bytes.Repeat(one, number)))})
	opt := UnbundleOptions{Type: bundle.ArchiveType, Input: "in.a", Check: true, Requests: []UnbundleRequest{{Target: parse(t, gfx+"gfx942"), Output: "out.a"}}}
	_, err := s.Unbundle(context.Background(), opt)
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Errorf("error %v", err)
	}
	cause := errors.New("no reader")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	f, err := s.openBundles(context.Background(), "in.a", bundle.ArchiveType, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for source, err := range f.Sources() {
		if err != nil {
			t.Fatal(err)
		}
		if err := checkMember(ctx, source, "in.a"); err != cause {
			t.Errorf("cancelled: %v", err)
		}
	}
}

// Matches are reported in the order of the archive, even if members are read in
// parallel.
func TestUnbundleArchiveTrace(t *testing.T) {
	var list []string
	for i := range 40 {
		list = append(list, string(rune('a'+i%26))+".o", string(bundled(t, "gfx90a", "gfx942")))
	}
	s, _ := newSession(t, map[string][]byte{"in.a": archive(t, list...)})
	var told []string
	_, err := s.Unbundle(context.Background(), UnbundleOptions{
		Type:  bundle.ArchiveType,
		Input: "in.a", Requests: []UnbundleRequest{{Target: parse(t, gfx+"gfx90a"), Output: "out.a"}},
		Trace: func(m target.Match) { told = append(told, m.Entry.TargetID) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 40*3 {
		t.Fatalf("%d comparisons, want %d", len(told), 40*3)
	}
	for i := 3; i < len(told); i++ {
		if told[i] != told[i-3] {
			t.Fatalf("comparison %d is of %s, want %s", i, told[i], told[i-3])
		}
	}
}

// BenchmarkUnbundleArchive unbundles archives of small members, whose bytes are
// counted uncompressed.
func BenchmarkUnbundleArchive(b *testing.B) {
	archs := []string{"gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030", "gfx1100", "gfx1101", "gfx1102"}
	random := rand.New(rand.NewPCG(1, 2))
	var plain [][]byte
	size := 0
	for range 20 {
		var items []bundle.Item
		code := make([]byte, 8<<10+random.IntN(32<<10))
		for i := range code {
			code[i] = byte(random.UintN(64))
		}
		for _, arch := range archs {
			for range 200 {
				code[random.IntN(len(code))]++
			}
			items = append(items, bundle.Item{ID: gfx + arch, Content: content.Memory(elfObject(b, ".text", string(code)))})
		}
		plain = append(plain, fixture.BundleOf(b, bundle.Options{Align: 4096}, items...))
		size += len(plain[len(plain)-1])
	}
	const copies = 20
	for _, form := range []struct {
		name string
		of   func(testing.TB, []byte) []byte
	}{
		{"plain", func(_ testing.TB, data []byte) []byte { return data }},
		{"own", compressed},
		{"llvm", compressedByLLVM},
	} {
		var all []string
		for i, data := range plain {
			all = append(all, fmt.Sprintf("m%d.o", i), string(form.of(b, data)))
		}
		s, _ := newSession(b, map[string][]byte{"in.a": archive(b, slices.Repeat(all, copies)...)})
		for _, targets := range [][]string{archs[4:5], archs} {
			opt := UnbundleOptions{Type: bundle.ArchiveType, Input: "in.a"}
			for _, arch := range targets {
				opt.Requests = append(opt.Requests, UnbundleRequest{Target: parse(b, gfx+arch), Output: arch + ".a"})
			}
			b.Run(fmt.Sprintf("%s/targets=%d", form.name, len(opt.Requests)), func(b *testing.B) {
				b.SetBytes(int64(copies * size))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Unbundle(b.Context(), opt); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
