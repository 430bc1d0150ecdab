package engine

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/llvm/bitcode"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// ArchiveOptions are the options of Archive.
type ArchiveOptions struct {
	Inputs []string // bundles and bundled objects, in the order of the archive
	Output string
	Read   ReadOptions

	// Check rejects inputs without a bundle, archives, and inputs with entries
	// that must not be in one bundle.
	Check bool
}

// Archive writes bundles and bundled objects to an archive: a library with code
// for several devices. Members have the base names of their files. With Check,
// the error for entries that must not be in one bundle is a *MemberConflictError.
func (s *Session) Archive(ctx context.Context, opt ArchiveOptions) (err error) {
	defer guard.Into(&err)()
	return s.transform(ctx, opt.Inputs, func(inputs []*files.Input, out *files.Outputs) error {
		members := make([]ar.NewMember, len(inputs))
		for i, input := range inputs {
			members[i] = ar.NewMember{Name: filepath.Base(opt.Inputs[i]), Data: input.All()}
			if data := input.Mapped(guard.Inside); !opt.Check && opt.Read.Warn != nil && object.Identify(data) == object.Unknown {
				opt.Read.Warn(fmt.Errorf("%s: not a bundle or an object: found %s", opt.Inputs[i], check.Format(data)))
			}
		}
		err := s.budget.Each(ctx, len(inputs), func(ctx context.Context, i int) error {
			if opt.Check {
				if err := s.checkFile(ctx, opt.Inputs[i], opt); err != nil {
					return err
				}
			}
			index(&members[i])
			return nil
		})
		if err != nil {
			return err
		}
		output, err := out.Create(opt.Output)
		if err != nil {
			return err
		}
		return ar.Write(ctx, output, members)
	})
}

// index sets the symbols of a member that is an object. A file that only begins
// like an object gets none.
func index(m *ar.NewMember) {
	data := m.Data.Mapped(guard.Inside)
	// The symbols of ELF files show whether they are objects.
	if !bitcode.Is(data) && !object.Identify(data).IsELF() && !object.IsObject(data) {
		return
	}
	if names, isObject, err := memberSymbols(data); err == nil {
		m.Object, m.Symbols = isObject, names
	}
}

// MemberConflictError reports a member of an archive with entries that must not
// be in one bundle.
type MemberConflictError struct {
	Member, Archive string
	*target.ConflictError
}

// Error returns the member and its conflict.
func (e *MemberConflictError) Error() string {
	return fmt.Sprintf("%s(%s): %s", e.Archive, e.Member, e.ConflictError)
}

// Unwrap returns the conflict.
func (e *MemberConflictError) Unwrap() error { return e.ConflictError }

// checkMember reports an error if a member has entries that must not be in one
// bundle.
func checkMember(ctx context.Context, member *images.Source, archive string) error {
	for rest := member.Images; len(rest) > 0; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		var ids []string
		number := rest[0].Bundle
		for len(rest) > 0 && rest[0].Bundle == number {
			ids = append(ids, rest[0].ID)
			rest = rest[1:]
		}
		if conflict := target.ConflictingIDs(ids); conflict != nil {
			return &MemberConflictError{Member: member.Holder(), Archive: archive, ConflictError: conflict}
		}
	}
	return nil
}

// checkFile is checkMember for a file to be archived. The file must have a
// bundle.
func (s *Session) checkFile(ctx context.Context, name string, opt ArchiveOptions) error {
	f, err := s.openBundles(ctx, name, bundle.ObjectType, opt.Read)
	if err != nil {
		return err
	}
	defer f.Close()
	found, archive, format := 0, false, ""
	for source, err := range f.Sources() {
		opt.Read.tell(source)
		if err == nil {
			err = checkMember(ctx, source, opt.Output)
		}
		if err != nil {
			return err
		}
		found, archive, format = found+len(source.Images), source.Archive, source.Format
	}
	switch {
	case found == 0 && archive:
		return fmt.Errorf("%s: found an archive, expected a bundle or a bundled object; pass its members instead", name)
	case found == 0:
		return fmt.Errorf("%s: found %s without a bundle, expected a bundle or a bundled object, such as the output of clang-offload-bundler or offload_bundle", name, format)
	}
	return nil
}
