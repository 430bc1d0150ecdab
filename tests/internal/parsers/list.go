package parsers

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	deviceimages "github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/installed/coverage"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/cmd/flagfile"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/cmd/verb"
	"github.com/rules-offload/rules_offload/internal/devicecode/cubin"
	"github.com/rules-offload/rules_offload/internal/devicecode/ptx"
	"github.com/rules-offload/rules_offload/internal/devicecode/spirv"
	"github.com/rules-offload/rules_offload/internal/elf/codeobject"
	"github.com/rules-offload/rules_offload/internal/elf/elfcheck"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/llvm/bitcode"
	"github.com/rules-offload/rules_offload/internal/prune"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// List returns the parsers. Roots are directories that may be that of the module, for
// the files in testdata.
func List(roots ...string) ([]*Parser, error) {
	bitcodes, err := testdata(roots, "internal/llvm/bitcode", ".bc")
	if err != nil {
		return nil, err
	}
	objects, err := testdata(roots, "internal/elf/object", ".o")
	if err != nil {
		return nil, err
	}
	objects = append(objects, hostObjects()...)
	bitcodes = append(bitcodes, modules()...)
	all := slices.Concat(bundles(), compressed(), packages(), archives(), codeObjects(), cubins(), spirvs(), hostObjects(), textBundles())
	all = append(all, bitcodes[0], []byte(ptxModule), kpacks()[0])
	const decoded = 1 << 20 // largest output of decoders
	inflating := func(n int) uint64 { return 12<<20 + 400*uint64(n) }
	texts := func(list ...string) (seeds [][]byte) {
		for _, s := range list {
			seeds = append(seeds, []byte(s))
		}
		return seeds
	}
	targets := texts("hip-amdgcn-amd-amdhsa--gfx906:xnack+:sramecc-", "hip-amdgcn-amd-amdhsa-gfx10-3-generic:xnack-", "host-x86_64-unknown-linux", "gfx90a:xnack+",
		"hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", "openmp-nvptx64-nvidia-cuda--sm_80", "sycl-spir64-unknown-unknown-", "b-amd-amdgcn-elf-a-armv7eb", "i686-mingw32-elf")
	targetWords := []string{"gfx", "gfx90a", "gfx9-4-generic", ":xnack+", ":sramecc-", "amdgcn", "amd", "amdhsa", "hip", "hipv4", "openmp", "host", "-", "--", ":", "+", "x86_64", "unknown", "linux", "gnu", "spirv64", "nvptx64", "sm_90", "armv7eb", "\xff", "é"}
	limited := budget.New(1, 64<<20)
	return []*Parser{
		{Name: "bundle", Seeds: bundles(), Read: readBundle},
		{Name: "bundle-text", Seeds: textBundles(), Read: readText, Words: []string{"\n// " + bundle.Magic + "__START__ ", "\n// " + bundle.Magic + "__END__ ", "\n", "__START__", "__END__"}},
		{Name: "ccob-walk", Seeds: append(compressed(), bundles()...), Read: readWalk},
		{Name: "ccob", Seeds: compressed(), Read: func(data []byte) error { return readCompressed(data, decoded) }, Fix: fixIndex, Memory: inflating},
		{Name: "ccob-parts", Seeds: plansAndParts(), Read: func(data []byte) error { return readParts(data, decoded) }, Memory: inflating},
		{Name: "offloadbinary", Seeds: packages(), Read: func(data []byte) error { return readPackages(data, decoded) }, Memory: inflating},
		{Name: "object", Seeds: objects, Read: readObject},
		{Name: "object-rewrite", Seeds: objects, Read: rewriteObject, Memory: inflating},
		{Name: "identify", Seeds: all, Read: identify},
		{Name: "ar", Seeds: archives(), Read: readArchive},
		{Name: "codeobject", Seeds: codeObjects(), Read: readCodeObject, Words: []string{".name", ".symbol", "amdhsa.kernels", "\xdf\xff\xff\xff\xff", "\xdd\xff\xff\xff\xff", "AMDGPU\x00\x00"}, Memory: func(n int) uint64 { return 2<<20 + 2000*uint64(n) }},
		{Name: "bitcode", Seeds: bitcodes, Read: readBitcode},
		{Name: "spirv", Seeds: spirvs(), Read: readSPIRV},
		{Name: "cubin", Seeds: cubins(), Read: readCubin},
		{Name: "ptx", Seeds: texts(ptxModule), Read: readPTX, Words: []string{".entry ", ".maxntid ", ".reqntid ", "99999999999", "/*", "*/", "//", "\"", "(", ")", "{", "}", ".target "}},
		{Name: "kpack", Seeds: kpacks(), Read: func(data []byte) error { return readKpack(data, decoded) }, Memory: inflating},
		{Name: "kpack-host", Seeds: append(splitLibraries(), libraries()...), Read: readHost},
		{Name: "elfedit", Seeds: libraries(), Read: planLinked, Memory: inflating},
		{Name: "elfedit-object", Seeds: objects, Read: planObject, Memory: inflating},
		{Name: "prune", Seeds: slices.Concat(libraries(), bundles(), compressed(), packages(), archives(), hostObjects()), Read: func(data []byte) error { return pruned(data, limited) }, Memory: func(n int) uint64 { return 64<<20 + 400*uint64(n) }},
		{Name: "elfcheck", Seeds: libraries(), Read: func(data []byte) error { elfcheck.Check(data); return nil }},
		{Name: "check", Seeds: append(bundles(), compressed()...), Read: checkBundle, Fix: fixIndex, Memory: func(n int) uint64 { return 64<<20 + 400*uint64(n) }},
		{Name: "images", Seeds: all, Read: func(data []byte) error { return searchImages(data, limited) }, Memory: func(n int) uint64 { return 64<<20 + 1000*uint64(n) }},
		{Name: "target", Seeds: targets, Words: targetWords, Read: readTarget},
		{Name: "triple", Seeds: targets, Words: targetWords, Read: readTriple},
		{Name: "target-id", Seeds: texts("gfx90a:xnack+:sramecc-", "gfx906::+:", "gfx9-4-generic", "sm_80"), Words: targetWords, Read: readTargetID},
		{Name: "gpu", Seeds: texts("gfx90a:xnack+:sramecc-", "gfx942", "gfx1100", "gfx9-4-generic"), Words: targetWords, Read: readGPU},
		{Name: "flagfile", Seeds: [][]byte{joined([]byte("@p"), []byte("a\n@q\r\n@@x\r\n"), []byte("b\r@r//s")), joined([]byte("@p"), []byte("@q\n"), []byte("@./p\n"))}, Words: []string{"@", "@@", "@p", "@q", "\n", "\r\n", "//", "./", "\xff"}, Read: readFlagFile},
		{Name: "options", Seeds: texts("spills,registers", "10%", "5MiB", "1.5GiB", "2G", "hipv4", "openmp", "o", "bc", "file=a,triple=b,arch=c"), Words: []string{"%", "KiB", "MiB", "GiB", ",", "=", "9999999999999999999", "-", ".", "e99"}, Read: readOptions},
		{Name: "names", Seeds: texts("plain", "\x1b]0;title\x07\u202e\xff", "_Z4gemmPfi", "_ZN5mylib6kernelILi4EEEvPKT_", "_RNvC6_123foo3bar"), Words: []string{"\u2028", "\u009f", "\xff", "\x1b[", "_Z", "I", "E", "P", "K", "S_", "T_", "N", "L", "\""}, Read: readName, Memory: func(n int) uint64 { return 16<<20 + 4000*uint64(n) }},
	}, nil
}

