package prune

import (
	"context"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// peFile is a linked file for Windows. Addresses are relative to the image.
type peFile struct {
	*object.Image
	code  int    // section of the bundles
	other string // name of a section with device code of another kind
}

// parsePE reads the headers of a PE file.
func parsePE(data []byte) (*peFile, error) {
	f, err := object.Parse(data)
	if err != nil {
		return nil, err
	}
	p := &peFile{}
	if p.Image, err = f.Image(); err != nil {
		return nil, err
	}
	if !p.Wide {
		return nil, errors.New("PE file: expected a 64-bit one (PE32+)")
	}
	if a := p.FileAlign; a == 0 || a&(a-1) != 0 || a > 1<<16 {
		return nil, fmt.Errorf("PE file: found sections aligned to 0x%x bytes, expected a power of two up to 0x10000", a)
	}
	for i := range f.Sections {
		if name := string(f.Sections[i].Name); registered.IsCut(name, embedding.OffloadSection) || registered.IsCut(name, embedding.CUDASection) {
			p.other = name
		}
	}
	return p, nil
}

// openPE finds the bundles of HIP in a linked file for Windows.
func (w *Work) openPE(ctx context.Context) error {
	w.format = "pe"
	p, err := parsePE(w.in.Mapped(guard.Inside))
	if err != nil {
		return unsupported(err)
	}
	code := registered.Find(w.in)
	for i, wrapper := range code.Wrappers {
		if wrapper.Magic == embedding.MagicKpack && len(code.Regions) > 0 {
			return unsupported(fmt.Errorf("wrapper %d: the code is in kpack archives, but section %s has content", i, code.Regions[0].Name))
		}
	}
	switch {
	case code.Unresolved != nil:
		return unsupported(code.Unresolved)
	case code.Fault != nil:
		return unsupported(code.Fault)
	case len(code.Regions) == 0 && p.other != "":
		return unsupported(fmt.Errorf("section %s of a PE file is not supported; expected bundles in section %s", p.other, embedding.HIPSection[:8]))
	case len(code.Regions) == 0:
		return ErrNoDeviceCode
	}
	found := &code.Regions[0]
	p.code = found.Section
	if err := p.Alone(p.code); err != nil {
		return unsupported(err)
	}
	switch {
	case !code.Reached() && embedding.IsHIPSection(code.Regions[0].Name):
		return unsupported(fmt.Errorf("section %s: no wrapper in section %s points to it", code.Regions[0].Name, embedding.HIPWrappers[:8]))
	case len(code.Regions) > 1 || !code.Regions[0].Alone():
		return w.openFixed(ctx, code)
	}
	units, err := unitsOf(ctx, found, &w.opt)
	if err != nil {
		return err
	}
	var ends []int64
	for i := range units {
		ends = append(ends, found.End(i))
	}
	w.add(&region{units: units})
	w.build = func() (*elfedit.Layout, error) { return p.layout(w, units, ends) }
	return nil
}

// layout returns the file with smaller bundles at the same addresses. The bytes after the last one
// leave the file, but not the address space; what follows moves forward.
func (p *peFile) layout(w *Work, units []*unit, ends []int64) (*elfedit.Layout, error) {
	var parts []content.Part
	used := uint64(0)
	for i, u := range units {
		if w.opt.DryRun && u.compressed {
			u.size = min(u.size, ends[i]-u.at) // an upper bound
		}
		if u.size > ends[i]-u.at {
			return nil, fmt.Errorf("%s: %d bytes do not fit into the %d bytes of the section up to the next bundle; a PE file cannot grow", u.where(), u.size, ends[i]-u.at)
		}
		parts = u.appendTo(parts, u.at)
		used = uint64(u.at + u.size)
	}
	layout := &elfedit.Layout{}
	var signed bool
	var err error
	if layout.Parts, layout.Size, signed, err = p.Shorten(w.in, p.code, parts, used); err != nil {
		return nil, err
	}
	if signed {
		layout.Warnings = append(layout.Warnings, "the signature is removed, because it is no longer valid; sign the file again")
	}
	return layout, nil
}
