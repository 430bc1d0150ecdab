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
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/link/devicelink"
	"github.com/rules-offload/rules_offload/internal/link/process"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

// EveryTargetOptions are the options of EveryTarget.
type EveryTargetOptions struct {
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
	// Missing, if not nil, is called with kernels that are not in the image which the runtime selects on some GPUs.
	Missing func(*MissingKernels)
	// Advice tells the user what to do about undefined symbols.
	Advice string
}

// EveryTarget links the device images of the inputs for every target, with one process for each, and
// writes the object that registers the results. It returns the output of the processes.
func EveryTarget(ctx context.Context, s *engine.Session, opt EveryTargetOptions) (messages string, err error) {
	_, coff, err := register.HostMachine(opt.Triple)
	if err != nil {
		return "", err
	}
	if coff && opt.Relocatable {
		return "", fmt.Errorf("triple %q: relocatable linking requires ELF", opt.Triple)
	}
	var printed bytes.Buffer
	o, err := opt.options(s)
	if err != nil {
		return "", err
	}
	o.Stdout, o.Stderr = &printed, &printed
	if opt.Relocatable {
		o.Result, o.Merged = Program, filepath.Join(opt.Scratch, "merged.o")
		o.Linker = opt.Clang
		o.LinkerArgs = []string{"--no-default-config", "--target=" + opt.Triple, "-r", "-nostdlib", "-fuse-ld=lld", "-o", o.Merged}
		o.ObjectsAt = len(o.LinkerArgs)
		for _, library := range o.Libraries {
			o.LinkerArgs = append(o.LinkerArgs, library.Path)
		}
	}
	err = Run(ctx, s, o)
	return printed.String(), err
}

// EveryTargetPlan is what the device links of EveryTarget do.
type EveryTargetPlan struct {
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
}

// PlannedImage is an image in one of the inputs.
type PlannedImage struct {
	Input  string `json:"input"`
	Member string `json:"member,omitempty"` // of an archive
	Arch   string `json:"arch"`
	File   string `json:"file"` // its name in the command
	Size   int64  `json:"size"` // bytes
}

// PlanEveryTarget returns the plan that EveryTarget would run.
func PlanEveryTarget(ctx context.Context, s *engine.Session, opt EveryTargetOptions) (*EveryTargetPlan, error) {
	options, err := opt.options(s)
	if err != nil {
		return nil, err
	}
	w := newLinker(s, options)
	plan, err := w.scan(ctx)
	if err != nil {
		return nil, err
	}
	defer plan.Close()
	if err := w.divide(plan); err != nil {
		return nil, err
	}
	w.planCommands(plan)
	planned := new(EveryTargetPlan)
	for _, link := range plan.Links {
		p := PlannedLink{Triple: link.Triple, Arch: link.Arch, Command: link.Command}
		if link.Kinds != 0 {
			p.Kinds = strings.Split(link.Kinds.String(), ",")
		}
		for k, i := range link.Images {
			image := plan.Images[i]
			p.Images = append(p.Images, PlannedImage{Input: image.File, Member: lastMember(image), Arch: image.Arch, File: link.Files[k], Size: image.Size})
		}
		planned.Links = append(planned.Links, p)
	}
	return planned, nil
}

// options returns the options of Run for a registration object.
func (opt *EveryTargetOptions) options(s *engine.Session) (Options, error) {
	sources := map[string]string{} // of the files of images
	o := Options{
		Device: devicelink.CommandOptions{Clang: opt.Clang, Args: opt.DeviceArgs},
		Policy: Policy{
			Plan: devicelink.EveryTarget, Missing: true, Keep: ObjectEntries, Sorted: true, Joined: true, Check: checkEvery,
			Failed: func(link *Link, messages fmt.Stringer, err error) error {
				return opt.failed(s, link, sources, messages, err)
			},
		},
		HostTriple: opt.Triple, Output: opt.Output, Result: Object, Relocatable: opt.Relocatable,
		Missing: opt.Missing, Dir: opt.Scratch, Temp: opt.Scratch, Env: opt.Env, Slots: process.Limit(runtime.GOMAXPROCS(0)),
	}
	for i, name := range opt.Inputs {
		o.Inputs = append(o.Inputs, Input{Name: name, Whole: opt.WholeArchive})
		path, err := s.Files().Abs(name)
		if err != nil {
			return o, err
		}
		o.Libraries = append(o.Libraries, Library{Input: i, Path: path})
	}
	names := devicelink.Names{Dir: opt.Scratch, Plain: true}
	o.Names = Names{
		Files: names, Images: names,
		Image: func(i int, image *images.DeviceImage) string {
			name := stagedName(i, image)
			sources[name] = image.File
			if member := lastMember(image); member != "" {
				sources[name] += "(" + member + ")"
			}
			return name
		},
		Linked: func(i int, _ *devicelink.Link) string { return fmt.Sprintf("linked%d.img", i) },
		Packed: func(kind offloadbinary.OffloadKind) string {
			suffix := ".hipfb"
			if runtimes.Of(kind).Packing == runtimes.Binaries {
				suffix = "." + kind.String()
			}
			return filepath.Join(opt.Scratch, "linked"+suffix)
		},
	}
	return o, nil
}