var background = context.Background()

// serious returns err if it is a recovered panic, which no file may cause.
func serious(err error) error {
	var p *guard.PanicError
	if errors.As(err, &p) {
		return &panicError{p.Value, p.Stack}
	}
	return nil
}

// readBundle compares the ways to read plain bundles, and package check.
func readBundle(data []byte) error {
	start := int64(len(data) - len(bytes.TrimLeft(data, "\x00")))
	end, endErr := bundle.End(data)
	b, err := bundle.ParseAt(data, start)
	if err != nil {
		if start == 0 && endErr == nil {
			return fmt.Errorf("the end is %d, Parse: %w", end, err)
		}
		return nil
	}
	if b.Start != start || b.End > int64(len(data)) || b.End < start+int64(len(bundle.Magic)) {
		return fmt.Errorf("bundle from %d to %d", b.Start, b.End)
	}
	if start == 0 && (endErr != nil || end != b.End) {
		return fmt.Errorf("the end is %d, %v, by Parse %d", end, endErr, b.End)
	}
	for _, e := range b.Entries {
		if n := int64(len(e.Content(data))); n != e.Size || e.Offset+e.Size > b.End || e.At < start || len(e.ID) > len(data) {
			return fmt.Errorf("entry %+v with %d bytes of a bundle to %d", e, n, b.End)
		}
	}
	again, err := bundle.Parse(data[b.Start:b.End])
	if err != nil || !slices.EqualFunc(again.Entries, b.Entries, func(x, y bundle.Entry) bool { return x.ID == y.ID && x.Size == y.Size }) {
		return fmt.Errorf("alone: %+v, %v", again, err)
	}
	const smaller = 20 // the first prefix has 4096 bytes
	prefix, err := bundle.ReadHeader(int64(len(data)), func(n int64) ([]byte, error) { return data[:min(int64(len(data)), n/smaller)], nil })
	if start == 0 && err == nil && len(prefix.Entries) != len(b.Entries) {
		return fmt.Errorf("%d entries of a prefix, %d", len(prefix.Entries), len(b.Entries))
	}
	if len(data) > 4096 {
		return nil
	}
	result := check.Bundle(data, check.Options{})
	if len(result.Problems) > 0 {
		return nil
	}
	found := 0
	for _, e := range b.Entries {
		if found == len(result.Found) || result.Found[found].ID != e.ID || result.Found[found].Size != e.Size || result.Found[found].Offset != e.Offset-b.Start {
			return fmt.Errorf("entry %+v, package check has %+v", e, result.Found)
		}
		found++
	}
	return nil
}

