package offloadbinary

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// ordered gives properties the order that LLVM writes them in.
func ordered(version int, properties ...Property) Properties {
	keys := make([]string, len(properties))
	for i, p := range properties {
		keys[i] = p.Key
	}
	var out Properties
	for _, i := range Order(version, keys) {
		if properties[i].Key != "file" && properties[i].Key != "kind" {
			out = append(out, properties[i])
		}
	}
	return out
}

// twoImages are what these arguments of llvm-offload-binary name:
// --image=file=i.s,triple=x-y-z,arch=gfx1,kind=hip,feature=chain,x=ain --image=file=b.o,empty=
func twoImages(version int) []Image {
	return []Image{
		{
			Kind: PTX, Offload: HIP, Content: content.Memory([]byte("image")),
			Properties: ordered(version, Property{"file", ""}, Property{"triple", "x-y-z"}, Property{"arch", "gfx1"}, Property{"kind", ""}, Property{"feature", "chain"}, Property{"x", "ain"}),
		},
		{Kind: Bitcode, Content: content.Memory([]byte("BC\xc0\xdeir")), Properties: ordered(version, Property{"file", ""}, Property{"empty", ""})},
	}
}

// What LLVM 22.1.8 (version 1), 23.1.4 (version 2) and 24 (version 3) write for twoImages.
var goldens = map[int]string{
	1: "10ff10ad01000000b80000000000000020000000000000002800000000000000050004000000000048000000000000000400000000000000b0000000000000000500000000000000" +
		"9c0000000000000091000000000000009700000000000000ab00000000000000a40000000000000089000000000000008f0000000000000093000000000000000" +
		"0782d792d7a007800636861696e0061726368006665617475726500747269706c65006766783100696d616765000000" +
		"10ff10ad01000000680000000000000020000000000000002800000000000000020000000000000048000000000000000100000000000000600000000000000006000000000000005900000000000000580000000000000000656d70747900004243c0de69720000",
	2: "10ff10ad020000002801000000000000200000000000000002000000000000000500040000000000700000000000000004000000000000001801000000000000050000000000000" +
		"00200000000000000d00000000000000001000000000000001d0100000000000006000000000000" +
		"00fd00000000000000110100000000000004000000000000000a01000000000000e9000000000000000500000000000000f500000000000000f90000000000000003000000000000000201000000000000f7000000000000000500000000000000ef00000000000000e8000000000000000000000000000000" +
		"00782d792d7a00656d707479007800636861696e0061726368006665617475726500747269706c650067667831000000696d6167654243c0de69720000000000",
	3: "10ff10ad030000003001000000000000280000000000000002000000000000000000000000000000050004000000000078000000000000000400000000000000200100000000000005000000000000000200000000000000d80000000000000001000000" +
		"00000000250100000000000006000000000000000501000000000000190100000000000004000000000000001201000000000000f1000000000000000500000000000000fd00000000000000010100000000000003000000000000000a01000000000000" +
		"ff000000000000000500000000000000f700000000000000f000000000000000000000000000000000782d792d7a00656d707479007800636861696e0061726368006665617475726500747269706c650067667831000000696d6167654243c0de69720000000000",
}

