package prune

import (
	"context"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/object"
)

// openObject finds the device code in a relocatable object.
func (w *Work) openObject(ctx context.Context) error {
	w.format = "elf-object"
	o, err := elfedit.ParseObject(w.in)
	if err != nil && !MayHaveCode(w.in.Bytes()) {
		return ErrNoDeviceCode
	}
	if err != nil {
		return unsupported(err)
	}
	var changes []func() elfedit.ObjectChange
	var targets map[int]map[elfedit.Place]uint64 // see objectTargets; nil until computed
	loose := &unit{loose: true, section: bundle.SectionPrefix}
	for i := range o.Sections {
		s := &o.Sections[i]
		switch {
		case s.InFile() == 0:
		case s.Name == embedding.HIPSection:
			if targets == nil {
				if targets, err = objectTargets(o); err != nil {
					return err
				}
			}
			change, err := w.objectHIP(ctx, o, i, targets[i])
			if err != nil {
				return err
			}
			changes = append(changes, change)
		case s.Name == embedding.OffloadSection:
			change, err := w.objectImages(ctx, o, i)
			if err != nil {
				return err
			}
			changes = append(changes, change)
		case isFatbinarySection(s.Name):
			change, err := w.objectCUDA(o, i)
			if err != nil {
				return err
			}
			changes = append(changes, change)
		case strings.HasPrefix(s.Name, bundle.SectionPrefix) && s.Name != bundle.SectionPrefix:
			loose.entries = append(loose.entries, bundleEntry(strings.TrimPrefix(s.Name, bundle.SectionPrefix), int64(i), int64(s.Size)))
			loose.size += int64(s.Size)
		}
	}
	if len(loose.entries) > 0 {
		loose.stored = w.in.Slice(0, min(loose.size, w.in.Len()))
		w.add([]*unit{loose})
		changes = append(changes, nil)
	}
	if len(changes) == 0 {
		return ErrNoDeviceCode
	}
	w.build = func() (*elfedit.Layout, error) {
		var all []elfedit.ObjectChange
		for _, change := range changes {
			if change != nil {
				all = append(all, change())
			}
		}
		return buildObject(w.in, o, all, loose)
	}
	return nil
}

// buildObject returns the object with changed and removed sections.
func buildObject(in content.Content, o *elfedit.Object, changes []elfedit.ObjectChange, loose *unit) (*elfedit.Layout, error) {
	removed := make(map[string]bool)
	loose.size = 0
	for _, e := range loose.entries {
		name := bundle.SectionPrefix + e.id
		switch {
		case e.drop:
			removed[name] = true
		case e.replacement != nil:
			c := e.replacement.Content
			loose.size += c.Len()
			changes = append(changes, elfedit.ObjectChange{
				Section: int(e.offset), Size: uint64(c.Len()), Parts: []content.Part{{Content: c}},
				Move: func(offset uint64) (uint64, bool) { return offset, offset == 0 },
			})
		default:
			loose.size += e.size
		}
	}
	layout := wholeFile(in)
	if len(changes) > 0 {
		var err error
		if layout, err = o.Layout(changes); err != nil {
			return nil, err
		}
	}
	if len(removed) == 0 {
		return layout, nil
	}
	whole := in
	if len(changes) > 0 {
		var buffer content.Buffer
		if err := layout.Write(&buffer); err != nil {
			return nil, err
		}
		whole = content.Memory(buffer.Bytes())
	}
	var out partSink
	err := object.RemoveSections(whole, func(name []byte) bool { return removed[string(name)] }, &out)
	return &elfedit.Layout{Parts: out.parts, Size: out.size}, err
}

// objectHIP finds the bundles in a section of an object: those that wrappers point to
// or, without wrappers, adjacent ones.
func (w *Work) objectHIP(ctx context.Context, o *elfedit.Object, section int, targets map[elfedit.Place]uint64) (func() elfedit.ObjectChange, error) {
	data := o.Content(section)
	var units []*unit
	var err error
	if len(targets) == 0 {
		if units, err = consecutive(ctx, data, &w.opt); err != nil {
			return nil, fmt.Errorf("section %s: %w", embedding.HIPSection, err)
		}
	} else {
		var starts []int64
		for _, t := range targets {
			if t >= uint64(data.Len()) {
				return nil, fmt.Errorf("section %s: a wrapper points to byte 0x%x of %d", embedding.HIPSection, t, data.Len())
			}
			starts = append(starts, int64(t))
		}
		if units, _, err = bundlesAt(ctx, embedding.HIPSection, data, starts, &w.opt); err != nil {
			return nil, err
		}
	}
	for _, u := range units {
		u.section = embedding.HIPSection
	}
	w.add(units)
	return func() elfedit.ObjectChange {
		parts, size := layBundles(units, 0)
		c := elfedit.ObjectChange{Section: section, Parts: parts, Size: size, Slots: make(map[elfedit.Place]uint64), Move: mover(units)}
		for slot, target := range targets {
			c.Slots[slot], _ = c.Move(target)
		}
		return c
	}, nil
}

// objectTargets returns, for each section that wrappers point to, the places of their
// pointers and the offsets in the section that they point to.
func objectTargets(o *elfedit.Object) (map[int]map[elfedit.Place]uint64, error) {
	targets := make(map[int]map[elfedit.Place]uint64)
	slots := objectWrappers(o)
	err := o.References(func(r elfedit.Reference) error {
		if !slots[r.From] || !r.Direct {
			return nil
		}
		if targets[r.To.Section] == nil {
			targets[r.To.Section] = make(map[elfedit.Place]uint64)
		}
		targets[r.To.Section][r.From] = r.To.Offset
		return nil
	})
	return targets, err
}

// objectWrappers returns the places of the pointers in wrappers.
func objectWrappers(o *elfedit.Object) map[elfedit.Place]bool {
	slots := make(map[elfedit.Place]bool)
	for i := range o.Sections {
		if o.Sections[i].Name != embedding.HIPWrappers {
			continue
		}
		for at, r := range embedding.Records(o.Content(i).Bytes(), 0) {
			if r.Magic == embedding.MagicHIP {
				slots[elfedit.Place{Section: i, Offset: at + 8}] = true
			}
		}
	}
	return slots
}

// objectImages finds the images that a link would find in an object.
func (w *Work) objectImages(ctx context.Context, o *elfedit.Object, section int) (func() elfedit.ObjectChange, error) {
	units, err := w.offloadBinaries(ctx, o.Content(section))
	if err != nil {
		return nil, fmt.Errorf("section %s: %w", embedding.OffloadSection, err)
	}
	for _, u := range units {
		u.section = embedding.OffloadSection
	}
	w.add(units)
	return func() elfedit.ObjectChange {
		layout := lay(units, offloadbinary.Align)
		return elfedit.ObjectChange{Section: section, Parts: layout.Parts, Size: uint64(layout.Size), Move: mover(units)}
	}, nil
}