func readText(data []byte) error {
	for _, comment := range []string{"//", "#"} {
		entries, err := bundle.ParseText(data, comment)
		if err != nil {
			continue
		}
		pos := int64(0)
		var items []bundle.Item
		for _, e := range entries {
			if e.At < pos || e.Offset <= e.At || e.Offset+e.Size > int64(len(data)) {
				return fmt.Errorf("entry %+v after byte %d", e, pos)
			}
			pos = e.Offset + e.Size
			items = append(items, bundle.Item{ID: e.ID, Content: content.Memory(e.Content(data))})
		}
		var out content.Buffer
		if bundle.WriteText(&out, items, comment) != nil {
			continue
		}
		again, err := bundle.ParseText(out.Bytes(), comment)
		if err != nil {
			return fmt.Errorf("written again: %w", err)
		}
		if len(again) != len(entries) {
			return fmt.Errorf("%d entries, written again %d", len(entries), len(again))
		}
		for i, e := range again {
			if e.ID != entries[i].ID || !bytes.Equal(e.Content(out.Bytes()), entries[i].Content(data)) {
				return fmt.Errorf("entry %d, written again, is other: %q", i, e.ID)
			}
		}
	}
	return nil
}

func readWalk(data []byte) error {
	h, err := ccob.Parse(data)
	if err == nil && (h.End > int64(len(data)) || h.DataOffset > h.End || h.RawSize < 0) {
		return fmt.Errorf("header %+v", h)
	}
	pos := int64(0)
	for e, err := range ccob.Walk(data, bundle.End) {
		if err != nil {
			return serious(err)
		}
		if e.Offset < pos || e.End <= e.Offset || e.End > int64(len(data)) {
			return fmt.Errorf("extent %+v after %d", e, pos)
		}
		if e.Header != nil && string(data[e.Offset:e.Offset+4]) != ccob.Magic {
			return fmt.Errorf("no magic at %d", e.Offset)
		}
		pos = e.End
	}
	return nil
}

// readCompressed compares all ways to decode.
func readCompressed(data []byte, most int64) error {
	o := [...]ccob.Options{{MaxSize: most, Hash: ccob.HashNone}, {MaxSize: most}, {MaxSize: most, Lenient: true}}[variant(data)%3]
	r, err := ccob.Open(data, o)
	if err != nil {
		return nil
	}
	raw, err := r.Decode(background)
	if err != nil {
		if serious(err) != nil {
			return serious(err)
		}
		return serious(r.Extract(background, []ccob.Range{{Offset: r.RawSize() / 2, Size: r.RawSize() / 4, W: discard{}}}))
	}
	defer raw.Release()
	b := raw.Bytes()
	if int64(len(b)) > r.RawSize() || !o.Lenient && int64(len(b)) != r.RawSize() {
		return fmt.Errorf("%+v: %d bytes, the header states %d", o, len(b), r.RawSize())
	}
	prefix, err := r.Prefix(background, 100)
	if err != nil || len(prefix) < min(100, len(b)) || !bytes.HasPrefix(b, prefix) {
		return fmt.Errorf("%+v: prefix of %d of %d: %v", o, len(prefix), len(b), err)
	}
	indexed := bytes.HasSuffix(data[:r.Header().End], []byte(indexEnd))
	// With an index, Decode compares the hashes of the entries. fixIndex may have replaced them
	// with those of other bytes.
	if o.Hash == ccob.HashAuto && !o.Lenient && !indexed {
		h := ccob.NewHasher()
		h.Write(b)
		if h.Sum() != r.Header().Hash {
			return fmt.Errorf("%+v: the hash of the bytes is not that of the header: wrong bytes without an error", o)
		}
	}
	var one, two bytes.Buffer
	third := int64(len(b)) / 3
	if err := r.Extract(background, []ccob.Range{{Offset: third, Size: int64(len(b)) - third, W: &two}, {Offset: third / 2, Size: third, W: &one}}); err != nil {
		if indexed {
			return serious(err) // with an index, only whole entries can be extracted
		}
		return fmt.Errorf("%+v: Decode works, Extract: %w", o, err)
	}
	if !bytes.Equal(one.Bytes(), b[third/2:third/2+third]) || !bytes.Equal(two.Bytes(), b[third:]) {
		return fmt.Errorf("%+v: Extract gives other bytes than Decode", o)
	}
	return nil
}

// variant returns a number that depends on the input, to select one of several ways
// to read it.
func variant(data []byte) int {
	h := uint32(len(data))
	for _, b := range data[max(0, len(data)-16):] {
		h = h*31 + uint32(b)
	}
	for _, b := range data[:min(16, len(data))] {
		h = h*31 + uint32(b)
	}
	return int(h >> 8)
}

// discard is a writer.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// indexEnd ends the index of a bundle.
const indexEnd = "\xd3\xa9\xe4\xb7\x8e\xf1\xca\x95"

// fixIndex repairs the checksum and the sizes of the index at the end of a bundle.
func fixIndex(data []byte) []byte {
	const tail, head = 10 + 5 + len(indexEnd), 8
	if !bytes.HasSuffix(data, []byte(indexEnd)) {
		return data
	}
	at := bytes.LastIndex(data, []byte{0x5b, 0x2a, 0x4d, 0x18})
	if at < 0 || len(data)-at < head+tail {
		return data
	}
	frame := data[at:]
	bits := func(b []byte, n uint64) {
		for i := range b {
			b[i] = 0x80 | byte(n)
			n >>= 7
		}
	}
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(frame)-head))
	last := frame[len(frame)-tail:]
	bits(last[:10], xxhash.Sum64(frame[head:len(frame)-tail]))
	bits(last[10:15], uint64(len(frame)))
	return data
}

