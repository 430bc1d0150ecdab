package engine

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Selection selects the images to extract, with stricter rules than LLVM's
// tool.
type Selection struct {
	// Requests are the properties that images must have, see ParseProperties. Each
	// must match exactly one image. Without requests, all images are selected
	// except those for the host.
	//
	// Properties are those of an offload binary, and kind, triple, arch, id (of
	// a bundle entry), member, section and format. The property file names the
	// output.
	Requests []offloadbinary.Properties
	// Dir is the directory for images without a file name in a request. Their
	// names consist of the input's name and their target.
	Dir   string
	Input string
	// Archive writes an archive of all images that a request matches.
	Archive bool
}

// Choose returns the extractions that a Selection makes from an open file.
func (s *Selection) Choose(f *images.File) (_ []Extraction, err error) {
	defer guard.Into(&err)()
	all, err := f.Unwrapped()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no device images: found %s", s.Input, check.Format(f.Content().Mapped(guard.Inside)))
	}
	if len(s.Requests) == 0 {
		all = slices.DeleteFunc(all, func(e *images.DeviceImage) bool { return e.Offload == "host" })
		return s.unnamed(nil, all), nil
	}
	var extractions []Extraction
	for _, request := range s.Requests {
		if extractions, err = s.request(extractions, request, all); err != nil {
			return nil, err
		}
	}
	return extractions, nil
}

// request appends the extractions of a request.
func (s *Selection) request(to []Extraction, request offloadbinary.Properties, all []*images.DeviceImage) ([]Extraction, error) {
	var output string
	var wanted []string
	for _, p := range request {
		if p.Key == "file" {
			output = p.Value
		} else {
			wanted = append(wanted, p.Key+"="+p.Value)
		}
	}
	what := strings.Join(wanted, ",")
	chosen := slices.DeleteFunc(slices.Clone(all), func(e *images.DeviceImage) bool { return !has(e, request) })
	switch {
	case len(chosen) == 0:
		return nil, fmt.Errorf("%s: no image has %s; there are %s", s.Input, what, describe(all))
	case s.Archive && output == "":
		return nil, fmt.Errorf("%s: no file name for the archive of images with %s", s.Input, what)
	case s.Archive:
		members := make([]string, len(chosen))
		for i, e := range chosen {
			members[i] = s.name(e, i)
		}
		return append(to, Extraction{Output: output, Images: chosen, Archive: true, Members: members}), nil
	case output == "":
		return s.unnamed(to, chosen), nil
	case len(chosen) > 1 && what == "":
		return nil, fmt.Errorf("%s: found %d images, expected one for file=%s: %s; choose one by a property such as arch, or write an archive of them", s.Input, len(chosen), output, describe(chosen))
	case len(chosen) > 1:
		return nil, fmt.Errorf("%s: %d images have %s: %s; choose one by another property, or write an archive of them", s.Input, len(chosen), what, describe(chosen))
	}
	return append(to, Extraction{Output: output, Images: chosen}), nil
}

// unnamed appends extractions with generated file names.
func (s *Selection) unnamed(to []Extraction, list []*images.DeviceImage) []Extraction {
	for _, e := range list {
		to = append(to, Extraction{Output: filepath.Join(s.Dir, s.name(e, len(to))), Images: []*images.DeviceImage{e}})
	}
	return to
}

// name returns a file name made of the properties of an image. The number makes
// it unique.
func (s *Selection) name(e *images.DeviceImage, number int) string {
	stem := path.Base(s.Input)
	if ext := path.Ext(stem); len(ext) < len(stem) {
		stem = strings.TrimSuffix(stem, ext)
	}
	parts := slices.DeleteFunc([]string{stem, e.Triple, e.Arch}, func(part string) bool { return part == "" })
	name := fmt.Sprintf("%s.%d", strings.Join(parts, "-"), number)
	if ext := extension(e); ext != "" {
		name += "." + ext
	}
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r < ' ' {
			return '_'
		}
		return r
	}, name)
}

// extension returns the file name extension for the image. For bundle entries
// it depends on the target only, because the format of a compressed entry is
// unknown before decoding.
func extension(e *images.DeviceImage) string {
	switch {
	case e.Form != images.FormBundle && e.Form != images.FormCompressed:
		return e.Format.Extension()
	case strings.Contains(e.Triple+e.Arch, "spirv"):
		return offloadbinary.SPIRV.Extension()
	}
	return offloadbinary.Object.Extension()
}

// has reports whether an image has all the properties.
func has(e *images.DeviceImage, properties offloadbinary.Properties) bool {
	for _, p := range properties {
		has := false
		switch p.Key {
		case "file":
			has = true
		case "kind":
			has = e.Offload == p.Value || e.Offload == "hipv4" && p.Value == "hip"
		case "triple":
			has = e.Triple == p.Value
		case "arch":
			has = e.Arch == p.Value
		case "id":
			has = e.ID == p.Value
		case "member":
			has = e.Member() == p.Value
		case "section":
			has = e.Section == p.Value
		case "format":
			has = e.Format.String() == p.Value
		default:
			has = e.Get(p.Key) == p.Value
		}
		if !has {
			return false
		}
	}
	return true
}

// describe lists images, without repeating equal descriptions.
func describe(list []*images.DeviceImage) string {
	const most = 20
	var names []string
	count := map[string]int{}
	for _, e := range list {
		name := e.String()
		if count[name]++; count[name] == 1 {
			names = append(names, name)
		}
	}
	rest := 0
	if len(names) > most {
		rest, names = len(names)-most, names[:most]
	}
	for i, name := range names {
		if count[name] > 1 {
			names[i] = fmt.Sprintf("%s (%d times)", name, count[name])
		}
	}
	if rest > 0 {
		names = append(names, fmt.Sprintf("%d more", rest))
	}
	return strings.Join(names, ", ")
}
