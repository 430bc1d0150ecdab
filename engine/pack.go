package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// PackOptions are the options of Pack.
type PackOptions struct {
	// Images are the images with their properties, in the order given; see
	// ParseProperties. Two keys are not stored as strings: file, which lists
	// files, separated by commas, to pack with the same properties; and kind, the
	// offload kind, where an unknown value means none.
	Images []offloadbinary.Properties
	// Version of the container, from 1 to offloadbinary.NewestVersion; 0 means offloadbinary.DefaultVersion.
	Version int
	// Compress, if not nil, compresses the container, which is of version offloadbinary.CompressedVersion.
	Compress *offloadbinary.Compression
	Output   string
	// LLVM derives the format of an image from its file name, unless it is
	// bitcode, as LLVM's tool does. Otherwise, if the name does not determine the
	// format, the content does.
	LLVM bool
}

// ErrNoFile reports an image without a file.
var ErrNoFile = errors.New("an image has no file; add file=PATH to its properties")

// Pack writes an offload binary and returns the names of images whose format
// the container has no number for.
func (s *Session) Pack(ctx context.Context, opt PackOptions) (unknown []string, err error) {
	defer guard.Into(&err)()
	if opt.Version == 0 {
		opt.Version = offloadbinary.DefaultVersion
	}
	if opt.Compress != nil && opt.Version != offloadbinary.CompressedVersion {
		return nil, fmt.Errorf("an offload binary of version %d cannot be compressed, expected version %d", opt.Version, offloadbinary.CompressedVersion)
	}
	var images []offloadbinary.Image
	for _, properties := range opt.Images {
		common, names, err := packed(properties, opt.Version)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			input, err := s.files.Open(name)
			if err != nil {
				return nil, err
			}
			defer input.Close()
			img := common
			img.Content = input.All()
			err = guard.Faults(func() error {
				img.Kind = imageKind(name, input.Mapped(guard.Inside), opt)
				return nil
			})
			if err != nil {
				return nil, err
			}
			if img.Kind == offloadbinary.None {
				unknown = append(unknown, name)
			}
			images = append(images, img)
		}
	}
	err = s.files.WriteFile(ctx, opt.Output, func(output *files.Output) error {
		if opt.Compress == nil {
			return offloadbinary.Write(output, opt.Version, images)
		}
		size := int64(0)
		for i := range images {
			size += images[i].Content.Len()
		}
		return s.budget.WithBytes(ctx, 2*size, func(ctx context.Context) error {
			return offloadbinary.WriteCompressed(ctx, output, images, *opt.Compress)
		})
	})
	return unknown, err
}

// packed returns the fields that images with the given properties share, and
// the names of their files.
func packed(properties offloadbinary.Properties, version int) (common offloadbinary.Image, names []string, err error) {
	keys := make([]string, len(properties))
	for i, p := range properties {
		keys[i] = p.Key
	}
	for _, i := range offloadbinary.Order(version, keys) {
		switch p := properties[i]; p.Key {
		case "file":
			names = strings.Split(p.Value, ",")
		case "kind":
			common.Offload, _ = offloadbinary.ParseOffloadKind(p.Value)
		default:
			common.Properties = append(common.Properties, p)
		}
	}
	if names == nil {
		return common, nil, ErrNoFile
	}
	return common, names, nil
}

// imageKind returns the format of an image.
func imageKind(name string, data []byte, opt PackOptions) offloadbinary.ImageKind {
	content, named := offloadbinary.KindOfData(data), offloadbinary.KindOfName(name)
	switch {
	case content == offloadbinary.Bitcode:
		return content
	case opt.LLVM && opt.Version == 1 && named == offloadbinary.SPIRV:
		return offloadbinary.None // LLVM 22 does not recognize the name
	case opt.LLVM || named != offloadbinary.None:
		return named
	case path.Ext(name) == ".ptx": // text has no magic
		return offloadbinary.PTX
	}
	return content
}

// ParseProperties parses KEY=VALUE,…. A key without an equals sign has an empty
// value. The values of a repeated key are joined by commas, at the position of
// the first.
func ParseProperties(text string) offloadbinary.Properties {
	var properties offloadbinary.Properties
	index := map[string]int{}
	for _, part := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		if i, ok := index[key]; ok {
			properties[i].Value += "," + value
			continue
		}
		index[key] = len(properties)
		properties = append(properties, offloadbinary.Property{Key: key, Value: value})
	}
	return properties
}
