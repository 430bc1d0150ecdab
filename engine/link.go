package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/object"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/register"
	"github.com/rules-offload/rules_offload/engine/target"
)

// LinkOptions say what is linked for the devices, and how.
type LinkOptions struct {
	// Inputs are those of the host link, in its order: objects, archives,
	// shared libraries.
	Inputs []string
	// WholeArchive makes members of archives count like objects. Without it
	// they are linked only for targets that an object is for.
	WholeArchive bool
	// Clang is the compiler driver that links for all targets.
	Clang      string
	DeviceArgs []DeviceArg

	// Triple is the host's.
	Triple string
	Output string
	// Relocatable makes Output the inputs themselves, linked into one object
	// with the registration of their images, see Isolate. Otherwise it is the
	// registration object.
	Relocatable bool

	// Scratch is the absolute path of a directory for what is linked.
	Scratch string
	// Env is the environment of Clang.
	Env []string
}

// DeviceArg is an argument for device links.
type DeviceArg struct {
	Triple string // of the target it is for; empty for all
	Arg    string
}

// LinkPlan is what a device link does.
type LinkPlan struct {
	Links []DeviceLink `json:"links"`
	// Keep are the symbols of the offload entries in the inputs.
	Keep []string `json:"-"`
}

// DeviceLink makes the image for one target.
type DeviceLink struct {
	Triple string   `json:"triple"`
	Arch   string   `json:"arch"`
	Kinds  []string `json:"kinds"` // offload kinds that the image is registered for
	// Images are linked in this order.
	Images []LinkedImage `json:"images"`
	// Command is run in a directory with the images under their names.
	Command []string `json:"command"`

	output string
	kinds  offloadbinary.OffloadKind
}

// LinkedImage is an image from one of the inputs.
type LinkedImage struct {
	Input  string `json:"input"`
	Member string `json:"member,omitempty"` // of an archive
	Arch   string `json:"arch"`
	File   string `json:"file"` // its name in the command
	Size   int64  `json:"size"`

	image *images.DeviceImage
}

// PlanLink returns what Link would do.
func (s *Session) PlanLink(ctx context.Context, opt LinkOptions) (*LinkPlan, error) {
	found, err := s.openLinkInputs(ctx, opt.Inputs)
	defer closeLinkInputs(found)
	if err != nil {
		return nil, err
	}
	return planLink(found, opt)
}

// Link links the device images of the inputs, those for each target by a process
// of its own, and writes the object that registers the results. It returns what
// the processes printed.
func (s *Session) Link(ctx context.Context, opt LinkOptions) (messages string, err error) {
	machine, err := hostMachine(opt.Triple)
	if err != nil {
		return "", err
	}
	plan, err := s.stage(ctx, opt)
	if err != nil {
		return "", err
	}
	printed := make([]string, len(plan.Links))
	err = s.budget.Each(ctx, len(plan.Links), func(ctx context.Context, i int) (err error) {
		link := &plan.Links[i]
		if printed[i], err = run(ctx, link.Command, opt.Scratch, opt.Env); err != nil {
			return fmt.Errorf("device link for %s: %w", link.name(), err)
		}
		made, err := s.files.Open(filepath.Join(opt.Scratch, link.output))
		if err != nil {
			return fmt.Errorf("device link for %s: %s made no image: %w", link.name(), opt.Clang, err)
		}
		return made.Close()
	})
	messages = strings.Join(printed, "")
	if err != nil {
		return messages, err
	}
	if !opt.Relocatable {
		return messages, s.wrap(ctx, plan, machine, opt, opt.Output)
	}
	registration, merged := filepath.Join(opt.Scratch, "registration.o"), filepath.Join(opt.Scratch, "merged.o")
	if err := s.wrap(ctx, plan, machine, opt, registration); err != nil {
		return messages, err
	}
	command := []string{opt.Clang, "--no-default-config", "--target=" + opt.Triple, "-r", "-nostdlib", "-fuse-ld=lld", "-o", merged, registration}
	for _, name := range opt.Inputs {
		path, err := filepath.Abs(name)
		if err != nil {
			return messages, err
		}
		command = append(command, path)
	}
	more, err := run(ctx, command, opt.Scratch, opt.Env)
	messages += more
	if err != nil {
		return messages, fmt.Errorf("relocatable link: %w", err)
	}
	return messages, s.Isolate(ctx, IsolateOptions{Input: merged, Output: opt.Output})
}

