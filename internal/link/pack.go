package link

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/devicelink"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/object"
	"github.com/rules-offload/rules_offload/internal/register"
)

// packedKind holds the images that are registered with one runtime.
type packedKind struct {
	kind   offloadbinary.OffloadKind
	links  []int    // that made the images
	images []string // files
	// image, if not nil, replaces the content of the only file, which is not
	// written. It is valid while inputs are open.
	image  *register.Image
	inputs []*files.Input
}

func (p *packedKind) close() { closeInputs(p.inputs) }

// pack packs the linked images for each runtime, and writes the registration
// objects if they are required.
func (w *linker) pack(ctx context.Context) (packed []packedKind, err error) {
	for _, kind := range devicelink.Kinds(w.links) {
		p, err := w.packKind(ctx, kind)
		if err != nil {
			return nil, err
		}
		packed = append(packed, p)
	}
	return packed, nil
}

// packKind is pack for one runtime.
func (w *linker) packKind(ctx context.Context, kind offloadbinary.OffloadKind) (p packedKind, err error) {
	defer w.Phase("Bundle linked output", kind.String())()
	defer func() { p.close() }()
	p.links = devicelink.Of(w.links, kind)
	switch kind {
	case offloadbinary.OpenMP:
		p.kind = offloadbinary.OpenMP
		p.images, err = w.packOpenMP(ctx, p.links)
	case offloadbinary.HIP:
		p.kind = offloadbinary.HIP
		err = w.bundleHIP(ctx, &p)
	case offloadbinary.SYCL:
		// The output of clang-sycl-linker contains all images.
		p.kind, p.images = offloadbinary.SYCL, []string{w.linked[p.links[0]]}
	case offloadbinary.CUDA:
		p.kind = offloadbinary.CUDA
		p.images, err = w.fatbinary(ctx, p.links)
	default:
		err = &Error{Fault: NoRuntime, Subject: kind.String()}
	}
	if err != nil || w.FatbinOnly {
		return p, err
	}
	return p, w.register(ctx, &p)
}

// base returns the name of the output, which begins the names of other files.
func (w *linker) base() string { return filepath.Base(w.Output) }

// packOpenMP writes an offload binary for each image.
func (w *linker) packOpenMP(ctx context.Context, list []int) (packages []string, err error) {
	for _, l := range list {
		base := filepath.Base(w.linked[l])
		name := w.extracted.File(strings.TrimSuffix(base, filepath.Ext(base)), ".openmp.offload")
		packages = append(packages, name)
		if w.DryRun {
			continue
		}
		input, err := w.files.Open(w.linked[l])
		if err != nil {
			return nil, err
		}
		defer input.Close()
		image := w.packaged(&w.links[l])
		image.Content = input.All()
		var contained content.Buffer
		if devicelink.NeedsContainer(w.links[l].Triple) {
			if err := devicelink.WriteContainer(&contained, w.Device.Release, w.links[l].Triple, image.Content); err != nil {
				return nil, err
			}
			image.Content = content.Memory(contained.Bytes())
		}
		err = w.files.Write(ctx, func(out *files.Outputs) error {
			output, err := out.Create(name)
			if err != nil {
				return err
			}
			return offloadbinary.Write(output, 1, []offloadbinary.Image{image})
		})
		if err != nil {
			return nil, err
		}
	}
	return packages, nil
}

// packaged describes the output of a link for its offload binary.
func (w *linker) packaged(link *devicelink.Link) offloadbinary.Image {
	image := openMPImage(link)
	if w.Device.EmbedBitcode {
		image.Kind = offloadbinary.Bitcode
	}
	return image
}

// bundleHIP makes a bundle of the images: in a file if a file is required, else
// in the registration object.
func (w *linker) bundleHIP(ctx context.Context, p *packedKind) error {
	ids := devicelink.HIPTargets(w.policy(), w.links, p.links)
	var images []string
	for _, l := range p.links {
		images = append(images, w.linked[l])
	}
	name := w.names.File(w.base(), ".hipfb")
	p.images = []string{name}
	if w.DryRun || w.Verbose {
		bundler := w.findToPrint("clang-offload-bundler")
		w.print(devicelink.BundleCommand(bundler, w.Compress, w.CompressionLevel, ids, images, name))
	}
	if w.DryRun {
		return nil
	}
	targets, err := target.CheckTargets(ids, target.Parse, target.Bundling)
	if err != nil {
		return &Error{Fault: NoBundle, Err: err}
	}
	_, _, unknown := register.HostMachine(w.HostTriple)
	if !w.Compress && !w.SaveTemps && !w.PrintModule && !w.FatbinOnly && unknown == nil {
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
func (w *linker) placeHIP(p *packedKind, targets []target.ID, images []string, align uint64) error {
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
	p.image = &register.Image{Content: content.Memory(layout.Header)}
	for _, placed := range layout.Contents {
		if placed.Content.Len() > 0 {
			p.image.Parts = append(p.image.Parts, object.Part{Offset: placed.Offset, Content: placed.Content})
		}
	}
	return nil
}

// fatbinary packs the images with NVIDIA's fatbinary.
func (w *linker) fatbinary(ctx context.Context, list []int) ([]string, error) {
	program, err := w.Fatbinary()
	if err != nil {
		return nil, err
	}
	var archs, images []string
	for _, l := range list {
		archs, images = append(archs, w.links[l].Processor()), append(images, w.linked[l])
	}
	name := w.names.File(w.base(), ".fatbin")
	command := devicelink.FatbinaryCommand(program, w.HostTriple, archs, images, name)
	w.print(command)
	if w.DryRun {
		return []string{name}, nil
	}
	return []string{name}, w.runProgram(ctx, command, false)
}

// fatbin writes the packed images to the output.
func (w *linker) fatbin(ctx context.Context, packed []packedKind) error {
	var images []string
	for _, p := range packed {
		images = append(images, p.images...)
	}
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
	return w.files.Write(ctx, func(out *files.Outputs) error {
		output, err := out.Create(w.Output)
		if err != nil {
			return err
		}
		return output.Append(input.All())
	})
}
