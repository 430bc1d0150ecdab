package check

import (
	"bytes"
	"compress/zlib"
	"crypto/md5"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	bundlepkg "github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// plain writes a bundle with adjacent contents, without padding.
func plain(entries ...Entry) []byte {
	size := len(plainMagic) + 8
	for _, e := range entries {
		size += 24 + len(e.ID)
	}
	b := binary.LittleEndian.AppendUint64([]byte(plainMagic), uint64(len(entries)))
	offset := size
	for _, e := range entries {
		for _, n := range []int{offset, len(e.Content), len(e.ID)} {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		b = append(b, e.ID...)
		offset += len(e.Content)
	}
	for _, e := range entries {
		b = append(b, e.Content...)
	}
	return b
}

// compressed wraps a bundle.
func compressed(t *testing.T, version, method int, raw []byte) []byte {
	var data bytes.Buffer
	switch method {
	case 0:
		w := zlib.NewWriter(&data)
		w.Write(raw)
		w.Close()
	case 1:
		w, err := zstd.NewWriter(&data)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(raw)
		w.Close()
	}
	b := []byte(compressedMagic)
	b = binary.LittleEndian.AppendUint16(b, uint16(version))
	b = binary.LittleEndian.AppendUint16(b, uint16(method))
	switch version {
	case 1:
		b = binary.LittleEndian.AppendUint32(b, uint32(len(raw)))
	case 2:
		b = binary.LittleEndian.AppendUint32(b, uint32(24+data.Len()))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(raw)))
	case 3:
		b = binary.LittleEndian.AppendUint64(b, uint64(32+data.Len()))
		b = binary.LittleEndian.AppendUint64(b, uint64(len(raw)))
	}
	sum := md5.Sum(raw)
	return append(append(b, sum[:8]...), data.Bytes()...)
}

// codeObject is the header of an AMD GPU's code object with these flags.
func codeObject(flags uint32) []byte {
	b := make([]byte, 100)
	copy(b, "\x7fELF\x02\x01\x01\x40\x04")
	binary.LittleEndian.PutUint16(b[18:], uint16(elf.EM_AMDGPU))
	binary.LittleEndian.PutUint32(b[48:], flags)
	return b
}

const (
	host   = "host-x86_64-unknown-linux-gnu-"
	gfx942 = "hipv4-amdgcn-amd-amdhsa--gfx942"
	gfx90a = "hipv4-amdgcn-amd-amdhsa--gfx90a"
)

func good() []Entry {
	return []Entry{
		{ID: host},
		{ID: gfx90a + ":xnack+", Content: codeObject(0x73f)},
		{ID: gfx90a + ":xnack-", Content: codeObject(0x63f)},
		{ID: gfx942, Content: whole(append(codeObject(0x54c), bytes.Repeat([]byte("code"), 1<<19)...))},
	}
}

// whole sets the header of a code object so that its program header table ends at
// its last byte.
func whole(object []byte) []byte {
	binary.LittleEndian.PutUint64(object[32:], uint64(len(object)-elfProgramHeaderSize))
	binary.LittleEndian.PutUint16(object[56:], 1)
	return object
}

func TestGood(t *testing.T) {
	raw := plain(good()...)
	files := map[string][]byte{
		"plain":   raw,
		"v1 zlib": compressed(t, 1, 0, raw),
		"v1 zstd": compressed(t, 1, 1, raw),
		"v2 zlib": compressed(t, 2, 0, raw),
		"v3 zstd": compressed(t, 3, 1, raw),
	}
	for name, data := range files {
		t.Run(name, func(t *testing.T) {
			for _, entries := range [][]Entry{good(), nil} {
				result := Bundle(data, Options{Entries: entries, MaxSize: int64(len(data)), Linked: true})
				if len(result.Problems)+len(result.Warnings) > 0 {
					t.Errorf("with %d expected entries: got problems %v and warnings %v, want none", len(entries), result.Problems, result.Warnings)
				}
				if found := result.Found; len(found) != 4 || found[3].ID != gfx942 || found[3].Size != int64(len(good()[3].Content)) {
					t.Errorf("got entries %v, want 4, the last one %s", found, gfx942)
				}
			}
		})
	}
}

