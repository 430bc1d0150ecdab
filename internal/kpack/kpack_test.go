package kpack

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tinylib/msgp/msgp"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/compression/longzstd"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

// sample returns an archive with three code objects, two of which share data.
func sample(t testing.TB, scheme Scheme) *Archive {
	t.Helper()
	a := &Archive{Group: "math", Family: "gfx90X", Archs: []string{"gfx90a:xnack-", "gfx90a"}, Scheme: scheme}
	add := func(key, arch string, ordinal int, data []byte, metadata map[string]any) {
		stored := data
		if scheme == Zstd {
			var err error
			if stored, err = longzstd.Encode(context.Background(), nil, data, longzstd.FromNumber(3)); err != nil {
				t.Fatal(err)
			}
		}
		e := Entry{Key: key, Arch: arch, Type: "hsaco", Ordinal: ordinal, Size: int64(len(data)), Metadata: metadata, Stored: content.Memory(stored)}
		e.Target, _ = metadata["target"].(string)
		a.Entries = append(a.Entries, e)
	}
	one, two := bytes.Repeat([]byte("one"), 400), bytes.Repeat([]byte("two"), 10)
	add("lib/a.so#0", "gfx90a:xnack-", 0, one, map[string]any{"target": "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", "source_prefix": "math"})
	add("lib/a.so#1", "gfx90a:xnack-", 1, two, map[string]any{})
	add("lib/a.so#2", "gfx90a", 0, one, map[string]any{})
	return a
}

