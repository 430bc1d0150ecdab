package prune

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/internal/embedding"
)

const (
	peMagic64   = 0x20b
	peOptional  = 112 // bytes of the optional header before the data directories
	peImageBase = 24
	peAlign     = 36
	peRawSize   = 16
	peRawOffset = 20

	peBase  = 0x180000000
	peLower = 0x400 // where the first section is in the file
)

// peLibrary returns a library for Windows with sections, which are pairs of a name and a content. The
// first 28 bytes of the section .debug are the debug directory, whose data follows it.
func peLibrary(sections ...string) []byte {
	le := binary.LittleEndian
	b := make([]byte, peLower)
	copy(b, "MZ")
	le.PutUint32(b[0x3c:], 64)
	copy(b[64:], "PE\x00\x00\x64\x86")
	le.PutUint16(b[70:], uint16(len(sections)/2))
	le.PutUint16(b[84:], peOptional+128)
	le.PutUint16(b[86:], 0x2022)
	o := b[88:]
	le.PutUint16(o, peMagic64)
	le.PutUint32(o[8:], 1<<20)
	le.PutUint64(o[24:], peBase)
	le.PutUint32(o[32:], 4096)
	le.PutUint32(o[36:], 512)
	le.PutUint32(o[64:], 0x1234)
	le.PutUint32(o[108:], 16)
	at := uint32(0x1000)
	for i := 0; i < len(sections); i += 2 {
		h := b[88+peOptional+128+i/2*40:]
		data := []byte(sections[i+1])
		copy(h, sections[i])
		le.PutUint32(h[8:], uint32(len(data)))
		le.PutUint32(h[12:], at)
		le.PutUint32(h[16:], uint32(len(data)+511)/512*512)
		le.PutUint32(h[20:], uint32(len(b)))
		if sections[i] == ".debug" {
			o := b[88:]
			le.PutUint32(o[peOptional+48:], at)
			le.PutUint32(o[peOptional+52:], 28)
			le.PutUint32(data[20:], at+28)
			le.PutUint32(data[24:], uint32(len(b))+28)
		}
		b = append(append(b, data...), make([]byte, (512-len(data)%512)%512)...)
		at += uint32(len(data)+4095) / 4096 * 4096
	}
	return b
}

// hipWrappers returns wrappers that point to addresses in the image.
func hipWrappers(targets ...uint64) string {
	var b []byte
	for _, t := range targets {
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, 1<<32|embedding.MagicHIP), peBase+t)
		b = append(b, make([]byte, 8)...)
	}
	return string(b)
}

// windows returns a library with two bundles in the middle of the file.
func windows(t testing.TB, compress bool) []byte {
	first, second := code(t, compress, "gfx90a", "gfx942"), code(t, compress, "gfx90a", "gfx1100", "gfx942")
	place := (len(first) + 4095) / 4096 * 4096
	body := string(append(append(first, make([]byte, place-len(first))...), second...))
	return peLibrary(".text", "code", ".hip_fat", body, ".hipFatB", hipWrappers(0x2000, 0x2000+uint64(place)), ".debug", strings.Repeat("\x00", 28)+"RSDS of the library")
}

// loaded returns the memory contents of each section of a PE file, and the bytes to which the debug
// directory refers.
func loaded(t testing.TB, data []byte) (sections map[string]string, debug string) {
	t.Helper()
	f, err := pe.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	sections = make(map[string]string)
	for _, s := range f.Sections {
		body := make([]byte, s.VirtualSize)
		copy(body, data[s.Offset:min(int(s.Offset+s.Size), len(data))])
		sections[s.Name] = fmt.Sprintf("0x%x ", s.VirtualAddress) + string(body)
		if s.Name == ".debug" {
			debug = string(data[binary.LittleEndian.Uint32(body[24:]):][:4])
			clear(body[24:28])
			sections[s.Name] = fmt.Sprintf("0x%x ", s.VirtualAddress) + string(body)
		}
	}
	return sections, debug
}

