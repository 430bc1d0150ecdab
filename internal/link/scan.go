package link

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/bitcode"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/guard"
	"github.com/rules-offload/rules_offload/internal/object"
	"github.com/rules-offload/rules_offload/internal/register"

	"github.com/rules-offload/rules_offload/internal/session"
)

// scanned holds the images and symbols of the inputs of a link.
type scanned struct {
	opened  []*images.File
	formats []object.Format // by input
	images  []*images.DeviceImage
	member  []bool // by image: whether it is in an archive that is not linked whole
	entries []string
}

func (found *scanned) close() {
	for _, f := range found.opened {
		f.Close()
	}
}

// scan finds the images in the inputs, and withEntries the symbols of their
// offload entries. Missing inputs and directories are left to the linker. The
// caller must close the result, also after an error.
func scan(ctx context.Context, s *engine.Session, inputs []Input, withEntries bool) (*scanned, error) {
	ctx = s.Context(ctx)
	found := new(scanned)
	for _, in := range inputs {
		if err := scanInput(ctx, s, found, in, withEntries); err != nil {
			return found, err
		}
	}
	return found, nil
}

// scanInput adds the images and symbols of one input.
func scanInput(ctx context.Context, s *engine.Session, found *scanned, in Input, withEntries bool) error {
	f, err := s.Open(ctx, in.Name, images.Options{Scope: images.OffloadBinaries})
	var system *files.Error
	if errors.As(err, &system) && (errors.Is(err, fs.ErrNotExist) || isDirectory(session.Files(s), in.Name)) {
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
		format = object.Identify(data.Bytes())
		if withEntries && format != object.ELFSharedObject {
			found.entries = append(found.entries, hostEntries(s, in.Name, data, 0)...)
		}
		return nil
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
		if image.Section == register.RelocatableSection {
			continue
		}
		found.images = append(found.images, image)
		found.member = append(found.member, archive && !in.Whole)
	}
	if len(all) == 0 {
		found.opened = found.opened[:len(found.opened)-1]
		return f.Close()
	}
	return nil
}

// appendPlain writes an image of an offload binary.
func appendPlain(output *files.Output, image *images.DeviceImage) error {
	content, _ := image.Plain()
	return output.Append(content)
}

// maxArchiveDepth is the largest nesting depth of archives.
const maxArchiveDepth = 32

func isDirectory(root *files.Root, name string) bool {
	info, err := root.Stat(name)
	return err == nil && info.IsDir()
}

// hostEntries returns the symbols of the offload entries in an object or in the
// members of an archive. Files that cannot be read are left to the linker.
func hostEntries(s *engine.Session, path string, c content.Content, depth int) (names []string) {
	data := c.Bytes()
	switch format := object.Identify(data); format {
	case object.ELFRelocatable:
		names, _ = register.EntrySymbols(data)
	case object.Bitcode:
		names, _ = bitcode.Symbols(data)
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, register.EntryPrefix) })
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
				names = append(names, hostEntries(s, path, c.Slice(member.DataOffset, int64(len(member.Data))), depth+1)...)
				continue
			}
			name := ar.MemberPath(path, member.Name)
			if input, err := session.Files(s).OpenRegular(name); err == nil {
				names = append(names, hostEntries(s, name, input.All(), depth+1)...)
				input.Close()
			}
		}
	}
	return names
}
