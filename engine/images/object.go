package images

import (
	"context"
	"errors"
	"strings"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/devicecode/cubin"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// object searches the sections of an object file.
func (s *search) object(ctx context.Context, c content.Content, at place) error {
	file, err := object.Parse(c.Mapped(guard.Inside))
	if err != nil {
		if s.opt.Scope == Everything && object.Identify(c.Mapped(guard.Inside)).IsCOFF() {
			return nil // two zero bytes are also the start of COFF
		}
		return s.fault(at, err)
	}
	// Icons and other files without a section table also begin with two zero
	// bytes.
	guessed := s.opt.Scope == Everything && file.Format == object.COFFObject && file.Machine == 0
	room := c.Len() // sections do not overlap
	code := s.hipCode(c, file)
	for i := range file.Sections {
		section := &file.Sections[i]
		look := s.lookInto(file, section)
		if region := code.in(i); region != nil {
			look = region.look
		}
		if look == nil {
			continue
		}
		at.Section = string(section.Name)
		data, err := file.Data(i)
		if err != nil && guessed {
			return nil
		}
		if err != nil {
			return s.fault(at, err)
		}
		if len(data) == 0 {
			continue
		}
		if room -= int64(len(data)); room < 0 && guessed {
			return nil
		}
		if room < 0 {
			return s.fault(at, errors.New("sections overlap"))
		}
		at.base = int64(section.Offset)
		if err := look(ctx, c.Slice(int64(section.Offset), int64(len(data))), at); err != nil {
			return err
		}
	}
	at.Section, at.base = "", 0
	if region := code.in(-1); region != nil {
		if err := region.look(ctx, c, at); err != nil {
			return err
		}
	}
	if code.Fault != nil {
		return s.fault(at, code.Fault)
	}
	return nil
}

// code is the code for HIP in a file with host code.
type code struct {
	*registered.Code
	search  *search
	regions map[int]*registered.Region // by section
}

// hipCode finds the code for HIP in a file with host code.
func (s *search) hipCode(c content.Content, file *object.File) *code {
	if s.opt.Scope != Everything || file.Format == object.COFFObject {
		return &code{Code: new(registered.Code)}
	}
	found := &code{registered.Find(c), s, make(map[int]*registered.Region)}
	for i := range found.Regions {
		found.regions[found.Regions[i].Section] = &found.Regions[i]
	}
	return found
}

// region is a section with bundles, or the file.
type region struct {
	*registered.Region
	search *search
}

// in returns the region of a section, or of the file for -1; nil for none.
func (c *code) in(section int) *region {
	if r := c.regions[section]; r != nil {
		return &region{r, c.search}
	}
	return nil
}

// look adds the entries of the bundles in a region.
func (r *region) look(ctx context.Context, c content.Content, at place) error {
	for i := range r.Bundles {
		if err := r.search.bundleAt(ctx, c, r.Bundles[i].Offset, r.End(i), at); err != nil {
			return err
		}
	}
	return nil
}

// looker searches a content for images.
type looker = func(context.Context, content.Content, place) error

// lookInto returns the looker for a section, or nil if the section is not
// searched.
func (s *search) lookInto(file *object.File, section *object.Section) looker {
	name := string(section.Name)
	switch {
	case file.Format.IsELF() && section.Type == elf.ShtOffloading,
		file.Format.IsCOFF() && strings.HasPrefix(name, embedding.OffloadSection):
		return s.offloading
	case file.Format.IsELF() && embedding.IsOffloadSection(name, section.Type):
		return s.untypedOffloading
	case s.opt.Scope != Everything || section.Type == elf.ShtNobits && file.Format.IsELF():
		return nil
	case strings.HasPrefix(name, bundle.SectionPrefix):
		return s.entrySection
	case embedding.IsHIPSection(name), embedding.IsCUDASection(name):
		return s.fatSection
	}
	return s.otherSection
}

// offloading searches a section for offload binaries. The OpenMP registration
// of older releases stores bare images there.
func (s *search) offloading(ctx context.Context, c content.Content, at place) error {
	if s.opt.Scope == Everything && !offloadbinary.Is(c.Mapped(guard.Inside)) {
		return s.bare(ctx, c, at)
	}
	return s.offloadBinaries(ctx, c, at)
}

// untypedOffloading searches a section that has the name, but not the type, of
// sections with offload binaries.
func (s *search) untypedOffloading(ctx context.Context, c content.Content, at place) error {
	if !offloadbinary.Is(c.Mapped(guard.Inside)) {
		return nil
	}
	return s.offloadBinaries(ctx, c, at)
}

// entrySection adds a section of a bundled object.
func (s *search) entrySection(ctx context.Context, c content.Content, at place) error {
	e := &DeviceImage{Size: c.Len(), Format: offloadbinary.KindOfData(c.Mapped(guard.Inside)), content: origin{plain: c}}
	e.describe(strings.TrimPrefix(at.Section, bundle.SectionPrefix))
	e.Form, e.Offset = FormSection, at.base
	return s.add(ctx, e, at)
}

// fatSection searches a section that, by its name, contains bundles or CUDA
// fatbinaries.
func (s *search) fatSection(ctx context.Context, c content.Content, at place) error {
	if data := c.Mapped(guard.Inside); !bundle.Is(data) && !ccob.Is(data) && cubin.IsFatbinary(data) {
		return s.fatbinaries(ctx, c, at)
	}
	return s.bundles(ctx, c, at)
}

// otherSection searches a section that begins with a bundle. The magic of a
// bundle without a header is other data, such as a string in a program that
// reads bundles.
func (s *search) otherSection(ctx context.Context, c content.Content, at place) error {
	var err error
	switch data := c.Mapped(guard.Inside); {
	case bundle.Is(data):
		_, err = bundle.Parse(data)
	case ccob.Is(data):
		_, err = ccob.Parse(data)
	default:
		return nil
	}
	if err != nil {
		return nil
	}
	return s.bundles(ctx, c, at)
}

// bare adds an image without any information except its content.
func (s *search) bare(ctx context.Context, c content.Content, at place) error {
	e := &DeviceImage{Size: c.Len(), Offload: "none", Format: offloadbinary.KindOfData(c.Mapped(guard.Inside)), content: origin{plain: c}}
	e.Form, e.Offset = FormSection, at.base
	return s.add(ctx, e, at)
}

// fatbinaries adds adjacent CUDA fatbinaries, padded with zeros.
func (s *search) fatbinaries(ctx context.Context, c content.Content, at place) error {
	for f, err := range cubin.Fatbinaries(c.Mapped(guard.Inside)) {
		if err != nil {
			return s.fault(at, err)
		}
		e := &DeviceImage{Size: f.Size, Format: offloadbinary.Fatbinary, Offload: "cuda", content: origin{plain: c.Slice(f.Offset, f.Size)}}
		e.Form, e.Container, e.Offset = FormFatbinary, f.Offset, at.base+f.Offset
		if err := s.add(ctx, e, at); err != nil {
			return err
		}
	}
	return nil
}