// readParts compares a bundle made of parts with its plan.
func readParts(data []byte, most int64) error {
	parts := split(data, 3)
	plan, err := ccob.ParsePlan(content.Memory(parts[0]))
	if err != nil {
		return serious(err)
	}
	var list []*ccob.Part
	for _, b := range parts[1:] {
		p, err := ccob.ParsePart(content.Memory(b))
		if err != nil {
			return serious(err)
		}
		list = append(list, p)
	}
	out := &limited{left: most}
	s, err := ccob.Assemble(background, out, plan, list, ccob.EncodeOptions{})
	if err != nil || s.RawSize > most {
		return serious(err)
	}
	r, err := ccob.Open(out.Bytes(), ccob.Options{MaxSize: most})
	if err != nil {
		return fmt.Errorf("what was put together cannot be opened: %w", err)
	}
	raw, err := r.Decode(background)
	if err != nil {
		return serious(err) // copied parts are not decoded
	}
	raw.Release()
	return nil
}

// limited is a Buffer with a maximum size.
type limited struct {
	content.Buffer
	left int64
}

var errFull = errors.New("the output is too large for a test")

func (l *limited) take(n int64) error {
	if l.left -= n; l.left < 0 {
		return errFull
	}
	return nil
}

func (l *limited) Append(c content.Content) error {
	if err := l.take(c.Len()); err != nil {
		return err
	}
	return l.Buffer.Append(c)
}

func (l *limited) Zeros(n int64) error {
	if err := l.take(n); err != nil {
		return err
	}
	return l.Buffer.Zeros(n)
}

func (l *limited) Write(p []byte) (int, error) {
	if err := l.take(int64(len(p))); err != nil {
		return 0, err
	}
	return l.Buffer.Write(p)
}

// readPackages compares offload binaries with a second reader, and with what is written again.
func readPackages(data []byte, most int64) error {
	end := int64(0)
	for p, err := range offloadbinary.Parse(content.Memory(data), offloadbinary.Options{Inflate: offloadbinary.UpTo(most)}) {
		if err != nil {
			if e, ok := err.(*offloadbinary.Error); !ok || e.Error() == "" {
				return fmt.Errorf("error %v of type %T", err, err)
			}
			return nil
		}
		if p.Offset < end || p.Size < 32 || p.Offset+p.Size > int64(len(data)) {
			return fmt.Errorf("package at 0x%x with %d bytes after 0x%x", p.Offset, p.Size, end)
		}
		end = p.Offset + p.Size
		for i := range p.Images {
			if p.Images[i].Content.Len() > max(p.Size, p.Inflated) {
				return fmt.Errorf("image with %d bytes in a package of %d", p.Images[i].Content.Len(), p.Size)
			}
		}
		if p.Inflated == 0 {
			if err := samePackage(data[p.Offset:end], p.Images); err != nil {
				return err
			}
		}
		var out content.Buffer
		if offloadbinary.Write(&out, 2, p.Images) != nil {
			continue // a key with a NUL
		}
		for again, err := range offloadbinary.Parse(content.Memory(out.Bytes()), offloadbinary.Options{}) {
			if err != nil || len(again.Images) != len(p.Images) {
				return fmt.Errorf("written again: %v", err)
			}
			for i := range again.Images {
				if !bytes.Equal(again.Images[i].Content.Mapped(guard.Inside), p.Images[i].Content.Mapped(guard.Inside)) {
					return fmt.Errorf("image %d, written again, has other bytes", i)
				}
			}
			break
		}
	}
	return nil
}

// samePackage reads an offload binary of version 1 or 2 in a simple way and compares
// its images.
func samePackage(data []byte, images []offloadbinary.Image) error {
	le := binary.LittleEndian
	version, at, count := le.Uint32(data[4:]), le.Uint64(data[16:]), le.Uint64(data[24:])
	if version == 1 {
		count = 1 // the size of the only entry
	}
	if count != uint64(len(images)) {
		return fmt.Errorf("%d images, the header states %d", len(images), count)
	}
	for i := range images {
		entry := data[at+40*uint64(i):]
		from, size := le.Uint64(entry[24:]), le.Uint64(entry[32:])
		if !bytes.Equal(data[from:from+size], images[i].Content.Mapped(guard.Inside)) || uint16(images[i].Kind) != le.Uint16(entry) || uint16(images[i].Offload) != le.Uint16(entry[2:]) {
			return fmt.Errorf("image %d of %d bytes differs from what the entry states", i, images[i].Content.Len())
		}
		if int(le.Uint64(entry[16:])) != len(images[i].Properties) {
			return fmt.Errorf("image %d has %d properties, the entry states %d", i, len(images[i].Properties), le.Uint64(entry[16:]))
		}
	}
	return nil
}