func TestProblems(t *testing.T) {
	raw := plain(good()...)
	changed := func(data []byte, at int, to ...byte) []byte {
		data = bytes.Clone(data)
		copy(data[at:], to)
		return data
	}
	with := func(change func(e []Entry) []Entry) []byte { return plain(change(good())...) }
	at := func(b []byte, what string) int { return bytes.Index(b, []byte(what)) }
	v3, v2 := compressed(t, 3, 1, raw), compressed(t, 2, 1, raw)
	for name, test := range map[string]struct {
		data []byte
		opt  Options
		want []string
	}{
		"empty":             {data: nil, want: []string{"not a bundle: found an empty file"}},
		"text":              {data: []byte("text"), want: []string{"not a bundle: found text"}},
		"half of the magic": {data: raw[:9], want: []string{"not a bundle: the bundle ends at byte 0x9, inside the magic"}},
		"no bundle":         {data: append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 57)...), want: []string{"not a bundle: found an ELF file"}},
		"cut short":         {data: raw[:len(raw)-1], want: []string{"the bundle ends at byte 0x200234, inside entry " + gfx942}},
		"too long":          {data: append(bytes.Clone(raw), 0), want: []string{"1 bytes after the last entry"}},
		"count":             {data: changed(raw, 24, 0xff, 0xff, 0xff, 0xff), want: []string{"number of entries at byte 0x18: found 4294967295, expected at most 65536"}},
		"offset":            {data: changed(raw, at(raw, "hipv4")-18, 0x80), want: []string{"the bundle ends at byte 0x200235, inside the padding before entry "}},
		"id length":         {data: changed(raw, at(raw, "hipv4")-6, 0xff), want: []string{"the header of entry 2 of 4: an ID of 16711718 bytes"}},
		"content":           {data: changed(raw, len(raw)-4, 'X'), want: []string{"entry " + gfx942 + " differs from its image at byte 0x200060"}},
		"missing":           {data: with(func(e []Entry) []Entry { return e[:3] }), want: []string{"missing entry " + gfx942}},
		"not asked for":     {data: with(func(e []Entry) []Entry { return append(e, Entry{ID: "hip-x"}) }), want: []string{"unexpected entry hip-x"}},
		"order":             {data: with(func(e []Entry) []Entry { e[0], e[1] = e[1], e[0]; return e }), want: []string{"the order of entries is " + gfx90a + ":xnack+ " + host}},
		"twice":             {data: with(func(e []Entry) []Entry { return append(e, Entry{ID: host}) }), want: []string{"duplicate entry " + host}},
		"size":              {data: with(func(e []Entry) []Entry { e[1].Content = e[1].Content[:99]; return e }), want: []string{"entry " + gfx90a + ":xnack+ has 99 bytes, its image 100"}},
		"conflict":          {data: plain(Entry{ID: gfx90a}, Entry{ID: gfx90a + ":xnack+"}), opt: Options{Entries: []Entry{{ID: gfx90a}, {ID: gfx90a + ":xnack+"}}}, want: []string{"entries " + gfx90a + " and " + gfx90a + ":xnack+ cannot be in one bundle"}},
		"processor":         {data: plain(Entry{ID: gfx942, Content: codeObject(0x53f)}), opt: Options{Entries: []Entry{{ID: gfx942, Content: codeObject(0x53f), Name: "a.co"}}}, want: []string{"entry " + gfx942 + ": its image, a.co, is code for gfx90a, not for gfx942: correct its target"}},
		"feature":           {data: plain(Entry{ID: gfx90a, Content: codeObject(0x73f)}), opt: Options{Entries: []Entry{{ID: gfx90a, Content: codeObject(0x73f)}}}, want: []string{"its image is code for gfx90a:xnack+, not for gfx90a"}},
		"budget":            {data: raw, opt: Options{Entries: good(), MaxSize: 1000}, want: []string{"found 2097717 bytes, expected at most 1000, the size budget: compress the bundle, remove architectures, or raise the budget"}},
		"version":           {data: changed(v3, 4, 9), want: []string{"version of the header at byte 0x4: found 9, expected 1, 2 or 3"}},
		"method":            {data: changed(v3, 6, 7), want: []string{"compression method at byte 0x6: found 7, expected 0 (zlib) or 1 (zstd)"}},
		"file size":         {data: append(bytes.Clone(v2), 0), want: []string{"the header states a file size of"}},
		"raw size":          {data: changed(v3, 16, 1), want: []string{"the bundle ends at byte 0x200202, inside entry " + gfx942}},
		"hash":              {data: changed(v3, 24, ^v3[24]), want: []string{"the hash of the uncompressed bytes is"}},
		"short header":      {data: v3[:20], want: []string{"20 bytes are too few for the header of a compressed bundle of version 3"}},
		"shorter header":    {data: v3[:7], want: []string{"7 bytes are too few for the header of a compressed bundle"}},
		"not zstd":          {data: changed(v3, 32, 0), want: []string{"magic"}},
		"something behind":  {data: compressed(t, 3, 1, append(bytes.Clone(raw), 'x')), want: []string{"1 bytes after the last entry"}},
	} {
		t.Run(name, func(t *testing.T) {
			opt := test.opt
			if opt.Entries == nil {
				opt.Entries = good()
			}
			var got []string
			for i, p := range Bundle(test.data, opt).Problems {
				text := p.Error()
				if i < len(test.want) && strings.Contains(text, test.want[i]) {
					text = test.want[i]
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// An entry for an AMD GPU must be one complete image of device code.
func TestImages(t *testing.T) {
	object := whole(append(codeObject(0x54c), make([]byte, 900)...))
	for _, test := range []struct {
		name, id string
		content  []byte
		want     string
	}{
		{"code object", gfx942, object, ""},
		{"padded", gfx942, append(bytes.Clone(object), make([]byte, 96)...), ""},
		{"bitcode", gfx942, []byte("BC\xc0\xde...."), ""},
		{"host", host, []byte("anything"), ""},
		{"PTX", "cuda-nvptx64-nvidia-cuda--sm_90", []byte(".version 8.0"), ""},
		{"SPIR-V", "hipv4-spirv64-amd-amdhsa--amdgcnspirv", []byte("\x03\x02\x23\x07...."), ""},
		{"code object as SPIR-V", "hipv4-spirv64-amd-amdhsa--amdgcnspirv", object, "expected SPIR-V or LLVM bitcode"},
		{"empty", gfx942, nil, "found an empty file, expected an AMDGPU ELF file or LLVM bitcode"},
		{"text", gfx942, []byte("not a code object\n"), "found text, expected an AMDGPU ELF file or LLVM bitcode"},
		{"LFS pointer", gfx942, []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "found a Git LFS pointer (run git lfs pull)"},
		{"gzip", gfx942, []byte("\x1f\x8b\x08\x00"), "found a gzip file"},
		{"bundle", gfx942, plain(Entry{ID: gfx942, Content: object}), "found a bundle"},
		{"cut", gfx942, object[:700], "its image is truncated: its last section ends at byte 0x3e8, the file at byte 0x2bc"},
		{"two files", gfx942, append(bytes.Clone(object), object...), "its image is more than one code object: 1000 bytes follow the ELF file, which ends at byte 0x3e8"},
		{"host object", gfx942, func() []byte {
			b := bytes.Clone(object)
			binary.LittleEndian.PutUint16(b[18:], uint16(elf.EM_X86_64))
			return b
		}(), "its image is code for a host (ELF machine 62), not for gfx942"},
		{"object of another machine", gfx942, func() []byte {
			b := bytes.Clone(object)
			binary.LittleEndian.PutUint16(b[18:], 190)
			return b
		}(), "its image is code for ELF machine 190, not for gfx942"},
		{"claims too much", gfx942, func() []byte {
			b := bytes.Clone(object)
			binary.LittleEndian.PutUint64(b[32:], 1<<63)
			return b
		}(), "a header states 0x38 bytes at 0x8000000000000000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			problems := Bundle(plain(Entry{ID: test.id, Content: test.content}), Options{DeviceCode: true}).Problems
			got := ""
			if len(problems) > 0 {
				got = problems[0].Error()
			}
			if len(problems) > 1 || (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got problems %v, want %q", problems, test.want)
			}
		})
	}
}

// layout lays out a bundle by package bundle.
func layout(t *testing.T, entries []Entry, o bundlepkg.Options) []byte {
	t.Helper()
	var items []bundlepkg.Item
	for _, e := range entries {
		items = append(items, bundlepkg.Item{ID: e.ID, Content: content.Memory(e.Content)})
	}
	return fixture.BundleOf(t, o, items...)
}

// Writers also align empty entries, and can store equal contents once.
func TestLayouts(t *testing.T) {
	empty := func(n int) []Entry {
		e := good()
		e[n].Content = nil
		return e
	}
	for name, entries := range map[string][]Entry{
		"all":         good(),
		"empty first": empty(0),
		"empty":       empty(1),
		"empty last":  empty(3),
		"equal": {
			{ID: gfx90a, Content: []byte("code")}, {ID: host}, {ID: gfx942, Content: []byte("code")},
			{ID: "hip-nvptx64-nvidia-cuda--sm_70", Content: []byte("code")}, {ID: "hip-nvptx64-nvidia-cuda--sm_80", Content: []byte("node")},
		},
		"all empty": {{ID: host}, {ID: gfx942}},
	} {
		for _, align := range []uint64{1, 8, 4096} {
			for _, share := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/align %d/share %v", name, align, share), func(t *testing.T) {
					data := layout(t, entries, bundlepkg.Options{Align: align, ShareEqual: share})
					for _, data := range [][]byte{data, compressed(t, 3, 1, data)} {
						for _, want := range [][]Entry{entries, nil} {
							if got := Bundle(data, Options{Entries: want}).Problems; len(got) > 0 {
								t.Errorf("with %d expected entries: got problems %v, want none", len(want), got)
							}
						}
					}
					oneProblem(t, append(bytes.Clone(data), 0), nil, "1 bytes after the last entry")
				})
			}
		}
	}
	t.Run("shared content is not that of the second image", func(t *testing.T) {
		shared := []Entry{{ID: gfx90a, Content: []byte("code")}, {ID: gfx942, Content: []byte("code")}}
		data := layout(t, shared, bundlepkg.Options{Align: 1, ShareEqual: true})
		shared[1].Content = []byte("cope")
		oneProblem(t, data, shared, "entry "+gfx942+" differs from its image at byte 0x2")
	})
	t.Run("padding before an empty entry is not zero", func(t *testing.T) {
		data := layout(t, empty(3), bundlepkg.Options{Align: 4096})
		data[len(data)-1] = 1
		oneProblem(t, data, nil, "is not part of an entry and is not zero")
	})
	// Readers reject an entry that begins after the end, even if it is empty.
	t.Run("padding before an empty entry is cut", func(t *testing.T) {
		data := layout(t, empty(3), bundlepkg.Options{Align: 4096})
		oneProblem(t, data[:len(data)-1], nil, "where the empty entry")
	})
}

// oneProblem checks that Bundle finds one problem in data, whose text contains want.
func oneProblem(t *testing.T, data []byte, entries []Entry, want string) {
	t.Helper()
	if got := Bundle(data, Options{Entries: entries}).Problems; len(got) != 1 || !strings.Contains(got[0].Error(), want) {
		t.Errorf("got problems %v, want one that contains %q", got, want)
	}
}

func TestMagicInside(t *testing.T) {
	raw := plain(Entry{ID: host}, Entry{ID: gfx942, Content: []byte("CCOB and CCOB")})
	if got := Bundle(raw, Options{}); len(got.Problems)+len(got.Warnings) > 0 {
		t.Errorf("plain bundle: got %v, want no problems and warnings", got)
	}
	random := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{}).Read(random)
	for n := 1; n < 6; n++ {
		copy(random[n*10_000:], "CCOB")
		data := compressed(t, 3, 1, plain(Entry{ID: host}, Entry{ID: gfx942, Content: random}))
		got := Bundle(data, Options{})
		if len(got.Problems) > 0 || len(got.Warnings) != 1 {
			t.Fatalf("compressed bundle: got %v, want one warning", got)
		}
		first := bytes.Index(data[1:], []byte("CCOB")) + 1
		want := fmt.Sprintf(`the magic of compressed bundles, "CCOB", also occurs at byte 0x%x`, first)
		if text := got.Warnings[0].Error(); !strings.HasPrefix(text, want) || strings.Contains(text, ", other places: ") != (n > 3) {
			t.Errorf("%d times: got %q, want %q, and other places if there are more than 3", n, text, want)
		}
	}
}

