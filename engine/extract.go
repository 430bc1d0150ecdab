package engine

import (
	"context"
	"fmt"
	"slices"

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
	// Members are the names of members, in the order of Images; without them
	// each has the name that Embedded.Source returns, as in LLVM's tool.
	Members []string
}

// Extract finds the device images in a file and writes those that the plan
// names. It returns warnings: members of new archives whose symbols could not
// be read, which therefore are not in the index.
func (s *Session) Extract(ctx context.Context, opt ExtractOptions) (warnings []error, err error) {
	err = s.find(ctx, opt.Input, opt.Scope, func(ctx context.Context, f *finder) error {
		warnings = nil
		extractions, err := opt.Plan(f.images, f.unwrap)
		if err != nil {
			return err
		}
		return s.write(ctx, func(out *files.Outputs) error {
			for len(extractions) > 0 {
				some := extractions[:min(openOutputs, len(extractions))]
				extractions = extractions[len(some):]
				warned, err := s.extract(ctx, out, some)
				if err != nil {
					return err
				}
				warnings = append(warnings, warned...)
			}
			return nil
		})
	})
	return warnings, err
}

// openOutputs is how many outputs are open at a time.
const openOutputs = 256

// extract writes some extractions. Compressed bundles are decoded once for all
// that is wanted of them.
func (s *Session) extract(ctx context.Context, out *files.Outputs, extractions []Extraction) (warnings []error, err error) {
	outputs := make([]*files.Output, len(extractions))
	ranges := map[*ccob.Reader][]ccob.Range{}
	var readers []*ccob.Reader // in order, for the first error not to depend on chance
	var plain, archives []int
	for i, x := range extractions {
		if outputs[i], err = out.Create(x.Output); err != nil {
			return nil, err
		}
		switch e := x.Images[0]; {
		case x.Archive:
			archives = append(archives, i)
		case e.reader == nil:
			plain = append(plain, i)
		default:
			if ranges[e.reader] == nil {
				readers = append(readers, e.reader)
			}
			ranges[e.reader] = append(ranges[e.reader], ccob.Range{Offset: e.offset, Size: e.Size, W: outputs[i]})
		}
	}
	err = s.Budget.Each(ctx, len(plain), func(_ context.Context, i int) error {
		return outputs[plain[i]].Append(extractions[plain[i]].Images[0].content)
	})
	if err != nil {
		return nil, err
	}
	for _, reader := range readers {
		if err := reader.Extract(ctx, ranges[reader]); err != nil {
			return nil, err
		}
	}
	for _, i := range archives {
		warned, err := s.extractArchive(ctx, outputs[i], extractions[i])
		if err != nil {
			return nil, err
		}
		warnings = append(warnings, warned...)
	}
	for _, output := range outputs {
		if err := output.Close(); err != nil {
			return nil, err
		}
	}
	return warnings, nil
}

// extractArchive writes images as members of an archive.
func (s *Session) extractArchive(ctx context.Context, output *files.Output, x Extraction) (warnings []error, err error) {
	images := x.Images
	var decoded int64
	for _, e := range images {
		if e.reader != nil {
			decoded += e.Size
		}
	}
	write := func(ctx context.Context) error {
		members := make([]ar.NewMember, len(images))
		warned := make([]error, len(images))
		for i, e := range images {
			members[i].Name, members[i].Data = e.Source(), e.content
			if x.Members != nil {
				members[i].Name = x.Members[i]
			}
			if e.reader == nil {
				continue
			}
			var content files.Buffer
			if err := e.reader.Extract(ctx, []ccob.Range{{Offset: e.offset, Size: e.Size, W: &content}}); err != nil {
				return err
			}
			members[i].Data = files.Memory(content.Bytes())
		}
		err := s.Budget.Each(ctx, len(members), func(_ context.Context, i int) (err error) {
			warned[i], err = addSymbols(&members[i])
			return err
		})
		if err != nil {
			return err
		}
		warnings = slices.DeleteFunc(warned, func(err error) bool { return err == nil })
		return ar.Write(ctx, output, members)
	}
	if decoded == 0 {
		return warnings, write(ctx)
	}
	return warnings, s.Budget.WithBytes(ctx, decoded, write)
}

// addSymbols gives an archive member the symbols that the archive's index has
// for it. Bitcode that cannot be read has none, with a warning; LLVM's archive
// writer fails for other objects only.
func addSymbols(member *ar.NewMember) (warning, err error) {
	data := member.Data.Bytes()
	member.Symbols, member.Object, err = memberSymbols(data)
	if err != nil {
		err = fmt.Errorf("'%s': %w", member.Name, err)
	}
	if bitcode.Is(data) {
		return err, nil
	}
	return nil, err
}

// memberSymbols returns the names that an archive's index has for a member, and
// whether it is an object, for which there is an index at all.
func memberSymbols(data []byte) (names []string, isObject bool, err error) {
	switch format := object.Identify(data); {
	case bitcode.Is(data):
		names, err = bitcode.Symbols(data)
	case format.IsELF() || format == object.COFFObject || format == object.COFFImport:
		var symbols [][]byte
		symbols, err = object.ArchiveSymbols(data)
		for _, symbol := range symbols {
			names = append(names, string(symbol))
		}
	default:
		return nil, object.IsObject(data), nil
	}
	return names, err == nil, err
}