// readObject compares the sections of ELF files with package debug/elf.
func readObject(data []byte) error {
	object.IsObject(data)
	object.ArchiveSymbols(data)
	o, err := object.Parse(data)
	if err != nil {
		return serious(err)
	}
	for i := range o.Sections {
		body, err := o.Data(i)
		if err == nil && len(body) > len(data) {
			return fmt.Errorf("section %d of %d bytes", i, len(body))
		}
	}
	n := 0
	for s, err := range o.Symbols() {
		if err != nil {
			break
		}
		if n++; n > len(data) {
			return fmt.Errorf("more symbols than bytes: %q", s.Name)
		}
	}
	if !o.Format.IsELF() || len(data) > 8192 {
		return nil
	}
	other, err := elf.NewFile(bytes.NewReader(data))
	if err != nil || len(other.Sections) != len(o.Sections) {
		return nil // debug/elf rejects more, and drops what it cannot read
	}
	for i, s := range other.Sections {
		if s.Type == elf.SHT_NULL || len(o.Sections[i].Name) == 0 {
			continue // no name, although the header may have the offset of one
		}
		if uint32(s.Type) != o.Sections[i].Type || s.Offset != o.Sections[i].Offset || s.FileSize != o.Sections[i].Size || s.Name != string(o.Sections[i].Name) {
			return fmt.Errorf("section %d: %q, type %d, %d bytes at 0x%x, debug/elf has %q, type %d, %d bytes at 0x%x",
				i, o.Sections[i].Name, o.Sections[i].Type, o.Sections[i].Size, o.Sections[i].Offset, s.Name, s.Type, s.FileSize, s.Offset)
		}
	}
	return nil
}

const added = "__CLANG_OFFLOAD_BUNDLE__added"

// rewriteObject requires that a written object has the new section, can be read, and
// can be written again.
func rewriteObject(data []byte) error {
	const most = 4 << 20
	out := &limited{left: most}
	err := object.Rewrite(content.Memory(data), object.Edits{
		Remove:       func(name []byte) bool { return len(name) == 5 },
		RenameSymbol: map[string]string{"use": "used", "main": "begin"},
		Add:          []object.NewSection{object.BundleSection(added, content.Memory([]byte("payload")))},
	}, out)
	if err != nil {
		return serious(err)
	}
	o, err := object.Parse(out.Bytes())
	if err != nil {
		return fmt.Errorf("the output cannot be read: %w", err)
	}
	found := false
	for i := range o.Sections {
		body, err := o.Data(i)
		found = found || err == nil && string(o.Sections[i].Name) == added && string(body) == "payload"
	}
	if !found {
		return errors.New("the new section is not in the output")
	}
	again := &limited{left: 2 * most}
	err = object.Rewrite(content.Memory(out.Bytes()), object.Edits{Remove: func(name []byte) bool { return string(name) == added }}, again)
	if err != nil && !errors.Is(err, errFull) {
		return fmt.Errorf("the output cannot be written again: %w", err)
	}
	return nil
}

func identify(data []byte) error {
	f := object.Identify(data)
	if len(data) > 64 && object.Identify(data[:64]) != f {
		return fmt.Errorf("%v, of 64 bytes %v", f, object.Identify(data[:64]))
	}
	offloadbinary.KindOfData(data)
	prune.MayHaveCode(content.Memory(data))
	for _, is := range []func([]byte) bool{ar.Is, bitcode.Is, bundle.Is, ccob.Is, codeobject.Is, cubin.Is, elfedit.Is, kpack.Is, offloadbinary.Is, ptx.Is, spirv.Is} {
		is(data)
	}
	return nil
}

// readArchive compares the members of archives with a second reader.
func readArchive(data []byte) error {
	a, err := ar.Parse(data)
	if err != nil {
		if e, ok := err.(*ar.FormatError); !ok || e.Fault == 0 || e.Error() == "" {
			return fmt.Errorf("error %v of type %T", err, err)
		}
		return nil
	}
	end := int64(8)
	for m, err := range a.Members() {
		if err != nil {
			if e, ok := err.(*ar.FormatError); !ok || e.Fault == 0 {
				return fmt.Errorf("error %v of type %T", err, err)
			}
			break
		}
		if m.Offset < end || m.Size < 0 || !m.Thin && (m.Size != int64(len(m.Data)) || m.DataOffset < m.Offset+60) || m.DataOffset+int64(len(m.Data)) > int64(len(data)) {
			return fmt.Errorf("member %d at 0x%x, size %d of %d, after 0x%x", m.Index, m.Offset, m.Size, len(m.Data), end)
		}
		if string(data[m.Offset+58:m.Offset+60]) != "`\n" {
			return fmt.Errorf("member %d has no header at 0x%x", m.Index, m.Offset)
		}
		if !bytes.Equal(m.Data, data[m.DataOffset:m.DataOffset+int64(len(m.Data))]) {
			return fmt.Errorf("member %d has other bytes", m.Index)
		}
		end = m.DataOffset + int64(len(m.Data))
	}
	return nil
}

