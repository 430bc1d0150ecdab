package elfedit

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/elfcheck"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

// replace returns an edit that gives the device code of a file other content.
func replace(t testing.TB, f *File, data []byte, slots int) Edit {
	t.Helper()
	section, err := f.Section(".hip_fatbin")
	if err != nil || section < 0 {
		t.Skip("no device code")
	}
	c := Change{
		Section: section, Size: uint64(len(data)), Align: 4096, Slots: make(map[Place]uint64),
		Parts: []content.Part{{Content: content.Memory(data)}},
		Move:  func(offset uint64) (uint64, bool) { return 0, offset == 0 },
	}
	if wrappers, err := f.Section(".hipFatBinSegment"); err == nil && wrappers >= 0 {
		for i := range slots {
			c.Slots[Place{Offset: f.Sections[wrappers].Addr + uint64(24*i) + 8}] = 0
		}
	}
	return Edit{Changes: []Change{c}}
}

func write(t testing.TB, p *Layout) []byte {
	t.Helper()
	var out content.Buffer
	if err := p.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSizes gives the device code every size from nothing to more than there was.
func TestSizes(t *testing.T) {
	old := bytes.Repeat([]byte("old code"), 4000)
	for _, l := range []testelf.Library{
		{Bundles: [][]byte{old}, Wrappers: []int{0, 0}},
		{Bundles: [][]byte{old}, Wrappers: []int{0, 0}, Exec: true},
		{Bundles: [][]byte{old}, Wrappers: []int{0, 0}, Relr: true, Page: 65536, Machine: 183},
	} {
		before := l.Build()
		for _, size := range []int{1, 100, 4095, 4096, 4097, 8000, len(old) - 4096, len(old) - 4000, len(old) - 1, len(old), len(old) + 1, 2 * len(old), 1 << 20} {
			f, err := Parse(content.Memory(before))
			if err != nil {
				t.Fatal(err)
			}
			body := bytes.Repeat([]byte{'n'}, size)
			layout, err := f.Layout(replace(t, f, body, 2))
			if err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			after := write(t, layout)
			for _, found := range append(elfcheck.Check(after), elfcheck.Compare(before, after, ".hip_fatbin")...) {
				t.Errorf("%d bytes: %v", size, found)
			}
			g, err := Parse(content.Memory(after))
			if err != nil {
				t.Fatal(err)
			}
			i, _ := g.Section(".hip_fatbin")
			if !bytes.Equal(g.Content(i).Mapped(guard.Inside), body) {
				t.Errorf("%d bytes: the section has other content", size)
			}
			page := int(g.pageSize())
			if limit := len(before) - (len(old) - size) + page + 8192; len(after) > limit {
				t.Errorf("%d bytes: the file has %d bytes, expected at most %d", size, len(after), limit)
			}
			w, _ := g.Section(".hipFatBinSegment")
			targets := 0
			err = g.Pointers(func(p Pointer) error {
				if p.Slot >= g.Sections[w].Addr && p.Slot < g.Sections[w].Addr+48 {
					targets++
					if p.Value != g.Sections[i].Addr {
						t.Errorf("%d bytes: the pointer at 0x%x leads to 0x%x, expected 0x%x", size, p.Slot, p.Value, g.Sections[i].Addr)
					}
				}
				return nil
			})
			if err != nil || !l.Exec && targets != 2 {
				t.Errorf("%d bytes: %d pointers, %v", size, targets, err)
			}
		}
	}
}

// TestReference removes code and restores it.
func TestReference(t *testing.T) {
	old := bytes.Repeat([]byte("old code"), 4000)
	before := testelf.Library{Bundles: [][]byte{old}, Wrappers: []int{0}}.Build()
	f, err := Parse(content.Memory(before))
	if err != nil {
		t.Fatal(err)
	}
	e := replace(t, f, []byte("marker"), 1)
	e.Changes[0].Reference = ".reference"
	layout, err := f.Layout(e)
	if err != nil {
		t.Fatal(err)
	}
	split := write(t, layout)
	g, err := Parse(content.Memory(split))
	if err != nil {
		t.Fatal(err)
	}
	ref, _ := g.Section(".reference")
	if ref < 0 || string(g.Content(ref).Mapped(guard.Inside)) != "marker" || len(split) > len(before)-len(old)+8192 {
		t.Fatalf("section %d, %d bytes", ref, len(split))
	}
	for _, size := range []int{10, 5000, len(old), 3 * len(old)} {
		e = replace(t, g, bytes.Repeat([]byte{'n'}, size), 1)
		e.Changes[0].Restore = ".reference"
		layout, err := g.Layout(e)
		if err != nil {
			t.Fatal(err)
		}
		whole := write(t, layout)
		for _, data := range [][]byte{split, whole} {
			for _, found := range elfcheck.Check(data) {
				t.Errorf("%d bytes: %v", size, found)
			}
		}
		h, err := Parse(content.Memory(whole))
		if err != nil {
			t.Fatal(err)
		}
		if i, _ := h.Section(".hip_fatbin"); h.Content(i).Len() != int64(size) {
			t.Errorf("%d bytes: the section has %d", size, h.Content(i).Len())
		}
		if i, _ := h.Section(".reference"); i >= 0 || len(h.Sections) != len(f.Sections) {
			t.Errorf("%d bytes: %d sections, %d before", size, len(h.Sections), len(f.Sections))
		}
	}
}

// TestEmptySegment has a segment without bytes in the file, whose offset is far beyond the end.
func TestEmptySegment(t *testing.T) {
	data := testelf.Library{Bundles: [][]byte{bytes.Repeat([]byte("code"), 4000)}, Wrappers: []int{0}}.Build()
	const last, far = 64 + 6*56, 1 << 53
	binary.LittleEndian.PutUint32(data[last:], elf.PtLoad)
	binary.LittleEndian.PutUint64(data[last+8:], far)
	binary.LittleEndian.PutUint64(data[last+16:], far)
	binary.LittleEndian.PutUint64(data[last+48:], 4096)
	for _, size := range []int{100, 20_000} {
		f, err := Parse(content.Memory(data))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := f.Layout(replace(t, f, make([]byte, size), 1))
		if err != nil {
			t.Fatal(err)
		}
		if most := int64(len(data) + size + 8192); plan.Size > most {
			t.Fatalf("%d bytes, expected at most %d", plan.Size, most)
		}
		for _, found := range elfcheck.Check(write(t, plan)) {
			t.Errorf("%d bytes: %v", size, found)
		}
	}
}

// namesInside gives the dynamic symbol names an address inside the dynamic symbols, and returns their
// section header.
func namesInside(d []byte) []byte {
	const dynsym, dynstr, dynamic = 2, 3, 9
	section := func(i int) []byte { return d[binary.LittleEndian.Uint64(d[40:])+uint64(i)*64:] }
	inside := binary.LittleEndian.Uint64(section(dynsym)[16:]) + 8
	for at := binary.LittleEndian.Uint64(section(dynamic)[24:]); binary.LittleEndian.Uint64(d[at:]) != elf.DtNull; at += elf.DynamicSize {
		if binary.LittleEndian.Uint64(d[at:]) == elf.DtStrtab {
			binary.LittleEndian.PutUint64(d[at+8:], inside)
		}
	}
	binary.LittleEndian.PutUint64(section(dynstr)[16:], inside)
	return section(dynstr)
}

// TestHeadersThatDoNotFit has headers that are wrong in a way that does not prevent an edit.
func TestHeadersThatDoNotFit(t *testing.T) {
	const noteSegment, stackSegment = 64 + 5*56, 64 + 6*56
	for name, damage := range map[string]func(d []byte){
		"an empty segment of program headers": func(d []byte) {
			binary.LittleEndian.PutUint32(d[stackSegment:], elf.PtPhdr)
			binary.LittleEndian.PutUint64(d[stackSegment+16:], 1<<40)
		},
		// The note segment has to move, and the section that it reaches into with it.
		"a section with another address": func(d []byte) {
			sections := d[binary.LittleEndian.Uint64(d[40:]):]
			size := binary.LittleEndian.Uint64(d[noteSegment+32:])
			binary.LittleEndian.PutUint64(d[noteSegment+32:], size+8)
			binary.LittleEndian.PutUint64(sections[2*64+16:], 0)
			binary.LittleEndian.PutUint64(sections[2*64+24:], binary.LittleEndian.Uint64(d[noteSegment+8:])+size)
			binary.LittleEndian.PutUint64(sections[2*64+32:], 8)
			binary.LittleEndian.PutUint64(sections[2*64+48:], 4096)
		},
		// The dynamic tag of the names leads to an empty section inside one that has to move.
		"an empty section inside another": func(d []byte) {
			binary.LittleEndian.PutUint64(namesInside(d)[32:], 0)
		},
		// The same, and the section has bytes elsewhere in the file.
		"a section at the address of another": func(d []byte) {
			names := namesInside(d)
			binary.LittleEndian.PutUint64(names[24:], 0)
			binary.LittleEndian.PutUint64(names[32:], 16)
		},
	} {
		data := testelf.Library{Bundles: [][]byte{bytes.Repeat([]byte("code"), 4000)}, Wrappers: []int{0}}.Build()
		damage(data)
		broken := make(map[elfcheck.Rule]int)
		for _, found := range elfcheck.Check(data) {
			broken[found.Rule]++
		}
		f, err := Parse(content.Memory(data))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := f.Layout(replace(t, f, make([]byte, 100), 1))
		if err != nil {
			t.Logf("%s: %v", name, err)
			continue
		}
		for _, found := range elfcheck.Check(write(t, plan)) {
			if broken[found.Rule]--; broken[found.Rule] < 0 {
				t.Errorf("%s: %v", name, found)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	good := testelf.Library{Bundles: [][]byte{bytes.Repeat([]byte("code"), 4000)}, Wrappers: []int{0}}.Build()
	for name, test := range map[string]struct {
		damage func(d []byte) []byte
		want   string
	}{
		"empty":    {func(d []byte) []byte { return nil }, "not an ELF file"},
		"short":    {func(d []byte) []byte { return d[:63] }, "not an ELF file"},
		"object":   {func(d []byte) []byte { d[16] = 1; return d }, "ELF type 1"},
		"segments": {func(d []byte) []byte { d[56], d[57] = 0xfe, 0xff; return d }, "program headers"},
		"sections": {func(d []byte) []byte { binary.LittleEndian.PutUint64(d[40:], uint64(len(d))); return d }, "section header table"},
		"names":    {func(d []byte) []byte { d[62] = 200; return d }, "section names"},
		"page":     {func(d []byte) []byte { binary.LittleEndian.PutUint64(d[64+48:], 3); return d }, "alignment"},
		"power": {func(d []byte) []byte {
			binary.LittleEndian.PutUint64(d[binary.LittleEndian.Uint64(d[40:])+64+48:], 12)
			return d
		}, "alignment 0xc is no power of two"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(content.Memory(test.damage(bytes.Clone(good)))); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, expected %q", err, test.want)
			}
		})
	}
}

func FuzzPlan(f *testing.F) {
	old := bytes.Repeat([]byte("old code"), 1000)
	f.Add(testelf.Library{Bundles: [][]byte{old}, Wrappers: []int{0}}.Build(), 100)
	f.Add(testelf.Library{Bundles: [][]byte{old}, Wrappers: []int{0}, Relr: true}.Build(), 5000)
	f.Add(testelf.Library{Bundles: [][]byte{old}, Wrappers: []int{0}, Exec: true}.Build(), 10000)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		file, err := Parse(content.Memory(data))
		if err != nil || size < 0 || size > 1<<16 {
			return
		}
		layout, err := file.Layout(replace(t, file, make([]byte, size), 1))
		if err != nil {
			return
		}
		if layout.Size < 0 || layout.Size > int64(len(data))+int64(size)+3<<28 {
			t.Fatalf("%d bytes", layout.Size)
		}
		at := int64(0)
		for _, p := range layout.Parts {
			if p.Offset < at {
				t.Fatal("parts overlap")
			}
			at = p.Offset + p.Content.Len()
		}
	})
}

func FuzzObject(f *testing.F) {
	f.Add(testelf.Library{Bundles: [][]byte{[]byte("code")}, Wrappers: []int{0}}.Build())
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := ParseObject(content.Memory(data))
		if err != nil {
			return
		}
		for i := range o.Sections {
			if o.Sections[i].InFile() == 0 {
				continue
			}
			_, _ = o.Layout(Edit{Changes: []Change{{Section: i, Size: 100, Parts: []content.Part{{Content: content.Memory(make([]byte, 100))}}, Move: func(offset uint64) (uint64, bool) { return offset, true }}}})
			break
		}
	})
}
