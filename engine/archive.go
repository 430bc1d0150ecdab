package engine

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/rules-offload/rules_offload/engine/ar"
	"github.com/rules-offload/rules_offload/engine/bitcode"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/object"
	"github.com/rules-offload/rules_offload/engine/target"
)

// ArchiveOptions say what Archive makes.
type ArchiveOptions struct {
	Inputs []string // bundles and bundled objects, in the order of the archive
	Output string
	Read   ReadOptions

	// Check refuses inputs with entries that must not be in one bundle.
	Check bool
}

// Archive puts bundles and bundled objects into an archive, which is a library of
// code for several devices. Members have the base names of their files.
func (s *Session) Archive(ctx context.Context, opt ArchiveOptions) error {
	members := make([]ar.NewMember, len(opt.Inputs))
	inputs := make([]*files.Input, len(opt.Inputs))
	for i, name := range opt.Inputs {
		input, err := s.Files.Open(name)
		if err != nil {
			return err
		}
		defer input.Close()
		inputs[i] = input
		members[i] = ar.NewMember{Name: filepath.Base(name), Data: input.All()}
	}
	return s.write(ctx, func(out *files.Outputs) error {
		err := s.Budget.Each(ctx, len(inputs), func(ctx context.Context, i int) error {
			if opt.Check {
				err := s.withContents(ctx, inputs[i].Name(), inputs[i].All(), ArchiveType, opt.Read, func(_ context.Context, c *contents) error {
					return checkMember(c, inputs[i].Name(), opt.Output)
				})
				if err != nil {
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

// index gives a member its symbols if it is an object. What only begins like one
// has none.
func index(m *ar.NewMember) {
	data := m.Data.Bytes()
	if !bitcode.Is(data) && !object.IsObject(data) {
		return
	}
	if names, isObject, err := memberSymbols(data); err == nil {
		m.Object, m.Symbols = isObject, names
	}
}

// MemberConflictError is a member of an archive with entries that must not be in
// one bundle.
type MemberConflictError struct {
	Member, Archive string
	*target.ConflictError
}

// Error returns the words of clang-offload-bundler.
func (e *MemberConflictError) Error() string {
	return fmt.Sprintf("conflicting TargetIDs [%s, %s] found in %s of %s", e.First, e.Second, e.Member, e.Archive)
}

// Unwrap returns the conflict.
func (e *MemberConflictError) Unwrap() error { return e.ConflictError }

// checkMember looks for entries of a member that must not be in one bundle.
func checkMember(c *contents, member, archive string) error {
	for number := 1; number <= c.bundles; number++ {
		var ids []string
		for _, e := range c.entries {
			if e.Bundle == number {
				ids = append(ids, e.ID)
			}
		}
		if conflict := target.ConflictingIDs(ids); conflict != nil {
			return &MemberConflictError{Member: member, Archive: archive, ConflictError: conflict}
		}
	}
	return nil
}

// archiveMember is a member of an archive that is read.
type archiveMember struct {
	name string
	path string // with the archive's, for messages
	data files.Content
}

// withArchive calls fn with the members of an archive.
func (s *Session) withArchive(name string, fn func(members []archiveMember) error) error {
	input, err := s.Files.Open(name)
	if err != nil {
		return err
	}
	defer input.Close()
	var opened []*files.Input // members of a thin archive
	defer func() {
		for _, in := range opened {
			in.Close()
		}
	}()
	err = files.Contain(func() error {
		archive, err := ar.Parse(input.Bytes())
		if err != nil {
			return in(input, err)
		}
		var members []archiveMember
		for m, err := range archive.Members() {
			if err != nil {
				return in(input, err)
			}
			member := archiveMember{name: m.Name, path: fmt.Sprintf("%s(%s)", name, m.Name)}
			if m.Thin {
				file, err := s.Files.OpenRegular(ar.MemberPath(name, m.Name))
				if err != nil {
					return err
				}
				opened = append(opened, file)
				member.data = file.All()
			} else {
				member.data = input.Content(m.DataOffset, m.Size)
			}
			members = append(members, member)
		}
		return fn(members)
	})
	return err
}
