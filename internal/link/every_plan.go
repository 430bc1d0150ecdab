package link

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"

	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/devicelink"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/guard"
	"github.com/rules-offload/rules_offload/internal/object"
	"github.com/rules-offload/rules_offload/internal/register"

	"github.com/rules-offload/rules_offload/internal/session"
)

// LinkPlan is what the device links of Link do.
type LinkPlan struct {
	Links []PlannedLink `json:"links"`
}

// PlannedLink is the device link for one target.
type PlannedLink struct {
	Triple string   `json:"triple"`
	Arch   string   `json:"arch"`
	Kinds  []string `json:"kinds"` // offload kinds that the result is registered for
	// Images are the linked images, in the order of the link.
	Images []PlannedImage `json:"images"`
	// Command is run in a directory with the images under their names.
	Command []string `json:"command"`

	link   devicelink.Link
	output string // name of the result
}

// PlannedImage is an image in one of the inputs.
type PlannedImage struct {
	Input  string `json:"input"`
	Member string `json:"member,omitempty"` // of an archive
	Arch   string `json:"arch"`
	File   string `json:"file"` // its name in the command
	Size   int64  `json:"size"` // bytes

	image *images.DeviceImage // valid while the input is open
}

// linkPolicy is the policy of Link; WrapLink has those of LLVM.
const linkPolicy = devicelink.EveryTarget

// PlanLink returns the plan that Link would run.
func PlanLink(ctx context.Context, s *engine.Session, opt LinkOptions) (*LinkPlan, error) {
	found, err := openLinkInputs(ctx, s, opt.Inputs)
	defer closeLinkInputs(found)
	if err != nil {
		return nil, err
	}
	return planLink(s, found, opt)
}

// planLink plans a link of open inputs.
func planLink(s *engine.Session, found []linkInput, opt LinkOptions) (*LinkPlan, error) {
	command := devicelink.CommandOptions{Clang: opt.Clang, Args: opt.DeviceArgs}
	var described []devicelink.Image
	var planned []PlannedImage
	for _, in := range found {
		archive := in.format == object.Archive || in.format == object.ThinArchive
		if archive || in.format == object.ELFSharedObject {
			path, err := session.Files(s).Abs(in.name)
			if err != nil {
				return nil, err
			}
			command.Libraries = append(command.Libraries, path)
		}
		for _, image := range in.images {
			described = append(described, devicelink.Image{
				Triple: image.Triple, Arch: image.Arch, Kinds: parseOffloadKinds(image.Offload),
				Member: archive && !opt.WholeArchive, Name: in.name,
			})
			member := ""
			if n := len(image.Members); n > 0 {
				member = image.Members[n-1]
			}
			planned = append(planned, PlannedImage{
				Input: in.name, Member: member, Arch: image.Arch, Size: image.Size,
				File: stagedName(len(planned), image), image: image,
			})
		}
	}
	links, err := devicelink.Plan(described, devicelink.Options{Policy: linkPolicy})
	if err != nil {
		return nil, err
	}
	plan := new(LinkPlan)
	for i, link := range links {
		p := PlannedLink{Triple: link.Triple, Arch: link.Arch, link: link, output: fmt.Sprintf("linked%d.img", i)}
		if link.Kinds != 0 {
			p.Kinds = strings.Split(link.Kinds.String(), ",")
		}
		var names []string
		for _, k := range link.Images {
			p.Images = append(p.Images, planned[k])
			names = append(names, planned[k].File)
		}
		p.Command = link.Command(&command, names, p.output)
		plan.Links = append(plan.Links, p)
	}
	slices.SortStableFunc(plan.Links, func(a, b PlannedLink) int { return devicelink.Compare(&a.link, &b.link) })
	return plan, nil
}

// parseOffloadKinds parses DeviceImage.Offload.
func parseOffloadKinds(text string) (kinds offloadbinary.OffloadKind) {
	for name := range strings.SplitSeq(text, ",") {
		kind, _ := offloadbinary.ParseOffloadKind(name)
		kinds |= kind
	}
	return kinds
}

// stagedName names the file of an image for its link.
func stagedName(number int, image *images.DeviceImage) string {
	holder := image.Holder()
	stem := strings.TrimSuffix(filepath.Base(holder), filepath.Ext(holder))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._+-:", r) {
			return r
		}
		return '_'
	}, fmt.Sprintf("%s-%s-%s", stem, image.Triple, image.Arch))
	const longest = 200
	return fmt.Sprintf("image%d-%s.o", number, name[:min(len(name), longest)])
}

// links returns the links as devicelink plans them.
func (p *LinkPlan) links() []devicelink.Link {
	links := make([]devicelink.Link, len(p.Links))
	for i := range p.Links {
		links[i] = p.Links[i].link
	}
	return links
}

// check rejects a plan whose results Link cannot register.
func (p *LinkPlan) check() error {
	links := p.links()
	if list := devicelink.Of(links, offloadbinary.HIP); list != nil {
		if _, err := hipTargets(links, list); err != nil {
			return err
		}
	}
	for i := range p.Links {
		link := &p.Links[i].link
		switch {
		case link.Kinds == 0:
			return fmt.Errorf("the images for %s, such as that of %s, have no offload kind", link.Name(), p.Links[i].Images[0].Input)
		case link.Kinds&offloadbinary.CUDA != 0:
			return fmt.Errorf("the images for %s are for CUDA: make a fat binary with NVIDIA's fatbinary, and register it with offload register", link.Name())
		case link.Kinds&^(offloadbinary.OpenMP|offloadbinary.HIP) != 0:
			return fmt.Errorf("the images for %s are of kind %s; OpenMP and HIP can be linked", link.Name(), link.Kinds)
		}
	}
	return nil
}

// linkInput is an input of a link and the images in it.
type linkInput struct {
	file   *images.File
	name   string
	format object.Format
	images []*images.DeviceImage
	keep   []string
}

// openLinkInputs opens the inputs of a link. With an error, it returns those
// that it has opened.
func openLinkInputs(ctx context.Context, s *engine.Session, names []string) (found []linkInput, err error) {
	ctx = s.Context(ctx)
	for _, name := range names {
		f, err := s.Open(ctx, name, images.Options{Scope: images.OffloadBinaries})
		if err != nil {
			return found, err
		}
		input := linkInput{file: f, name: name}
		found = append(found, input)
		if err := guard.Contain(found[len(found)-1].read); err != nil {
			return found, err
		}
	}
	return found, nil
}

// read reads the parts of the input that the link requires.
func (l *linkInput) read() (err error) {
	if l.images, err = l.file.All(); err != nil {
		return err
	}
	data := l.file.Content().Bytes()
	switch l.format = object.Identify(data); l.format {
	case object.ELFSharedObject:
		l.images = nil // they are already linked
	case object.ELFRelocatable:
		if l.keep, err = register.EntrySymbols(data); err != nil {
			return files.NameError(l.name, err)
		}
	}
	return nil
}

func closeLinkInputs(found []linkInput) {
	for _, input := range found {
		input.file.Close()
	}
}
