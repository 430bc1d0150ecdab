package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/engine/devicelink"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/object"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/register"
)

// LinkOptions are the options of Link.
type LinkOptions struct {
	// Inputs are the inputs of the host link, in its order: objects, archives and
	// shared libraries.
	Inputs []string
	// WholeArchive treats members of archives like objects. Without it, they are
	// linked only for targets for which there is an object.
	WholeArchive bool
	// Clang is the compiler driver that links for all targets.
	Clang      string
	DeviceArgs []devicelink.Arg

	// Triple is the host triple.
	Triple string
	Output string
	// Relocatable links the inputs and the registration of their images into one
	// object, Output; see Isolate. Otherwise Output is the registration object.
	Relocatable bool

	// Scratch is the absolute path of a directory for the linked files.
	Scratch string
	// Env is the environment of Clang.
	Env []string
}

// PlanLink returns the plan that Link would run.
func (s *Session) PlanLink(ctx context.Context, opt LinkOptions) (*devicelink.Plan, error) {
	found, err := s.openLinkInputs(ctx, opt.Inputs)
	defer closeLinkInputs(found)
	if err != nil {
		return nil, err
	}
	return planLink(found, opt)
}

// planLink plans a link of open inputs.
func planLink(found []linkInput, opt LinkOptions) (*devicelink.Plan, error) {
	inputs := make([]devicelink.Input, len(found))
	for i, in := range found {
		input := devicelink.Input{Name: in.name, Archive: in.format == object.Archive || in.format == object.ThinArchive}
		if input.Archive || in.format == object.ELFSharedObject {
			path, err := filepath.Abs(in.name)
			if err != nil {
				return nil, err
			}
			input.Library = path
		}
		for _, image := range in.images {
			member := ""
			if n := len(image.Members); n > 0 {
				member = image.Members[n-1]
			}
			input.Images = append(input.Images, devicelink.InputImage{
				Triple: image.Triple, Arch: image.Arch, Kinds: parseOffloadKinds(image.Offload),
				Size: image.Size, Member: member, Holder: image.Holder(),
			})
		}
		inputs[i] = input
	}
	return devicelink.NewPlan(inputs, devicelink.PlanOptions{WholeArchive: opt.WholeArchive, Clang: opt.Clang, Args: opt.DeviceArgs})
}

// parseOffloadKinds parses DeviceImage.Offload.
func parseOffloadKinds(text string) (kinds offloadbinary.OffloadKind) {
	for name := range strings.SplitSeq(text, ",") {
		kind, _ := offloadbinary.ParseOffloadKind(name)
		kinds |= kind
	}
	return kinds
}

