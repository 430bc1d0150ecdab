package engine

import (
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/ar"
	"github.com/rules-offload/rules_offload/engine/bitcode"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/object"
)

// ExtractOptions say what Extract takes out of a file.
type ExtractOptions struct {
	Input string
	Scope Scope
	// Plan chooses among the images found. Select makes one.
	Plan Plan
}

// Plan says which of the images go to which files. Where an image is an offload
// binary itself, unwrap returns the images in it. A plan may be called twice;
// the second result counts.
type Plan func(images []*Embedded, unwrap func(*Embedded) ([]*Embedded, error)) ([]Extraction, error)

// Extraction is a file that Extract writes.
type Extraction struct {
	Output string
	// Images are its content: one image, or the members of an archive.
	Images  []*Embedded
	Archive bool
}

// Extract finds the device images in a file and writes those that the plan
// names.
func (s *Session) Extract(ctx context.Context, opt ExtractOptions) error {
	return s.find(ctx, opt.Input, opt.Scope, func(ctx context.Context, f *finder) error {
		extractions, err := opt.Plan(f.images, f.unwrap)
		if err != nil {
			return err
		}
		return s.write(ctx, func(out *files.Outputs) error {
			return s.extract(ctx, out, extractions)
		})
	})
}

// openOutputs is how many outputs are open at a time.
const openOutputs = 256

func (s *Session) extract(ctx context.Context, out *files.Outputs, extractions []Extraction) error {
	for len(extractions) > 0 {
		some := extractions[:min(openOutputs, len(extractions))]
		extractions = extractions[len(some):]
		outputs := make([]*files.Output, len(some))
		for i, x := range some {
			var err error
			if outputs[i], err = out.Create(x.Output); err != nil {
				return err
			}
		}
		if err := s.extractSome(ctx, outputs, some); err != nil {
			return err
		}
		for _, output := range outputs {
			if err := output.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// extractSome writes extractions to outputs. Compressed bundles are decoded once
// for all that is wanted of them.
func (s *Session) extractSome(ctx context.Context, outputs []*files.Output, extractions []Extraction) error {
	wanted := map[*ccob.Reader][]ccob.Range{}
	var readers []*ccob.Reader
	err := s.Budget.Each(ctx, len(extractions), func(ctx context.Context, i int) error {
		switch x := extractions[i]; {
		case x.Archive:
			return nil
		case x.Images[0].reader == nil:
			return outputs[i].Append(x.Images[0].content)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, x := range extractions {
		if x.Archive {
			if err := s.extractArchive(ctx, outputs[i], x.Images); err != nil {
				return err
			}
			continue
		}
		if e := x.Images[0]; e.reader != nil {
			if wanted[e.reader] == nil {
				readers = append(readers, e.reader)
			}
			wanted[e.reader] = append(wanted[e.reader], ccob.Range{Offset: e.offset, Size: e.Size, W: outputs[i]})
		}
	}
	for _, reader := range readers {
		if err := reader.Extract(ctx, wanted[reader]); err != nil {
			return err
		}
	}
	return nil
}

// extractArchive writes images as members of an archive.
func (s *Session) extractArchive(ctx context.Context, output *files.Output, images []*Embedded) error {
	var decoded int64
	for _, e := range images {
		if e.reader != nil {
			decoded += e.Size
		}
	}
	if decoded == 0 {
		return s.writeArchive(ctx, output, images)
	}
	return s.Budget.WithBytes(ctx, decoded, func(ctx context.Context) error {
		plain := make([]*Embedded, len(images))
		for i, e := range images {
			plain[i] = e
			if e.reader == nil {
				continue
			}
			var content files.Buffer
			if err := e.reader.Extract(ctx, []ccob.Range{{Offset: e.offset, Size: e.Size, W: &content}}); err != nil {
				return err
			}
			inMemory := *e
			inMemory.content = files.Memory(content.Bytes())
			plain[i] = &inMemory
		}
		return s.writeArchive(ctx, output, plain)
	})
}

func (s *Session) writeArchive(ctx context.Context, output *files.Output, images []*Embedded) error {
	members := make([]ar.NewMember, len(images))
	err := s.Budget.Each(ctx, len(images), func(_ context.Context, i int) error {
		var err error
		members[i], err = imageMember(images[i])
		return err
	})
	if err != nil {
		return err
	}
	return ar.Write(ctx, output, members)
}

// imageMember makes an image a member of an archive, with the symbols that the
// archive's index has for it. What cannot be read has none.
func imageMember(e *Embedded) (ar.NewMember, error) {
	member := ar.NewMember{Name: e.Member(), Data: e.content}
	data := e.content.Bytes()
	switch {
	case bitcode.Is(data):
		names, err := bitcode.Symbols(data)
		if err != nil {
			return member, fmt.Errorf("member %s: %w", member.Name, err)
		}
		member.Object, member.Symbols = true, names
	case object.IsObject(data):
		names, err := object.ArchiveSymbols(data)
		if err != nil {
			return member, fmt.Errorf("member %s: %w", member.Name, err)
		}
		member.Object = true
		for _, name := range names {
			member.Symbols = append(member.Symbols, string(name))
		}
	}
	return member, nil
}
