package registered

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/devicecode/cubin"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Wrapper is a record that host code passes to HIP's runtime for one source.
type Wrapper struct {
	embedding.Record
	// Addr is the address of the record; 0 in an object.
	Addr uint64
	// Slot is the place of the pointer in the record.
	Slot elfedit.Place
	// Offset is the offset in the file of what the record points to, or -1 if it is not in the file.
	Offset int64
}

// Bundle is the place of a bundle, plain or compressed.
type Bundle struct {
	Offset int64 // in its region
	// Reached reports whether a wrapper points to the bundle.
	Reached bool
}

// Region is a section with bundles, or a file without section headers.
type Region struct {
	Section int    // its index; -1 for the file
	Name    string // of the section
	Start   int64  // in the file
	Content content.Content
	Bundles []Bundle // in order
}

// Reached reports whether a wrapper points to a bundle of the region.
func (r *Region) Reached() bool {
	return slices.ContainsFunc(r.Bundles, func(b Bundle) bool { return b.Reached })
}

// End returns the largest possible end of bundle i: the start of the next one, or the end of the region.
func (r *Region) End(i int) int64 {
	if i+1 < len(r.Bundles) {
		return r.Bundles[i+1].Offset
	}
	return r.Content.Len()
}

// Alone reports whether the region is a section without other data than bundles and zeros.
func (r *Region) Alone() bool {
	if r.Section < 0 {
		return false
	}
	data, end := r.Content.Mapped(guard.Inside), int64(0)
	for i, b := range r.Bundles {
		e, err := ccob.ExtentAt(data[:r.End(i)], b.Offset, bundle.End)
		if err != nil || !zero(data[end:b.Offset]) {
			return false
		}
		end = e.End
	}
	return zero(data[end:])
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// isBundle reports whether data begins with a bundle.
func isBundle(data []byte) bool { return bundle.Is(data) || ccob.Is(data) }

// Code is the code for HIP in a file with host code.
type Code struct {
	// Wrappers are in the order of their addresses.
	Wrappers []Wrapper
	// Regions have the bundles, in the order of the file: those that wrappers point to, and adjacent ones in sections
	// that compilers make for bundles, or that begin with one.
	Regions []Region
	// Fault is the first reason why registered code cannot be read, of type *Error; nil for none.
	Fault error
	// Unresolved is the reason why wrappers are not known; nil if they are.
	Unresolved error
}

// Reached reports whether a wrapper points to a bundle.
func (c *Code) Reached() bool {
	return slices.ContainsFunc(c.Regions, func(r Region) bool { return r.Reached() })
}

// Error reports device code that host code registers, and that cannot be read.
type Error struct {
	// Wrapper is the number of a wrapper that points to no bundle; -1 if no wrapper was found.
	Wrapper int
	Reason  string
}

// Error returns the reason.
func (e *Error) Error() string { return e.Reason }

// Find finds the code for HIP in a shared library, a program or an ELF object, first by what the runtime reads, then by
// sections. Wrappers are the records that relocations, constructors or the section of wrappers lead to, so that names of
// sections are not required. A file of another kind has no code.
func Find(c content.Content) *Code {
	f := finder{c: c, data: c.Mapped(guard.Inside), size: (*object.Section).InFile, found: make(map[elfedit.Place]bool)}
	format := object.Identify(f.data)
	if format != object.PE && format != object.ELFRelocatable && !elfedit.IsLinked(f.data) {
		return &f.code
	}
	if file, err := object.Parse(f.data); err == nil {
		f.sections = file.Sections
	}
	switch format {
	case object.PE:
		f.code.Unresolved = f.pe()
	case object.ELFRelocatable:
		f.code.Unresolved = f.object()
	default:
		f.code.Unresolved = f.linked()
	}
	slices.SortFunc(f.code.Wrappers, func(a, b Wrapper) int {
		return cmp.Or(cmp.Compare(a.Slot.Section, b.Slot.Section), cmp.Compare(a.Slot.Offset, b.Slot.Offset))
	})
	f.regions()
	if f.code.Unresolved != nil && len(f.code.Regions) == 0 && f.code.Fault == nil && f.isHost() && bytes.Contains(f.data, []byte("\x00"+registerFatBinary+"\x00")) {
		f.code.Fault = &Error{-1, fmt.Sprintf("it calls %s, and its wrappers cannot be read: %v", registerFatBinary, f.code.Unresolved)}
	}
	return &f.code
}

// isHost reports whether an ELF file is linked, and not for a GPU.
func (f *finder) isHost() bool {
	if !elfedit.IsLinked(f.data) || len(f.data) < elf.HeaderSize {
		return false
	}
	machine := binary.LittleEndian.Uint16(f.data[18:])
	return machine != elf.MachineAMDGPU && machine != elf.MachineCUDA
}

// finder finds the device code of a file.
type finder struct {
	c        content.Content
	data     []byte
	sections []object.Section
	size     func(s *object.Section) uint64 // of a section in the file, in bytes
	code     Code
	found    map[elfedit.Place]bool // slots of wrappers
	// dangles reports whether a wrapper that points to no bundle is a fault.
	dangles bool
}

// pointerAt is the offset of the pointer in a record.
const pointerAt = 8

// record parses a record without its pointer.
func record(data []byte) (r embedding.Record, ok bool) {
	for at, r := range embedding.Records(data[:min(len(data), embedding.RecordSize)], 0) {
		return r, at == 0
	}
	return r, false
}

// add adds a wrapper, once.
func (f *finder) add(w Wrapper) {
	if !f.found[w.Slot] {
		f.found[w.Slot] = true
		f.code.Wrappers = append(f.code.Wrappers, w)
	}
}

// linked finds the wrappers of a shared library or a program.
func (f *finder) linked() error {
	file, err := elfedit.ParseLoaded(f.c)
	if errors.Is(err, elfedit.ErrPacked) {
		f.code.Fault = &Error{-1, err.Error()}
		return nil
	}
	if err != nil {
		return err
	}
	f.dangles = true
	add := func(addr, target uint64, r embedding.Record) {
		r.Target = target
		w := Wrapper{Record: r, Addr: addr, Slot: elfedit.Place{Offset: addr + pointerAt}, Offset: -1}
		if off, ok := file.Offset(target, 1); ok {
			w.Offset = int64(off)
		}
		f.add(w)
	}
	err = file.Pointers(func(p elfedit.Pointer) error {
		if p.Slot < pointerAt {
			return nil
		}
		data, _, ok := file.Loaded(p.Slot-pointerAt, embedding.RecordSize)
		if !ok {
			return nil
		}
		if r, ok := record(data); ok {
			add(p.Slot-pointerAt, p.Value, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range f.sections {
		s := &f.sections[i]
		if string(s.Name) != embedding.HIPWrappers || s.InFile() == 0 {
			continue
		}
		data, off, ok := file.Loaded(s.Addr, s.Size)
		if !ok || off != s.Offset {
			return fmt.Errorf("section %s: no segment loads its 0x%x bytes at address 0x%x", s.Name, s.Size, s.Addr)
		}
		for at, r := range embedding.Records(data, (8-s.Addr%8)%8) {
			add(s.Addr+at, r.Target, r)
		}
	}
	if len(f.code.Wrappers) == 0 && file.Type == elf.EtExec {
		f.scan(file, add)
	}
	if len(f.code.Wrappers) == 0 {
		err = f.calls(file, add)
	}
	if _, sections, _ := file.Tables(); err == nil && sections == 0 && f.code.Fault == nil {
		err = f.others(file)
	}
	return err
}

// others sets the fault of a file without section headers that registers code for other runtimes.
func (f *finder) others(file *elfedit.File) error {
	for _, name := range []string{"__tgt_register_lib", "__cudaRegisterFatBinary", "__sycl_register_lib"} {
		slots, err := file.Slots(name)
		if err != nil {
			return err
		}
		if len(slots) > 0 {
			f.code.Fault = &Error{-1, fmt.Sprintf("it calls %s, and has no section headers, which are required to find its device code", name)}
		}
	}
	return nil
}

// scan finds the records of a program at fixed addresses, whose pointers need no relocations.
func (f *finder) scan(file *elfedit.File, add func(addr, target uint64, r embedding.Record)) {
	for _, magic := range []uint32{embedding.MagicHIP, embedding.MagicKpack} {
		begin := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, magic), 1)
		for _, s := range file.Segments {
			if s.Type != elf.PtLoad || s.Flags&executable != 0 {
				continue
			}
			data, _, ok := file.Loaded(s.Addr, s.FileSize)
			if !ok {
				continue
			}
			for at := 0; ; at++ {
				i := bytes.Index(data[at:], begin)
				if i < 0 {
					break
				}
				at += i
				r, ok := record(data[at:])
				if !ok || (s.Addr+uint64(at))%8 != 0 {
					continue
				}
				if off, ok := file.Offset(r.Target, 1); ok && (magic == embedding.MagicKpack || isBundle(f.data[off:])) {
					add(s.Addr+uint64(at), r.Target, r)
				}
			}
		}
	}
}

// calls finds the records that the host code passes to the runtime.
func (f *finder) calls(file *elfedit.File, add func(addr, target uint64, r embedding.Record)) error {
	slots, err := file.Slots(registerFatBinary)
	if err != nil || len(slots) == 0 {
		return err
	}
	if file.Machine == elf.MachineX8664 {
		r := reader{f: file, data: f.data}
		r.calls(slots, func(code []byte, addr uint64) {
			if addr, ok := r.argument(code, addr, firstArgument, embedding.RecordSize); ok {
				data, _, _ := file.Loaded(addr, embedding.RecordSize)
				if record, ok := record(data); ok {
					add(addr, record.Target, record)
				}
			}
		})
	}
	if len(f.code.Wrappers) == 0 {
		f.code.Fault = &Error{-1, fmt.Sprintf("it calls %s, and the records that it passes were not found: expected them in section %s, or in data that the loader relocates",
			registerFatBinary, embedding.HIPWrappers)}
	}
	return nil
}

// object finds the wrappers of a relocatable object.
func (f *finder) object() error {
	file, err := elfedit.ParseObject(f.c)
	if err != nil {
		return err
	}
	return file.References(func(r elfedit.Reference) error {
		from, to := r.From, r.To
		if !r.Direct || from.Section <= 0 || from.Section >= len(f.sections) || from.Offset < pointerAt {
			return nil
		}
		data := file.Content(from.Section).Mapped(guard.Inside)
		if from.Offset > uint64(len(data)) {
			return nil
		}
		head, ok := record(data[from.Offset-pointerAt:])
		if !ok {
			return nil
		}
		head.Target = to.Offset
		w := Wrapper{Record: head, Slot: from, Offset: -1}
		if s := &f.sections[to.Section]; to.Offset < s.InFile() && file.Content(to.Section).Len() > 0 {
			w.Offset = int64(s.Offset + to.Offset)
		}
		f.add(w)
		return nil
	})
}

// pe finds the wrappers of a linked file for Windows, whose pointers are addresses for its preferred base.
func (f *finder) pe() error {
	file, err := object.Parse(f.data)
	if err != nil {
		return err
	}
	image, err := file.Image()
	if err != nil || !image.Wide {
		return err
	}
	f.size = func(s *object.Section) uint64 { return s.Size }
	offset := func(addr uint64) int64 {
		for i := range f.sections {
			s := &f.sections[i]
			if data, err := file.Data(i); err == nil && addr-image.Base >= s.Addr && addr-image.Base-s.Addr < uint64(len(data)) {
				return int64(s.Offset + (addr - image.Base - s.Addr))
			}
		}
		return -1
	}
	for i := range f.sections {
		s := &f.sections[i]
		data, err := file.Data(i)
		named := IsCut(string(s.Name), embedding.HIPWrappers)
		if err != nil && (named || embedding.IsHIPSection(string(s.Name))) {
			return err
		}
		if err != nil || len(data) == 0 {
			continue
		}
		f.dangles = f.dangles || named
		if !named && (s.Flags&peCode != 0 || embedding.IsHIPSection(string(s.Name))) {
			continue
		}
		for at, r := range embedding.Records(data, 0) {
			addr := image.Base + s.Addr + at
			w := Wrapper{Record: r, Addr: addr, Slot: elfedit.Place{Offset: addr + pointerAt}, Offset: offset(r.Target)}
			if named || w.Offset >= 0 && (r.Magic == embedding.MagicKpack || isBundle(f.data[w.Offset:])) {
				f.add(w)
			}
		}
	}
	return nil
}

// peCode is the flag of sections of PE files with code.
const peCode = 0x20

// IsCut reports whether a section has a name, or its first 8 characters, as linkers for Windows
// write it.
func IsCut(section, name string) bool {
	return section == name || len(section) == 8 && strings.HasPrefix(name, section)
}

// regions finds the bundles that wrappers point to.
func (f *finder) regions() {
	var order []int // sections with bytes in the file, by offset
	for i := range f.sections {
		if s := &f.sections[i]; f.size(s) > 0 && s.Offset <= uint64(len(f.data)) && s.Size <= uint64(len(f.data))-s.Offset {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(f.sections[a].Offset, f.sections[b].Offset) })
	empty := f.withoutContent()
	starts := make(map[int][]int64)
	for i := range f.code.Wrappers {
		w := &f.code.Wrappers[i]
		if w.Magic != embedding.MagicHIP {
			continue
		}
		if w.Addr != 0 && slices.ContainsFunc(empty, func(s *object.Section) bool { return w.Target >= s.Addr && w.Target-s.Addr < s.Size }) {
			continue
		}
		if w.Offset < 0 || !isBundle(f.data[w.Offset:]) {
			if f.dangles && f.code.Fault == nil {
				f.code.Fault = &Error{i, fmt.Sprintf("wrapper %d: points to address 0x%x, where no bundle begins", i, w.Target)}
			}
			continue
		}
		at, _ := slices.BinarySearchFunc(order, w.Offset, func(i int, off int64) int {
			return cmp.Or(cmp.Compare(int64(f.sections[i].Offset), off), -1)
		})
		section, base := -1, int64(0)
		if at > 0 {
			if s := &f.sections[order[at-1]]; w.Offset < int64(s.Offset+s.Size) {
				section, base = order[at-1], int64(s.Offset)
			}
		}
		starts[section] = append(starts[section], w.Offset-base)
	}
	for section, list := range starts {
		slices.Sort(list)
		f.code.Regions = append(f.code.Regions, f.region(section, slices.Compact(list)))
	}
	for _, section := range order {
		if starts[section] == nil {
			f.named(section)
		}
	}
	slices.SortFunc(f.code.Regions, func(a, b Region) int {
		return cmp.Compare(a.Start+a.Bundles[0].Offset, b.Start+b.Bundles[0].Offset)
	})
}

// withoutContent returns the loaded sections of an ELF file without content, such as those of a separate debug file.
func (f *finder) withoutContent() (list []*object.Section) {
	const most = 1000 // real files have two
	for i := range f.sections {
		if s := &f.sections[i]; s.Type == elf.ShtNobits && s.Flags&elf.ShfAlloc != 0 && len(list) < most {
			list = append(list, s)
		}
	}
	return list
}

// section returns a section, or the file for -1, without bundles.
func (f *finder) section(section int) Region {
	if section < 0 {
		return Region{Section: section, Content: f.c}
	}
	s := &f.sections[section]
	return Region{Section: section, Name: string(s.Name), Start: int64(s.Offset), Content: f.c.Slice(int64(s.Offset), int64(s.Size))}
}

// named adds a section with adjacent bundles: one that compilers make for bundles, or that begins with a bundle. The
// magic of a bundle without a header is other data, such as a string in a program that reads bundles.
func (f *finder) named(section int) {
	r := f.section(section)
	data := r.Content.Mapped(guard.Inside)
	if !embedding.IsHIPSection(r.Name) {
		if strings.HasPrefix(r.Name, bundle.SectionPrefix) || !isBundle(data) {
			return
		}
		var err error
		if bundle.Is(data) {
			_, err = bundle.Parse(data)
		} else {
			_, err = ccob.Parse(data)
		}
		if err != nil {
			return
		}
	}
	if cubin.IsFatbinary(data) {
		return
	}
	for e := range ccob.Walk(data, bundle.End) {
		r.Bundles = append(r.Bundles, Bundle{Offset: e.Offset}) // also one with a fault, which its reader reports
	}
	if len(r.Bundles) > 0 {
		f.code.Regions = append(f.code.Regions, r)
	}
}

// region describes a section or the file in which bundles begin at offsets. A section that compilers make
// for bundles can have others.
func (f *finder) region(section int, starts []int64) Region {
	r := f.section(section)
	made := embedding.IsHIPSection(r.Name)
	data := r.Content.Mapped(guard.Inside)
	adjacent := func(from, to int64) {
		for made && from < to {
			e, err := ccob.ExtentAt(data[:to], to-int64(len(bytes.TrimLeft(data[from:to], "\x00"))), bundle.End)
			if err != nil {
				return
			}
			r.Bundles = append(r.Bundles, Bundle{Offset: e.Offset})
			from = e.End
		}
	}
	adjacent(0, starts[0])
	for i, start := range starts {
		r.Bundles = append(r.Bundles, Bundle{start, true})
		end := r.Content.Len()
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		if e, err := ccob.ExtentAt(data[:end], start, bundle.End); err == nil {
			adjacent(e.End, end)
		}
	}
	return r
}
