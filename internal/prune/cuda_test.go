package prune

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/devicecode/cubin"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/elfcheck"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

// fatbinary returns a CUDA fatbinary with images of several KiB for targets.
func fatbinary(t testing.TB, targets ...string) []byte {
	var images []string
	for i, target := range targets {
		images = append(images, target, strings.Repeat(target+" ", 900+i))
	}
	return fixture.FatbinaryOf(t, images...)
}

// TestCUDALinked removes images from linked files: wrappers point to fatbinaries with the
// kept images, whose bytes do not change.
func TestCUDALinked(t *testing.T) {
	first, second := fatbinary(t, "sm_80", "sm_90", "compute_90"), fatbinary(t, "sm_80", "compute_90")
	all := [][]byte{first, second}
	start := uint64(0)
	for name, l := range map[string]testelf.Library{
		"rela":        {Bundles: all, Wrappers: []int{0, 1}},
		"swapped":     {Bundles: all, Wrappers: []int{1, 0, 1}},
		"relr":        {Bundles: all, Wrappers: []int{0, 1}, Relr: true},
		"exec":        {Bundles: all, Wrappers: []int{0, 1}, Exec: true},
		"symbols":     {Bundles: all, Wrappers: []int{0, 1}, Symbol: true},
		"pointer":     {Bundles: all, Wrappers: []int{0, 1}, Pointer: &start},
		"aarch64":     {Bundles: all, Wrappers: []int{0, 1}, Machine: 183},
		"relocatable": {Bundles: all, Wrappers: []int{0, 1}, Section: "__nv_relfatbin"},
		"appended":    {Bundles: all, Wrappers: []int{0, 1}, Appended: []byte("signature")},
	} {
		t.Run(name, func(t *testing.T) {
			l.CUDA = true
			before := l.Build()
			after, report, err := apply(before, Options{Keep: []string{"sm_90", "compute_90"}})
			if err != nil {
				t.Fatal(err)
			}
			section := report.Bundles[0].Section
			for _, f := range append(elfcheck.Check(after), elfcheck.Compare(before, after, section)...) {
				t.Error(f)
			}
			want := map[int]string{0: imagesOf(t, first)[1] + imagesOf(t, first)[2], 1: imagesOf(t, second)[1]}
			var expected []string
			for _, b := range l.Wrappers {
				expected = append(expected, want[b])
			}
			if diff := cmp.Diff(expected, wrapped(t, after)); diff != "" {
				t.Error(diff)
			}
			if len(after) > len(before)-8192 || report.SizeAfter != int64(len(after)) || len(report.Bundles) != 2 {
				t.Errorf("%d bytes, before %d: %+v", len(after), len(before), report)
			}
			again, _, err := apply(after, Options{Keep: []string{"sm_90", "compute_90"}})
			if err != nil || !bytes.Equal(again, after) {
				t.Errorf("again: %v", err)
			}
		})
	}
}