// linkInput is an input of a link and the images in it.
type linkInput struct {
	file   *images.File
	name   string
	format object.Format
	images []*images.DeviceImage
	keep   []string
}

// openLinkInputs opens the inputs of a link. Those opened before a fault are
// returned too.
func (s *Session) openLinkInputs(ctx context.Context, names []string) (found []linkInput, err error) {
	ctx = s.budget.Account(ctx).Context(ctx)
	for _, name := range names {
		f, err := s.Open(ctx, name, images.Options{Scope: images.OffloadBinaries})
		if err != nil {
			return found, err
		}
		input := linkInput{file: f, name: name}
		found = append(found, input)
		if err := files.Contain(found[len(found)-1].read); err != nil {
			return found, err
		}
	}
	return found, nil
}

// read takes what the link needs to know of the input.
func (l *linkInput) read() (err error) {
	if l.images, err = l.file.All(); err != nil {
		return err
	}
	data := l.file.Input().Bytes()
	switch l.format = object.Identify(data); l.format {
	case object.ELFSharedObject:
		l.images = nil // they are linked already
	case object.ELFRelocatable:
		if l.keep, err = entrySymbols(data); err != nil {
			return in(l.file.Input(), err)
		}
	}
	return nil
}

func closeLinkInputs(found []linkInput) {
	for _, input := range found {
		input.file.Close()
	}
}

// planLink groups images by target. Every target that an object has an image for
// is linked, from all images that LLVM's rules let into one link with it and
// that can serve it: code for every processor, or for every setting of one, goes
// into the link for a certain one, not the other way round. Other than in
// clang-linker-wrapper, the order of the inputs is the order of the images and
// nothing else.
func planLink(found []linkInput, opt LinkOptions) (*LinkPlan, error) {
	var plan LinkPlan
	var all []LinkedImage
	seen, linked := map[target.Device]bool{}, map[target.Device]bool{}
	for _, input := range found {
		plan.Keep = append(plan.Keep, input.keep...)
		archive := input.format == object.Archive || input.format == object.ThinArchive
		for _, image := range input.images {
			if image.Triple == "" {
				return nil, fmt.Errorf("%s: an image without a triple cannot be linked", input.name)
			}
			member := ""
			if n := len(image.Members); n > 0 {
				member = image.Members[n-1]
			}
			all = append(all, LinkedImage{
				Input: input.name, Member: member, Arch: image.Arch, Size: image.Size,
				File: stagedName(len(all), image), image: image,
			})
			device := device(image)
			if seen[device] = true; len(seen) > maxTargets {
				return nil, fmt.Errorf("%s: more than %d targets", input.name, maxTargets)
			}
			if !linked[device] && (!archive || opt.WholeArchive) {
				linked[device] = true
				plan.Links = append(plan.Links, DeviceLink{Triple: image.Triple, Arch: image.Arch})
			}
		}
	}
	for i := range plan.Links {
		link := &plan.Links[i]
		joins := map[target.Device]bool{}
		for device := range seen {
			joins[device] = link.takes(device, linked[device])
		}
		for _, linked := range all {
			if joins[device(linked.image)] {
				link.Images = append(link.Images, linked)
				link.kinds |= parseOffloadKinds(linked.image.Offload)
			}
		}
		if link.kinds != 0 {
			link.Kinds = strings.Split(link.kinds.String(), ",")
		}
		link.output = fmt.Sprintf("linked%d.img", i)
		command, err := link.command(found, opt)
		if err != nil {
			return nil, err
		}
		link.Command = command
	}
	// The order of bundles and packages, LLVM's where it has one.
	slices.SortStableFunc(plan.Links, func(a, b DeviceLink) int {
		if a.Triple != b.Triple {
			return -strings.Compare(a.Triple, b.Triple)
		}
		return -strings.Compare(a.Arch, b.Arch)
	})
	return &plan, nil
}

// anyArch is the arch of images for every processor.
const anyArch = "generic"

// maxTargets bounds the targets of a link, for files made to waste time.
const maxTargets = 1024

func device(e *images.DeviceImage) target.Device {
	return target.Device{Triple: e.Triple, Arch: e.Arch}
}

// takes reports whether images for a device go into the link: whether LLVM's
// rules let them, and what they are made for is true of the link's target. Where
// it need not be true, since the link's target leaves a setting open, they go in
// if there is no link of their own that they could go into.
func (l *DeviceLink) takes(device target.Device, linked bool) bool {
	own := target.Device{Triple: l.Triple, Arch: l.Arch}
	if device == own {
		return true
	}
	if own.Arch == anyArch || !own.LinksWith(device) {
		return false
	}
	settings := strings.Split(own.Arch, ":")
	for _, setting := range strings.Split(device.Arch, ":")[1:] {
		if !slices.Contains(settings[1:], setting) {
			return !linked
		}
	}
	return true
}

