package images

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

var (
	flips    = flag.Int("flips", 5000, "how many bits TestFlips changes, each in another copy of a file")
	flipSeed = flag.Uint64("flipseed", 1, "the seed of the bits that TestFlips changes")
)

// fromMemory finds the images in a file that is in memory.
func fromMemory(ctx context.Context, data []byte, opt Options) (*File, error) {
	return Read(ctx, files.FromMemory("in", data), opt)
}

// form is a file whose every byte is covered by a checksum.
type form struct {
	name     string
	data     []byte
	ids      []string
	contents map[string][]byte // by ID
	entries  []check.Entry     // nil if package check does not read the form
	weight   int               // how often it is chosen
	verify   bool
}

// codeLike returns n bytes that compress as code does.
func codeLike(r *rand.Rand, n int) []byte {
	words := make([]uint32, 200)
	for i := range words {
		words[i] = r.Uint32() & 0x83ff00ff
	}
	b := make([]byte, 0, n+4)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint32(b, words[min(r.IntN(len(words)), r.IntN(len(words)))])
	}
	return b[:n]
}

// container returns a compressed bundle with the given data.
func container(version uint16, method uint16, raw, data []byte) []byte {
	h := ccob.NewHasher()
	h.Write(raw)
	b := binary.LittleEndian.AppendUint16([]byte("CCOB"), version)
	b = binary.LittleEndian.AppendUint16(b, method)
	switch version {
	case 1:
		b = binary.LittleEndian.AppendUint32(b, uint32(len(raw)))
	case 2:
		b = binary.LittleEndian.AppendUint32(b, uint32(24+len(data)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(raw)))
	case 3:
		b = binary.LittleEndian.AppendUint64(b, uint64(32+len(data)))
		b = binary.LittleEndian.AppendUint64(b, uint64(len(raw)))
	}
	b = binary.LittleEndian.AppendUint64(b, h.Sum())
	return append(b, data...)
}

// forms returns bundles in all forms: as the engine writes them, as LLVM does, and in every
// version of the container.
func forms(t *testing.T, r *rand.Rand) []*form {
	ids := []string{"host-x86_64-unknown-linux-gnu-", "hipv4-amdgcn-amd-amdhsa--gfx906", "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", "hipv4-amdgcn-amd-amdhsa--gfx1100"}
	var all []*form
	bundled := func(name string, size, weight int, align uint64, compress func(pieces []content.Part, raw []byte) []byte) *form {
		f := &form{name: name, ids: ids, contents: map[string][]byte{}, weight: weight}
		var items []bundle.Item
		for i, id := range ids {
			if f.contents[id] = nil; i > 0 {
				f.contents[id] = codeLike(r, size+r.IntN(size))
			}
			items = append(items, bundle.Item{ID: id, Content: content.Memory(f.contents[id])})
			f.entries = append(f.entries, check.Entry{ID: id, Content: f.contents[id]})
		}
		layout, err := bundle.NewLayout(items, bundle.Options{Align: align})
		if err != nil {
			t.Fatal(err)
		}
		f.data = compress(layout.Parts, fixture.Bytes(t, layout.Write))
		all = append(all, f)
		return f
	}
	ours := func(opt ccob.EncodeOptions) func([]content.Part, []byte) []byte {
		return func(pieces []content.Part, raw []byte) []byte {
			return fixture.Bytes(t, func(out content.Sink) error {
				_, err := ccob.Encode(t.Context(), out, pieces, opt)
				return err
			})
		}
	}
	zstdForm := func(version uint16, opt ...zstd.EOption) func([]content.Part, []byte) []byte {
		return func(_ []content.Part, raw []byte) []byte {
			w, err := zstd.NewWriter(nil, opt...)
			if err != nil {
				t.Fatal(err)
			}
			return container(version, 1, raw, w.EncodeAll(raw, nil))
		}
	}
	zlibForm := func(version uint16) func([]content.Part, []byte) []byte {
		return func(_ []content.Part, raw []byte) []byte {
			var b bytes.Buffer
			w := zlib.NewWriter(&b)
			w.Write(raw)
			w.Close()
			return container(version, 0, raw, b.Bytes())
		}
	}
	const small, large = 1000, 500 << 10
	bundled("auto", small, 8, 1, ours(ccob.EncodeOptions{}))
	bundled("one frame", small, 8, 1, ours(ccob.EncodeOptions{Frames: ccob.FramesOne}))
	bundled("a frame for each entry", small, 8, 256, ours(ccob.EncodeOptions{Frames: ccob.FramesEntry}))
	bundled("version 2", small, 8, 1, ours(ccob.EncodeOptions{Version: 2}))
	for version := uint16(1); version <= 3; version++ {
		bundled(fmt.Sprintf("LLVM's, version %d", version), small, 8, 1, zstdForm(version, zstd.WithEncoderCRC(false)))
		bundled(fmt.Sprintf("with a checksum, version %d", version), small, 8, 1, zstdForm(version))
		bundled(fmt.Sprintf("zlib, version %d", version), small, 8, 1, zlibForm(version))
	}
	bundled("large, auto", large, 1, 4096, ours(ccob.EncodeOptions{}))
	bundled("large, one frame", large, 1, 4096, ours(ccob.EncodeOptions{Frames: ccob.FramesOne}))
	bundled("large, a frame for each entry", large, 1, 4096, ours(ccob.EncodeOptions{Frames: ccob.FramesEntry}))
	bundled("large, LLVM's, with its hash", large, 1, 4096, zstdForm(3, zstd.WithEncoderCRC(false))).verify = true
	bundled("large, zlib, with its hash", large/4, 1, 4096, zlibForm(2)).verify = true
	return all
}

