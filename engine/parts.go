package engine

import (
	"context"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// CompressPart, CompressPlan and Assemble write a compressed bundle in steps that
// a build system can cache: CompressPart for each group of entries, CompressPlan
// in parallel, then Assemble. If an entry changes, only its part is compressed
// again. The bundle is identical to the one that Bundle writes.

// PartOptions are the options of CompressPart.
type PartOptions struct {
	Inputs []string // contents of consecutive entries of the bundle
	Output string
	Align  uint64 // of the bundle
	Pad    bool   // pad the last entry with zeros to the alignment, because other entries follow
	Level  int    // as Compression.Level
}

// CompressPart compresses some entries of a bundle.
func (s *Session) CompressPart(ctx context.Context, opt PartOptions) (err error) {
	defer guard.Into(&err)()
	return s.transform(ctx, opt.Inputs, func(inputs []*files.Input, out *files.Outputs) error {
		pieces := make([]content.Part, len(inputs))
		pos := int64(0)
		for i, input := range inputs {
			pos = aligned(pos, opt.Align)
			pieces[i] = content.Part{Offset: pos, Content: input.All()}
			pos += input.Size()
		}
		if opt.Pad {
			pos = aligned(pos, opt.Align)
		}
		output, err := out.Create(opt.Output)
		if err != nil {
			return err
		}
		return ccob.EncodePart(ctx, output, pieces, pos, ccob.EncodeOptions{Level: ccob.LevelOf(opt.Level), Budget: s.budget})
	})
}

// aligned returns the smallest multiple of align that is not less than pos.
func aligned(pos int64, align uint64) int64 {
	if align := int64(align); align > 1 && pos%align > 0 {
		pos += align - pos%align
	}
	return pos
}

// CompressPlanOptions are the options of CompressPlan.
type CompressPlanOptions struct {
	Entries []BundleEntry // in the order of the bundle
	Output  string
	Align   uint64 // as BundleOptions.Align
	Level   int    // as Compression.Level
	Frames  ccob.Frames
}

// CompressPlan writes the plan of a compressed binary bundle. Equal contents are not
// shared.
func (s *Session) CompressPlan(ctx context.Context, opt CompressPlanOptions) (err error) {
	defer guard.Into(&err)()
	items, inputs, err := s.openEntries(opt.Entries)
	defer closeAll(inputs)
	if err != nil {
		return err
	}
	for _, item := range items {
		s.meter.Expect(item.Content.Len())
	}
	layout, err := bundle.NewLayout(items, bundle.Options{Align: max(1, opt.Align)})
	if err != nil {
		return err
	}
	return s.files.WriteFile(ctx, opt.Output, func(output *files.Output) error {
		return ccob.EncodePlan(ctx, output, layout.Parts, ccob.EncodeOptions{
			Level:  ccob.LevelOf(opt.Level),
			Frames: opt.Frames,
			Budget: s.budget,
			Done:   s.meter.Add,
		})
	})
}

// AssembleOptions are the options of Assemble.
type AssembleOptions struct {
	Plan    string
	Parts   []string // in the order of their entries
	Output  string
	Version int // of the container: 2 or 3; 0 means 3
}

// Assemble writes a compressed bundle from its plan and its parts.
func (s *Session) Assemble(ctx context.Context, opt AssembleOptions) (err error) {
	defer guard.Into(&err)()
	return s.transform(ctx, append([]string{opt.Plan}, opt.Parts...), func(inputs []*files.Input, out *files.Outputs) error {
		plan, err := ccob.ParsePlan(inputs[0].All())
		if err != nil {
			return in(inputs[0], err)
		}
		parts := make([]*ccob.Part, len(opt.Parts))
		for i, input := range inputs[1:] {
			if parts[i], err = ccob.ParsePart(input.All()); err != nil {
				return in(input, err)
			}
		}
		output, err := out.Create(opt.Output)
		if err != nil {
			return err
		}
		_, err = ccob.Assemble(ctx, output, plan, parts, ccob.EncodeOptions{Version: opt.Version, Budget: s.budget})
		return err
	})
}
