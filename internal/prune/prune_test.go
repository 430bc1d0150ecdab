package prune

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/elf/elfcheck"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

const prefix = "hipv4-amdgcn-amd-amdhsa--"

// code returns a bundle with entries for target IDs.
func code(t testing.TB, compress bool, archs ...string) []byte {
	t.Helper()
	items := []bundle.Item{{ID: "host-x86_64-unknown-linux-gnu-"}}
	for i, arch := range archs {
		body := append([]byte("\x7fELF\x02\x01\x01\x40________\x03\x00\xe0\x00"), bytes.Repeat([]byte(arch), 600+100*i)...)
		items = append(items, bundle.Item{ID: prefix + arch, Content: content.Memory(body)})
	}
	layout, err := bundle.NewLayout(items, bundle.Options{Align: 4096})
	if err != nil {
		t.Fatal(err)
	}
	var out content.Buffer
	if compress {
		_, err = ccob.Encode(context.Background(), &out, layout.Parts, ccob.EncodeOptions{})
	} else {
		err = layout.Write(&out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// apply changes a file in memory.
func apply(data []byte, o Options) ([]byte, Report, error) {
	if o.Budget == nil {
		o.Budget = budget.New(1, 1<<30)
	}
	w, err := Open(context.Background(), content.Memory(data), o)
	if err != nil {
		return nil, Report{}, err
	}
	defer w.Close()
	plan, err := w.Layout(context.Background())
	if err != nil {
		return nil, Report{}, err
	}
	var out content.Buffer
	if !o.DryRun {
		if plan.Size > 1<<30 {
			return nil, Report{}, fmt.Errorf("%d bytes are too many for a test", plan.Size)
		}
		err = plan.Write(&out)
	}
	return out.Bytes(), w.Report(plan), err
}

// contents returns the entries that each wrapper of a linked file leads to.
func contents(t testing.TB, data []byte) (all []string) {
	t.Helper()
	f, err := elfedit.Parse(content.Memory(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range registered.Find(content.Memory(data)).Wrappers {
		off, ok := f.Offset(w.Target, 1)
		if !ok || w.Target%4096 != 0 {
			t.Fatalf("wrapper at 0x%x leads to 0x%x", w.Addr, w.Target)
		}
		text := ""
		if ccob.Is(data[off:]) {
			text = "compressed"
		} else {
			b, err := bundle.ParseAt(data, int64(off))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range b.Entries {
				body := string(e.Content(data))
				text += fmt.Sprintf("%s %d %.5s;", strings.TrimPrefix(e.ID, prefix), e.Size, body[max(len(body)-5, 0):])
			}
		}
		all = append(all, text)
	}
	return all
}

// libraries are linked files of several forms with the same code.
func libraries(t testing.TB) map[string]testelf.Library {
	bundles := [][]byte{code(t, false, "gfx90a", "gfx942"), code(t, false, "gfx942", "gfx1100")}
	start := uint64(0)
	return map[string]testelf.Library{
		"rela":      {Bundles: bundles, Wrappers: []int{0, 1}},
		"swapped":   {Bundles: bundles, Wrappers: []int{1, 0}},
		"shared":    {Bundles: bundles, Wrappers: []int{0, 1, 0}},
		"relr":      {Bundles: bundles, Wrappers: []int{0, 1}, Relr: true},
		"exec":      {Bundles: bundles, Wrappers: []int{0, 1}, Exec: true},
		"symbols":   {Bundles: bundles, Wrappers: []int{0, 1}, Symbol: true},
		"aarch64":   {Bundles: bundles, Wrappers: []int{0, 1}, Machine: 183, Page: 65536},
		"symbols a": {Bundles: bundles, Wrappers: []int{0, 1}, Machine: 183, Symbol: true},
		"2 MiB":     {Bundles: bundles, Wrappers: []int{0, 1}, Page: 2 << 20},
		"pointer":   {Bundles: bundles, Wrappers: []int{0, 1}, Pointer: &start},
		"appended":  {Bundles: bundles, Wrappers: []int{0, 1}, Appended: []byte("signature")},
	}
}

func TestLinked(t *testing.T) {
	host := "host-x86_64-unknown-linux-gnu- 0 ;"
	for name, l := range libraries(t) {
		t.Run(name, func(t *testing.T) {
			before := l.Build()
			if found := elfcheck.Check(before); len(found) > 0 {
				t.Fatal(found)
			}
			after, report, err := apply(before, Options{Keep: []string{"gfx942"}})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range append(elfcheck.Check(after), elfcheck.Compare(before, after, ".hip_fatbin")...) {
				t.Error(f)
			}
			want := []string{host + "gfx942 4220 fx942;", host + "gfx942 3620 fx942;"}
			var expected []string
			for _, b := range l.Wrappers {
				expected = append(expected, want[b])
			}
			if diff := cmp.Diff(expected, contents(t, after)); diff != "" {
				t.Error(diff)
			}
			if l.Page < 65536 && len(after) > len(before)-8192 {
				t.Errorf("%d bytes, before %d", len(after), len(before))
			}
			if report.SizeAfter != int64(len(after)) || len(report.Bundles) != len(l.Wrappers) || report.Bundles[0].Section != ".hip_fatbin" {
				t.Errorf("report: %+v", report)
			}
			if name == "appended" && (!bytes.HasSuffix(after, []byte("signature")) || len(report.Warnings) != 1) {
				t.Errorf("the file ends with %q, warnings %v", after[len(after)-9:], report.Warnings)
			}
			if again, _, err := apply(after, Options{Keep: []string{"gfx942"}}); err != nil || !bytes.Equal(again, after) {
				t.Errorf("again: %v", err)
			}
			_, dry, err := apply(before, Options{Keep: []string{"gfx942"}, DryRun: true})
			if err != nil || dry.SizeAfter != report.SizeAfter {
				t.Errorf("dry run: %d bytes, expected %d, %v", dry.SizeAfter, report.SizeAfter, err)
			}
			packed, _, err := apply(before, Options{Compress: true})
			if err != nil {
				t.Fatal(err)
			}
			plain, _, err := apply(packed, Options{Decompress: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range append(elfcheck.Check(plain), elfcheck.Compare(packed, plain, ".hip_fatbin")...) {
				t.Error(f)
			}
			if diff := cmp.Diff(contents(t, before), contents(t, plain)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTight leaves the room of removed code in a file that has no place for another
// program header.
func TestTight(t *testing.T) {
	l := testelf.Library{Bundles: [][]byte{code(t, false, "gfx90a", "gfx942", "gfx1100", "gfx906")}, Wrappers: []int{0}, Tight: true, Exec: true}
	before := l.Build()
	after, report, err := apply(before, Options{Keep: []string{"gfx942"}})
	if err != nil || len(after) != len(before) || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "no room for 1 more") {
		t.Fatalf("%d bytes, before %d, warnings %v, %v", len(after), len(before), report.Warnings, err)
	}
	for _, f := range append(elfcheck.Check(after), elfcheck.Compare(before, after, ".hip_fatbin")...) {
		t.Error(f)
	}
	if got := contents(t, after); len(got) != 1 || !strings.HasSuffix(got[0], "gfx942 4220 fx942;") {
		t.Error(got)
	}
}

// TestNames holds names against entry IDs.
func TestNames(t *testing.T) {
	e := func(arch string) entry { return bundleEntry(prefix+arch, 0, 1) }
	image := imageEntry("amdgcn-amd-amdhsa", "gfx90a:xnack+", 1)
	sm := imageEntry("nvptx64-nvidia-cuda", "sm_90", 1)
	bare := imageEntry("x86_64-pc-linux-gnu", "", 1)
	old := bundleEntry("hip-amdgcn-amd-amdhsa-gfx906", 0, 1)
	spirv := bundleEntry("hip-spirv64-amd-amdhsa--amdgcnspirv", 0, 1)
	for _, test := range []struct {
		name  string
		entry entry
		want  bool
	}{
		{"gfx90a", e("gfx90a"), true},
		{"gfx90a", e("gfx90a:xnack+"), true},
		{"gfx90a:xnack+", e("gfx90a"), false},
		{"gfx90a:xnack+", e("gfx90a:xnack+"), true},
		{"gfx90a:xnack+", e("gfx90a:xnack-"), false},
		{"gfx90a:xnack+:sramecc-", e("gfx90a:sramecc-:xnack+"), true},
		{prefix + "gfx90a", e("gfx90a"), true},
		{prefix + "gfx90a", e("gfx90a:xnack+"), false},
		{"hip-amdgcn-amd-amdhsa--gfx906", old, true},
		{"gfx906", old, true},
		{"gfx9-generic", e("gfx9-generic"), true},
		{"gfx90", e("gfx90a"), false},
		{"amdgcnspirv", spirv, true},
		{"gfx90a", image, true},
		{"gfx90a:xnack+", image, true},
		{"amdgcn-amd-amdhsa--gfx90a:xnack+", image, true},
		{"amdgcn-amd-amdhsa--gfx90a", image, false},
		{"sm_90", sm, true},
		{"x86_64", bare, true},
		{"x86_64-pc-linux-gnu", bare, true},
		{"gfx90a", bundleEntry("host-x86_64-unknown-linux-gnu-", 0, 0), false},
	} {
		if got := test.entry.is(test.name); got != test.want {
			t.Errorf("%s names %s: %v", test.name, test.entry.id, got)
		}
	}
}

// TestBundles changes files that are bundles.
func TestBundles(t *testing.T) {
	plain, packed := code(t, false, "gfx90a", "gfx942"), code(t, true, "gfx90a", "gfx942")
	one := code(t, false, "gfx942")
	two := append(append(bytes.Clone(plain), make([]byte, 4096-len(plain)%4096)...), one...)
	replacement := []Replacement{{"gfx942", content.Memory([]byte("anything"))}}
	tests := map[string]struct {
		data     []byte
		o        Options
		kept     string // of the first bundle
		err      string
		warnings int
		check    func(t *testing.T, out []byte)
	}{
		"keep": {data: plain, o: Options{Keep: []string{"gfx942"}}, kept: "gfx942", check: func(t *testing.T, out []byte) {
			if b, err := bundle.Parse(out); err != nil || len(b.Entries) != 2 || b.Entries[1].Offset%4096 != 0 {
				t.Errorf("%+v, %v", b, err)
			}
		}},
		"drop": {data: plain, o: Options{Drop: []string{"gfx942"}}, kept: "gfx90a"},
		"drop missing": {data: plain, o: Options{Drop: []string{"gfx906"}}, kept: "gfx90a gfx942", warnings: 1, check: func(t *testing.T, out []byte) {
			if !bytes.Equal(out, plain) {
				t.Error("not a copy")
			}
		}},
		"keep missing":   {data: plain, o: Options{Keep: []string{"gfx906"}}, err: "no entry for gfx906: found hipv4-amdgcn-amd-amdhsa--gfx90a, hipv4-amdgcn-amd-amdhsa--gfx942"},
		"ignore missing": {data: plain, o: Options{Keep: []string{"gfx906", "gfx942"}, IgnoreMissing: true}, kept: "gfx942", warnings: 1},
		"nothing left":   {data: plain, o: Options{Keep: []string{"gfx906"}, IgnoreMissing: true}, err: "no device code would remain"},
		"replace": {data: plain, o: Options{Replace: replacement}, kept: "gfx90a gfx942", warnings: 1, check: func(t *testing.T, out []byte) {
			if !bytes.HasSuffix(out, []byte("anything")) {
				t.Error("not replaced")
			}
		}},
		"replace missing": {data: plain, o: Options{Replace: []Replacement{{"gfx906", content.Memory(nil)}}}, err: "no entry for gfx906"},
		"compressed": {data: packed, o: Options{Keep: []string{"gfx942"}}, kept: "gfx942", check: func(t *testing.T, out []byte) {
			if h, err := ccob.Parse(out); err != nil || h.Version != 3 {
				t.Errorf("%+v, %v", h, err)
			}
		}},
		"copied": {data: packed, o: Options{Keep: []string{"gfx942", "gfx90a"}}, kept: "gfx90a gfx942", check: func(t *testing.T, out []byte) {
			if !bytes.Equal(out, packed) {
				t.Error("not a copy")
			}
		}},
		"decompress": {data: packed, o: Options{Decompress: true}, kept: "gfx90a gfx942", check: func(t *testing.T, out []byte) {
			if !bytes.Equal(out, plain) {
				t.Error("not the plain bundle")
			}
		}},
		"several": {data: two, o: Options{Keep: []string{"gfx90a"}}, kept: "gfx90a", check: func(t *testing.T, out []byte) {
			second := bytes.LastIndex(out, []byte(bundle.Magic))
			if b, err := bundle.ParseAt(out, int64(second)); second%4096 != 0 || err != nil || len(b.Entries) != 1 {
				t.Errorf("the second bundle at %d: %+v, %v", second, b, err)
			}
		}},
		"no device code": {data: []byte("text"), o: Options{Keep: []string{"gfx90a"}}, err: "no device code"},
		"empty":          {data: nil, o: Options{Compress: true}, err: "no device code"},
		"PE":             {data: []byte("MZ......"), o: Options{Compress: true}, err: "no device code"},
		"hash":           {data: damagedHash(packed), o: Options{Keep: []string{"gfx942"}}, err: "hash"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out, report, err := apply(test.data, test.o)
			if err != nil || test.err != "" {
				if err == nil || test.err == "" || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %v, expected %q", err, test.err)
				}
				return
			}
			kept := ""
			for _, id := range report.Bundles[0].Kept[1:] {
				kept += " " + strings.TrimPrefix(id, prefix)
			}
			if strings.TrimSpace(kept) != test.kept || len(report.Warnings) != test.warnings {
				t.Errorf("kept %s, expected %s; warnings %v", kept, test.kept, report.Warnings)
			}
			if test.check != nil {
				test.check(t, out)
			}
		})
	}
}

// damagedHash returns a compressed bundle, without an index, whose hash is wrong.
func damagedHash(packed []byte) []byte {
	out := bytes.Clone(packed)
	out[24] ^= 1
	return out
}

// TestPackages changes offload binaries of both versions.
func TestPackages(t *testing.T) {
	image := func(arch, body string) offloadbinary.Image {
		return offloadbinary.Image{
			Kind: offloadbinary.Object, Offload: offloadbinary.OpenMP, Content: content.Memory([]byte(body)),
			Properties: offloadbinary.Properties{{Key: "arch", Value: arch}, {Key: "triple", Value: "amdgcn-amd-amdhsa"}},
		}
	}
	for version := 1; version <= 2; version++ {
		var all, want content.Buffer
		if err := offloadbinary.Write(&all, version, []offloadbinary.Image{image("gfx90a", "one"), image("gfx942", "two"), image("gfx1100", "three")}); err != nil {
			t.Fatal(err)
		}
		if err := offloadbinary.Write(&want, version, []offloadbinary.Image{image("gfx90a", "one"), image("gfx1100", "three")}); err != nil {
			t.Fatal(err)
		}
		out, report, err := apply(all.Bytes(), Options{Drop: []string{"gfx942"}})
		if err != nil || !bytes.Equal(out, want.Bytes()) || report.Format != "offload-binary" {
			t.Errorf("version %d: %v, %+v", version, err, report)
		}
	}
}

// TestHostile rejects damaged linked files, quickly.
func TestHostile(t *testing.T) {
	bundles := [][]byte{code(t, false, "gfx90a", "gfx942"), code(t, false, "gfx942")}
	good := testelf.Library{Bundles: bundles, Wrappers: []int{0, 1}}
	middle := uint64(100)
	section := func(data []byte, name string) []byte {
		table := binary.LittleEndian.Uint64(data[40:])
		f, err := elfedit.Parse(content.Memory(data))
		if err != nil {
			t.Fatal(err)
		}
		i, _ := f.Section(name)
		return data[table+uint64(i)*64:]
	}
	put := binary.LittleEndian.PutUint64
	tests := map[string]struct {
		damage func(data []byte) []byte
		lib    testelf.Library
		want   string
	}{
		"size of 2^63":   {func(d []byte) []byte { put(section(d, ".hip_fatbin")[32:], 1<<63); return d }, good, "passes the end of the file"},
		"wrapper out":    {func(d []byte) []byte { return movePointer(t, d, 0, 1<<40) }, good, "points to address 0x10000000000"},
		"wrapper inside": {func(d []byte) []byte { return movePointer(t, d, 0, 16) }, good, "where no bundle begins"},
		"overlap":        {func(d []byte) []byte { return growBundle(t, d) }, good, "passes the end of the file"},
		"segments":       {func(d []byte) []byte { put(d[64+56+16:], 0); return d }, good, "do not fit"},
		"no sections":    {func(d []byte) []byte { put(d[40:], 0); return d }, testelf.Library{Bundles: bundles}, "no device code"},
		"32 bits":        {func(d []byte) []byte { d[4] = 1; return d }, good, "32-bit"},
		"big endian":     {func(d []byte) []byte { d[5] = 2; return d }, good, "big-endian"},
		"machine":        {func(d []byte) []byte { d[18] = 243; return d }, good, "machine 243"},
		"no wrappers":    {func(d []byte) []byte { return d }, testelf.Library{Bundles: bundles}, "no wrapper"},
		"pointer":        {func(d []byte) []byte { return d }, testelf.Library{Bundles: bundles, Wrappers: []int{0, 1}, Pointer: &middle}, "where no device code begins"},
		"nobits":         {func(d []byte) []byte { section(d, ".hip_fatbin")[4] = 8; return d }, good, "no device code"},
		"align":          {func(d []byte) []byte { put(d[64+48:], 1<<62); return d }, good, "do not fit"},
		"type cut":       {func(d []byte) []byte { d[16] = 1; return d[:17] }, good, "17 bytes without an ELF header"},
		"count": {func(d []byte) []byte {
			put(d[bytes.Index(d, []byte(bundle.Magic))+24:], 1<<62)
			return d
		}, good, "headers of 4611686018427387904 entries"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, _, err := apply(test.damage(test.lib.Build()), Options{Keep: []string{"gfx942"}})
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, expected %q", err, test.want)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// movePointer adds to the addend of a relocation of a wrapper.
func movePointer(t *testing.T, data []byte, n int, by uint64) []byte {
	f, err := elfedit.Parse(content.Memory(data))
	if err != nil {
		t.Fatal(err)
	}
	i, _ := f.Section(".rela.dyn")
	b := data[f.Sections[i].Offset+uint64(n)*24+16:]
	binary.LittleEndian.PutUint64(b, map[bool]uint64{true: by, false: binary.LittleEndian.Uint64(b) + by}[by >= 1<<40])
	return data
}

// growBundle makes the last entry of the first bundle reach into the second.
func growBundle(t *testing.T, data []byte) []byte {
	at := bytes.Index(data, []byte(bundle.Magic))
	b, err := bundle.ParseAt(data, int64(at))
	if err != nil {
		t.Fatal(err)
	}
	e := b.Entries[len(b.Entries)-1]
	binary.LittleEndian.PutUint64(data[e.At+8:], uint64(e.Size)+8192)
	return data
}

// TestBitFlips flips bits of the headers and tables of a linked file: there is no panic, and the
// output keeps its structure.
func TestBitFlips(t *testing.T) {
	small := [][]byte{code(t, false, "gfx90a", "gfx942")}
	data := testelf.Library{Bundles: small, Wrappers: []int{0}}.Build()
	f, err := elfedit.Parse(content.Memory(data))
	if err != nil {
		t.Fatal(err)
	}
	ranges := [][2]uint64{{0, 64 + 7*56}, {binary.LittleEndian.Uint64(data[40:]), uint64(len(data))}}
	for _, name := range []string{".dynamic", ".rela.dyn", ".hipFatBinSegment", ".symtab", ".dynsym"} {
		i, _ := f.Section(name)
		ranges = append(ranges, [2]uint64{f.Sections[i].Offset, f.Sections[i].Offset + f.Sections[i].Size})
	}
	step := uint64(3)
	for _, r := range ranges {
		for at := r[0]; at < r[1]; at += step {
			for bit := range 8 {
				damaged := bytes.Clone(data)
				damaged[at] ^= 1 << bit
				out, _, err := apply(damaged, Options{Keep: []string{"gfx942"}})
				if err != nil {
					continue
				}
				rules := make(map[elfcheck.Rule]bool)
				for _, f := range elfcheck.Check(damaged) {
					rules[f.Rule] = true
				}
				for _, f := range elfcheck.Check(out) {
					if !rules[f.Rule] {
						t.Errorf("byte 0x%x bit %d: %v", at, bit, f)
					}
				}
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, l := range libraries(f) {
		if l.Page < 65536 {
			f.Add(l.Build())
		}
	}
	cuda := fatbinary(f, "sm_80", "compute_90")
	f.Add(cuda)
	f.Add(testelf.Library{CUDA: true, Bundles: [][]byte{cuda, cuda}, Wrappers: []int{0, 1}}.Build())
	f.Add(fixture.ELF(f, ".nv_fatbin", string(cuda)))
	f.Add(windows(f, false))
	f.Add(code(f, true, "gfx90a"))
	f.Add([]byte("!<arch>\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, o := range []Options{{Keep: []string{"gfx942", "sm_80"}, IgnoreMissing: true}, {Compress: true, DryRun: true}} {
			_, _, _ = apply(data, o)
		}
	})
}