// parseOffloadKinds reads what DeviceImage.Offload says.
func parseOffloadKinds(text string) (kinds offloadbinary.OffloadKind) {
	for name := range strings.SplitSeq(text, ",") {
		kind, _ := offloadbinary.ParseOffloadKind(name)
		kinds |= kind
	}
	return kinds
}

// stagedName names the file of an image for its link.
func stagedName(number int, image *images.DeviceImage) string {
	stem := strings.TrimSuffix(image.Member(), filepath.Ext(image.Member()))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._+-:", r) {
			return r
		}
		return '_'
	}, fmt.Sprintf("%s-%s-%s", stem, image.Triple, image.Arch))
	const longest = 200
	return fmt.Sprintf("image%d-%s.o", number, name[:min(len(name), longest)])
}

// command returns the command line of a link, as clang-linker-wrapper has it.
func (l *DeviceLink) command(found []linkInput, opt LinkOptions) ([]string, error) {
	triple := target.ParseTriple(l.Triple)
	arch, _, _ := strings.Cut(l.Triple, "-")
	amd := triple.Arch == target.ArchAMDGCN
	nvidia, spirv := strings.HasPrefix(arch, "nvptx"), strings.HasPrefix(arch, "spirv")
	args := []string{opt.Clang, "--no-default-config", "-o", l.output, "--target=" + l.Triple}
	switch {
	case l.Arch == "" || l.Arch == anyArch:
	case amd:
		args = append(args, "-mcpu="+l.Arch)
	default:
		args = append(args, "-march="+l.Arch)
	}
	if amd {
		args = append(args, "-flto")
	}
	if !nvidia && !spirv {
		args = append(args, "-Wl,--no-undefined")
	}
	for _, image := range l.Images {
		args = append(args, image.File)
	}
	if !amd && !nvidia && !spirv {
		// The device is a CPU: the image is a shared library of the host's.
		args = append(args, "-Wl,-Bsymbolic", "-shared")
		for _, input := range found {
			switch input.format {
			case object.Archive, object.ThinArchive, object.ELFSharedObject:
				path, err := filepath.Abs(input.name)
				if err != nil {
					return nil, err
				}
				args = append(args, path)
			}
		}
	}
	for _, arg := range opt.DeviceArgs {
		if arg.Triple == "" || arg.Triple == l.Triple {
			args = append(args, arg.Arg)
		}
	}
	return args, nil
}

// name names the target in messages.
func (l *DeviceLink) name() string {
	if l.Arch == "" || l.Arch == anyArch {
		return l.Triple
	}
	return l.Triple + " " + l.Arch
}

// hipTargets returns the targets of a bundle of linked images, that of the empty
// host entry first.
func hipTargets(links []*DeviceLink) ([]target.ID, error) {
	const host = "host-x86_64-unknown-linux-gnu" // whatever the host is: the runtime looks for no other
	ids := []string{host}
	for _, link := range links {
		fields := strings.Count(link.Triple, "-") + 1 // entry IDs have four, the last of which may be empty
		ids = append(ids, "hip-"+link.Triple+strings.Repeat("-", max(5-fields, 1))+link.Arch)
	}
	return target.CheckTargets(ids, target.Parse, target.Bundling)
}

// of returns the links whose images are registered for a kind.
func (p *LinkPlan) of(kind offloadbinary.OffloadKind) []*DeviceLink {
	var links []*DeviceLink
	for i := range p.Links {
		if p.Links[i].kinds&kind != 0 {
			links = append(links, &p.Links[i])
		}
	}
	return links
}

// check refuses what cannot be registered before anything runs.
func (p *LinkPlan) check() error {
	if links := p.of(offloadbinary.HIP); links != nil {
		if _, err := hipTargets(links); err != nil {
			return err
		}
	}
	for i := range p.Links {
		link := &p.Links[i]
		var reason string
		switch first := link.Images[0]; {
		case link.kinds == 0:
			reason = fmt.Sprintf("the images for %s, such as that of %s, are of no offload kind", link.name(), first.Input)
		case link.kinds&offloadbinary.CUDA != 0:
			reason = fmt.Sprintf("the images for %s are CUDA's: a fat binary of them is made by NVIDIA's fatbinary, which offload register takes", link.name())
		case link.kinds&^(offloadbinary.OpenMP|offloadbinary.HIP) != 0:
			reason = fmt.Sprintf("the images for %s are of kind %s; OpenMP and HIP can be linked", link.name(), link.kinds)
		}
		if reason != "" {
			return errors.New(reason)
		}
	}
	return nil
}

