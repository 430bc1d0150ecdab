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
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// openObject finds the device code in a relocatable object.
func (w *Work) openObject(ctx context.Context) error {
	w.format = "elf-object"
	code := registered.Find(w.in)
	f, err := elfedit.ParseObject(w.in)
	if err != nil && !mayHaveCode(w.in.Mapped(guard.Inside), code) {
		return ErrNoDeviceCode
	}
	if err != nil {
		return unsupported(err)
	}
	if code.Unresolved != nil {
		return code.Unresolved
	}
	bundles := make(map[int]*registered.Region) // by section
	for i := range code.Regions {
		r := &code.Regions[i]
		if bundles[r.Section] = r; !r.Alone() {
			return w.openFixed(ctx, code)
		}
	}
	var regions []*region
	loose := &unit{loose: true, section: bundle.SectionPrefix}
	for i := range f.Sections {
		s := &f.Sections[i]
		name := string(s.Name)
		var r *region
		switch {
		case s.InFile() == 0:
		case bundles[i] != nil:
			r, err = objectHIP(ctx, bundles[i], code.Wrappers, &w.opt)
		case embedding.IsOffloadSection(name, s.Type):
			r, err = w.offloadBinaries(ctx, f.Content(i), name)
		case embedding.IsCUDASection(name):
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

// objectHIP returns the bundles of a section of an object, and the pointers to them in wrappers.
func objectHIP(ctx context.Context, found *registered.Region, wrappers []registered.Wrapper, o *Options) (*region, error) {
	units, err := unitsOf(ctx, found, o)
	if err != nil {
		return nil, err
	}
	r := &region{units: units, slots: make(map[elfedit.Place]goal)}
	for _, wrapper := range wrappers {
		if i, ok := r.find(wrapper.Offset - found.Start); ok && wrapper.Magic == embedding.MagicHIP {
			r.slots[wrapper.Slot] = units[i].goal
		}
	}
	return r, nil
}