// Link links the device images of the inputs, with one process for each target,
// and writes the object that registers the results. It returns the output of the
// processes.
func (s *Session) Link(ctx context.Context, opt LinkOptions) (messages string, err error) {
	machine, coff, err := hostMachine(opt.Triple)
	if err != nil {
		return "", err
	}
	if coff && opt.Relocatable {
		return "", fmt.Errorf("triple %q: relocatable linking requires ELF", opt.Triple)
	}
	plan, keep, err := s.stage(ctx, opt)
	if err != nil {
		return "", err
	}
	printed := make([]string, len(plan.Links))
	err = s.budget.Each(ctx, len(plan.Links), func(ctx context.Context, i int) (err error) {
		link := &plan.Links[i]
		if printed[i], err = run(ctx, link.Command, opt.Scratch, opt.Env); err != nil {
			return fmt.Errorf("device link for %s: %w", link.Name(), err)
		}
		made, err := s.files.Open(filepath.Join(opt.Scratch, link.Output))
		if err != nil {
			return fmt.Errorf("device link for %s: %s wrote no image: %w", link.Name(), opt.Clang, err)
		}
		return made.Close()
	})
	messages = strings.Join(printed, "")
	if err != nil {
		return messages, err
	}
	object := register.Object{Machine: machine, COFF: coff, Keep: keep}
	if !opt.Relocatable {
		return messages, s.wrap(ctx, plan, object, opt, opt.Output)
	}
	registration, merged := filepath.Join(opt.Scratch, "registration.o"), filepath.Join(opt.Scratch, "merged.o")
	if err := s.wrap(ctx, plan, object, opt, registration); err != nil {
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

// genericArch is the arch of images for every processor.
const genericArch = "generic"

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

// read reads the parts of the input that the link requires.
func (l *linkInput) read() (err error) {
	if l.images, err = l.file.All(); err != nil {
		return err
	}
	data := l.file.Input().Bytes()
	switch l.format = object.Identify(data); l.format {
	case object.ELFSharedObject:
		l.images = nil // they are already linked
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

// stage plans a link and writes the images in it to files. It also returns the
// symbols of the offload entries in the inputs.
func (s *Session) stage(ctx context.Context, opt LinkOptions) (plan *devicelink.Plan, keep []string, err error) {
	found, err := s.openLinkInputs(ctx, opt.Inputs)
	defer closeLinkInputs(found)
	if err != nil {
		return nil, nil, err
	}
	plan, err = planLink(found, opt)
	if err != nil {
		return nil, nil, err
	}
	if len(plan.Links) == 0 {
		return nil, nil, errors.New("no device image in the inputs: nothing to link")
	}
	if err := plan.Check(); err != nil {
		return nil, nil, err
	}
	staged := map[string]bool{}
	err = s.write(ctx, func(out *files.Outputs) error {
		for _, link := range plan.Links {
			for _, linked := range link.Images {
				if staged[linked.File] {
					continue // also for another target
				}
				staged[linked.File] = true
				output, err := out.Create(filepath.Join(opt.Scratch, linked.File))
				if err != nil {
					return err
				}
				content, _ := found[linked.From].images[linked.Number].Plain()
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
	for _, input := range found {
		keep = append(keep, input.keep...)
	}
	return plan, keep, err
}

// wrap writes the registration object of the linked images: images for OpenMP
// are in an offload binary, images for HIP in a bundle.
func (s *Session) wrap(ctx context.Context, plan *devicelink.Plan, o register.Object, opt LinkOptions, output string) error {
	o.Relocatable = opt.Relocatable
	for _, kind := range []struct {
		bit  offloadbinary.OffloadKind
		kind register.Kind
		make func(context.Context, []*devicelink.Link, LinkOptions) (string, error)
	}{
		{offloadbinary.OpenMP, register.OpenMP, s.packLinked},
		{offloadbinary.HIP, register.HIP, s.bundleLinked},
	} {
		links := plan.Of(kind.bit)
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
		r := register.Registration{Kind: kind.kind}
		if r.Images, err = registered(&r, input.All()); err != nil {
			return in(input, err)
		}
		o.Registrations = append(o.Registrations, r)
	}
	return s.write(ctx, func(out *files.Outputs) error {
		object, err := out.Create(output)
		if err != nil {
			return err
		}
		return o.Write(object)
	})
}

// packLinked writes an offload binary of linked images and returns its name.
func (s *Session) packLinked(ctx context.Context, links []*devicelink.Link, opt LinkOptions) (string, error) {
	name := filepath.Join(opt.Scratch, "linked.openmp")
	var images []offloadbinary.Image
	for _, link := range links {
		input, err := s.files.Open(filepath.Join(opt.Scratch, link.Output))
		if err != nil {
			return "", err
		}
		defer input.Close()
		arch := link.Arch
		if arch == genericArch {
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

// bundleLinked writes a bundle of linked images and returns its name.
func (s *Session) bundleLinked(ctx context.Context, links []*devicelink.Link, opt LinkOptions) (string, error) {
	name := filepath.Join(opt.Scratch, "linked.hipfb")
	targets, err := devicelink.HIPBundle(links)
	if err != nil {
		return "", err
	}
	entries := []BundleEntry{{Target: targets[0]}}
	for i, link := range links {
		entries = append(entries, BundleEntry{Target: targets[i+1], Input: filepath.Join(opt.Scratch, link.Output)})
	}
	const page = 4096
	_, err = s.Bundle(ctx, BundleOptions{Entries: entries, Output: name, Align: page})
	return name, err
}