// read reads all images of a file and returns those that it gives, by ID.
func (f *form) read(ctx context.Context, data []byte) (ids []string, contents [][]byte, err error) {
	opened, err := fromMemory(ctx, data, Options{Budget: budgetOfTests, Verify: f.verify})
	if err != nil {
		return nil, nil, err
	}
	defer opened.Close()
	list, err := opened.All()
	if err != nil {
		return nil, nil, err
	}
	loaded, err := opened.Load(ctx, list...)
	if err != nil {
		return nil, nil, err
	}
	defer loaded.Close()
	for i, e := range list {
		ids, contents = append(ids, e.ID), append(contents, bytes.Clone(loaded.Get(i).Mapped(guard.Inside)))
	}
	return ids, contents, nil
}

var budgetOfTests = budget.New(1, 256<<20)

// TestFlips changes single bits of bundles in all forms. Every read gives the right entries with
// the right bytes, or an error. Before, the independent reader agrees that the bundles are right.
// Run it with -flips=1000000.
func TestFlips(t *testing.T) {
	r := rand.New(rand.NewPCG(*flipSeed, 1))
	var chosen []*form
	for _, f := range forms(t, r) {
		if ids, contents, err := f.read(t.Context(), f.data); err != nil || !f.right(ids, contents) {
			t.Fatalf("%s: undamaged: %v, entries %q", f.name, err, ids)
		}
		if result := check.Bundle(f.data, check.Options{Entries: f.entries}); result.Problems != nil {
			t.Fatalf("%s: undamaged: %v", f.name, result.Problems)
		}
		chosen = append(chosen, slices.Repeat([]*form{f}, f.weight)...)
	}
	noticed, harmless := 0, 0
	start := time.Now()
	for range *flips {
		f := chosen[r.IntN(len(chosen))]
		data := bytes.Clone(f.data)
		// The ends have the headers and the index: half of all flips go there.
		const edge = 200
		at := r.IntN(len(data))
		switch r.IntN(4) {
		case 0:
			at = r.IntN(min(edge, len(data)))
		case 1:
			at = len(data) - 1 - r.IntN(min(edge, len(data)))
		}
		bit := r.IntN(8)
		data[at] ^= 1 << bit
		ids, contents, err := f.read(t.Context(), data)
		switch {
		case err != nil:
			noticed++
		case f.right(ids, contents):
			harmless++
		// Data that no longer begins with the magic is not a bundle and has no entries.
		case len(ids) == 0 && at < 4:
			noticed++
		default:
			t.Errorf("%s: bit %d of byte 0x%x: wrong entries or bytes, no error: %q", f.name, bit, at, ids)
		}
	}
	t.Logf("%d bits changed in %v: %d noticed, %d without effect", *flips, time.Since(start).Round(time.Second), noticed, harmless)
}

