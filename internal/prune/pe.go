package prune

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// peFile is a linked file for Windows. Addresses are relative to the image.
type peFile struct {
	*object.Image
	code    int    // section of the bundles; -1 for none
	records int    // section of the wrappers; -1 for none
	other   string // name of a section with device code of another kind
}

// parsePE reads the headers of a PE file.
func parsePE(data []byte) (*peFile, error) {
	f, err := object.Parse(data)
	if err != nil {
		return nil, err
	}
	p := &peFile{code: -1, records: -1}
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
		switch name := string(f.Sections[i].Name); {
		case p.code < 0 && isCut(name, embedding.HIPSection):
			p.code = i
		case p.records < 0 && isCut(name, embedding.HIPWrappers):
			p.records = i
		case isCut(name, embedding.OffloadSection), isCut(name, embedding.CUDASection):
			p.other = name
		}
	}
	return p, nil
}

// isCut reports whether a section has a name, or its first 8 characters, as linkers for Windows
// write it.
func isCut(section, name string) bool {
	return section == name || len(section) == 8 && strings.HasPrefix(name, section)
}

// HasPECode reports whether a file is a library or program for Windows with bundles of HIP.
func HasPECode(data []byte) bool {
	p, err := parsePE(data)
	if err != nil || p.code < 0 {
		return false
	}
	body, err := p.Data(p.code)
	return err != nil || len(body) > 0
}

// openPE finds the bundles of HIP in a linked file for Windows.
func (w *Work) openPE(ctx context.Context) error {
	w.format = "pe"
	p, err := parsePE(w.in.Mapped(guard.Inside))
	if err != nil {
		return unsupported(err)
	}
	if p.code < 0 && p.other != "" {
		return unsupported(fmt.Errorf("section %s of a PE file is not supported; expected bundles in section %s", p.other, embedding.HIPSection[:8]))
	}
	if p.code < 0 {
		return ErrNoDeviceCode
	}
	body, err := p.Data(p.code)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return ErrNoDeviceCode
	}
	if err := p.Alone(p.code); err != nil {
		return unsupported(err)
	}
	starts, err := p.bundles()
	if err != nil {
		return unsupported(err)
	}
	s := &p.Sections[p.code]
	units, ends, err := bundlesAt(ctx, string(s.Name), w.in.Slice(int64(s.Offset), int64(len(body))), starts, &w.opt)
	if err != nil {
		return fmt.Errorf("section %s: %w", s.Name, err)
	}
	w.add(&region{units: units})
	w.build = func() (*elfedit.Layout, error) { return p.layout(w, units, ends) }
	return nil
}

// bundles returns the offsets in the section that wrappers point to.
func (p *peFile) bundles() ([]int64, error) {
	s := &p.Sections[p.code]
	var starts []int64
	if p.records >= 0 {
		data, err := p.Data(p.records)
		if err != nil {
			return nil, err
		}
		for _, r := range embedding.Records(data, 0) {
			at := r.Target - p.Base - s.Addr
			switch {
			case r.Magic == embedding.MagicKpack:
				return nil, fmt.Errorf("wrapper %d: the code is in kpack archives, but section %s has content", len(starts), s.Name)
			case at >= s.Size:
				return nil, fmt.Errorf("wrapper %d: points to address 0x%x, expected one in section %s (0x%x to 0x%x)", len(starts), r.Target, s.Name, p.Base+s.Addr, p.Base+s.Addr+s.Size)
			}
			starts = append(starts, int64(at))
		}
	}
	if len(starts) == 0 {
		return nil, fmt.Errorf("section %s: no wrapper in section %s points to it", s.Name, embedding.HIPWrappers[:8])
	}
	return starts, nil
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