// stagedName names the file of an image for its link.
func stagedName(number int, image *images.DeviceImage) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._+-:", r) {
			return r
		}
		return '_'
	}, fmt.Sprintf("%s-%s-%s", stem(filepath.Base(image.Holder())), image.Triple, image.Arch))
	const longest = 200
	return fmt.Sprintf("image%d-%s.o", number, name[:min(len(name), longest)])
}

// lastMember returns the member of an archive that has an image, "" for other images.
func lastMember(image *images.DeviceImage) string {
	if n := len(image.Members); n > 0 {
		return image.Members[n-1]
	}
	return ""
}

// checkEvery rejects links whose results EveryTarget cannot register.
func checkEvery(plan *Plan) error {
	if len(plan.Links) == 0 {
		return errors.New("no device image in the inputs: nothing to link")
	}
	links := plan.links()
	if list := devicelink.Of(links, offloadbinary.HIP); list != nil {
		ids := devicelink.HIPTargets(devicelink.EveryTarget, links, list)
		if _, err := target.CheckTargets(ids, target.Parse, target.Bundling); err != nil {
			return err
		}
	}
	var possible offloadbinary.OffloadKind
	var titles []string
	for i := range runtimes.Table {
		if r := &runtimes.Table[i]; r.Packing == runtimes.Binaries || r.Packing == runtimes.Bundle {
			possible |= r.Kind
			titles = append(titles, r.Title)
		}
	}
	for i := range links {
		link := &links[i]
		if link.Kinds == 0 {
			return fmt.Errorf("the images for %s, such as that of %s, have no offload kind", link.Name(), plan.Images[link.Images[0]].File)
		}
		for i := range runtimes.Table {
			if r := &runtimes.Table[i]; link.Kinds&r.Kind != 0 && r.Packing == runtimes.NVIDIA {
				return fmt.Errorf("the images for %s are for %s: make a fat binary with NVIDIA's fatbinary, and register it with offload register", link.Name(), r.Title)
			}
		}
		if link.Kinds&^possible != 0 {
			return fmt.Errorf("the images for %s are of kind %s; %s can be linked", link.Name(), link.Kinds, strings.Join(titles, " and "))
		}
	}
	return nil
}

// failed describes a failure: which device link it is, and the sources that refer to undefined
// symbols.
func (opt *EveryTargetOptions) failed(s *engine.Session, link *Link, sources map[string]string, messages fmt.Stringer, err error) error {
	exit, exited := errors.AsType[*exec.ExitError](err)
	if exited {
		err = fmt.Errorf("%s: %w", filepath.Base(opt.Clang), exit)
	}
	if link == nil {
		return fmt.Errorf("relocatable link: %w", err)
	}
	if _, empty := errors.AsType[*Error](err); empty {
		err = fmt.Errorf("%s wrote no image", opt.Clang)
	}
	err = fmt.Errorf("device link for %s: %w", link.Name(), err)
	if !exited {
		return err
	}
	var objects []LinkedObject
	for _, name := range link.Files {
		objects = append(objects, LinkedObject{File: filepath.Join(opt.Scratch, name), Source: sources[name]})
	}
	return errors.Join(err, undefinedSymbols(s, messages.String(), objects, opt.Advice))
}