// right reports whether a file was read as it should be.
func (f *form) right(ids []string, contents [][]byte) bool {
	if !slices.Equal(ids, f.ids) {
		return false
	}
	for i, id := range ids {
		if !bytes.Equal(contents[i], f.contents[id]) {
			return false
		}
	}
	return true
}

// FuzzOpen searches arbitrary data for device images, in all scopes, and reads them. The size
// of the input limits time and memory.
func FuzzOpen(f *testing.F) {
	plain := fixture.Bundle(f, "gfx1", "gfx2")
	packed := fixture.Compressed(f, plain)
	one := fixture.OffloadBinary(f, "gfx3", "three")
	var v3 content.Buffer
	err := offloadbinary.WriteCompressed(f.Context(), &v3, []offloadbinary.Image{{
		Kind: offloadbinary.Object, Offload: offloadbinary.HIP, Content: content.Memory(bytes.Repeat([]byte("code"), 40)),
		Properties: offloadbinary.Properties{{Key: "triple", Value: "amdgcn-amd-amdhsa"}, {Key: "arch", Value: "gfx942"}},
	}}, offloadbinary.Compression{})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{
		plain, packed, one, v3.Bytes(), append(bytes.Clone(packed), plain...), append(bytes.Clone(one), one...),
		fixture.ELF(f, ".hip_fatbin", string(packed)), fixture.ELF(f, ".llvm.offloading:offloading", string(one)),
		fixture.ELF(f, "__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx4", "four"),
		fixture.Archive(f, "a.o", string(plain), "b.o", string(one)),
		[]byte("\n// __CLANG_OFFLOAD_BUNDLE____START__ hip-amdgcn-amd-amdhsa--gfx4\nfour\n// __CLANG_OFFLOAD_BUNDLE____END__ hip-amdgcn-amd-amdhsa--gfx4\n"),
	} {
		for scope := range byte(4) {
			f.Add(seed, scope)
		}
	}
	limit := budget.New(1, 64<<20)
	f.Fuzz(func(t *testing.T, data []byte, scope byte) {
		opt := Options{Budget: limit, Verify: scope&64 != 0, Lenient: scope&128 != 0}
		switch scope % 8 {
		case 0, 4:
		case 1, 5:
			opt.Scope = OffloadBinaries
		case 2:
			opt.Scope, opt.Type = Bundles, "bc"
		case 3:
			opt.Scope, opt.Type = Bundles, "ii"
		case 6:
			opt.Scope, opt.Type = Bundles, bundle.ArchiveType
		case 7:
			opt.Scope = Bundles
		}
		opened, err := fromMemory(t.Context(), data, opt)
		if err != nil {
			t.Fatal(err) // the context is not done
		}
		defer opened.Close()
		list, _ := opened.Unwrapped()
		for _, e := range list {
			if e.Size < 0 || e.Offset < 0 {
				t.Fatalf("%s: %d bytes at %d", e.Place.String(), e.Size, e.Offset)
			}
			if e.Size > 1<<20 {
				continue
			}
			c, err := opened.Load(t.Context(), e)
			if err != nil {
				continue
			}
			if got := c.Get(0).Len(); got != e.Size && !opt.Lenient && !e.content.host {
				t.Fatalf("%s: %d bytes, listed with %d", e.Place.String(), got, e.Size)
			}
			c.Close()
		}
		// A bundle that package check accepts has the entries that it reports.
		if opt.Scope != Bundles || opt.Type != "bc" || len(data) > 4<<10 {
			return
		}
		if result := check.Bundle(data, check.Options{}); result.Problems == nil && !opt.Lenient {
			ids, _ := opened.All()
			if len(ids) != len(result.Found) {
				t.Fatalf("found %d entries, package check %d", len(ids), len(result.Found))
			}
			for i, e := range ids {
				if e.ID != result.Found[i].ID || e.Size != result.Found[i].Size {
					t.Fatalf("entry %d: %q of %d bytes, package check has %q of %d", i, e.ID, e.Size, result.Found[i].ID, result.Found[i].Size)
				}
			}
		}
	})
}