func readCodeObject(data []byte) error {
	t, terr := codeobject.ParseTarget(data)
	o, err := codeobject.Parse(data)
	if err != nil {
		return serious(err)
	}
	if terr != nil {
		return fmt.Errorf("only Parse reads it, ParseTarget: %w", terr)
	}
	if len(o.Kernels) > len(data) || len(o.Sections) > len(data) || o.ID() == "" || t.ID() != o.ID() {
		return fmt.Errorf("%d kernels, %d sections, ID %q and %q", len(o.Kernels), len(o.Sections), o.ID(), t.ID())
	}
	o.Empty()
	sources, err := o.Sources()
	if err != nil {
		return serious(err)
	}
	if len(sources.Kernels) != len(o.Kernels) {
		return fmt.Errorf("%d kernels, lines of %d", len(o.Kernels), len(sources.Kernels))
	}
	return nil
}

func readBitcode(data []byte) error {
	bitcode.Symbols(data)
	bitcode.Globals(data)
	bitcode.Kernels(data)
	objects, err := bitcode.EmbeddedObjects(data)
	if err != nil && objects != nil {
		return fmt.Errorf("%d objects and the error %w", len(objects), err)
	}
	return nil
}

func readSPIRV(data []byte) error {
	if m, err := spirv.Parse(data); err == nil && len(m.Kernels) > len(data)/16 {
		return fmt.Errorf("%d kernels", len(m.Kernels))
	}
	return nil
}

func readCubin(data []byte) error {
	if !cubin.Is(data) {
		return nil
	}
	o, err := cubin.Parse(data)
	if err == nil && len(o.Kernels) > len(data) {
		return fmt.Errorf("%d kernels", len(o.Kernels))
	}
	return nil
}

func readPTX(data []byte) error {
	ptx.Is(data)
	ptx.Target(data)
	for _, k := range ptx.Kernels(data) {
		if len(k.Name) == 0 || k.MaxThreads != nil && *k.MaxThreads < 0 {
			return fmt.Errorf("kernel %q, %v threads", k.Name, k.MaxThreads)
		}
	}
	return nil
}

func readKpack(data []byte, most int64) error {
	a, err := kpack.Parse(content.Memory(data))
	if err != nil {
		return serious(err)
	}
	for i := range a.Entries {
		if a.Entries[i].Size > most/8 {
			continue
		}
		c, _, err := a.Entries[i].Content(background, nil, a.Scheme)
		if err == nil && c.Len() != a.Entries[i].Size {
			return fmt.Errorf("entry %d has %d bytes, expected %d", i, c.Len(), a.Entries[i].Size)
		}
		if serious(err) != nil {
			return serious(err)
		}
	}
	a.Sorted()
	var out content.Buffer
	if kpack.Write(&out, a) != nil {
		return nil
	}
	again, err := kpack.Parse(content.Memory(out.Bytes()))
	if err != nil || len(again.Entries) != len(a.Entries) {
		return fmt.Errorf("written again: %v", err)
	}
	return nil
}

func readHost(data []byte) error {
	_, err := kpack.ParseHost(content.Memory(data))
	if err := serious(err); err != nil {
		return err
	}
	code := registered.Find(content.Memory(data))
	if w := code.Wrappers; len(w) > len(data) {
		return fmt.Errorf("%d wrappers", len(w))
	}
	for i := range code.Regions {
		r := &code.Regions[i]
		r.Alone()
		for k, b := range r.Bundles {
			if b.Offset < 0 || b.Offset >= r.End(k) || r.End(k) > r.Content.Len() {
				return fmt.Errorf("section %q: bundle %d at 0x%x to 0x%x", r.Name, k, b.Offset, r.End(k))
			}
		}
	}
	return nil
}

// planLinked requires that a changed file violates no rule that the original follows.
func planLinked(data []byte) error {
	f, err := elfedit.Parse(content.Memory(data))
	if err != nil {
		return serious(err)
	}
	section, err := f.Section(".hip_fatbin")
	if err != nil || section < 0 || elf.SectionType(f.Sections[section].Type) != elf.SHT_PROGBITS {
		return nil // not device code
	}
	size := variant(data) % (1 << 14)
	plan, err := f.Layout(elfedit.Edit{Changes: []elfedit.Change{{
		Section: section, Size: uint64(size), Align: 64, Slots: map[elfedit.Place]uint64{},
		Parts: []content.Part{{Content: content.Memory(make([]byte, size))}},
		Move:  func(offset uint64) (uint64, bool) { return 0, offset == 0 },
	}}})
	if err != nil {
		return serious(err)
	}
	const room = 3 << 28 // for all page sizes
	if plan.Size < 0 || plan.Size > int64(len(data))+int64(size)+room {
		return fmt.Errorf("%d bytes", plan.Size)
	}
	at := int64(0)
	for _, p := range plan.Parts {
		if p.Offset < at {
			return errors.New("parts overlap")
		}
		at = p.Offset + p.Content.Len()
	}
	const most = 1 << 20
	if at > plan.Size || plan.Size > most {
		return nil
	}
	var out content.Buffer
	if err := plan.Write(&out); err != nil {
		return fmt.Errorf("the plan cannot be written: %w", err)
	}
	rules := make(map[elfcheck.Rule]bool)
	for _, finding := range elfcheck.Check(data) {
		rules[finding.Rule] = true
	}
	for _, finding := range elfcheck.Check(out.Bytes()) {
		if !rules[finding.Rule] {
			return finding
		}
	}
	return nil
}