func FuzzBundle(f *testing.F) {
	raw := plain(Entry{ID: host}, Entry{ID: gfx942, Content: codeObject(0x54c)})
	f.Add(raw)
	f.Add(raw[:len(raw)-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		result := Bundle(data, Options{})
		if len(result.Problems) > 0 {
			return
		}
		for _, e := range result.Found {
			if e.Offset < 0 || e.Size < 0 {
				t.Errorf("got entry %+v, want an offset and a size of 0 or more", e)
			}
		}
	})
}

// TestFixedFeatures accepts code for a processor that always has a feature, however a release of clang states it.
func TestFixedFeatures(t *testing.T) {
	const gfx1250 = "hipv4-amdgcn-amd-amdhsa--gfx1250"
	for _, test := range []struct {
		id    string
		flags uint32
		want  string
	}{
		{gfx1250, 0x549, ""}, {gfx1250, 0xd49, ""}, {gfx1250, 0x149, ""}, {gfx1250, 0x349, ""}, {gfx1250 + ":xnack+", 0x349, ""},
		{gfx1250, 0x249, "code for gfx1250:xnack-, not for gfx1250"}, {gfx1250 + ":xnack-", 0x249, ""},
	} {
		entries := []Entry{{ID: test.id, Content: codeObject(test.flags)}}
		got := fmt.Sprint(Bundle(plain(entries...), Options{Entries: entries}).Problems)
		if test.want == "" && got != "[]" || !strings.Contains(got, test.want) {
			t.Errorf("%s with flags 0x%x: problems %s, want %q", test.id, test.flags, got, test.want)
		}
	}
}
