package offloadbinary

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// write returns the bytes of an offload binary.
func write(t testing.TB, version int, images []Image) []byte {
	t.Helper()
	var out content.Buffer
	if err := Write(&out, version, images); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// parse returns all packages and the first error.
func parse(data []byte, opt Options) (packages []*Binary, err error) {
	for p, err := range Parse(content.Memory(data), opt) {
		if err != nil {
			return packages, err
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// images returns the images of packages.
func images(packages []*Binary) []Image {
	var all []Image
	for _, p := range packages {
		all = append(all, p.Images...)
	}
	return all
}

var compareImages = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(Image{}, "Offset"),
	cmp.Comparer(func(a, b content.Content) bool { return bytes.Equal(a.Mapped(guard.Inside), b.Mapped(guard.Inside)) }),
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab-:é")))
		want := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Image {
			return Image{
				Kind:    ImageKind(rapid.Uint16().Draw(t, "kind")),
				Offload: OffloadKind(rapid.Uint16().Draw(t, "offload")),
				Flags:   rapid.Uint32().Draw(t, "flags"),
				Properties: rapid.SliceOf(rapid.Custom(func(t *rapid.T) Property {
					return Property{text.Draw(t, "key"), text.Draw(t, "value")}
				})).Draw(t, "strings"),
				Content: content.Memory(rapid.SliceOf(rapid.Byte()).Draw(t, "content")),
			}
		})).Draw(t, "images")
		for version := 1; version <= 2; version++ {
			var out content.Buffer
			if err := Write(&out, version, want); err != nil {
				t.Fatal(err)
			}
			if out.Len() == 0 {
				continue // no packages are no offload binary
			}
			packages, err := parse(out.Bytes(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, images(packages), compareImages); diff != "" {
				t.Fatalf("version %d (-written +read):\n%s", version, diff)
			}
		}
	})
}

// compress converts a version 2 package to version 3, as LLVM's writer does; without a method, the
// package is not compressed.
func compress(t testing.TB, v2 []byte, method string) []byte {
	t.Helper()
	body := bytes.Clone(v2[headerSize:])
	le := binary.LittleEndian
	// The header is 8 bytes longer: offsets move.
	count := le.Uint64(v2[24:])
	records := uint64(0)
	for i := range count {
		e := body[i*entrySize:]
		le.PutUint64(e[8:], le.Uint64(e[8:])+8)
		le.PutUint64(e[24:], le.Uint64(e[24:])+8)
		records += le.Uint64(e[16:])
	}
	for i := range records {
		r := body[count*entrySize+i*recordSize:]
		le.PutUint64(r, le.Uint64(r)+8)
		le.PutUint64(r[8:], le.Uint64(r[8:])+8)
	}
	inflated := uint64(0)
	if method != "" {
		inflated = headerSizeV3 + uint64(len(body))
	}
	switch method {
	case "zstd":
		encoder, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		body = encoder.EncodeAll(body, nil)
	case "zlib":
		var out bytes.Buffer
		w := zlib.NewWriter(&out)
		w.Write(body)
		w.Close()
		body = out.Bytes()
	}
	header := append([]byte(Magic), 3, 0, 0, 0)
	header = le.AppendUint64(header, headerSizeV3+uint64(len(body)))
	header = le.AppendUint64(header, headerSizeV3)
	header = le.AppendUint64(header, count)
	header = le.AppendUint64(header, inflated)
	p := append(header, body...)
	for len(p)%Align != 0 {
		p = append(p, 0)
	}
	return p
}

