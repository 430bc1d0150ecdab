package link

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/link/devicelink"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

// packed holds the images that are registered with one runtime.
type packed struct {
	kind   offloadbinary.OffloadKind
	links  []*Link  // that made the images
	images []string // files
	// image, if not nil, replaces the content of the only file, which is not
	// written. It is valid while inputs are open.
	image  *register.Image
	inputs []*files.Input
}

// pack packs the linked images for each runtime, and writes the registration
// objects if they are required. It returns the files of packed images.
func (w *linker) pack(ctx context.Context) (images []string, err error) {
	links := w.plan.links()
	kinds := devicelink.Kinds(links)
	groups := slices.Chunk(kinds, 1)
	if w.Policy.Joined {
		slices.Sort(kinds)
		groups = slices.Chunk(kinds, max(1, len(kinds)))
	}
	for group := range groups {
		some, err := w.packGroup(ctx, links, group)
		if err != nil {
			return nil, err
		}
		images = append(images, some...)
	}
	return images, nil
}

// links returns the links as devicelink plans them.
func (p *Plan) links() []devicelink.Link {
	links := make([]devicelink.Link, len(p.Links))
	for i := range p.Links {
		links[i] = p.Links[i].Link
	}
	return links
}

// packGroup is pack for the runtimes of one registration object.
func (w *linker) packGroup(ctx context.Context, links []devicelink.Link, kinds []offloadbinary.OffloadKind) (images []string, err error) {
	var group []packed
	defer func() {
		for _, p := range group {
			for _, input := range p.inputs {
				input.Close()
			}
		}
	}()
	for _, kind := range kinds {
		defer w.Observer.Phase("Bundle linked output", kind.String())()
		group = append(group, packed{kind: kind})
		p := &group[len(group)-1]
		list := devicelink.Of(links, kind)
		for _, l := range list {
			p.links = append(p.links, &w.plan.Links[l])
		}
		if err := w.packKind(ctx, p, devicelink.HIPTargets(w.Policy.Plan, links, list)); err != nil {
			return nil, err
		}
		images = append(images, p.images...)
	}
	if w.Result == Fatbin {
		return images, nil
	}
	return images, w.register(ctx, group)
}

// packKind packs the images of one runtime. targets are their entry IDs in a bundle for HIP.
func (w *linker) packKind(ctx context.Context, p *packed, targets []string) (err error) {
	runtime := runtimes.Of(p.kind)
	if runtime == nil {
		return &Error{Fault: NoRuntime, Subject: p.kind.String()}
	}
	switch runtime.Packing {
	case runtimes.Binaries:
		p.images, err = w.packBinaries(ctx, p)
	case runtimes.Bundle:
		err = w.bundle(ctx, p, targets)
	case runtimes.Linked:
		p.images = []string{p.links[0].Output}
	case runtimes.NVIDIA:
		p.images, err = w.fatbinary(ctx, p.links)
	}
	return err
}

// packBinaries writes an offload binary for each image, or one for all.
func (w *linker) packBinaries(ctx context.Context, p *packed) (packages []string, err error) {
	size := 1
	if w.Policy.Joined {
		size = len(p.links)
	}
	for some := range slices.Chunk(p.links, size) {
		name := w.packedFile(p.kind, &w.Names.Images, stem(filepath.Base(some[0].Output)), "."+p.kind.String()+".offload")
		packages = append(packages, name)
		if w.DryRun {
			continue
		}
		if err := w.packImages(ctx, some, p.kind, name); err != nil {
			return nil, err
		}
	}
	return packages, nil
}

// packedFile names the file of packed images.
func (w *linker) packedFile(kind offloadbinary.OffloadKind, names *devicelink.Names, prefix, suffix string) string {
	if w.Names.Packed != nil {
		return w.Names.Packed(kind)
	}
	return names.File(prefix, suffix)
}

// packImages writes an offload binary of linked images.
func (w *linker) packImages(ctx context.Context, links []*Link, kind offloadbinary.OffloadKind, name string) error {
	var images []offloadbinary.Image
	for _, link := range links {
		input, err := w.files.Open(w.path(link.Output))
		if err != nil {
			return err
		}
		defer input.Close()
		image := w.packaged(link, kind)
		image.Content = input.All()
		if devicelink.NeedsContainer(link.Triple) {
			var contained content.Buffer
			if err := devicelink.WriteContainer(&contained, w.Device.Release, link.Triple, image.Content); err != nil {
				return err
			}
			image.Content = content.Memory(contained.Bytes())
		}
		images = append(images, image)
	}
	return w.files.WriteFile(ctx, name, func(output *files.Output) error {
		return offloadbinary.Write(output, offloadbinary.DefaultVersion, images)
	})
}

