package offloadbinary

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

// extract writes the images in a file that the filters choose, all if there are
// no filters.
func (o *options) extract(ctx context.Context, call *command.Call, input string) error {
	f, err := call.Session.Open(ctx, input, images.Options{Scope: images.OffloadBinaries})
	if err != nil {
		return err
	}
	defer f.Close()
	p := &selection{tool: call.Name, stem: stem(input), byName: map[string]int{}}
	if p.images, err = f.All(); err != nil {
		return err
	}
	var warnings []error
	if err = p.choose(o.images.Value, o.archive.Value); err == nil {
		warnings, err = call.Session.Extract(ctx, f, p.extractions)
	}
	fmt.Fprint(call.Stderr, p.warnings.String())
	for _, warning := range warnings {
		fmt.Fprintf(call.Stderr, "warning: %v\n", warning)
	}
	if err == nil {
		fmt.Fprint(call.Stdout, p.extracted.String())
	}
	return err
}

// selection is the set of extractions of a call.
type selection struct {
	tool, stem string
	images     []*images.DeviceImage

	extractions         []engine.Extraction
	byName              map[string]int // index into extractions
	warnings, extracted strings.Builder
}

// choose fills in the extractions for the filters.
func (p *selection) choose(filters []string, archive bool) error {
	if len(filters) == 0 {
		return p.unnamed(p.images)
	}
	for _, filter := range filters {
		properties := engine.ParseProperties(filter)
		matching := slices.DeleteFunc(slices.Clone(p.images), func(e *images.DeviceImage) bool { return !matches(e, properties) })
		if len(matching) == 0 {
			continue
		}
		i := slices.IndexFunc(properties, func(s offloadbinary.Property) bool { return s.Key == "file" })
		switch {
		case archive && i < 0:
			return words("Image must have a 'file' argument.")
		case archive:
			p.named(engine.Extraction{Output: properties[i].Value, Images: matching, Archive: true})
		case i >= 0:
			if len(matching) > 1 {
				fmt.Fprintf(&p.warnings, "%s: warning: Multiple inputs match to a single file, '%s'\n", p.tool, properties[i].Value)
			}
			p.named(engine.Extraction{Output: properties[i].Value, Images: matching[len(matching)-1:]})
		default:
			if err := p.unnamed(matching); err != nil {
				return err
			}
		}
	}
	return nil
}

// matches reports whether an image has all the properties.
func matches(e *images.DeviceImage, properties offloadbinary.Properties) bool {
	for _, p := range properties {
		var has string
		want := p.Value
		switch p.Key {
		case "file":
			continue
		case "kind":
			kind, _ := offloadbinary.ParseOffloadKind(want)
			has, want = e.Offload, kind.String()
		case "member":
			has = e.Member()
		default:
			has = e.Get(p.Key)
		}
		if has != want {
			return false
		}
	}
	return true
}

// named adds an output that the command line names. If several have the same name, the last one
// applies.
func (p *selection) named(x engine.Extraction) {
	if i, ok := p.byName[x.Output]; ok && x.Output != "-" {
		p.extractions[i] = x
		return
	}
	p.byName[x.Output] = len(p.extractions)
	p.extractions = append(p.extractions, x)
}

// unnamed adds outputs with names made from the properties of the images.
func (p *selection) unnamed(list []*images.DeviceImage) error {
	index := 0
	for _, outer := range list {
		inner, err := outer.Unwrap()
		if err != nil {
			return err
		}
		for _, e := range inner {
			name := p.stem + "-" + e.Triple
			if e.Arch != "" {
				name += "-" + e.Arch
			}
			name = fmt.Sprintf("%s.%d.%s", name, index, e.Format.Extension())
			index++
			if strings.ContainsAny(e.Triple+e.Arch, "/\x00") {
				return fmt.Errorf("the triple %q and the arch %q of an image do not form a file name: select the image and set file=", e.Triple, e.Arch)
			}
			fmt.Fprintf(&p.extracted, "Extracted: %s\n", name)
			if i, ok := p.byName[name]; ok {
				// Two filters may choose the same image, but not different ones for
				// one name.
				if x := p.extractions[i]; x.Archive || !images.SameContent(x.Images[0], e) {
					return fmt.Errorf("two images would be written to '%s': set file= for one of them", name)
				}
				continue
			}
			p.byName[name] = len(p.extractions)
			p.extractions = append(p.extractions, engine.Extraction{Output: name, Images: []*images.DeviceImage{e}})
		}
	}
	return nil
}