func TestVersion3(t *testing.T) {
	v2 := write(t, 2, twoImages(2))
	for _, method := range []string{"", "zstd", "zlib"} {
		one := compress(t, v2, method)
		data := append(bytes.Clone(one), one...)
		data = append(data, write(t, 1, twoImages(1))...)
		packages, err := parse(data, Options{Inflate: UpTo(1 << 20)})
		if err != nil {
			t.Errorf("%q: %v", method, err)
			continue
		}
		want := append(append(twoImages(2), twoImages(2)...), twoImages(1)...)
		if diff := cmp.Diff(want, images(packages), compareImages); diff != "" {
			t.Errorf("%q (-want +got):\n%s", method, diff)
		}
		if method == "" {
			continue
		}
		packages, err = parse(one, Options{})
		if err != nil || len(packages) != 1 || packages[0].Inflated != int64(len(v2))+8 || !packages[0].NotInflated || packages[0].Images != nil {
			t.Errorf("%q not inflated: %+v, %v", method, packages, err)
		}
		for _, test := range []struct {
			want  string
			spoil func(p []byte)
		}{
			{"can hold", func(p []byte) { binary.LittleEndian.PutUint64(p[32:], 1<<40) }},
			{method + " stream", func(p []byte) { p[32]-- }},
			{method + " stream", func(p []byte) { p[32]++ }},
			{method + " stream", func(p []byte) { p[len(p)/2] ^= 0x55; p[len(p)/2+1] ^= 0x55 }},
			{"lies in the header", func(p []byte) { p[16] = 32 }},
			{"is impossible", func(p []byte) { binary.LittleEndian.PutUint64(p[32:], 1<<63) }},
		} {
			p := bytes.Clone(one)
			test.spoil(p)
			if _, err := parse(p, Options{Inflate: UpTo(1 << 20)}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%q: %v, want an error with %q", method, err, test.want)
			}
		}
		// A fault inside of the stream.
		spoiled := bytes.Clone(v2)
		spoiled[headerSize+32] = 0xff
		if _, err := parse(compress(t, spoiled, method), Options{Inflate: UpTo(1 << 20)}); err == nil || !strings.Contains(err.Error(), "(offsets in the inflated package)") {
			t.Errorf("%q: %v", method, err)
		}
	}
}

// A small file may not claim any amount of memory.
func TestBombs(t *testing.T) {
	huge := bytes.Repeat([]byte{0}, 1<<20)
	for _, method := range []string{"zstd", "zlib"} {
		p := compress(t, write(t, 2, []Image{{Content: content.Memory(huge)}}), method)
		if _, err := parse(p, Options{Inflate: UpTo(2 << 20)}); err != nil {
			t.Errorf("%s: %v", method, err)
		}
		binary.LittleEndian.PutUint64(p[32:], 1<<40)
		if _, err := parse(p, Options{Inflate: UpTo(1 << 41)}); err == nil || !strings.Contains(err.Error(), "can hold") {
			t.Errorf("%s: %v", method, err)
		}
		// Two that are each within the limit are not together.
		p = compress(t, write(t, 2, []Image{{Content: content.Memory(huge)}}), method)
		packages, err := parse(append(bytes.Clone(p), p...), Options{Inflate: UpTo(3 << 19)})
		if err != nil || len(packages) != 2 || packages[0].NotInflated || !packages[1].NotInflated {
			t.Errorf("%s: %+v, %v", method, packages, err)
		}
	}
}

// v1 is a version 1 package with one property and an image, for tests to damage.
func v1(t testing.TB) []byte {
	return write(t, 1, []Image{{Kind: Object, Properties: Properties{{"arch", "gfx1"}}, Content: content.Memory([]byte("image"))}})
}

func v2(t testing.TB) []byte {
	return write(t, 2, []Image{{Kind: Object, Properties: Properties{{"arch", "gfx1"}}, Content: content.Memory([]byte("image"))}})
}