// packaged describes the output of a link for its offload binary.
func (w *linker) packaged(link *Link, kind offloadbinary.OffloadKind) offloadbinary.Image {
	image := offloadbinary.Image{
		Kind: offloadbinary.Object, Offload: kind,
		Properties: offloadbinary.Properties{{Key: "triple", Value: link.Triple}, {Key: "arch", Value: link.Processor()}},
	}
	if w.Device.EmbedBitcode {
		image.Kind = offloadbinary.Bitcode
	}
	return image
}

// hipAlign is the alignment of images in bundles for HIP, in bytes: the runtime maps them.
const hipAlign = 4096

// bundle makes a bundle of the images: in a file if a file is required, else
// in the registration object.
func (w *linker) bundle(ctx context.Context, p *packed, ids []string) error {
	var images []string
	for _, link := range p.links {
		images = append(images, w.path(link.Output))
	}
	name := w.packedFile(p.kind, &w.Names.Files, w.base(), ".hipfb")
	p.images = []string{name}
	w.Observer.Bundled(ids, images, name)
	if w.DryRun {
		return nil
	}
	targets, err := target.CheckTargets(ids, target.Parse, target.Bundling)
	if err != nil {
		return &Error{Fault: NoBundle, Err: err}
	}
	_, _, unknown := register.HostMachine(w.HostTriple)
	if !w.Compress && !w.SaveTemps && w.Module == nil && w.Result != Fatbin && w.Names.Packed == nil && unknown == nil {
		return w.placeHIP(p, targets, images, hipAlign)
	}
	entries := []engine.BundleEntry{{Target: targets[0]}}
	for i, image := range images {
		entries = append(entries, engine.BundleEntry{Target: targets[i+1], Input: image})
	}
	opt := engine.BundleOptions{Entries: entries, Output: name, Align: hipAlign}
	if w.Compress {
		opt.Compress = &engine.Compression{Level: 3}
		if w.CompressionLevel != "" {
			if opt.Compress.Level, err = strconv.Atoi(w.CompressionLevel); err != nil {
				return &Error{Fault: NoBundle, Err: fmt.Errorf("compression level %q: expected a number", w.CompressionLevel)}
			}
		}
	}
	_, err = w.session.Bundle(ctx, opt)
	return err
}

// placeHIP computes the layout of a bundle of images without writing it.
func (w *linker) placeHIP(p *packed, targets []target.ID, images []string, align uint64) error {
	items := []bundle.Item{{ID: targets[0].String()}}
	for i, image := range images {
		input, err := w.files.Open(image)
		if err != nil {
			return err
		}
		p.inputs = append(p.inputs, input)
		items = append(items, bundle.Item{ID: targets[i+1].String(), Content: input.All()})
	}
	layout, err := bundle.NewLayout(items, bundle.Options{Align: align})
	if err != nil {
		return err
	}
	empty := func(part content.Part) bool { return part.Content.Len() == 0 }
	p.image = &register.Image{Content: layout.Parts[0].Content, Parts: slices.DeleteFunc(layout.Parts[1:], empty)}
	return nil
}

// fatbinary packs the images with NVIDIA's fatbinary.
func (w *linker) fatbinary(ctx context.Context, links []*Link) ([]string, error) {
	program, err := w.Fatbinary()
	if err != nil {
		return nil, err
	}
	var archs, images []string
	for _, link := range links {
		archs, images = append(archs, link.Processor()), append(images, link.Output)
	}
	name := w.Names.Files.File(w.base(), ".fatbin")
	command := devicelink.FatbinaryCommand(program, w.HostTriple, archs, images, name)
	w.Observer.Command(command)
	if w.DryRun {
		return []string{name}, nil
	}
	return []string{name}, w.runProgram(ctx, command, false)
}

// fatbin writes the packed images to the output.
func (w *linker) fatbin(ctx context.Context, images []string) error {
	if len(images) == 0 || w.DryRun {
		return nil
	}
	if len(images) != 1 {
		return &Error{Fault: SeveralRuntimes}
	}
	input, err := w.files.Open(images[0])
	if err != nil {
		return err
	}
	defer input.Close()
	return w.files.WriteFile(ctx, w.Output, func(output *files.Output) error { return output.Append(input.All()) })
}
