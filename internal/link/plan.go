package link

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/internal/devicelink"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/object"
	"github.com/rules-offload/rules_offload/internal/process"
)

// override uses the images that are already linked.
func (w *linker) override() error {
	for _, o := range w.Override {
		input, err := w.files.Open(o.File)
		if err != nil {
			return err
		}
		defer input.Close()
		triple, arch, err := devicelink.Target(input.Bytes())
		if err != nil {
			return files.NameError(input.Name(), err)
		}
		if o.Kind == 0 {
			return &Error{Fault: NoRuntime, Subject: o.Kind.String()}
		}
		w.links = append(w.links, devicelink.Link{Triple: triple, Arch: arch, Kinds: o.Kind})
		w.linked = append(w.linked, o.File)
	}
	return nil
}

// policy returns the policy of the release to follow.
func (w *linker) policy() devicelink.Policy { return devicelink.PolicyOf(w.Device.Release) }

// plan plans the device links of the images in the inputs, and writes the files that they
// link. If an error concerns one of the links, a dry run prints the commands of those before.
func (w *linker) plan(ctx context.Context) error {
	defer w.Phase("ExtractDeviceCode", "")()
	// Linkers that collect sections drop the offload entries unless something
	// refers to them.
	collects := w.Relocatable || slices.Contains(w.LinkerArgs, "--gc-sections") || slices.Contains(w.LinkerArgs, "-gc-sections")
	found, err := scan(ctx, w.session, w.Inputs, collects)
	defer found.close()
	if err != nil {
		return err
	}
	w.keep = found.entries
	w.addLibraries(found)
	described := make([]devicelink.Image, len(found.images))
	for i, image := range found.images {
		described[i] = devicelink.Image{
			Triple: image.Triple, Arch: image.Arch, Kinds: parseOffloadKinds(image.Offload),
			Member: found.member[i], Name: image.Holder(),
		}
	}
	options := devicelink.Options{Policy: w.policy(), Extract: w.Extract}
	if w.links, err = devicelink.Plan(described, options); err != nil {
		return err
	}
	if w.Verbose {
		w.note(found)
	}
	if len(w.links) == 0 {
		return nil
	}
	if w.Device.Clang, err = w.Find("clang"); err != nil {
		return err
	}
	staged, err := w.planCommands(found)
	if err != nil {
		if w.DryRun {
			err = errors.Join(w.link(ctx), err)
		}
		return err
	}
	if w.SaveTemps && w.Verbose {
		w.printExtraction(found, staged)
	}
	if w.DryRun {
		return nil
	}
	return w.stage(ctx, found, staged)
}

// addLibraries adds the libraries of the host link to the options of device links.
func (w *linker) addLibraries(found *scanned) {
	for _, library := range w.Libraries {
		if library.Words != nil {
			w.Device.Libraries = append(w.Device.Libraries, library.Words...)
			continue
		}
		switch found.formats[library.Input] {
		case object.Archive, object.ThinArchive, object.ELFSharedObject:
			w.Device.Libraries = append(w.Device.Libraries, w.Inputs[library.Input].Name)
		}
	}
}

// planCommands sets the files and commands of the links, up to one that is impossible. It
// returns the name of each image's file, "" for images that are not linked.
func (w *linker) planCommands(found *scanned) (staged []string, err error) {
	staged = make([]string, len(found.images))
	for l := range w.links {
		link := &w.links[l]
		if err := link.Check(); err != nil {
			if errors.Is(err, devicelink.ErrMixedSYCL) {
				err = &Error{Fault: MixedSYCL}
			}
			return nil, err
		}
		var names []string
		for _, i := range link.Images {
			if staged[i] == "" {
				image := found.images[i]
				stem := strings.TrimSuffix(image.Member(), filepath.Ext(image.Member()))
				staged[i] = w.extracted.File(stem+"-"+image.Triple+"-"+image.Arch, ".o")
			}
			names = append(names, staged[i])
		}
		output := w.names.File(fmt.Sprintf("%s.%s.%s", w.base(), devicelink.ArchName(link.Triple), link.Processor()), ".img")
		w.staged = append(w.staged, names)
		w.linked = append(w.linked, output)
		w.commands = append(w.commands, link.Command(&w.Device, names, output))
	}
	return staged, nil
}

// note prints which images no link uses.
func (w *linker) note(found *scanned) {
	used := map[int]bool{}
	for l := range w.links {
		link := &w.links[l]
		for _, i := range link.Images {
			used[i] = true
		}
		if link.Kinds == 0 {
			fmt.Fprintf(w.Stderr, "note: the images for %s have no offload kind: they are linked, but not registered with a runtime\n", link.Name())
		}
	}
	for i, image := range found.images {
		if !used[i] {
			fmt.Fprintf(w.Stderr, "note: %s: the image for %s is not linked: no object has that target\n", image.Holder(), strings.TrimSpace(image.Triple+" "+image.Arch))
		}
	}
}

// openOutputs is the number of outputs that are open at a time.
const openOutputs = 256

// stage writes images to files.
func (w *linker) stage(ctx context.Context, found *scanned, names []string) error {
	var used []int
	for i, name := range names {
		if name != "" {
			used = append(used, i)
		}
	}
	for len(used) > 0 {
		some := used[:min(openOutputs, len(used))]
		used = used[len(some):]
		err := w.files.Write(ctx, func(out *files.Outputs) error {
			return process.Jobs(ctx, process.Limit(runtime.GOMAXPROCS(0)), len(some), nil, func(_ context.Context, n int) error {
				output, err := out.Create(names[some[n]])
				if err != nil {
					return err
				}
				return appendPlain(output, found.images[some[n]])
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