func write(t testing.TB, a *Archive) []byte {
	t.Helper()
	var out content.Buffer
	if err := Write(&out, a); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRoundTrip(t *testing.T) {
	for _, scheme := range []Scheme{None, Zstd} {
		t.Run(string(scheme), func(t *testing.T) {
			data := write(t, sample(t, scheme))
			got, err := Parse(content.Memory(data))
			if err != nil {
				t.Fatal(err)
			}
			want := sample(t, scheme)
			for i := range got.Entries {
				g, _, err := got.Entries[i].Content(t.Context(), nil, scheme)
				if err != nil {
					t.Fatal(err)
				}
				var w content.Content
				for j := range want.Entries {
					if want.Entries[j].Key == got.Entries[i].Key {
						w, _, _ = want.Entries[j].Content(t.Context(), nil, scheme)
					}
				}
				if !bytes.Equal(g.Mapped(guard.Inside), w.Mapped(guard.Inside)) {
					t.Errorf("%s: content differs", got.Entries[i].Key)
				}
				got.Entries[i].Stored = content.Content{}
			}
			if !bytes.Equal(write(t, mustParse(t, data)), data) {
				t.Error("written again, the archive has other bytes")
			}
			names := []string{}
			for _, e := range got.Sorted() {
				names = append(names, fmt.Sprintf("%d %s %s %d %s", e.Ordinal, e.Key, e.Arch, e.Size, e.Target))
			}
			expected := []string{
				"0 lib/a.so#0 gfx90a:xnack- 1200 hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", "0 lib/a.so#2 gfx90a 1200 ", "1 lib/a.so#1 gfx90a:xnack- 30 ",
			}
			if diff := cmp.Diff(expected, names); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func mustParse(t testing.TB, data []byte) *Archive {
	t.Helper()
	a, err := Parse(content.Memory(data))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// exercise reads everything in an archive.
func exercise(data []byte) error {
	a, err := Parse(content.Memory(data))
	if err != nil {
		return err
	}
	var v Verifier
	v.Archive(context.Background(), "a", a)
	v.Finish()
	return v.Err()
}

// TestDamage cuts an archive everywhere and flips each of its bits: no panic, and every
// cut is an error.
func TestDamage(t *testing.T) {
	for _, scheme := range []Scheme{None, Zstd} {
		data := write(t, sample(t, scheme))
		for n := range data {
			if exercise(data[:n]) == nil {
				t.Errorf("%s: cut to %d of %d bytes it is no error", scheme, n, len(data))
			}
		}
		for i := range data {
			for bit := range 8 {
				damaged := bytes.Clone(data)
				damaged[i] ^= 1 << bit
				err := exercise(damaged)
				if scheme == Zstd && i >= dataOffset+4 && err == nil && i < int(binary.LittleEndian.Uint64(data[8:])) {
					continue // literals of a frame without a checksum
				}
				if err != nil && strings.Contains(err.Error(), "\n") {
					t.Errorf("byte %d bit %d: the error has several lines: %v", i, bit, err)
				}
			}
		}
	}
}

// archiveOf returns an archive with a table of contents.
func archiveOf(toc []byte) []byte {
	b := append([]byte(magic), 1, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, dataOffset)
	return append(append(b, make([]byte, dataOffset-headerSize)...), toc...)
}

func TestRefused(t *testing.T) {
	head := func(n uint32) []byte {
		b := msgp.AppendMapHeader(nil, n)
		b = msgp.AppendInt(msgp.AppendString(b, "format_version"), 1)
		return msgp.AppendArrayHeader(msgp.AppendString(b, "gfx_arches"), 0)
	}
	deep := head(3)
	deep = msgp.AppendString(deep, "x")
	for range 40 {
		deep = msgp.AppendArrayHeader(deep, 1)
	}
	deep = msgp.AppendNil(deep)
	good := write(t, sample(t, None))
	tests := map[string]struct {
		data []byte
		want string
	}{
		"magic":    {[]byte("KPAX0123456789ab"), "without the magic KPAK"},
		"version":  {append([]byte("KPAK\x02\x00\x00\x00"), make([]byte, 100)...), "found version 2, expected 1"},
		"offset":   {append([]byte("KPAK\x01\x00\x00\x00\x0f"), make([]byte, 100)...), "outside of the file"},
		"trailing": {append(bytes.Clone(good), 0), "after the table of contents"},
		"count":    {archiveOf([]byte{0xdf, 0xff, 0xff, 0xff, 0xff}), "a map of 4294967295 entries in 0 bytes"},
		"array":    {archiveOf([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}), "an array of 4294967295 values in 0 bytes"},
		"deep":     {archiveOf(deep), "nested in more than 32 levels"},
		"twice":    {archiveOf(append(append(head(3), msgp.AppendString(nil, "format_version")...), 1)), "twice"},
		"scheme":   {bytes.Replace(good, []byte("\xa4none"), []byte("\xa4nine"), 1), `compression scheme "nine"`},
		"ordinal":  {bytes.Replace(good, []byte("ordinal\x01"), []byte("ordinal\x09"), 1), "ordinal 9: the archive has 2 pieces of data"},
		"blob":     {bytes.Replace(good, []byte("offset\xcd\x04\xf0"), []byte("offset\xcd\x7f\xf0"), 1), "outside of the data"},
		"size":     {bytes.Replace(good, []byte("original_size\x1e"), []byte("original_size\x1f"), 1), "original_size 31: the data has 30 bytes"},
		"no archs": {archiveOf(msgp.AppendInt(msgp.AppendString(msgp.AppendMapHeader(nil, 1), "format_version"), 1)), "no gfx_arches"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := exercise(test.data)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, expected %q", err, test.want)
			}
		})
	}
	t.Run("frame size", func(t *testing.T) {
		a := sample(t, Zstd)
		a.Entries[1].Size = 1 << 40
		if err := exercise(write(t, a)); err == nil || !strings.Contains(err.Error(), "original_size 1099511627776: its zstd frame has 30 bytes") {
			t.Errorf("error %v", err)
		}
	})
}

func TestSplitKey(t *testing.T) {
	for _, test := range []struct {
		key, name string
		index     int
		ok        bool
	}{
		{"lib/a.so#0", "lib/a.so", 0, true},
		{"a#b#12", "a#b", 12, true},
		{"bin/app", "bin/app", 0, false},
		{"a#", "a#", 0, false},
		{"a#1x", "a#1x", 0, false},
		{"a#99999999999999999999", "a#99999999999999999999", 0, false},
	} {
		if name, index, ok := SplitKey(test.key); name != test.name || index != test.index || ok != test.ok {
			t.Errorf("%s: %q, %d, %v", test.key, name, index, ok)
		}
	}
}

func TestMarker(t *testing.T) {
	m := Marker{Name: "lib/a.so", SearchPaths: []string{"../.kpack/m_@GFXARCH@.kpack"}}
	got, err := parseMarker(append(m.bytes(), "what follows in memory"...))
	if err != nil || got.Name != m.Name || got.SearchPaths[0] != m.SearchPaths[0] {
		t.Errorf("%+v, %v", got, err)
	}
	if !bytes.HasPrefix(m.bytes(), []byte("\x82\xb2kpack_search_paths\x91")) {
		t.Errorf("the marker begins with %q", m.bytes()[:20])
	}
	for _, bad := range []string{"", "\x80", "\x81\xabkernel_name\xa1x", "\xdf\xff\xff\xff\xff", "text"} {
		if _, err := parseMarker([]byte(bad)); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}

// TestVerify finds code of another source under a key.
func TestVerify(t *testing.T) {
	code := func(name string, flags uint32) []byte {
		return testelf.CodeObject{ABI: 3, Flags: flags, Kernels: []testelf.Kernel{{Name: name, CodeSize: 64}}}.Build()
	}
	archive := func(arch string, data []byte, archs ...string) *Archive {
		return &Archive{Group: "g", Family: arch, Archs: archs, Scheme: None, Entries: []Entry{{Key: "a#0", Arch: arch, Type: "hsaco", Size: int64(len(data)), Stored: content.Memory(data)}}}
	}
	const gfx90a, gfx942 = 0x3f, 0x4c
	tests := map[string]struct {
		archives []*Archive
		err      string
		warning  string
	}{
		"same":     {[]*Archive{archive("gfx90a", code("k", gfx90a), "gfx90a"), archive("gfx942", code("k", gfx942), "gfx942")}, "", ""},
		"strange":  {[]*Archive{archive("gfx90a", code("k", gfx90a), "gfx90a"), archive("gfx942", code("other", gfx942), "gfx942")}, "a#0: the code for gfx90a and the code for gfx942 have no kernel in common", ""},
		"unlisted": {[]*Archive{archive("gfx90a", code("k", gfx90a), "gfx942")}, "gfx90a is not in gfx_arches", ""},
		"flags":    {[]*Archive{archive("gfx942", code("k", gfx90a), "gfx942")}, "", "its ELF flags are for gfx90a"},
		"no ELF":   {[]*Archive{archive("gfx942", []byte("text"), "gfx942")}, "", "not an AMDGPU ELF file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var v Verifier
			for i, a := range test.archives {
				v.Archive(context.Background(), fmt.Sprint(i), a)
			}
			v.Finish()
			if err := v.Err(); (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, expected %q", err, test.err)
			}
			warnings := ""
			for _, p := range v.Problems {
				if p.Warning {
					warnings += p.Text
				}
			}
			if (warnings == "") != (test.warning == "") || !strings.Contains(warnings, test.warning) {
				t.Errorf("warnings %q, expected %q", warnings, test.warning)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(write(f, sample(f, None)))
	f.Add(write(f, sample(f, Zstd)))
	f.Add(archiveOf([]byte{0xdf, 0xff, 0xff, 0xff, 0xff}))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := Parse(content.Memory(data))
		if err != nil {
			return
		}
		for i := range a.Entries {
			if a.Entries[i].Size < 1<<20 {
				_, _, _ = a.Entries[i].Content(t.Context(), nil, a.Scheme)
			}
		}
	})
}

func FuzzParseMarker(f *testing.F) {
	f.Add((&Marker{Name: "a", SearchPaths: []string{"b"}}).bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := parseMarker(data); err == nil && (m.Name == "" || len(m.SearchPaths) == 0) {
			t.Errorf("an incomplete marker: %+v", m)
		}
	})
}

// A setting is compared with the state of its own feature.
func TestFits(t *testing.T) {
	states := map[string]target.FeatureState{"any": target.FeatureAny, "-": target.FeatureOff, "+": target.FeatureOn}
	for _, feature := range target.FeatureNames() {
		for name, state := range states {
			code := target.CodeObject{Processor: "gfx90a", Features: target.FeatureStates{}.With(feature, state)}
			for _, other := range append(target.FeatureNames(), "tgsplit") {
				for _, sign := range []string{"-", "+"} {
					want := other != feature || name == "any" || name == sign
					if id := "gfx90a:" + other + sign; Fits(code, id) != want {
						t.Errorf("%s %s: Fits(%s) is %t", feature, name, id, !want)
					}
				}
			}
		}
	}
}