// TestPE removes code from a library for Windows: sections keep their addresses and contents in
// memory, and wrappers refer to the same bundles.
func TestPE(t *testing.T) {
	for _, compress := range []bool{false, true} {
		before := windows(t, compress)
		o := Options{Keep: []string{"gfx90a"}}
		after, report, err := apply(before, o)
		if err != nil {
			t.Fatal(err)
		}
		if !compress && len(after) > len(before)-8192 || report.Format != "pe" || report.SizeAfter != int64(len(after)) || len(report.Bundles) != 2 || report.Bundles[1].Section != ".hip_fat" {
			t.Errorf("%d bytes, before %d: %+v", len(after), len(before), report)
		}
		was, _ := loaded(t, before)
		is, debug := loaded(t, after)
		for name := range was {
			if name != ".hip_fat" && is[name] != was[name] || len(is[name]) != len(was[name]) {
				t.Errorf("%s has other bytes or another address", name)
			}
		}
		if debug != "RSDS" {
			t.Errorf("the debug directory leads to %q", debug)
		}
		for _, r := range embedding.Records([]byte(is[".hipFatB"][len("0x0000 "):]), 0) {
			_, body, _ := strings.Cut(is[".hip_fat"], " ")
			bundled := []byte(body[r.Target-peBase-0x2000:])
			if compress {
				if h, err := ccob.Parse(bundled); err != nil || h.Version != 3 {
					t.Errorf("%+v, %v", h, err)
				}
			} else if b, err := bundle.Parse(bundled); err != nil || len(b.Entries) != 2 || b.Entries[1].ID != prefix+"gfx90a" {
				t.Errorf("%+v, %v", b, err)
			}
		}
		if again, _, err := apply(after, o); err != nil || !bytes.Equal(again, after) {
			t.Errorf("again: %v", err)
		}
		if _, dry, err := apply(before, Options{Keep: o.Keep, DryRun: true}); err != nil || dry.SizeAfter < report.SizeAfter || !compress && dry.SizeAfter != report.SizeAfter {
			t.Errorf("dry run: %d bytes, expected %d, %v", dry.SizeAfter, report.SizeAfter, err)
		}
	}
}

// TestPESignature removes the signature, which is not valid any more.
func TestPESignature(t *testing.T) {
	plain := windows(t, false)
	signed := append(bytes.Clone(plain), "sixteen letters."...)
	binary.LittleEndian.PutUint32(signed[88+peOptional+32:], uint32(len(plain)))
	binary.LittleEndian.PutUint32(signed[88+peOptional+36:], 16)
	o := Options{Keep: []string{"gfx90a"}}
	want, _, err := apply(plain, o)
	if err != nil {
		t.Fatal(err)
	}
	got, report, err := apply(signed, o)
	if err != nil || !bytes.Equal(got, want) || len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "signature is removed") {
		t.Errorf("%v, warnings %v", err, report.Warnings)
	}
}

// TestPEHostile rejects PE files that are damaged or that it cannot change.
func TestPEHostile(t *testing.T) {
	le := binary.LittleEndian
	one := string(code(t, false, "gfx90a", "gfx942"))
	change := func(at int, value uint32) []byte {
		data := windows(t, false)
		le.PutUint32(data[at:], value)
		return data
	}
	const table = 88 + peOptional + 128
	for name, test := range map[string]struct {
		data []byte
		want string
	}{
		"PE32":          {change(88, 0x10b), "expected a 64-bit one"},
		"alignment":     {change(88+peAlign, 3), "aligned to 0x3 bytes"},
		"cut":           {windows(t, false)[:0x1000], "passes the end of the file"},
		"offset":        {change(table+40+peRawOffset, 1<<31), "passes the end of the file"},
		"size":          {change(table+40+peRawSize, 1<<31), "expected multiples"},
		"overlap":       {change(table+80+peRawOffset, peLower+1024), "overlaps section .hipFatB"},
		"on headers":    {change(table+40+peRawOffset, 0), "where no bundle begins"},
		"signature":     {change(88+peOptional+36, 16), "the signature at bytes"},
		"base":          {change(88+peImageBase, 1), "wrapper 0: points to address"},
		"no wrapper":    {peLibrary(".hip_fat", one), "no wrapper in section .hipFatB points to it"},
		"inside":        {peLibrary(".hip_fat", one, ".hipFatB", hipWrappers(0x1010)), "where no bundle begins"},
		"no code":       {peLibrary(".text", "code"), "no device code"},
		"OpenMP":        {peLibrary(".llvm.of", "code"), "section .llvm.of of a PE file is not supported"},
		"marker":        {peLibrary(".hip_fat", one, ".hipFatB", strings.Replace(hipWrappers(0x1000), "FPIH", "HIPK", 1)), "kpack archives"},
		"bundle passes": {peLibrary(".hip_fat", one[:5000], ".hipFatB", hipWrappers(0x1000)), "passes the end"},
	} {
		_, _, err := apply(test.data, Options{Keep: []string{"gfx90a"}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, expected %q", name, err, test.want)
		}
	}
	if _, _, err := apply(peLibrary(".hip_fat", string(code(t, true, "gfx90a")), ".hipFatB", hipWrappers(0x1000)), Options{Decompress: true}); err == nil || !strings.Contains(err.Error(), "a PE file cannot grow") {
		t.Errorf("decompress: %v", err)
	}
	whole := windows(t, false)
	for at := range 0x200 {
		for bit := range 8 {
			damaged := bytes.Clone(whole)
			damaged[at] ^= 1 << bit
			_, _, _ = apply(damaged, Options{Keep: []string{"gfx90a"}})
		}
	}
}