func planObject(data []byte) error {
	o, err := elfedit.ParseObject(content.Memory(data))
	if err != nil {
		return serious(err)
	}
	for i := range o.Sections {
		if o.Sections[i].InFile() == 0 {
			continue
		}
		const size = 100
		plan, err := o.Layout(elfedit.Edit{Changes: []elfedit.Change{{
			Section: i, Size: size, Parts: []content.Part{{Content: content.Memory(make([]byte, size))}},
			Move: func(offset uint64) (uint64, bool) { return offset, true },
		}}})
		if err != nil {
			return serious(err)
		}
		out := &limited{left: 4 << 20}
		if err := plan.Write(out); err != nil && !errors.Is(err, errFull) {
			return fmt.Errorf("the plan cannot be written: %w", err)
		}
		break
	}
	return nil
}

func pruned(data []byte, b *budget.Budget) error {
	o := [...]prune.Options{
		{Keep: []string{"gfx906"}, IgnoreMissing: true, Budget: b},
		{Compress: true, DryRun: true, Budget: b},
		{Decompress: true, Budget: b},
	}[variant(data)%3]
	w, err := prune.Open(background, content.Memory(data), o)
	if err != nil {
		return serious(err)
	}
	defer w.Close()
	plan, err := w.Layout(background)
	if err == nil {
		out := &limited{left: 4 << 20}
		if !o.DryRun {
			err = plan.Write(out)
		}
		if err == nil && !o.DryRun && out.Len() != plan.Size {
			return fmt.Errorf("%d bytes were written, %d planned", out.Len(), plan.Size)
		}
		w.Report(plan)
	}
	if serious(err) != nil {
		return serious(err)
	}
	code, err := prune.ReadCode(background, content.Memory(data), b)
	if err == nil {
		code.Close()
	}
	return serious(err)
}

func checkBundle(data []byte) error {
	if check.Memory(data) > 32<<20 {
		return nil
	}
	result := check.Bundle(data, check.Options{DeviceCode: len(data)%2 == 0})
	if len(result.Problems) > 0 {
		return nil
	}
	for _, e := range result.Found {
		if e.Offset < 0 || e.Size < 0 {
			return fmt.Errorf("entry %+v", e)
		}
	}
	return nil
}

// searchImages searches a file for device images as the verbs do, reads them, and compares bundles
// with package check.
func searchImages(data []byte, b *budget.Budget) error {
	if len(data) == 0 {
		return nil
	}
	v := variant(data)
	opt := deviceimages.Options{Budget: b, Lenient: v&1 != 0, Verify: v&2 != 0}
	switch v >> 2 % 5 {
	case 0:
		opt.Scope = deviceimages.OffloadBinaries
	case 1:
		opt.Scope, opt.Type = deviceimages.Bundles, "bc"
	case 2:
		opt.Scope, opt.Type = deviceimages.Bundles, "ii"
	}
	f, err := deviceimages.Read(background, files.FromMemory("-", data), opt)
	if err != nil {
		return fmt.Errorf("cannot open: %w", err)
	}
	defer f.Close()
	list, err := f.Unwrapped()
	if serious(err) != nil {
		return serious(err)
	}
	for _, e := range list {
		if e.Size < 0 || e.Offset < 0 {
			return fmt.Errorf("%s: %d bytes at %d", e.Place.String(), e.Size, e.Offset)
		}
		if e.Size > 1<<20 {
			continue
		}
		c, err := f.Load(background, e)
		if err != nil {
			if serious(err) != nil {
				return serious(err)
			}
			continue
		}
		n := c.Get(0).Len()
		c.Close()
		if n != e.Size && !opt.Lenient && !e.HostObject() {
			return fmt.Errorf("%s: %d bytes, listed with %d", e.Place.String(), n, e.Size)
		}
	}
	if opt.Scope != deviceimages.Bundles || opt.Type != "bc" || opt.Lenient || len(data) > 4<<10 || check.Memory(data) > 32<<20 {
		return nil
	}
	if result := check.Bundle(data, check.Options{}); result.Problems == nil {
		entries, _ := f.All()
		if len(entries) != len(result.Found) {
			return fmt.Errorf("%d entries, package check has %d", len(entries), len(result.Found))
		}
		for i, e := range entries {
			if e.ID != result.Found[i].ID || e.Size != result.Found[i].Size {
				return fmt.Errorf("entry %d: %q of %d bytes, package check has %q of %d", i, e.ID, e.Size, result.Found[i].ID, result.Found[i].Size)
			}
		}
	}
	return nil
}

