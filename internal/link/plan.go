package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/link/devicelink"
	"github.com/rules-offload/rules_offload/internal/link/process"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Plan is what the device links of a host link do. The images are valid until Close.
type Plan struct {
	Links  []Link
	Images []*images.DeviceImage // in the order of the inputs
	Files  []string              // of each image; "" for one that is not linked

	opened  []*images.File
	formats []object.Format // by input
	member  []bool          // by image: whether it is in an archive that is not linked whole
	entries []string        // symbols of the offload entries to keep
}

// Link is one device link.
type Link struct {
	devicelink.Link
	Files   []string // its inputs
	Output  string
	Command []string
}

// Close closes the inputs.
func (p *Plan) Close() {
	for _, f := range p.opened {
		f.Close()
	}
	p.opened = nil
}

// override uses the images that are already linked.
func (w *linker) override() error {
	w.plan = new(Plan)
	for _, o := range w.Override {
		input, err := w.files.Open(o.File)
		if err != nil {
			return err
		}
		defer input.Close()
		triple, arch, err := devicelink.Target(input.Mapped(guard.Inside))
		if err != nil {
			err = files.NameError(input.Name(), err)
			if _, ok := errors.AsType[*devicelink.HeaderError](err); ok {
				return &Error{Fault: NoHeader, Err: err}
			}
			return err
		}
		if o.Kind == 0 {
			return &Error{Fault: NoRuntime, Subject: o.Kind.String()}
		}
		w.plan.Links = append(w.plan.Links, Link{Link: devicelink.Link{Triple: triple, Arch: arch, Kinds: o.Kind}, Output: o.File})
	}
	return nil
}

// prepare plans the device links of the images in the inputs, and writes the files that they
// link. If an error concerns one of the links, a dry run reports the commands of those before.
func (w *linker) prepare(ctx context.Context) error {
	defer w.Observer.Phase("ExtractDeviceCode", "")()
	plan, err := w.scan(ctx)
	if err != nil {
		return err
	}
	defer plan.Close()
	if err := w.divide(plan); err != nil {
		return err
	}
	w.plan = plan
	w.Observer.Planned(plan)
	if len(plan.Links) > 0 && w.Device.Clang == "" {
		if w.Device.Clang, err = w.Find("clang"); err != nil {
			return err
		}
	}
	possible, err := w.check(plan)
	if err != nil && !w.DryRun {
		return err
	}
	plan.Links = plan.Links[:possible]
	w.planCommands(plan)
	if err != nil {
		return errors.Join(w.link(ctx), err)
	}
	if len(plan.Links) == 0 {
		return nil
	}
	w.Observer.Staged(plan)
	if w.DryRun {
		return nil
	}
	return w.stage(ctx, plan)
}

// divide sets the links of a plan, and the libraries that they get.
func (w *linker) divide(plan *Plan) error {
	for _, library := range w.Libraries {
		if library.Words != nil {
			w.Device.Libraries = append(w.Device.Libraries, library.Words...)
			continue
		}
		switch plan.formats[library.Input] {
		case object.Archive, object.ThinArchive, object.ELFSharedObject:
			w.Device.Libraries = append(w.Device.Libraries, cmp.Or(library.Path, w.Inputs[library.Input].Name))
		}
	}
	described := make([]devicelink.Input, len(plan.Images))
	for i, image := range plan.Images {
		described[i] = devicelink.Input{
			Triple: image.Triple, Arch: image.Arch, Kinds: parseOffloadKinds(image.Offload),
			Member: plan.member[i], Name: image.Holder(),
		}
	}
	links, err := devicelink.Plan(described, devicelink.Options{Policy: w.Policy.Plan, Extract: w.Extract})
	for _, link := range links {
		plan.Links = append(plan.Links, Link{Link: link})
	}
	return err
}

// check returns how many links are possible, and why the next one is not.
func (w *linker) check(plan *Plan) (possible int, err error) {
	links := plan.Links
	if w.Policy.Check != nil {
		return len(links), w.Policy.Check(plan)
	}
	for i := range links {
		if err := links[i].Check(); err != nil {
			if mixed, ok := errors.AsType[*devicelink.MixedError](err); ok {
				err = &Error{Fault: MixedKinds, Subject: mixed.Runtime}
			}
			return i, err
		}
	}
	return len(links), nil
}

// planCommands sets the files and commands of the links.
func (w *linker) planCommands(plan *Plan) {
	plan.Files = make([]string, len(plan.Images))
	for l := range plan.Links {
		link := &plan.Links[l]
		for _, i := range link.Images {
			if plan.Files[i] == "" {
				plan.Files[i] = w.imageFile(i, plan.Images[i])
			}
			link.Files = append(link.Files, plan.Files[i])
		}
		link.Output = w.linkedFile(l, &link.Link)
		link.Command = link.Link.Command(&w.Device, link.Files, link.Output)
	}
	if w.Policy.Sorted {
		slices.SortStableFunc(plan.Links, func(a, b Link) int { return devicelink.Compare(&a.Link, &b.Link) })
	}
}

// imageFile names the file of image i.
func (w *linker) imageFile(i int, image *images.DeviceImage) string {
	if w.Names.Image != nil {
		return w.Names.Image(i, image)
	}
	return w.Names.Images.File(stem(image.Member())+"-"+image.Triple+"-"+image.Arch, ".o")
}

// linkedFile names the result of link i.
func (w *linker) linkedFile(i int, link *devicelink.Link) string {
	if w.Names.Linked != nil {
		return w.Names.Linked(i, link)
	}
	return w.Names.Files.File(fmt.Sprintf("%s.%s.%s", w.base(), devicelink.ArchName(link.Triple), link.Processor()), ".img")
}

// base returns the name of the output, which begins the names of other files.
func (w *linker) base() string { return filepath.Base(w.Output) }

// stem returns a name without its extension.
func stem(name string) string { return strings.TrimSuffix(name, filepath.Ext(name)) }

// parseOffloadKinds parses DeviceImage.Offload.
func parseOffloadKinds(text string) (kinds offloadbinary.OffloadKind) {
	for name := range strings.SplitSeq(text, ",") {
		kind, _ := offloadbinary.ParseOffloadKind(name)
		kinds |= kind
	}
	return kinds
}

// openOutputs is the number of outputs that are open at a time.
const openOutputs = 256

// stage writes the images that are linked to files.
func (w *linker) stage(ctx context.Context, plan *Plan) error {
	var used []int
	for i, name := range plan.Files {
		if name != "" {
			used = append(used, i)
		}
	}
	for some := range slices.Chunk(used, openOutputs) {
		err := w.files.Write(ctx, func(out *files.Outputs) error {
			return process.Jobs(ctx, process.Limit(runtime.GOMAXPROCS(0)), len(some), nil, func(_ context.Context, n int) error {
				output, err := out.Create(w.path(plan.Files[some[n]]))
				if err != nil {
					return err
				}
				image, _ := plan.Images[some[n]].Plain()
				return output.Append(image)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