// stage plans a link and writes the images in it to files.
func (s *Session) stage(ctx context.Context, opt LinkOptions) (*LinkPlan, error) {
	found, err := s.openLinkInputs(ctx, opt.Inputs)
	defer closeLinkInputs(found)
	if err != nil {
		return nil, err
	}
	plan, err := planLink(found, opt)
	if err != nil {
		return nil, err
	}
	if len(plan.Links) == 0 {
		return nil, errors.New("no device image in the inputs: nothing to link")
	}
	if err := plan.check(); err != nil {
		return nil, err
	}
	staged := map[string]bool{}
	err = s.write(ctx, func(out *files.Outputs) error {
		for _, link := range plan.Links {
			for _, linked := range link.Images {
				if staged[linked.File] {
					continue // for another target, too
				}
				staged[linked.File] = true
				output, err := out.Create(filepath.Join(opt.Scratch, linked.File))
				if err != nil {
					return err
				}
				content, _ := linked.image.Plain()
				if err := output.Append(content); err != nil {
					return err
				}
				if err := output.Close(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	return plan, err
}

// wrap writes the registration object of the linked images: those for OpenMP in
// an offload binary, those for HIP in a bundle.
func (s *Session) wrap(ctx context.Context, plan *LinkPlan, machine uint16, opt LinkOptions, output string) error {
	o := register.Object{Machine: machine, Keep: plan.Keep, Relocatable: opt.Relocatable}
	for _, kind := range []struct {
		bit  offloadbinary.OffloadKind
		kind register.Kind
		make func(context.Context, []*DeviceLink, LinkOptions) (string, error)
	}{
		{offloadbinary.OpenMP, register.OpenMP, s.packLinked},
		{offloadbinary.HIP, register.HIP, s.bundleLinked},
	} {
		links := plan.of(kind.bit)
		if links == nil {
			continue
		}
		name, err := kind.make(ctx, links, opt)
		if err != nil {
			return err
		}
		input, err := s.files.Open(name)
		if err != nil {
			return err
		}
		defer input.Close()
		images, err := registered(kind.kind, input.All())
		if err != nil {
			return in(input, err)
		}
		o.Registrations = append(o.Registrations, register.Registration{Kind: kind.kind, Images: images})
	}
	return s.write(ctx, func(out *files.Outputs) error {
		object, err := out.Create(output)
		if err != nil {
			return err
		}
		return o.Write(object)
	})
}

// packLinked makes an offload binary of linked images and returns its name.
func (s *Session) packLinked(ctx context.Context, links []*DeviceLink, opt LinkOptions) (string, error) {
	name := filepath.Join(opt.Scratch, "linked.openmp")
	var images []offloadbinary.Image
	for _, link := range links {
		input, err := s.files.Open(filepath.Join(opt.Scratch, link.output))
		if err != nil {
			return "", err
		}
		defer input.Close()
		arch := link.Arch
		if arch == anyArch {
			arch = ""
		}
		images = append(images, offloadbinary.Image{
			Kind: offloadbinary.Object, Offload: offloadbinary.OpenMP, Content: input.All(),
			Strings: []offloadbinary.String{{Key: "triple", Value: link.Triple}, {Key: "arch", Value: arch}},
		})
	}
	return name, s.write(ctx, func(out *files.Outputs) error {
		output, err := out.Create(name)
		if err != nil {
			return err
		}
		return offloadbinary.Write(output, 1, images)
	})
}

// bundleLinked makes a bundle of linked images and returns its name.
func (s *Session) bundleLinked(ctx context.Context, links []*DeviceLink, opt LinkOptions) (string, error) {
	name := filepath.Join(opt.Scratch, "linked.hipfb")
	targets, err := hipTargets(links)
	if err != nil {
		return "", err
	}
	entries := []BundleEntry{{Target: targets[0]}}
	for i, link := range links {
		entries = append(entries, BundleEntry{Target: targets[i+1], Input: filepath.Join(opt.Scratch, link.output)})
	}
	const page = 4096
	_, err = s.Bundle(ctx, BundleOptions{Entries: entries, Output: name, Align: page})
	return name, err
}