// readTarget requires that the standard form of an ID parses to the same ID.
func readTarget(data []byte) error {
	s := string(data)
	llvm, err1 := target.ParseLLVM(s)
	ours, err2 := target.Parse(s)
	if err1 == nil && err2 != nil {
		return fmt.Errorf("%q: LLVM reads it, Parse does not: %w", s, err2)
	}
	for _, id := range []target.ID{llvm, ours} {
		if id == llvm && err1 != nil || id == ours && err2 != nil {
			continue
		}
		std := id.String()
		if strings.Count(std, "-") < 5 {
			return fmt.Errorf("%q: standard form %q has fewer than five dashes", s, std)
		}
		if _, err := target.ParseLLVM(std); err != nil {
			return fmt.Errorf("%q: standard form %q: %w", s, std, err)
		}
		id.Canonical()
	}
	for _, k := range []target.Kind{"", target.Host, target.OpenMP, target.HIP} {
		id, err := target.Complete(s, k)
		if err != nil {
			continue
		}
		if again, err := target.Complete(id.Text, ""); err != nil || again != id {
			return fmt.Errorf("Complete(%q) = %+v, and of that %+v, %v", s, id, again, err)
		}
		if m := (target.Rules{}).Match(id, id); m.Verdict != target.ExactMatch {
			return fmt.Errorf("%q does not match itself: %s", s, m)
		}
	}
	return nil
}

func readTriple(data []byte) error {
	s := string(data)
	n := target.Normalize(s, 4)
	if strings.Count(n, "-") != 3 {
		return fmt.Errorf("Normalize(%q, 4) = %q", s, n)
	}
	if a, b := target.ParseTriple(n), target.ParseTriple(s); b.Arch != target.ArchUnknown && b.Arch != "dxil" && a.Arch != b.Arch {
		return fmt.Errorf("%q has architecture %q, its normal form %q %q", s, b.Arch, n, a.Arch)
	}
	target.Normalize(s, 0)
	return nil
}

func readTargetID(data []byte) error {
	s := string(data)
	triple := target.ParseTriple("amdgcn-amd-amdhsa-")
	id, err := target.ParseTargetID(s)
	if err != nil {
		return nil
	}
	c := id.Canonical(triple)
	if again := c.Canonical(triple); again.String() != c.String() {
		return fmt.Errorf("%q: canonical %q, and of that %q", s, c, again)
	}
	if target.CheckTargetID(triple, s) == nil && target.CheckTargetID(triple, c.String()) != nil {
		return fmt.Errorf("%q is good, its canonical form %q is not", s, c)
	}
	target.CodeFamily(id.Processor)
	return nil
}

func readGPU(data []byte) error {
	gpu, err := coverage.ParseGPU(string(data))
	if err != nil {
		return nil
	}
	if len(gpu.Modes) == 0 {
		return fmt.Errorf("%q: no modes", data)
	}
	for _, m := range gpu.Modes {
		if _, err := coverage.ParseGPU(m.String()); err != nil {
			return fmt.Errorf("%q: mode %s: %w", data, m, err)
		}
	}
	coverage.Ask("a", []coverage.Bundle{{Images: []coverage.Image{{ID: ids[1], Size: 1}}}}, []coverage.GPU{gpu})
	return nil
}

func readFlagFile(data []byte) error {
	parts := split(data, 3)
	arg, p, q := string(parts[0]), parts[1], parts[2]
	got, err := flagfile.Expand([]string{arg}, func(name string) ([]byte, error) {
		switch path.Clean(name) {
		case "p":
			return p, nil
		case "q":
			return q, nil
		}
		return nil, fs.ErrNotExist
	})
	if err != nil {
		if strings.Contains(err.Error(), "\n") && !strings.Contains(arg, "\n") {
			return fmt.Errorf("an error of several lines: %q", err)
		}
		return nil
	}
	for _, a := range got {
		if a != arg && (strings.ContainsAny(a, "\r\n") || !utf8.ValidString(a)) {
			return fmt.Errorf("argument %q", a)
		}
	}
	return nil
}

// readOptions parses values of options.
func readOptions(data []byte) error {
	s := string(data)
	if g, err := kernels.ParseGrowth(s); err == nil {
		_ = g.Permits(1000, 1<<40)
	}
	kernels.ParseRules(s)
	kernels.ParseTolerance(s)
	kernels.ParseAccepted(s)
	new(kernels.Remarks).Add("gfx90a", "--- !Missed\n"+s)
	if n, err := verb.ParseMemory(s); err == nil && n <= 0 {
		return fmt.Errorf("%q is %d bytes of memory", s, n)
	}
	register.ParseKind(s)
	register.CheckIdentifier(s)
	offloadbinary.ParseOffloadKind(s)
	_ = bundle.FileType(s).Check()
	engine.ParseProperties(s)
	if name, index, ok := kpack.SplitKey(s); ok && kpack.Key(name, index) != s && !strings.Contains(s, "#0") && !strings.Contains(s, "#+") && !strings.Contains(s, "#-") {
		return fmt.Errorf("key %q is %q", s, kpack.Key(name, index))
	}
	return nil
}

// readName prints names.
func readName(data []byte) error {
	s := string(data)
	got := printable.Name(s)
	if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("Name(%q) = %q", s, got)
	}
	if printable.Name(got) != got {
		return fmt.Errorf("Name(%q) is %q, not itself", got, printable.Name(got))
	}
	printable.Text(s)
	if len(s) < 200 {
		kernels.Demangle(s)
	}
	text := (&kernels.Kernel{Members: []string{s}, Name: s}).AppendJSON(nil)
	if !json.Valid(text) {
		return fmt.Errorf("no JSON: %s", text)
	}
	return nil
}
