package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/rules-offload/rules_offload/engine"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/devicelink"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/process"
	"github.com/rules-offload/rules_offload/internal/register"

	"github.com/rules-offload/rules_offload/internal/session"
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
	// Advice tells the user what to do about undefined symbols.
	Advice string
}

// Link links the device images of the inputs, with one process for each target,
// and writes the object that registers the results. It returns the output of the
// processes.
func Link(ctx context.Context, s *engine.Session, opt LinkOptions) (messages string, err error) {
	machine, coff, err := register.HostMachine(opt.Triple)
	if err != nil {
		return "", err
	}
	if coff && opt.Relocatable {
		return "", fmt.Errorf("triple %q: relocatable linking requires ELF", opt.Triple)
	}
	plan, keep, err := stage(ctx, s, opt)
	if err != nil {
		return "", err
	}
	printed := make([]string, len(plan.Links))
	err = process.Jobs(ctx, process.Limit(runtime.GOMAXPROCS(0)), len(plan.Links), nil, func(ctx context.Context, i int) (err error) {
		planned := &plan.Links[i]
		if printed[i], err = run(ctx, planned.Command, opt.Scratch, opt.Env); err != nil {
			var failed *processError
			if errors.As(err, &failed) {
				if undefined := undefinedSymbols(s, failed.output, linkedObjects(planned, opt.Scratch), opt.Advice); undefined != nil {
					return fmt.Errorf("device link for %s: %w\n%w", planned.link.Name(), err, undefined)
				}
			}
			return fmt.Errorf("device link for %s: %w", planned.link.Name(), err)
		}
		made, err := session.Files(s).Open(filepath.Join(opt.Scratch, planned.output))
		if err != nil {
			return fmt.Errorf("device link for %s: %s wrote no image: %w", planned.link.Name(), opt.Clang, err)
		}
		return made.Close()
	})
	messages = strings.Join(printed, "")
	if err != nil {
		return messages, err
	}
	object := register.Object{Machine: machine, COFF: coff, Keep: keep}
	if !opt.Relocatable {
		return messages, wrap(ctx, s, plan, object, opt, opt.Output)
	}
	registration, merged := filepath.Join(opt.Scratch, "registration.o"), filepath.Join(opt.Scratch, "merged.o")
	if err := wrap(ctx, s, plan, object, opt, registration); err != nil {
		return messages, err
	}
	command := []string{opt.Clang, "--no-default-config", "--target=" + opt.Triple, "-r", "-nostdlib", "-fuse-ld=lld", "-o", merged, registration}
	for _, name := range opt.Inputs {
		path, err := session.Files(s).Abs(name)
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
	return messages, Isolate(ctx, s, IsolateOptions{Input: merged, Output: opt.Output})
}

// stage plans a link and writes the images in it to files. It also returns the
// symbols of the offload entries in the inputs.
func stage(ctx context.Context, s *engine.Session, opt LinkOptions) (plan *LinkPlan, keep []string, err error) {
	found, err := openLinkInputs(ctx, s, opt.Inputs)
	defer closeLinkInputs(found)
	if err != nil {
		return nil, nil, err
	}
	plan, err = planLink(s, found, opt)
	if err != nil {
		return nil, nil, err
	}
	if len(plan.Links) == 0 {
		return nil, nil, errors.New("no device image in the inputs: nothing to link")
	}
	if err := plan.check(); err != nil {
		return nil, nil, err
	}
	staged := map[string]bool{}
	err = session.Files(s).Write(ctx, func(out *files.Outputs) error {
		for _, link := range plan.Links {
			for _, image := range link.Images {
				if staged[image.File] {
					continue // also for another target
				}
				staged[image.File] = true
				output, err := out.Create(filepath.Join(opt.Scratch, image.File))
				if err != nil {
					return err
				}
				if err := appendPlain(output, image.image); err != nil {
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

// linkedObjects returns the files of a device link, with the names of the host
// objects that they were in.
func linkedObjects(link *PlannedLink, scratch string) []LinkedObject {
	var objects []LinkedObject
	for _, image := range link.Images {
		source := image.Input
		if image.Member != "" {
			source += "(" + image.Member + ")"
		}
		objects = append(objects, LinkedObject{File: filepath.Join(scratch, image.File), Source: source})
	}
	return objects
}

// wrap writes the registration object of the linked images: images for OpenMP
// are in an offload binary, images for HIP in a bundle.
func wrap(ctx context.Context, s *engine.Session, plan *LinkPlan, o register.Object, opt LinkOptions, output string) error {
	o.Relocatable = opt.Relocatable
	for _, kind := range []struct {
		bit  offloadbinary.OffloadKind
		kind offloadbinary.OffloadKind
		make func(context.Context, *engine.Session, *LinkPlan, []int, LinkOptions) (string, error)
	}{
		{offloadbinary.OpenMP, offloadbinary.OpenMP, packLinked},
		{offloadbinary.HIP, offloadbinary.HIP, bundleLinked},
	} {
		list := devicelink.Of(plan.links(), kind.bit)
		if list == nil {
			continue
		}
		name, err := kind.make(ctx, s, plan, list, opt)
		if err != nil {
			return err
		}
		input, err := session.Files(s).Open(name)
		if err != nil {
			return err
		}
		defer input.Close()
		r := register.Registration{Kind: kind.kind}
		if r.Images, err = r.ReadImages(input.All()); err != nil {
			return files.NameError(input.Name(), err)
		}
		o.Registrations = append(o.Registrations, r)
	}
	return session.Files(s).Write(ctx, func(out *files.Outputs) error {
		object, err := out.Create(output)
		if err != nil {
			return err
		}
		return o.Write(object)
	})
}

// packLinked writes an offload binary of linked images and returns its name.
func packLinked(ctx context.Context, s *engine.Session, plan *LinkPlan, list []int, opt LinkOptions) (string, error) {
	name := filepath.Join(opt.Scratch, "linked.openmp")
	var images []offloadbinary.Image
	for _, i := range list {
		planned := &plan.Links[i]
		input, err := session.Files(s).Open(filepath.Join(opt.Scratch, planned.output))
		if err != nil {
			return "", err
		}
		defer input.Close()
		image := openMPImage(&planned.link)
		image.Content = input.All()
		images = append(images, image)
	}
	return name, session.Files(s).Write(ctx, func(out *files.Outputs) error {
		output, err := out.Create(name)
		if err != nil {
			return err
		}
		return offloadbinary.Write(output, 1, images)
	})
}

// openMPImage returns the image of an offload binary for the result of a link, without its
// content.
func openMPImage(link *devicelink.Link) offloadbinary.Image {
	return offloadbinary.Image{
		Kind: offloadbinary.Object, Offload: offloadbinary.OpenMP,
		Strings: []offloadbinary.String{{Key: "triple", Value: link.Triple}, {Key: "arch", Value: link.Processor()}},
	}
}

// hipAlign is the alignment of images in bundles for HIP, in bytes: the runtime maps them.
const hipAlign = 4096

// bundleLinked writes a bundle of linked images and returns its name.
func bundleLinked(ctx context.Context, s *engine.Session, plan *LinkPlan, list []int, opt LinkOptions) (string, error) {
	name := filepath.Join(opt.Scratch, "linked.hipfb")
	targets, err := hipTargets(plan.links(), list)
	if err != nil {
		return "", err
	}
	entries := []engine.BundleEntry{{Target: targets[0]}}
	for k, i := range list {
		entries = append(entries, engine.BundleEntry{Target: targets[k+1], Input: filepath.Join(opt.Scratch, plan.Links[i].output)})
	}
	_, err = s.Bundle(ctx, engine.BundleOptions{Entries: entries, Output: name, Align: hipAlign})
	return name, err
}

// hipTargets returns the targets of a bundle for HIP of the results of links, that of the empty
// host entry first.
func hipTargets(links []devicelink.Link, list []int) ([]target.ID, error) {
	return target.CheckTargets(devicelink.HIPTargets(linkPolicy, links, list), target.Parse, target.Bundling)
}

// run runs a command in a directory and returns its output. Only env is in its
// environment. If ctx is done before the process ends, run kills it and the
// processes that it started. The error of a failed process contains its output.
func run(ctx context.Context, command []string, dir string, env []string) (printed string, err error) {
	printed, err = combinedOutput(ctx, command, dir, env)
	var failed *process.ExitError
	if !errors.As(err, &failed) {
		return printed, err
	}
	var exit *exec.ExitError
	if errors.As(failed.Err, &exit) {
		return "", &processError{program: filepath.Base(command[0]), output: printed, err: exit}
	}
	return printed, failed.Err
}

// processError reports a process that failed.
type processError struct {
	program, output string
	err             error
}

// Error returns the status and the output.
func (e *processError) Error() string {
	return fmt.Sprintf("%s: %s\n%s", e.program, e.err, strings.TrimRight(e.output, "\n"))
}

// Unwrap returns what the system reported.
func (e *processError) Unwrap() error { return e.err }

// combinedOutput runs a command like run and returns its output. If the process could not be
// started or failed, the error is a [process.ExitError].
func combinedOutput(ctx context.Context, command []string, dir string, env []string) (printed string, err error) {
	var output bytes.Buffer
	p := process.Command{Args: command, Env: env, Dir: dir, Stdout: &output, Stderr: &output}
	err = p.Run(ctx)
	var failed *process.ExitError
	if err != nil && !errors.As(err, &failed) {
		return "", err
	}
	return output.String(), err
}
