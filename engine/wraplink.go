package engine

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rules-offload/rules_offload/engine/ar"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/devicelink"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/linkcache"
	"github.com/rules-offload/rules_offload/engine/object"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/register"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/bitcode"
	"github.com/rules-offload/rules_offload/internal/registerir"
)

// WrapLinkOptions are the options of WrapLink: a host link and the device links
// that it requires, as in clang-linker-wrapper.
type WrapLinkOptions struct {
	// Inputs are searched for device images, in the order of the host link.
	Inputs []WrapInput
	// Extract are the archs whose images in archives are linked even if there is
	// no object for them.
	Extract []string
	// Override are linked images. If not empty, Inputs are not searched and there
	// are no device links.
	Override []WrapOverride
	// Device holds the options of all device links. WrapLink sets Clang and
	// Libraries.
	Device devicelink.Options
	// Libraries are the arguments of the host link for device links that produce
	// shared libraries.
	Libraries []WrapLibrary

	HostTriple string
	Output     string // of the host link
	// Linker and LinkerArgs are the command of the host link. Registration objects
	// are inserted before argument ObjectsAt.
	Linker     string
	LinkerArgs []string
	ObjectsAt  int
	// Relocatable isolates the offload entries of the result.
	Relocatable bool
	// FatbinOnly writes the packed images to Output, without a host link.
	FatbinOnly bool

	Compress         bool
	CompressionLevel string // a number, or "" for the bundler's default

	DryRun      bool
	Verbose     bool
	PrintModule bool
	// SaveTemps keeps the intermediate files in the directory Kept.
	SaveTemps bool
	Kept      string

	// Temp is a directory for the temporary files of this call only; the caller
	// removes it.
	Temp string
	Env  []string // of all programs
	// Find returns the path of an LLVM program.
	Find func(name string) (string, error)
	// Fatbinary returns the path of NVIDIA's fatbinary.
	Fatbinary func() (string, error)
	// Slots limits the number of device links that run at a time.
	Slots devicelink.Slots
	// Stdout and Stderr are those of the host linker. Commands and the output of
	// device links are also printed to Stderr.
	Stdout, Stderr io.Writer
	// Cache, if not nil, stores the results of device links.
	Cache *linkcache.Store
	// Phase, if not nil, is called at the start of each phase, and the function
	// that it returns at the end.
	Phase func(name, detail string) (end func())
}

// WrapInput is an input of the host link.
type WrapInput struct {
	Name string
	// Whole treats members of an archive like objects.
	Whole bool
}

// WrapOverride is a linked image.
type WrapOverride struct {
	Kind offloadbinary.OffloadKind
	File string
}

// WrapLibrary is a part of the host link for device links: arguments to copy, or
// one of the inputs if it is an archive or a shared object.
type WrapLibrary struct {
	Words []string
	Input int // index in Inputs, if Words is empty
}

// WrapFault is a kind of link failure.
type WrapFault int

// Faults of a link.
const (
	// WrapNoLinker is a host link without a linker.
	WrapNoLinker WrapFault = iota
	// WrapHost is a host for which no registration object can be written: Subject
	// is its triple.
	WrapHost
	// WrapMixedSYCL are images of SYCL and of another offload kind for one target.
	WrapMixedSYCL
	// WrapKind is an offload kind that has no runtime: Subject is the kind.
	WrapKind
	// WrapDeviceLink is a device link without an output image: Subject is the
	// program.
	WrapDeviceLink
	// WrapBundle is a bundle for HIP that cannot be written.
	WrapBundle
	// WrapSeveralBundles are images for several runtimes where Output can hold
	// those of one.
	WrapSeveralBundles
	// WrapRelocatable is a relocatable link for Windows.
	WrapRelocatable
)

// WrapError reports a fault of a link.
type WrapError struct {
	Fault   WrapFault
	Subject string
	Err     error // details, or nil
}