func TestWriteGolden(t *testing.T) {
	for version, golden := range goldens {
		var out content.Buffer
		if err := Write(&out, version, twoImages(version)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(golden, hex.EncodeToString(out.Bytes())); diff != "" {
			t.Errorf("version %d (-LLVM +ours):\n%s", version, diff)
		}
	}
}

// Compressed packages are read like uncompressed ones.
func TestWriteCompressed(t *testing.T) {
	part := bytes.Repeat([]byte("a part of the image, "), 5000)
	images := twoImages(3)
	images[0].Content = content.Memory(part)
	var plain content.Buffer
	if err := Write(&plain, 3, images); err != nil {
		t.Fatal(err)
	}
	for _, c := range []Compression{{Level: DefaultZstdLevel}, {Level: 19}, {Level: -7}, {Zlib: true, Level: DefaultZlibLevel}, {Zlib: true}, {Zlib: true, Level: 9}} {
		for _, list := range [][]Image{images, images[1:], nil} {
			var out content.Buffer
			if err := WriteCompressed(context.Background(), &out, list, c); err != nil {
				t.Fatal(err)
			}
			if out.Len()%Align != 0 {
				t.Errorf("%+v: %d bytes", c, out.Len())
			}
			two := append(bytes.Clone(out.Bytes()), plain.Bytes()...)
			n := 0
			for p, err := range Parse(content.Memory(two), Options{Inflate: UpTo(1 << 20)}) {
				if err != nil {
					t.Fatalf("%+v: %v", c, err)
				}
				want := list
				if n++; n == 2 {
					want = images
				}
				if len(p.Images) != len(want) {
					t.Fatalf("%+v: %d images", c, len(p.Images))
				}
				for i := range want {
					got := p.Images[i]
					if !bytes.Equal(got.Content.Mapped(guard.Inside), want[i].Content.Mapped(guard.Inside)) || got.Kind != want[i].Kind || !slices.Equal(got.Properties, want[i].Properties) {
						t.Errorf("%+v: image %d differs", c, i)
					}
				}
			}
		}
	}
	for _, level := range []int{-3, 10, 12} {
		want := fmt.Sprintf("invalid zlib compression level %d; expected a value in [0, 9]", level)
		if err := WriteCompressed(context.Background(), new(content.Buffer), images, Compression{Zlib: true, Level: level}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestWriteNothing(t *testing.T) {
	for version, want := range map[int]int64{1: 0, 2: 40, 3: 48} {
		var out content.Buffer
		if err := Write(&out, version, nil); err != nil || out.Len() != want {
			t.Errorf("version %d: %d bytes, %v; want %d", version, out.Len(), err, want)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	image := func(key, value string) []Image { return []Image{{Properties: Properties{{key, value}}}} }
	for _, test := range []struct {
		version int
		images  []Image
		want    string
	}{
		{4, nil, "offload binaries of version 4 cannot be written, expected 1, 2 or 3"},
		{1, image("a\x00b", ""), `property "a\x00b" of image 1 of 1: contains a NUL`},
		{1, image("a", "\x00"), `property "a" of image 1 of 1: contains a NUL`},
		{2, image("\x00", ""), `property "\x00" of image 1 of 1: contains a NUL`},
	} {
		var out content.Buffer
		if err := Write(&out, test.version, test.images); err == nil || err.Error() != test.want {
			t.Errorf("Write(%d): %v, want %s", test.version, err, test.want)
		}
	}
}

// Many images cost time in proportion to their number.
func BenchmarkWrite(b *testing.B) {
	images := make([]Image, 10_000)
	for i := range images {
		images[i] = Image{Kind: Object, Offload: HIP, Content: content.Memory([]byte("image")), Properties: Properties{
			{"triple", "amdgcn-amd-amdhsa"}, {"arch", fmt.Sprintf("gfx%d", i)}, {"symbols", fmt.Sprintf("kernel_%d", i)},
		}}
	}
	for version := 1; version <= 2; version++ {
		b.Run(fmt.Sprintf("version%d", version), func(b *testing.B) {
			for b.Loop() {
				var out content.Buffer
				if err := Write(&out, version, images); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestTooLargeToCompress checks that a package that readers do not decompress is not written.
func TestTooLargeToCompress(t *testing.T) {
	images := make([]Image, 1025)
	for i := range images {
		images[i].Content = content.Memory(make([]byte, 1))
	}
	shared := content.Memory(make([]byte, 1<<20))
	for i := range images[:1024] {
		images[i].Content = shared
	}
	for _, c := range []Compression{{}, {Zlib: true}} {
		var out content.Buffer
		err := WriteCompressed(t.Context(), &out, images, c)
		if err == nil || !strings.Contains(err.Error(), "readers decompress at most 1073741824 bytes") || len(out.Bytes()) > 0 {
			t.Errorf("got error %v and %d bytes, want an error and none", err, len(out.Bytes()))
		}
	}
}