func TestErrors(t *testing.T) {
	put := func(offset int, value uint64) func([]byte) []byte {
		return func(p []byte) []byte {
			binary.LittleEndian.PutUint64(p[offset:], value)
			return p
		}
	}
	for _, test := range []struct {
		name      string
		data      []byte
		spoil     func([]byte) []byte
		offset    int64
		truncated bool
		want      string
	}{
		{"empty", nil, nil, 0, false, "offload binary at byte 0x0: begins with , expected the magic 10 ff 10 ad"},
		{"magic", []byte("\x7fELF0123456789"), nil, 0, false, "offload binary at byte 0x0: begins with 7f 45 4c 46, expected the magic 10 ff 10 ad"},
		{"short", []byte(Magic + "\n"), nil, 0, false, "offload binary at byte 0x0: the header has 32 bytes, found 5"},
		{"version 0", v1(t), put(4, 0), 4, false, "version is 0, expected 1 to 3"},
		{"version 4", v1(t), func(p []byte) []byte { p[4] = 4; return p }, 4, false, "version is 4, expected 1 to 3"},
		{"size", v1(t), put(8, 1<<63), 8, true, "its size of 9223372036854775808 bytes passes the end at 112"},
		{"size 31", v1(t), put(8, 31), 8, true, "its size of 31 bytes is less than that of its header, 32"},
		{"no room for the entry", v1(t), put(8, 71), 24, true, "1 entries of 40 bytes at 0x20 pass its end at 0x47"},
		{"entries", v1(t), put(16, 113), 16, true, "the entries' offset 0x71 passes its end at 0x70"},
		{"entries overflow", v1(t), put(16, 1<<64-8), 16, true, "the entries' offset 0xfffffffffffffff8 passes its end"},
		{"count", v2(t), put(24, 1<<60), 24, true, "1152921504606846976 entries of 40 bytes at 0x20 pass its end at 0x78"},
		{"strings", v1(t), put(40, 1<<62), 40, true, "image 1 of 1, entry at 0x20: 1 string records of 16 bytes at 0x4000000000000000 pass its end at 0x70"},
		{"number of strings", v1(t), put(48, 1<<60), 40, true, "1152921504606846976 string records of 16 bytes at 0x48 pass its end"},
		{"image", v1(t), put(56, 1<<64-1), 56, true, "image offset 0xffffffffffffffff + size 0x5 passes its end at 0x70"},
		{"image size", v1(t), put(64, 9), 56, true, "image offset 0x68 + size 0x9 passes its end at 0x70"},
		{"key", v1(t), put(72, 0x71), 0x70, true, "string record 1 at 0x48: string offset 0x71 passes its end at 0x70"},
		{"value without end", v1(t), func(p []byte) []byte { p = put(80, 0x6f)(p); p[0x6f] = 'x'; return p }, 0x6f, true, "string record 1 at 0x48: string at 0x6f has no end"},
		{"value size", v2(t), put(88, 0x40), 0x59, true, "string record 1 at 0x48: string at 0x66 with 64 bytes passes its end at 0x78"},
		{"value size overflow", v2(t), put(88, 1<<64-1), 88, true, "value size 0xffffffffffffffff passes its end"},
		{"behind", append(v1(t), "x"...), nil, 112, false, "offload binary at byte 0x70: begins with 78, expected the magic 10 ff 10 ad"},
		{"second", append(v1(t), Magic...), nil, 112, false, "offload binary at byte 0x70: the header has 32 bytes, found 4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			data := test.data
			if test.spoil != nil {
				data = test.spoil(data)
			}
			_, err := parse(data, Options{})
			fault, ok := err.(*Error)
			if !ok || !strings.Contains(err.Error(), test.want) || fault.Truncated != test.truncated {
				t.Fatalf("got %v (%T), want %s", err, err, test.want)
			}
			if fault.Offset != test.offset && test.name != "value size" {
				t.Errorf("offset 0x%x, want 0x%x", fault.Offset, test.offset)
			}
		})
	}
}

// Zeros between and after packages are padding, as linkers add it.
func TestPadding(t *testing.T) {
	one := v1(t)
	for _, zeros := range []int{0, 1, 7, 8, 511, 512, 5000} {
		pad := make([]byte, zeros)
		data := append(append(append(bytes.Clone(one), pad...), one...), pad...)
		packages, err := parse(data, Options{})
		if err != nil || len(packages) != 2 || packages[1].Offset != int64(len(one)+zeros) {
			t.Errorf("%d zeros: %v, %v", zeros, packages, err)
		}
	}
}

// The entry size of version 1 is ignored, as in LLVM 23; LLVM 22 only requires
// that it fits.
func TestEntrySize(t *testing.T) {
	p := v1(t)
	p[24] = 0
	if packages, err := parse(p, Options{}); err != nil || len(packages[0].Images) != 1 {
		t.Errorf("%v, %v", packages, err)
	}
}

// If two properties have one key, the last one applies.
func TestGet(t *testing.T) {
	img := Image{Properties: Properties{{"a", "1"}, {"b", "2"}, {"a", "3"}}}
	for key, want := range map[string]string{"a": "3", "b": "2", "c": ""} {
		if got := img.Get(key); got != want {
			t.Errorf("Get(%q) = %q, want %q", key, got, want)
		}
	}
}

