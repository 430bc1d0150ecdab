package prune

import (
	"context"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// openObject finds the device code in a relocatable object.
func (w *Work) openObject(ctx context.Context) error {
	w.format = "elf-object"
	f, err := elfedit.ParseObject(w.in)
	if err != nil && !MayHaveCode(w.in.Mapped(guard.Inside)) {
		return ErrNoDeviceCode
	}
	if err != nil {
		return unsupported(err)
	}
	var regions []*region
	var targets map[int]map[elfedit.Place]uint64 // see objectTargets; nil until computed
	loose := &unit{loose: true, section: bundle.SectionPrefix}
	for i := range f.Sections {
		s := &f.Sections[i]
		name := string(s.Name)
		var r *region
		switch {
		case s.InFile() == 0:
		case name == embedding.HIPSection:
			if targets == nil {
				if targets, err = objectTargets(f); err != nil {
					return err
				}
			}
			r, err = objectHIP(ctx, f.Content(i), targets[i], &w.opt)
		case name == embedding.OffloadSection:
			r, err = w.offloadBinaries(ctx, f.Content(i), name)
		case isFatbinarySection(name):
			r, err = fatbinaries(ctx, f.Content(i), name, &w.opt)
			err = unsupported(err)
		case strings.HasPrefix(name, bundle.SectionPrefix) && name != bundle.SectionPrefix:
			loose.entries = append(loose.entries, bundleEntry(strings.TrimPrefix(name, bundle.SectionPrefix), int64(i), int64(s.Size)))
			loose.size += int64(s.Size)
		}
		if err != nil {
			return fmt.Errorf("section %s: %w", name, err)
		}
		if r != nil {
			r.section = i
			w.add(r)
			regions = append(regions, r)
		}
	}
	if len(loose.entries) > 0 {
		loose.stored = w.in.Slice(0, min(loose.size, w.in.Len()))
		if err := w.opt.memory.hold(ctx, loose); err != nil {
			return err
		}
		w.add(&region{units: []*unit{loose}})
	}
	if len(regions) == 0 && len(loose.entries) == 0 {
		return ErrNoDeviceCode
	}
	w.build = func() (*elfedit.Layout, error) { return buildObject(w.in, f, changes(regions), loose) }
	return nil
}

// buildObject returns the object with changed and removed sections.
func buildObject(in content.Content, f *elfedit.File, changes []elfedit.Change, loose *unit) (*elfedit.Layout, error) {
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
			changes = append(changes, elfedit.Change{
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
		if layout, err = f.Layout(elfedit.Edit{Changes: changes}); err != nil {
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

// objectHIP returns the bundles in a section of an object: those that wrappers point to
// or, without wrappers, adjacent ones.
func objectHIP(ctx context.Context, body content.Content, targets map[elfedit.Place]uint64, o *Options) (*region, error) {
	if len(targets) == 0 {
		return consecutive(ctx, body, embedding.HIPSection, o)
	}
	var starts []int64
	for _, t := range targets {
		if t >= uint64(body.Len()) {
			return nil, fmt.Errorf("a wrapper points to byte 0x%x of %d", t, body.Len())
		}
		starts = append(starts, int64(t))
	}
	units, _, err := bundlesAt(ctx, embedding.HIPSection, body, starts, o)
	if err != nil {
		return nil, err
	}
	r := &region{units: units, slots: make(map[elfedit.Place]goal)}
	for slot, t := range targets {
		i, _ := r.find(int64(t))
		r.slots[slot] = units[i].goal
	}
	return r, nil
}

// objectTargets returns, for each section that wrappers point to, the places of their
// pointers and the offsets in the section that they point to.
func objectTargets(f *elfedit.File) (map[int]map[elfedit.Place]uint64, error) {
	targets := make(map[int]map[elfedit.Place]uint64)
	slots := objectWrappers(f)
	err := f.References(func(r elfedit.Reference) error {
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
func objectWrappers(f *elfedit.File) map[elfedit.Place]bool {
	slots := make(map[elfedit.Place]bool)
	for i := range f.Sections {
		if string(f.Sections[i].Name) != embedding.HIPWrappers {
			continue
		}
		for at, r := range embedding.Records(f.Content(i).Mapped(guard.Inside), 0) {
			if r.Magic == embedding.MagicHIP {
				slots[elfedit.Place{Section: i, Offset: at + 8}] = true
			}
		}
	}
	return slots
}