// imagesOf returns the bytes of the images of a fatbinary.
func imagesOf(t testing.TB, data []byte) (all []string) {
	t.Helper()
	images, err := cubin.Images(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range images {
		all = append(all, string(data[i.Offset:i.Offset+i.Size]))
	}
	return all
}

// wrapped returns the images of the fatbinary that each wrapper points to.
func wrapped(t testing.TB, data []byte) (all []string) {
	t.Helper()
	f, err := elfedit.Parse(content.Memory(data))
	if err != nil {
		t.Fatal(err)
	}
	wrappers, err := cudaWrappers(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wrappers {
		off, ok := f.Offset(w.Target, 16)
		if !ok || w.Target%8 != 0 {
			t.Fatalf("a wrapper points to 0x%x", w.Target)
		}
		size := 16 + binary.LittleEndian.Uint64(data[off+8:])
		all = append(all, strings.Join(imagesOf(t, data[off:off+size]), ""))
	}
	return all
}

// TestCUDAEmpty keeps the header of a fatbinary that loses all images.
func TestCUDAEmpty(t *testing.T) {
	l := testelf.Library{CUDA: true, Bundles: [][]byte{fatbinary(t, "sm_80"), fatbinary(t, "sm_90")}, Wrappers: []int{0, 1}}
	before := l.Build()
	after, _, err := apply(before, Options{Drop: []string{"sm_80"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(elfcheck.Check(after), elfcheck.Compare(before, after, ".nv_fatbin")...) {
		t.Error(f)
	}
	if got := wrapped(t, after); got[0] != "" || got[1] != imagesOf(t, l.Bundles[1])[0] {
		t.Errorf("images of %d and %d bytes", len(got[0]), len(got[1]))
	}
}

// cudaObject returns an object with two fatbinaries, and a pointer to the second.
func cudaObject(t testing.TB, first, second []byte) []byte {
	b := object.NewBuilder(elf.MachineX8664)
	code := b.Section(object.BuilderSection{Name: ".nv_fatbin", Type: elf.ShtProgbits, Flags: elf.ShfAlloc, Align: 8, Content: content.Memory(append(bytes.Clone(first), second...))})
	data := b.Section(object.BuilderSection{Name: ".nvFatBinSegment", Type: elf.ShtProgbits, Flags: elf.ShfAlloc | elf.ShfWrite, Align: 8, Content: content.Memory(make([]byte, 24))})
	symbol := b.Symbol(object.BuilderSymbol{Name: "fatbin", Section: code, Value: uint64(len(first)), Size: uint64(len(second)), Bind: elf.BindGlobal, Type: elf.TypeObject})
	const abs64 = 1
	b.Relocate(data, 8, abs64, symbol, 0)
	return fixture.Bytes(t, b.Write)
}

// TestCUDAFiles removes images from objects, archives and files of fatbinaries.
func TestCUDAFiles(t *testing.T) {
	both, ptx := fatbinary(t, "sm_80", "compute_80"), fixture.FatbinaryOf(t, "compute_80", strings.Repeat("compute_80 ", 901))
	o := Options{Keep: []string{"compute_80"}}
	for name, test := range map[string]struct {
		format        string
		before, after []byte
	}{
		"fatbinary": {"fatbinary", append(bytes.Clone(both), both...), append(bytes.Clone(ptx), ptx...)},
		"object":    {"elf-object", cudaObject(t, both, both), cudaObject(t, ptx, ptx)},
		"archive": {"archive", fixture.Archive(t, "a.o", string(cudaObject(t, both, both)), "b.fatbin", string(both), "c", "text"),
			fixture.Archive(t, "a.o", string(cudaObject(t, ptx, ptx)), "b.fatbin", string(ptx), "c", "text")},
	} {
		after, report, err := apply(test.before, o)
		if err != nil || !bytes.Equal(after, test.after) || report.Format != test.format {
			t.Errorf("%s: %d bytes, expected %d, %v, %+v", name, len(after), len(test.after), err, report)
		}
		if again, _, err := apply(after, o); err != nil || !bytes.Equal(again, after) {
			t.Errorf("%s: again: %v", name, err)
		}
	}
}

// TestCUDANames names images by processor and kind of code.
func TestCUDANames(t *testing.T) {
	data := fatbinary(t, "sm_80", "sm_90", "compute_90")
	for _, test := range []struct {
		o    Options
		want string // kept, or the error
	}{
		{Options{Keep: []string{"sm_90"}}, "[nvptx64-nvidia-cuda--sm_90]"},
		{Options{Drop: []string{"sm_90"}}, "[nvptx64-nvidia-cuda--sm_80 nvptx64-nvidia-cuda--compute_90]"},
		{Options{Keep: []string{"nvptx64-nvidia-cuda--compute_90"}}, "[nvptx64-nvidia-cuda--compute_90]"},
		{Options{Keep: []string{"sm_75"}}, "no entry for sm_75: found nvptx64-nvidia-cuda--sm_80, nvptx64-nvidia-cuda--sm_90, nvptx64-nvidia-cuda--compute_90"},
		{Options{Drop: []string{"sm_80", "sm_90", "compute_90"}}, "no device code would remain"},
		{Options{Replace: []Replacement{{"sm_80", content.Memory([]byte("x"))}}}, "images of CUDA fatbinaries cannot be replaced"},
		{Options{Compress: true}, "[nvptx64-nvidia-cuda--sm_80 nvptx64-nvidia-cuda--sm_90 nvptx64-nvidia-cuda--compute_90]"},
	} {
		_, report, err := apply(data, test.o)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(report.Bundles[0].Kept)
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%+v: %s, expected %s", test.o, got, test.want)
		}
	}
}

// TestCUDAHostile rejects damaged fatbinaries and wrappers. A tree copies such linked files.
func TestCUDAHostile(t *testing.T) {
	good := fatbinary(t, "sm_80", "sm_90")
	damaged := func(at int, value uint64) []byte {
		data := bytes.Clone(good)
		binary.LittleEndian.PutUint64(data[at:], value)
		return data
	}
	library := func(l testelf.Library, bundles ...[]byte) []byte {
		l.CUDA, l.Bundles = true, bundles
		return l.Build()
	}
	middle := uint64(40)
	one := testelf.Library{Wrappers: []int{0}}
	for name, test := range map[string]struct {
		data   []byte
		want   string
		linked bool
	}{
		"cut":           {good[:len(good)-1], "passes the end", false},
		"header cut":    {good[:15], "no CUDA fatbinary at byte 0x0", false},
		"after it":      {append(bytes.Clone(good), "x"...), "no CUDA fatbinary at byte", false},
		"size":          {damaged(8, 1<<63), "passes the end", false},
		"small header":  {damaged(0, 0x00020001ba55ed50), "header 0x2", false},
		"image size":    {damaged(16+8, ^uint64(0)), "image at byte 0x10", false},
		"image overlap": {damaged(16+8, uint64(len(good)-16-64-8)), "found 8 bytes, expected a header of 64 or more", false},
		"image header":  {damaged(16, 0xffffffff01010002), "header 0xffffffff", false},
		"no header":     {damaged(16, 0x0000000001010002), "header 0x0", false},
		"linked":        {library(one, damaged(16+8, 1<<40)), "section .nv_fatbin: fatbinary at byte 0x0: image at byte 0x10", true},
		"no magic":      {library(one, []byte("________________")), "no CUDA fatbinary at byte 0x0", true},
		"no wrapper":    {library(testelf.Library{}, good), "no wrapper in section .nvFatBinSegment points to it", true},
		"one wrapper":   {library(testelf.Library{Wrappers: []int{1}, Exec: true}, good, good), "a fatbinary has no wrapper", true},
		"inside":        {movePointer(t, library(one, good), 0, 16), "where no CUDA fatbinary begins", true},
		"pointer":       {library(testelf.Library{Wrappers: []int{0}, Pointer: &middle}, good), "where no device code begins", false},
		"object":        {fixture.ELF(t, ".nv_fatbin", string(damaged(8, 1<<63))), "section .nv_fatbin: CUDA fatbinary at byte 0x0", true},
		"archive":       {fixture.Archive(t, "a", "text", "b", string(damaged(16+8, 1<<63))), "member b: fatbinary at byte 0x0", false},
	} {
		_, _, err := apply(test.data, Options{Keep: []string{"sm_90"}})
		var unread *UnsupportedError
		if err == nil || !strings.Contains(err.Error(), test.want) || errors.As(err, &unread) != test.linked {
			t.Errorf("%s: error %v, expected %q", name, err, test.want)
		}
	}
}

// TestCUDAOtherVendor leaves it to the caller to copy a file without code for the GPUs to keep.
func TestCUDAOtherVendor(t *testing.T) {
	for keep, want := range map[string]bool{"gfx90a": true, "sm_90": false} {
		_, _, err := apply(fatbinary(t, "sm_80"), Options{Keep: []string{keep}, IgnoreMissing: true})
		var unread *UnsupportedError
		if err == nil || !strings.Contains(err.Error(), "no device code would remain") || errors.As(err, &unread) != want {
			t.Errorf("%s: %v", keep, err)
		}
	}
}

// TestCUDAMany rejects a fatbinary with many images for different processors quickly.
func TestCUDAMany(t *testing.T) {
	const count = 100_000
	data := bytes.Repeat(fixture.FatbinaryOf(t, "sm_80", "")[16:], count)
	for i := range uint32(count) {
		binary.LittleEndian.PutUint32(data[64*i+28:], i+100)
	}
	start := time.Now()
	_, _, err := apply([]byte(fixture.Fatbinary(string(data))), Options{Keep: []string{"sm_80"}})
	if err == nil || !strings.Contains(err.Error(), "and 99960 more") || time.Since(start) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

// TestCUDABitFlips flips bits of fatbinaries and of their library: there is no panic, and the
// output keeps its structure.
func TestCUDABitFlips(t *testing.T) {
	code := fixture.FatbinaryOf(t, "sm_80", "one", "sm_90", "two")
	data := testelf.Library{CUDA: true, Bundles: [][]byte{code}, Wrappers: []int{0}}.Build()
	f, err := elfedit.Parse(content.Memory(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".nv_fatbin", ".nvFatBinSegment", ".rela.dyn"} {
		i, _ := f.Section(name)
		for at := f.Sections[i].Offset; at < f.Sections[i].Offset+f.Sections[i].Size; at++ {
			for bit := range 8 {
				damaged := bytes.Clone(data)
				damaged[at] ^= 1 << bit
				out, _, err := apply(damaged, Options{Keep: []string{"sm_90"}})
				if err == nil && len(elfcheck.Check(damaged)) == 0 && len(elfcheck.Check(out)) > 0 {
					t.Errorf("byte 0x%x bit %d: %v", at, bit, elfcheck.Check(out))
				}
			}
		}
	}
}