// Error describes the fault, and then the details.
func (e *WrapError) Error() string {
	var text string
	switch e.Fault {
	case WrapNoLinker:
		text = "no host linker"
	case WrapHost:
		text = fmt.Sprintf("host triple %q: unknown architecture", e.Subject)
	case WrapMixedSYCL:
		text = devicelink.ErrMixedSYCL.Error()
	case WrapKind:
		text = fmt.Sprintf("offload kind %s has no runtime", e.Subject)
	case WrapDeviceLink:
		text = filepath.Base(e.Subject)
	case WrapBundle:
		text = "bundle for HIP"
	case WrapSeveralBundles:
		text = "images for several runtimes: a fat binary is for one runtime"
	case WrapRelocatable:
		text = "relocatable linking requires ELF"
	}
	if e.Err == nil {
		return text
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns the details.
func (e *WrapError) Unwrap() error { return e.Err }

// WrapLink links the device images of the inputs, writes the objects that
// register the results, and runs the host linker with these objects.
func (s *Session) WrapLink(ctx context.Context, opt WrapLinkOptions) error {
	w := &wrapLink{WrapLinkOptions: opt, session: s, names: devicelink.Names{Dir: opt.Temp}, extracted: devicelink.Names{Dir: opt.Temp}}
	if w.SaveTemps {
		w.names = devicelink.Names{Dir: opt.Kept, Plain: true}
		w.extracted = devicelink.Names{Plain: true}
	}
	if w.Phase == nil {
		w.Phase = func(string, string) func() { return func() {} }
	}
	return w.run(ctx)
}

// wrapLink is one call of WrapLink.
type wrapLink struct {
	WrapLinkOptions
	session *Session
	names   devicelink.Names
	// extracted generates the names of files with a single image. Files that are
	// kept are in the working directory.
	extracted devicelink.Names

	groups  []devicelink.Group
	linked  []string   // the linked file of each group
	staged  [][]string // the input files of each group
	keep    []string   // symbols of offload entries
	objects []string   // registration objects
}

func (w *wrapLink) run(ctx context.Context) error {
	if len(w.Override) > 0 {
		if err := w.override(); err != nil {
			return err
		}
	} else {
		commands, err := w.plan(ctx)
		if err != nil {
			return err
		}
		if err := w.link(ctx, commands); err != nil {
			return err
		}
	}
	packed, err := w.pack(ctx)
	if err != nil {
		return err
	}
	if w.FatbinOnly {
		return w.fatbin(packed)
	}
	if w.Linker == "" {
		return &WrapError{Fault: WrapNoLinker}
	}
	return w.hostLink(ctx)
}

// print prints a command if printing is enabled.
func (w *wrapLink) print(command []string) {
	if !w.DryRun && !w.Verbose {
		return
	}
	line := ` "` + command[0] + `"`
	for _, arg := range command[1:] {
		line += " " + arg
	}
	fmt.Fprintln(w.Stderr, line)
}

// override uses the images that are already linked.
func (w *wrapLink) override() error {
	for _, o := range w.Override {
		input, err := w.session.files.Open(o.File)
		if err != nil {
			return err
		}
		defer input.Close()
		triple, arch, err := devicelink.Target(input.Bytes())
		if err != nil {
			return in(input, err)
		}
		if o.Kind == 0 {
			return &WrapError{Fault: WrapKind, Subject: o.Kind.String()}
		}
		w.groups = append(w.groups, devicelink.Group{Triple: triple, Arch: arch, Kinds: o.Kind})
		w.linked = append(w.linked, o.File)
	}
	return nil
}

// plan finds the images, groups them, writes them to files, and returns the
// command of each device link.
func (w *wrapLink) plan(ctx context.Context) (commands [][]string, err error) {
	defer w.Phase("ExtractDeviceCode", "")()
	// Linkers that collect sections drop the offload entries unless something
	// refers to them.
	collects := w.Relocatable || slices.Contains(w.LinkerArgs, "--gc-sections") || slices.Contains(w.LinkerArgs, "-gc-sections")
	found, err := w.session.scan(ctx, w.Inputs, collects)
	defer found.close()
	if err != nil {
		return nil, err
	}
	w.keep = found.entries
	for _, library := range w.Libraries {
		switch format := found.formats[library.Input]; {
		case library.Words != nil:
			w.Device.Libraries = append(w.Device.Libraries, library.Words...)
		case format == object.Archive, format == object.ThinArchive, format == object.ELFSharedObject:
			w.Device.Libraries = append(w.Device.Libraries, w.Inputs[library.Input].Name)
		}
	}
	list := make([]devicelink.Image, len(found.images))
	for i, image := range found.images {
		list[i] = devicelink.Image{Triple: image.Triple, Arch: image.Arch, Kind: parseOffloadKinds(image.Offload), Member: found.member[i]}
	}
	if w.groups, err = devicelink.Groups(list, w.Extract, w.Device.Release); err != nil {
		return nil, err
	}
	if w.Verbose {
		w.note(found)
	}
	if len(w.groups) == 0 {
		return commands, nil
	}
	if w.Device.Clang, err = w.Find("clang"); err != nil {
		return nil, err
	}
	staged := make([]string, len(list))
	for g := range w.groups {
		group := &w.groups[g]
		if err := group.Check(); err != nil {
			if errors.Is(err, devicelink.ErrMixedSYCL) {
				err = &WrapError{Fault: WrapMixedSYCL}
			}
			if w.DryRun {
				return nil, errors.Join(w.link(ctx, commands), err)
			}
			return nil, err
		}
		var names []string
		for _, i := range group.Images {
			if staged[i] == "" {
				image := found.images[i]
				stem := strings.TrimSuffix(image.Member(), filepath.Ext(image.Member()))
				staged[i] = w.extracted.File(stem+"-"+image.Triple+"-"+image.Arch, ".o")
			}
			names = append(names, staged[i])
		}
		output := w.names.File(fmt.Sprintf("%s.%s.%s", filepath.Base(w.Output), devicelink.ArchName(group.Triple), group.Processor()), ".img")
		w.linked = append(w.linked, output)
		w.staged = append(w.staged, names)
		commands = append(commands, group.Command(&w.Device, names, output))
	}
	if w.SaveTemps && w.Verbose {
		w.printExtraction(found, staged)
	}
	if w.DryRun {
		return commands, nil
	}
	return commands, w.stage(ctx, found, staged)
}

// note prints which images no link uses.
func (w *wrapLink) note(found *scanned) {
	used := map[int]bool{}
	for g := range w.groups {
		for _, i := range w.groups[g].Images {
			used[i] = true
		}
		if w.groups[g].Kinds == 0 {
			fmt.Fprintf(w.Stderr, "note: the images for %s have no offload kind: they are linked, but not registered with a runtime\n", w.groups[g].Name())
		}
	}
	for i, image := range found.images {
		if !used[i] {
			fmt.Fprintf(w.Stderr, "note: %s: the image for %s is not linked: no object has that target\n", image.Holder(), strings.TrimSpace(image.Triple+" "+image.Arch))
		}
	}
}

// stage writes images to files.
func (w *wrapLink) stage(ctx context.Context, found *scanned, names []string) error {
	var used []int
	for i, name := range names {
		if name != "" {
			used = append(used, i)
		}
	}
	for len(used) > 0 {
		some := used[:min(openOutputs, len(used))]
		used = used[len(some):]
		err := w.session.write(ctx, func(out *files.Outputs) error {
			return w.session.budget.Each(ctx, len(some), func(_ context.Context, n int) error {
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

// link runs the device links.
func (w *wrapLink) link(ctx context.Context, commands [][]string) error {
	if w.DryRun {
		for _, command := range commands {
			w.print(command)
		}
		return nil
	}
	out := &ordered{w: w.Stderr, messages: make([]bytes.Buffer, len(commands)), ended: make([]bool, len(commands))}
	start := func(i int) {
		out.mu.Lock()
		defer out.mu.Unlock()
		w.print(commands[i])
	}
	err := devicelink.Jobs(ctx, w.Slots, len(commands), start, func(ctx context.Context, i int) error {
		defer w.Phase("Link device input", w.groups[i].Name())()
		defer out.end(i)
		messages := &out.messages[i]
		process := devicelink.Process{Args: commands[i], Env: w.Env, Stdout: messages, Stderr: messages, Responses: w.Temp}
		key, cached := linkcache.Key{}, false
		if w.Cache != nil && !w.SaveTemps {
			var err error
			if key, cached, err = devicelink.Key(ctx, process, w.staged[i], w.linked[i]); err != nil {
				return err
			}
		}
		if cached {
			printed, found, err := w.Cache.Get(key, w.linked[i])
			if found {
				messages.Write(printed)
				return nil
			}
			if err != nil {
				fmt.Fprintf(messages, "warning: OFFLOAD_CACHE: %v\n", err)
			}
		}
		if err := process.Run(ctx); err != nil {
			return err
		}
		if info, err := os.Stat(w.linked[i]); err != nil || info.Size() == 0 {
			return &WrapError{WrapDeviceLink, commands[i][0], fmt.Errorf("the device link for %s succeeded but wrote no image", w.groups[i].Name())}
		}
		if cached {
			if err := w.Cache.Put(key, w.linked[i], messages.Bytes()); err != nil {
				fmt.Fprintf(messages, "warning: OFFLOAD_CACHE: %v\n", err)
			}
		}
		return nil
	})
	if err == nil {
		err = out.err
	}
	return err
}

// ordered writes the output of concurrent jobs, each in one piece, in the order
// in which the jobs started.
type ordered struct {
	mu       sync.Mutex
	w        io.Writer
	err      error
	messages []bytes.Buffer
	ended    []bool
	next     int // the first job whose output is not written
}

// end writes the output of a job after the output of all earlier jobs.
func (o *ordered) end(i int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.ended[i] = true; o.next < len(o.ended) && o.ended[o.next]; o.next++ {
		if _, err := o.messages[o.next].WriteTo(o.w); o.err == nil {
			o.err = err
		}
	}
}

// packedKind holds the images that are registered with one runtime.
type packedKind struct {
	kind   register.Kind
	groups []int    // groups that the images belong to
	images []string // files
	// image, if not nil, replaces the content of the only file, which is not
	// written. It is valid while inputs are open.
	image  *register.Image
	inputs []*files.Input
}

func (p *packedKind) close() {
	for _, input := range p.inputs {
		input.Close()
	}
}

// pack packs the linked images for each runtime, and writes the registration
// objects if they are required.
func (w *wrapLink) pack(ctx context.Context) (packed []packedKind, err error) {
	for _, kind := range devicelink.Kinds(w.groups) {
		defer w.Phase("Bundle linked output", kind.String())()
		list := devicelink.Of(w.groups, kind)
		p := packedKind{groups: list}
		switch kind {
		case offloadbinary.OpenMP:
			p.kind = register.OpenMP
			p.images, err = w.packOpenMP(ctx, list)
		case offloadbinary.HIP:
			p.kind = register.HIP
			err = w.bundleHIP(ctx, &p)
		case offloadbinary.SYCL:
			// The output of clang-sycl-linker contains all images.
			p.kind, p.images = register.SYCL, []string{w.linked[list[0]]}
		case offloadbinary.CUDA:
			p.kind = register.CUDA
			p.images, err = w.fatbinary(ctx, list)
		default:
			err = &WrapError{Fault: WrapKind, Subject: kind.String()}
		}
		if err != nil {
			p.close()
			return nil, err
		}
		packed = append(packed, p)
		if w.FatbinOnly {
			continue
		}
		err = w.register(ctx, &p)
		p.close()
		if err != nil {
			return nil, err
		}
	}
	return packed, nil
}

func (w *wrapLink) base() string { return filepath.Base(w.Output) }

// packOpenMP writes an offload binary for each image.
func (w *wrapLink) packOpenMP(ctx context.Context, list []int) (packages []string, err error) {
	for _, g := range list {
		base := filepath.Base(w.linked[g])
		name := w.extracted.File(strings.TrimSuffix(base, filepath.Ext(base)), ".openmp.offload")
		packages = append(packages, name)
		if w.DryRun {
			continue
		}
		input, err := w.session.files.Open(w.linked[g])
		if err != nil {
			return nil, err
		}
		defer input.Close()
		image := w.packaged(&w.groups[g])
		image.Content = input.All()
		var contained files.Buffer
		if devicelink.NeedsContainer(w.groups[g].Triple) {
			if err := devicelink.WriteContainer(&contained, w.Device.Release, w.groups[g].Triple, image.Content); err != nil {
				return nil, err
			}
			image.Content = files.Memory(contained.Bytes())
		}
		err = w.session.write(ctx, func(out *files.Outputs) error {
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

// packaged describes the linked image of a group for its offload binary.
func (w *wrapLink) packaged(g *devicelink.Group) offloadbinary.Image {
	image := offloadbinary.Image{
		Kind: offloadbinary.Object, Offload: offloadbinary.OpenMP,
		Strings: []offloadbinary.String{{Key: "triple", Value: g.Triple}, {Key: "arch", Value: g.Processor()}},
	}
	if w.Device.EmbedBitcode {
		image.Kind = offloadbinary.Bitcode
	}
	return image
}

// bundleHIP makes a bundle of the images: in a file if a file is required, else
// in the registration object.
func (w *wrapLink) bundleHIP(ctx context.Context, p *packedKind) error {
	ids := devicelink.HIPTargets(w.groups, p.groups)
	var images []string
	for _, g := range p.groups {
		images = append(images, w.linked[g])
	}
	name := w.names.File(w.base(), ".hipfb")
	p.images = []string{name}
	if w.DryRun || w.Verbose {
		bundler, err := w.Find("clang-offload-bundler")
		if err != nil { // it is not run
			bundler = "clang-offload-bundler"
		}
		w.print(devicelink.BundleCommand(bundler, w.Compress, w.CompressionLevel, ids, images, name))
	}
	if w.DryRun {
		return nil
	}
	targets, err := target.CheckTargets(ids, target.Parse, target.Bundling)
	if err != nil {
		return &WrapError{Fault: WrapBundle, Err: err}
	}
	const page = 4096
	_, _, unknown := hostMachine(w.HostTriple)
	if !w.Compress && !w.SaveTemps && !w.PrintModule && !w.FatbinOnly && unknown == nil {
		return w.placeHIP(p, targets, images, page)
	}
	entries := []BundleEntry{{Target: targets[0]}}
	for i, image := range images {
		entries = append(entries, BundleEntry{Target: targets[i+1], Input: image})
	}
	opt := BundleOptions{Entries: entries, Output: name, Align: page}
	if w.Compress {
		opt.Compress = &Compression{Level: 3}
		if w.CompressionLevel != "" {
			if opt.Compress.Level, err = strconv.Atoi(w.CompressionLevel); err != nil {
				return &WrapError{Fault: WrapBundle, Err: fmt.Errorf("--compression-level=%s: expected a number", w.CompressionLevel)}
			}
		}
	}
	_, err = w.session.Bundle(ctx, opt)
	return err
}

// placeHIP computes the layout of a bundle of images without writing it.
func (w *wrapLink) placeHIP(p *packedKind, targets []target.ID, images []string, align uint64) error {
	items := []bundle.Item{{ID: targets[0].String()}}
	for i, image := range images {
		input, err := w.session.files.Open(image)
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
	p.image = &register.Image{Content: files.Memory(layout.Header)}
	for _, placed := range layout.Contents {
		if placed.Content.Len() > 0 {
			p.image.Parts = append(p.image.Parts, object.Part{Offset: placed.Offset, Content: placed.Content})
		}
	}
	return nil
}

// fatbinary packs the images with NVIDIA's fatbinary.
func (w *wrapLink) fatbinary(ctx context.Context, list []int) ([]string, error) {
	program, err := w.Fatbinary()
	if err != nil {
		return nil, err
	}
	var archs, images []string
	for _, g := range list {
		archs, images = append(archs, w.groups[g].Processor()), append(images, w.linked[g])
	}
	name := w.names.File(w.base(), ".fatbin")
	command := devicelink.FatbinaryCommand(program, w.HostTriple, archs, images, name)
	w.print(command)
	if w.DryRun {
		return []string{name}, nil
	}
	process := devicelink.Process{Args: command, Env: w.Env, Stdout: w.Stdout, Stderr: w.Stderr}
	return []string{name}, process.Run(ctx)
}

// register writes the registration object for one runtime.
func (w *wrapLink) register(ctx context.Context, p *packedKind) error {
	if target.ParseTriple(w.HostTriple).Arch == target.ArchUnknown {
		return &WrapError{Fault: WrapHost, Subject: w.HostTriple}
	}
	stem := fmt.Sprintf("%s.%s.image.wrapper", w.base(), p.kind)
	name := w.names.File(stem, ".o")
	w.objects = append(w.objects, name)
	r := register.Registration{Kind: p.kind, Package: p.kind == register.SYCL && w.Device.Release > lastSYCLDescriptor}
	module := registerir.Module{Triple: w.HostTriple, Release: w.Device.Release, Relocatable: w.Relocatable}
	if w.SaveTemps && w.Verbose {
		w.printWrapping(p, strings.TrimSuffix(name, ".o")+".bc", name)
	}
	if w.DryRun {
		if !w.PrintModule {
			return nil
		}
		var err error
		if r.Images, err = w.placeholders(p); err != nil {
			return err
		}
		module.Registration = r
		return module.WriteText(w.Stderr)
	}
	images := p.images
	if p.image != nil {
		r.Images, images = []register.Image{*p.image}, nil
	}
	for _, image := range images {
		input, err := w.session.files.Open(image)
		if err != nil {
			return err
		}
		defer input.Close()
		found, err := registered(&r, input.All())
		if err != nil {
			return in(input, err)
		}
		r.Images = append(r.Images, found...)
	}
	module.Registration = r
	if w.PrintModule {
		if err := module.WriteText(w.Stderr); err != nil {
			return err
		}
	}
	machine, coff, unknown := hostMachine(w.HostTriple)
	module.PageAligned = true
	if w.SaveTemps || unknown != nil {
		ir := strings.TrimSuffix(name, ".o") + ".bc"
		err := w.session.write(ctx, func(out *files.Outputs) error {
			output, err := out.Create(ir)
			if err != nil {
				return err
			}
			return module.WriteBitcode(output)
		})
		if err != nil {
			return err
		}
		if unknown != nil { // only clang supports this host
			return w.compile(ctx, ir, name)
		}
	}
	o := register.Object{Machine: machine, COFF: coff, Relocatable: w.Relocatable, Keep: w.keep, Registrations: []register.Registration{r}}
	return w.session.write(ctx, func(out *files.Outputs) error {
		output, err := out.Create(name)
		if err != nil {
			return err
		}
		return o.Write(output)
	})
}

// compile compiles the module of a registration with clang.
func (w *wrapLink) compile(ctx context.Context, ir, object string) error {
	clang, err := w.Find("clang")
	if err != nil {
		return err
	}
	process := devicelink.Process{
		Args: []string{clang, "--no-default-config", "--target=" + w.HostTriple, "-c", "-fPIC", "-x", "ir", "-o", object, ir},
		Env:  w.Env, Stdout: w.Stdout, Stderr: w.Stderr,
	}
	return process.Run(ctx)
}

// placeholders returns the images of a dry run, which have no content.
func (w *wrapLink) placeholders(p *packedKind) ([]register.Image, error) {
	switch p.kind {
	case register.OpenMP:
		var images []register.Image
		for _, g := range p.groups {
			var b files.Buffer
			image := w.packaged(&w.groups[g])
			if len(w.Override) > 0 {
				input, err := w.session.files.Open(w.linked[g])
				if err != nil {
					return nil, err
				}
				defer input.Close()
				image.Content = files.Memory(slices.Clone(input.Bytes()))
			}
			if err := offloadbinary.Write(&b, 1, []offloadbinary.Image{image}); err != nil {
				return nil, err
			}
			r := register.Registration{Kind: register.OpenMP}
			packed, err := registered(&r, files.Memory(b.Bytes()))
			if err != nil {
				return nil, err
			}
			images = append(images, packed...)
		}
		return images, nil
	case register.SYCL:
		return []register.Image{{Symbols: []string{"stub"}}}, nil
	}
	return []register.Image{{}}, nil
}

// printWrapping prints the commands that would produce a registration object.
func (w *wrapLink) printWrapping(p *packedKind, ir, object string) {
	if p.kind == register.OpenMP {
		for i, g := range p.groups {
			group := &w.groups[g]
			text := fmt.Sprintf("--image=file=%s,kind=openmp,triple=%s", w.linked[g], group.Triple)
			if len(w.Override) == 0 || group.Processor() != "" {
				text += ",arch=" + group.Processor()
			}
			w.printTool("llvm-offload-binary", "-o", p.images[i], text)
		}
	}
	args := []string{"--kind=" + p.kind.String(), "--triple=" + w.HostTriple, "-o", ir}
	if w.Relocatable && p.kind == register.OpenMP {
		args = append(args, "--relocatable")
	}
	w.printTool("llvm-offload-wrapper", append(args, p.images...)...)
	w.printTool("clang", "--no-default-config", "--target="+w.HostTriple, "-c", "-fPIC", "-o", object, ir)
}

// printTool prints the command of an LLVM program that is not run.
func (w *wrapLink) printTool(name string, args ...string) {
	program, err := w.Find(name)
	if err != nil {
		program = name
	}
	w.print(append([]string{program}, args...))
}

// printExtraction prints the commands that would extract the images.
func (w *wrapLink) printExtraction(found *scanned, staged []string) {
	for _, input := range w.Inputs {
		args := []string{input.Name}
		for i, image := range found.images {
			if staged[i] == "" || image.File != input.Name {
				continue
			}
			text := "--image=kind=" + image.Offload + ",triple=" + image.Triple
			if image.Arch != "" {
				text += ",arch=" + image.Arch
			}
			if len(image.Members) > 0 {
				text += ",member=" + image.Member()
			}
			args = append(args, text+",file="+staged[i])
		}
		if len(args) > 1 {
			w.printTool("llvm-offload-binary", args...)
		}
	}
}

// fatbin writes the packed images to the output.
func (w *wrapLink) fatbin(packed []packedKind) error {
	var images []string
	for _, p := range packed {
		images = append(images, p.images...)
	}
	if len(images) == 0 || w.DryRun {
		return nil
	}
	if len(images) != 1 {
		return &WrapError{Fault: WrapSeveralBundles}
	}
	input, err := w.session.files.Open(images[0])
	if err != nil {
		return err
	}
	defer input.Close()
	return w.session.write(context.Background(), func(out *files.Outputs) error {
		output, err := out.Create(w.Output)
		if err != nil {
			return err
		}
		return output.Append(input.All())
	})
}

// hostLink runs the host linker and isolates its result if it is relocatable.
func (w *wrapLink) hostLink(ctx context.Context) error {
	command := slices.Concat([]string{w.Linker}, w.LinkerArgs[:w.ObjectsAt], w.objects, w.LinkerArgs[w.ObjectsAt:])
	w.print(command)
	if !w.DryRun {
		end := w.Phase("Link host", filepath.Base(w.Linker))
		process := devicelink.Process{Args: command, Env: w.Env, Stdout: w.Stdout, Stderr: w.Stderr, Responses: w.Temp, WindowsQuoting: isCOFFLinker(w.Linker)}
		err := process.Run(ctx)
		end()
		if err != nil {
			return err
		}
	}
	if !w.Relocatable {
		return nil
	}
	if target.ParseTriple(target.Normalize(w.HostTriple, 4)).Format == "coff" {
		return &WrapError{Fault: WrapRelocatable}
	}
	return w.isolate(ctx)
}

// isCOFFLinker reports whether a linker reads response files with Windows
// quoting.
func isCOFFLinker(program string) bool {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	return name == "link" || strings.HasPrefix(name, "lld-link")
}

// isolate moves the offload entries of a relocatable object to a separate
// section, in place.
func (w *wrapLink) isolate(ctx context.Context) error {
	defer w.Phase("Isolate", "")()
	var data []byte
	if !w.DryRun {
		// A separate Session, because the result replaces its input.
		own := New(Config{Budget: w.session.budget})
		input, err := own.files.Open(w.Output)
		if err != nil {
			return err
		}
		defer input.Close()
		data = input.Bytes()
	}
	sum := md5.Sum(data)
	suffix := strconv.FormatUint(binary.LittleEndian.Uint64(sum[:]), 16)
	if w.DryRun || w.Verbose {
		program, err := w.Find("llvm-objcopy")
		if err != nil { // it is not run
			program = "llvm-objcopy"
		}
		command := []string{program, w.Output, "--remove-section", images.OffloadingSection, "--rename-section", register.EntriesSection + "=" + register.EntriesSection + "_" + suffix}
		for _, bound := range []string{"__start_", "__stop_"} {
			command = append(command, "--redefine-sym", bound+register.EntriesSection+"="+bound+register.EntriesSection+"_"+suffix)
		}
		w.print(command)
	}
	if w.DryRun {
		return nil
	}
	own := New(Config{Budget: w.session.budget})
	beside := w.Output + ".isolated"
	defer os.Remove(beside)
	if err := own.Isolate(ctx, IsolateOptions{Input: w.Output, Output: beside, Suffix: suffix}); err != nil {
		return errors.Join(err, os.Remove(w.Output))
	}
	if info, err := os.Stat(w.Output); err == nil {
		os.Chmod(beside, info.Mode().Perm())
	}
	return os.Rename(beside, w.Output)
}

// scanned holds the images and symbols of the inputs of a link.
type scanned struct {
	opened  []*images.File
	formats []object.Format // by input
	images  []*images.DeviceImage
	member  []bool // by image: whether it is in an archive that is not linked whole
	entries []string
}

func (found *scanned) close() {
	for _, f := range found.opened {
		f.Close()
	}
}

// scan finds the images in the inputs, and withEntries the symbols of their
// offload entries. Missing inputs and directories are left to the linker. The
// caller must close the result, also after an error.
func (s *Session) scan(ctx context.Context, inputs []WrapInput, withEntries bool) (*scanned, error) {
	ctx = s.budget.Account(ctx).Context(ctx)
	found := new(scanned)
	for _, in := range inputs {
		if err := s.scanInput(ctx, found, in, withEntries); err != nil {
			return found, err
		}
	}
	return found, nil
}

// scanInput adds the images and symbols of one input.
func (s *Session) scanInput(ctx context.Context, found *scanned, in WrapInput, withEntries bool) error {
	f, err := s.Open(ctx, in.Name, images.Options{Scope: images.OffloadBinaries})
	var system *files.Error
	if errors.As(err, &system) && (errors.Is(err, fs.ErrNotExist) || isDirectory(in.Name)) {
		found.formats = append(found.formats, object.Unknown)
		return nil
	}
	if err != nil {
		return err
	}
	found.opened = append(found.opened, f)
	var format object.Format
	err = files.Contain(func() error {
		data := f.Input().All()
		format = object.Identify(data.Bytes())
		if withEntries && format != object.ELFSharedObject {
			found.entries = append(found.entries, s.hostEntries(in.Name, data, 0)...)
		}
		return nil
	})
	if err != nil {
		return nameError(in.Name, err)
	}
	found.formats = append(found.formats, format)
	if format == object.ELFSharedObject {
		return nil // its images are already linked
	}
	archive := format == object.Archive || format == object.ThinArchive
	all, err := f.All()
	if err != nil {
		return err
	}
	for _, image := range all {
		// Images of a relocatable link are already registered, also by LLVM's
		// wrapper.
		if image.Section == relocatableOffloading {
			continue
		}
		if image.Triple == "" {
			return fmt.Errorf("%s: an image without a triple cannot be linked", image.Holder())
		}
		found.images = append(found.images, image)
		found.member = append(found.member, archive && !in.Whole)
	}
	if len(all) == 0 {
		found.opened = found.opened[:len(found.opened)-1]
		return f.Close()
	}
	return nil
}

// appendPlain writes an image of an offload binary.
func appendPlain(output *files.Output, image *images.DeviceImage) error {
	content, _ := image.Plain()
	return output.Append(content)
}

// maxArchiveDepth is the largest nesting depth of archives.
const maxArchiveDepth = 32

// relocatableOffloading is the section of images after a relocatable link.
const relocatableOffloading = ".llvm.offloading.relocatable"

func isDirectory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// hostEntries returns the symbols of the offload entries in an object or in the
// members of an archive. Files that cannot be read are left to the linker.
func (s *Session) hostEntries(path string, c files.Content, depth int) (names []string) {
	data := c.Bytes()
	switch format := object.Identify(data); format {
	case object.ELFRelocatable:
		names, _ = entrySymbols(data)
	case object.Bitcode:
		names, _ = bitcode.Symbols(data)
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, entrySymbol) })
	case object.Archive, object.ThinArchive:
		archive, err := ar.Parse(data)
		if err != nil || depth > maxArchiveDepth {
			return nil
		}
		for member, err := range archive.Members() {
			if err != nil {
				return names
			}
			if !member.Thin {
				names = append(names, s.hostEntries(path, c.Slice(member.DataOffset, int64(len(member.Data))), depth+1)...)
				continue
			}
			name := ar.MemberPath(path, member.Name)
			if input, err := s.files.OpenRegular(name); err == nil {
				names = append(names, s.hostEntries(name, input.All(), depth+1)...)
				input.Close()
			}
		}
	}
	return names
}