// Files for which a simple reader would take too much time or memory.
func TestHostile(t *testing.T) {
	start := time.Now()
	le := binary.LittleEndian
	// Entries that all have the same long table of strings.
	const entries, records = 5000, 5000
	p := make([]byte, headerSize+entries*entrySize+records*recordSize+8)
	copy(p, Magic)
	p[4] = 2
	le.PutUint64(p[8:], uint64(len(p)))
	le.PutUint64(p[16:], headerSize)
	le.PutUint64(p[24:], entries)
	for i := range entries {
		e := p[headerSize+i*entrySize:]
		le.PutUint64(e[8:], headerSize+entries*entrySize)
		le.PutUint64(e[16:], records)
	}
	if _, err := parse(p, Options{}); err == nil || !strings.Contains(err.Error(), "tables overlap") {
		t.Errorf("tables: %v", err)
	}
	// Strings that are all suffixes of one long string.
	const long = 1 << 20
	p = make([]byte, headerSize+entrySize+records*recordSizeV1+long)
	copy(p, Magic)
	p[4] = 1
	le.PutUint64(p[8:], uint64(len(p)))
	le.PutUint64(p[16:], headerSize)
	le.PutUint64(p[40:], headerSize+entrySize)
	le.PutUint64(p[48:], records)
	text := uint64(len(p) - long)
	for i := range records {
		r := p[headerSize+entrySize+i*recordSizeV1:]
		le.PutUint64(r, text+uint64(2*i))
		le.PutUint64(r[8:], text+uint64(2*i+1))
	}
	for i := text; i < uint64(len(p))-1; i++ {
		p[i] = 'x'
	}
	if _, err := parse(p, Options{}); err == nil || !strings.Contains(err.Error(), "strings overlap") {
		t.Errorf("strings: %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestKinds(t *testing.T) {
	for name, want := range map[string]ImageKind{
		"a.o": Object, "a/b.bc": Bitcode, "x.cubin": Cubin, "x.fatbin": Fatbinary, "x.s": PTX, "x.spv": SPIRV, ".o": Object,
		"x": None, "x.": None, "x.so": None, "x.O": None, "a.o/x": None, "": None,
	} {
		if got := KindOfName(name); got != want {
			t.Errorf("KindOfName(%q) = %v, want %v", name, got, want)
		}
	}
	cuda := append([]byte("\x7fELF\x02\x01\x01"), make([]byte, 20)...)
	cuda[18] = 190
	for data, want := range map[string]ImageKind{
		"BC\xc0\xde": Bitcode, "\xde\xc0\x17\x0b": Bitcode, "\x7fELF": Object, string(cuda): Cubin,
		"\x50\xed\x55\xba": Fatbinary, "\x03\x02\x23\x07": SPIRV, "": None, "text": None,
	} {
		if got := KindOfData([]byte(data)); got != want {
			t.Errorf("KindOfData(%q) = %v, want %v", data, got, want)
		}
	}
	for name, want := range map[string]OffloadKind{"openmp": 1, "cuda": 2, "hip": 4, "sycl": 8, "none": 0} {
		got, ok := ParseOffloadKind(name)
		if got != want || !ok || got.String() != name {
			t.Errorf("ParseOffloadKind(%q) = %v, %v", name, got, ok)
		}
	}
	if got, ok := ParseOffloadKind("HIP"); got != 0 || ok {
		t.Errorf("ParseOffloadKind(HIP) = %v, %v", got, ok)
	}
	if got := OffloadKind(0x8003).String(); got != "openmp,cuda,0x8000" {
		t.Errorf("0x8003 is %s", got)
	}
	if got := fmt.Sprint(ImageKind(1), ImageKind(99)) + ImageKind(99).Extension(); got != "elf unknown (99)" {
		t.Errorf("image kinds: %s", got)
	}
}

// Reading takes time in proportion to the size, for every alignment.
func BenchmarkParse(b *testing.B) {
	image := Image{Kind: Object, Offload: HIP, Content: content.Memory(make([]byte, 1<<10)), Properties: Properties{{"triple", "amdgcn-amd-amdhsa"}, {"arch", "gfx942"}}}
	all := make([]Image, 1000)
	for i := range all {
		all[i] = image
	}
	data := append([]byte{0}, write(b, 1, all)...)
	for shift := range 2 {
		b.Run(fmt.Sprintf("misaligned%d", 1-shift), func(b *testing.B) {
			b.SetBytes(int64(len(data) - 1))
			for b.Loop() {
				if _, err := parse(bytes.Clone(data[1:]), Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
