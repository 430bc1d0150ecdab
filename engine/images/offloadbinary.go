package images

import (
	"context"
	"errors"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// offloadBinaries reads the adjacent offload binaries in c.
func (s *search) offloadBinaries(ctx context.Context, c content.Content, at place) error {
	for p, err := range offloadbinary.Parse(c, offloadbinary.Options{Inflate: s.memory.inflate}) {
		if err != nil {
			return s.fault(at, err)
		}
		if err := s.step(ctx, at); err != nil {
			return err
		}
		for i := range p.Images {
			e := s.packed(p, i, at)
			if err := s.add(ctx, e, at); err != nil {
				return err
			}
			s.unwrap(ctx, e, at)
		}
	}
	return nil
}

// packed describes image i of an offload binary.
func (s *search) packed(p *offloadbinary.Binary, i int, at place) *DeviceImage {
	img := &p.Images[i]
	e := &DeviceImage{
		Size: img.Content.Len(), Format: img.Kind, Offload: img.Offload.String(),
		Triple: img.Get("triple"), Arch: img.Get("arch"), Properties: img.Properties,
		content: origin{plain: img.Content},
	}
	e.File, e.Members, e.Section = at.File, at.Members, at.Section
	e.Form, e.Container, e.Index, e.Offset = FormOffloadBinary, p.Offset, i, img.Offset
	if p.Inflated == 0 {
		e.Offset += at.base
	}
	return e
}

// unwrap searches an image that is itself an offload binary.
func (s *search) unwrap(ctx context.Context, e *DeviceImage, at place) {
	if offloadbinary.Is(e.content.plain.Mapped(guard.Inside)) {
		at.depth++
		at.base = e.Offset
		e.nested, e.fault = s.nested(ctx, e, at)
	}
}

// nested returns the images of the offload binaries that an image consists of.
func (s *search) nested(ctx context.Context, outer *DeviceImage, at place) ([]*DeviceImage, error) {
	images := []*DeviceImage{}
	room := outer.Size
	for p, err := range offloadbinary.Parse(outer.content.plain, offloadbinary.Options{Inflate: s.memory.inflate}) {
		if err != nil {
			return nil, s.fault(at, err)
		}
		if err := s.step(ctx, at); err != nil {
			return nil, err
		}
		room += p.Inflated
		for i := range p.Images {
			if err := s.step(ctx, at); err != nil {
				return nil, err
			}
			images = append(images, s.packed(p, i, at))
		}
	}
	for _, e := range images {
		// Without this limit, a small file could contain very many images by
		// referring to the same nested one repeatedly.
		if room -= e.Size; room < 0 {
			return nil, s.fault(at, errors.New("images in a nested offload binary overlap"))
		}
		s.unwrap(ctx, e, at)
		if e.fault != nil {
			return nil, e.fault
		}
	}
	return images, nil
}
