package link

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/llvm/bitcode"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// scan finds the images in the inputs, and the symbols of the offload entries to keep. The caller
// must close the plan.
func (w *linker) scan(ctx context.Context) (*Plan, error) {
	ctx = w.session.Context(ctx)
	found := new(Plan)
	for _, in := range w.Inputs {
		if err := w.scanInput(ctx, found, in); err != nil {
			found.Close()
			return nil, err
		}
	}
	return found, nil
}

// scanInput adds the images and symbols of one input.
func (w *linker) scanInput(ctx context.Context, found *Plan, in Input) error {
	f, err := w.session.Open(ctx, in.Name, images.Options{Scope: images.OffloadBinaries})
	var system *files.Error
	if !w.Policy.Missing && errors.As(err, &system) && (errors.Is(err, fs.ErrNotExist) || w.isDirectory(in.Name)) {
		found.formats = append(found.formats, object.Unknown)
		return nil
	}
	if err != nil {
		return err
	}
	found.opened = append(found.opened, f)
	var format object.Format
	err = guard.Contain(func() error {
		data := f.Content()
		format = object.Identify(data.Mapped(guard.Inside))
		return w.scanEntries(found, in.Name, format, data)
	})
	if err != nil {
		return files.NameError(in.Name, err)
	}
	found.formats = append(found.formats, format)
	if format == object.ELFSharedObject {
		return nil // its images are already linked
	}
	archive := format == object.Archive || format == object.ThinArchive
	all, err := f.All()
	if err != nil {
		return err
	}
	for _, image := range all {
		// Images of a relocatable link are already registered, also by LLVM's
		// wrapper.
		if image.Section == embedding.RelocatableSection {
			continue
		}
		found.Images = append(found.Images, image)
		found.member = append(found.member, archive && !in.Whole)
	}
	if len(all) == 0 {
		found.opened = found.opened[:len(found.opened)-1]
		return f.Close()
	}
	return nil
}

// scanEntries adds the symbols of offload entries in an input, as the policy selects them. For
// AllEntries, files that cannot be read are left to the linker.
func (w *linker) scanEntries(found *Plan, name string, format object.Format, data content.Content) error {
	var symbols []string
	var err error
	switch {
	case w.Policy.Keep == AllEntries && format != object.ELFSharedObject:
		symbols = w.hostEntries(name, data, 0)
	case w.Policy.Keep == ObjectEntries && format == object.ELFRelocatable:
		symbols, err = register.EntrySymbols(data.Mapped(guard.Inside))
	}
	found.entries = append(found.entries, symbols...)
	return err
}

func (w *linker) isDirectory(name string) bool {
	info, err := w.files.Stat(name)
	return err == nil && info.IsDir()
}

// maxArchiveDepth is the largest nesting depth of archives.
const maxArchiveDepth = 32

// hostEntries returns the symbols of the offload entries in an object or in the
// members of an archive. Files that cannot be read are left to the linker.
func (w *linker) hostEntries(path string, c content.Content, depth int) (names []string) {
	data := c.Mapped(guard.Inside)
	switch format := object.Identify(data); format {
	case object.ELFRelocatable:
		names, _ = register.EntrySymbols(data)
	case object.Bitcode:
		names, _ = bitcode.Symbols(data)
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, embedding.EntryPrefix) })
	case object.Archive, object.ThinArchive:
		archive, err := ar.Parse(data)
		if err != nil || depth > maxArchiveDepth {
			return nil
		}
		for member, err := range archive.Members() {
			if err != nil {
				return names
			}
			if !member.Thin {
				names = append(names, w.hostEntries(path, c.Slice(member.DataOffset, int64(len(member.Data))), depth+1)...)
				continue
			}
			name := ar.MemberPath(path, member.Name)
			if input, err := w.files.OpenRegular(name); err == nil {
				names = append(names, w.hostEntries(name, input.All(), depth+1)...)
				input.Close()
			}
		}
	}
	return names
}
