package prune

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// entry is an entry of a bundle or an image of an offload binary.
type entry struct {
	id     string // name in reports
	host   bool
	offset int64 // in the plain bundle
	size   int64

	// One of the two is the target of the entry.
	target target.ID // of a bundle's entry; the zero value if the ID is not one
	device *target.Device

	drop        bool
	replacement *Replacement
}

// bundleEntry returns the entry of a bundle with an ID.
func bundleEntry(id string, offset, size int64) entry {
	e := entry{id: id, offset: offset, size: size}
	if parsed, err := target.Parse(id); err == nil {
		e.target = parsed
		e.host = parsed.Kind == target.Host
	} else {
		e.host = id == "host" || strings.HasPrefix(id, "host-")
	}
	return e
}

// imageEntry returns the entry for an image of an offload binary.
func imageEntry(triple, arch string, size int64) entry {
	id := triple
	if arch != "" {
		id += "--" + arch
	}
	return entry{id: id, size: size, device: &target.Device{Triple: triple, Arch: arch}}
}

// processor returns the target ID and the triple of the entry.
func (e *entry) processor() (id string, triple target.Triple) {
	if e.device == nil {
		return e.target.TargetID, e.target.Triple
	}
	triple = target.ParseTriple(e.device.Triple)
	if e.device.Arch != "" {
		return e.device.Arch, triple
	}
	processor, _, _ := strings.Cut(e.device.Triple, "-")
	return processor, triple
}

// is reports whether name refers to the entry. It may be the complete ID, the
// target ID, or the processor, which includes all variants.
func (e *entry) is(name string) bool {
	if name == e.id {
		return true
	}
	if e.device != nil && name == e.device.Triple+"--"+e.device.Arch {
		return true
	}
	have, triple := e.processor()
	if have == "" {
		return false
	}
	if name == have {
		return true
	}
	a, errA := target.ParseTargetID(name)
	b, errB := target.ParseTargetID(have)
	if errA == nil && errB == nil {
		a, b = a.Canonical(triple), b.Canonical(triple)
		if len(a.Features) == 0 && a.Processor == b.Processor || a.String() == b.String() {
			return true
		}
	}
	if e.device != nil {
		return false
	}
	whole, err := target.Parse(name)
	return err == nil && whole.Kind.Valid() && whole.TargetID != "" && whole.Canonical().Text == e.target.Canonical().Text
}

// Replacement is the new content for every entry with a name.
type Replacement struct {
	Name    string
	Content content.Content
}

// choose selects the changes to the entries of all units.
func (w *Work) choose() error {
	o := w.opt
	var stored []string
	known := make(map[string]bool)
	each := func(fn func(u *unit, e *entry)) {
		for _, u := range w.units {
			for i := range u.entries {
				if e := &u.entries[i]; !e.host {
					fn(u, e)
				}
			}
		}
	}
	each(func(_ *unit, e *entry) {
		if !known[e.id] {
			known[e.id], stored = true, append(stored, e.id)
		}
	})
	if len(stored) == 0 {
		return ErrNoDeviceCode
	}
	has := func(name string) bool {
		found := false
		each(func(_ *unit, e *entry) { found = found || e.is(name) })
		return found
	}
	names, warn := o.Keep, o.IgnoreMissing
	if len(o.Drop) > 0 {
		names, warn = o.Drop, true
	}
	for _, name := range names {
		if o.OneOfSeveral || has(name) {
			continue
		}
		if !warn {
			return &MissingError{Name: name, Stored: stored}
		}
		w.warn("no entry for %s: found %s", name, list(stored))
	}
	for i := range o.Replace {
		r := &o.Replace[i]
		in := make(map[*unit]bool)
		each(func(u *unit, e *entry) {
			if e.is(r.Name) {
				e.replacement, in[u] = r, true
			}
		})
		if len(in) == 0 && o.OneOfSeveral {
			continue
		}
		if len(in) == 0 {
			return fmt.Errorf("no entry for %s: found %s; nothing is replaced", r.Name, list(stored))
		}
		if len(in) > 1 {
			w.warn("%s is replaced in %d bundles, each of which gets the same content", r.Name, len(in))
		}
		if !isAMDGPU(r.Content.Mapped(guard.Inside)) {
			w.warn("the replacement of %s is not an AMDGPU code object", r.Name)
		}
	}
	left := 0
	each(func(_ *unit, e *entry) {
		named := slices.ContainsFunc(names, e.is)
		e.drop = len(o.Keep) > 0 && !named || len(o.Drop) > 0 && named
		if !e.drop {
			left++
		}
	})
	if left == 0 {
		err := &EmptyError{stored}
		switch {
		case w.otherVendor():
			return unsupported(err)
		case !o.KeepEmpty || !w.hasHostCode():
			return err
		}
	}
	return nil
}

// isAMDGPU reports whether data begins with an ELF header for AMD GPUs.
func isAMDGPU(data []byte) bool {
	return len(data) >= 20 && string(data[:4]) == elf.Magic && binary.LittleEndian.Uint16(data[18:]) == elf.MachineAMDGPU
}

// list formats the entries of a file for a message.
func list(ids []string) string {
	const most = 40
	if len(ids) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
	}
	return strings.Join(ids, ", ")
}
