package link

import (
	"context"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// IsolateOptions are the options of Isolate.
type IsolateOptions struct {
	// Input is a relocatable ELF object: host objects that were linked with the
	// registration object of their device images, or, with a Suffix, one host
	// object. If empty, it is Output, which is replaced.
	Input  string
	Output string
	// Suffix distinguishes the offload entries of Input from those of other objects. It consists of
	// letters, digits and underscores. The entries are moved to the section
	// llvm_offload_entries_SUFFIX. The fat binary that host code without -fgpu-rdc registers is
	// renamed to __hip_fatbin_SUFFIX, see RegisterOptions.Symbol. If empty, the suffix is computed
	// from the content of Input, which then must have entries.
	Suffix string
	// Reference is a symbol that an Input with entries refers to in Output, such as one that the
	// registration object defines; "" for none.
	Reference string
}

// Isolate completes a relocatable device link, as clang-linker-wrapper of LLVM 22
// does. It moves the offload entries of the object to a section with a unique name,
// which only the object's registration reads, and removes the images that were
// linked. The object can then be linked into programs that have other target regions.
//
// The result is the same without a relocatable link: isolate all host objects of a
// library with one suffix, and create their registration object for the section with
// that suffix.
func Isolate(ctx context.Context, s *engine.Session, opt IsolateOptions) error {
	root := s.Files()
	open := root.Open
	if opt.Input == "" {
		opt.Input, open = opt.Output, root.OpenToReplace
	}
	input, err := open(opt.Input)
	if err != nil {
		return err
	}
	defer input.Close()
	return isolate(ctx, root, input, opt)
}

// isolate is Isolate for an input that is open.
func isolate(ctx context.Context, root *files.Root, input *files.Input, opt IsolateOptions) error {
	return root.Write(ctx, func(out *files.Outputs) error {
		edits, err := register.Isolation(input.Mapped(guard.Inside), opt.Suffix, opt.Reference)
		if err != nil {
			return files.NameError(input.Name(), err)
		}
		output, err := out.Create(opt.Output)
		if err != nil {
			return err
		}
		if opt.Output == opt.Input {
			output.KeepMode(input.Mode())
		}
		return files.NameError(input.Name(), object.Rewrite(input.All(), edits, output))
	})
}
