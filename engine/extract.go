package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/llvm/bitcode"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Extraction describes a file for Extract to write.
type Extraction struct {
	Output string
	// Images are the content of the file: one image, or the members of an archive.
	Images  []*images.DeviceImage
	Archive bool
	// Members are the names of members, in the order of Images; if nil, each has
	// the name that DeviceImage.Holder returns, as in LLVM's tool.
	Members []string
}

// Extract writes device images of an open file. It returns warnings: members of
// new archives whose symbols could not be read, which therefore are not in the
// index.
func (s *Session) Extract(ctx context.Context, f *images.File, extractions []Extraction) (warnings []error, err error) {
	defer guard.Into(&err)()
	err = s.write(ctx, func(out *files.Outputs) error {
		for len(extractions) > 0 {
			some := extractions[:min(openOutputs, len(extractions))]
			extractions = extractions[len(some):]
			warned, err := s.extract(ctx, f, out, some)
			if err != nil {
				return err
			}
			warnings = append(warnings, warned...)
		}
		return nil
	})
	return warnings, err
}

// openOutputs is the number of outputs that are open at a time.
const openOutputs = 256

// extract writes some extractions. Each compressed bundle is decoded once for
// all of its images.
func (s *Session) extract(ctx context.Context, f *images.File, out *files.Outputs, extractions []Extraction) (warnings []error, err error) {
	outputs := make([]*files.Output, len(extractions))
	var copies []images.Copy
	var archives []int
	for i, x := range extractions {
		if outputs[i], err = out.Create(x.Output); err != nil {
			return nil, err
		}
		if x.Archive {
			archives = append(archives, i)
		} else {
			copies = append(copies, images.Copy{Image: x.Images[0], To: outputs[i]})
		}
	}
	if err := f.Copy(ctx, copies); err != nil {
		return nil, err
	}
	for _, i := range archives {
		warned, err := s.extractArchive(ctx, f, outputs[i], extractions[i])
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
func (s *Session) extractArchive(ctx context.Context, f *images.File, output *files.Output, x Extraction) (warnings []error, err error) {
	contents, err := f.Load(ctx, x.Images...)
	if err != nil {
		return nil, err
	}
	defer contents.Close()
	members := make([]ar.NewMember, len(x.Images))
	warned := make([]error, len(x.Images))
	for i, e := range x.Images {
		members[i].Name, members[i].Data = e.Holder(), contents.Get(i)
		if x.Members != nil {
			members[i].Name = x.Members[i]
		}
	}
	err = s.budget.Each(ctx, len(members), func(_ context.Context, i int) (err error) {
		warned[i], err = addSymbols(&members[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	warnings = slices.DeleteFunc(warned, func(err error) bool { return err == nil })
	return warnings, ar.Write(ctx, output, members)
}

// addSymbols sets the symbols that the archive's index lists for a member.
// Bitcode that cannot be read gets none, with a warning. As in LLVM's archive
// writer, other objects that cannot be read are an error.
func addSymbols(member *ar.NewMember) (warning, err error) {
	data := member.Data.Mapped(guard.Inside)
	member.Symbols, member.Object, err = memberSymbols(data)
	if err != nil {
		err = fmt.Errorf("'%s': %w", member.Name, err)
	}
	if bitcode.Is(data) {
		return err, nil
	}
	return nil, err
}

// memberSymbols returns the names that an archive's index lists for a member,
// and reports whether the member is an object; only objects are indexed.
func memberSymbols(data []byte) (names []string, isObject bool, err error) {
	switch format := object.Identify(data); {
	case bitcode.Is(data):
		names, err = bitcode.Symbols(data)
	case format.IsELF() || format == object.COFFObject || format == object.COFFImport:
		names, err = object.ArchiveSymbols(data)
	default:
		return nil, object.IsObject(data), nil
	}
	return names, err == nil, err
}
