package ccob

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// code returns n bytes that look like machine code: runs from a small vocabulary,
// the same for the same family, with noise of their own.
func code(family, own uint64, n int) []byte {
	words := rand.New(rand.NewPCG(family, 1))
	dict := make([]uint64, 512)
	for i := range dict {
		dict[i] = words.Uint64() & 0x07ff00ff3f0001ff // as uneven as code is
	}
	noise := rand.New(rand.NewPCG(own, 2))
	b := make([]byte, 0, n+8)
	for len(b) < n {
		w := dict[words.IntN(len(dict))]
		if noise.IntN(64) == 0 {
			w ^= uint64(noise.Uint32())
		}
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b[:n]
}

// plain lays out a plain bundle: its pieces, and the bytes they make.
func plain(align int64, ids []string, contents [][]byte) ([]content.Part, []byte) {
	size := int64(32)
	for _, id := range ids {
		size += 24 + int64(len(id))
	}
	pos := size
	h := append([]byte(plainMagic), make([]byte, 8)...)
	binary.LittleEndian.PutUint64(h[24:], uint64(len(ids)))
	pieces := []content.Part{{}}
	for i, id := range ids {
		pos = (pos + align - 1) / align * align
		h = binary.LittleEndian.AppendUint64(h, uint64(pos))
		h = binary.LittleEndian.AppendUint64(h, uint64(len(contents[i])))
		h = binary.LittleEndian.AppendUint64(h, uint64(len(id)))
		h = append(h, id...)
		pieces = append(pieces, content.Part{Offset: pos, Content: content.Memory(contents[i]), ID: id})
		pos += int64(len(contents[i]))
	}
	pieces[0].Content = content.Memory(h)
	raw := make([]byte, pos)
	for _, p := range pieces {
		copy(raw[p.Offset:], p.Content.Mapped(guard.Inside))
	}
	return pieces, raw
}

// sample returns a bundle of a host entry and an entry for each processor, size bytes each.
func sample(align int64, size int, processors ...string) ([]content.Part, []byte) {
	ids, contents := []string{"host-x86_64-unknown-linux-gnu-"}, [][]byte{nil}
	for i, p := range processors {
		id := "hipv4-amdgcn-amd-amdhsa--" + p
		ids = append(ids, id)
		contents = append(contents, code(uint64(Family(id)[len(Family(id))-1]), uint64(i), size+i*100))
	}
	return plain(align, ids, contents)
}

var processors = []string{"gfx1010", "gfx1030", "gfx1100", "gfx803", "gfx90a"}

// encode is Encode to memory.
func encode(t testing.TB, pieces []content.Part, o EncodeOptions) []byte {
	t.Helper()
	var b content.Buffer
	s, err := Encode(context.Background(), &b, pieces, o)
	if err != nil {
		t.Fatal(err)
	}
	if s.FileSize != b.Len() {
		t.Fatalf("stats say %d bytes, %d were written", s.FileSize, b.Len())
	}
	return b.Bytes()
}

// container adds a header to data.
func container(version int, m Method, data, raw []byte) []byte {
	le := binary.LittleEndian
	sum := md5.Sum(raw)
	h := le.AppendUint16([]byte(Magic), uint16(version))
	h = le.AppendUint16(h, uint16(m))
	size := headerSize(version) + int64(len(data))
	switch version {
	case 1:
		h = le.AppendUint32(h, uint32(len(raw)))
	case 2:
		h = le.AppendUint32(le.AppendUint32(h, uint32(size)), uint32(len(raw)))
	case 3:
		h = le.AppendUint64(le.AppendUint64(h, uint64(size)), uint64(len(raw)))
	}
	return append(append(h, sum[:8]...), data...)
}

// skippable returns a skippable frame of n bytes.
func skippable(n int) []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0x184D2A50)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	return append(b, bytes.Repeat([]byte{0xaa}, n)...)
}

// zst is a frame of b.
func zst(t testing.TB, b []byte, o ...zstd.EOption) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, append([]zstd.EOption{zstd.WithEncoderCRC(false)}, o...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

// stream is a frame of b without content size.
func stream(t testing.TB, b []byte, o ...zstd.EOption) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, o...)
	if err != nil {
		t.Fatal(err)
	}
	for len(b) > 0 {
		n := min(len(b), 50000)
		if _, err := w.Write(b[:n]); err != nil {
			t.Fatal(err)
		}
		b = b[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func deflate(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

// forms are foreign compressed bundles of raw.
func forms(t testing.TB, raw []byte) map[string][]byte {
	m := map[string][]byte{}
	third := len(raw) / 3
	frames := append(zst(t, raw[:third]), zst(t, raw[third:2*third])...)
	frames = append(frames, zst(t, raw[2*third:])...)
	for _, v := range []int{1, 2, 3} {
		add := func(name string, method Method, data []byte) {
			m[fmt.Sprintf("v%d %s", v, name)] = container(v, method, data, raw)
		}
		add("zlib", Zlib, deflate(t, raw))
		add("one frame", Zstd, zst(t, raw))
		add("checksum", Zstd, zst(t, raw, zstd.WithEncoderCRC(true)))
		add("three frames", Zstd, frames)
		add("skippable", Zstd, bytes.Join([][]byte{skippable(10), frames, skippable(0), skippable(1000)}, nil))
		add("no size", Zstd, stream(t, raw))
		add("no size, two frames", Zstd, append(stream(t, raw[:third]), append(skippable(3), stream(t, raw[third:], zstd.WithEncoderCRC(false))...)...))
		add("small window", Zstd, stream(t, raw, zstd.WithWindowSize(1<<10)))
		add("empty frames", Zstd, bytes.Join([][]byte{zeroFrame(nil, 0), zst(t, raw), zeroFrame(nil, 0)}, nil))
	}
	return m
}
