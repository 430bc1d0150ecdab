package link

import (
	"context"
	"fmt"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/llvm/dialect"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/registration/registerir"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Registered describes a registration object for Observer.
type Registered struct {
	Kind   offloadbinary.OffloadKind
	Links  []*Link
	Images []string // the files of the packed images
	// IR and Object are the files of the module and of the object.
	IR, Object string
}

// register writes the registration object of a group of runtimes.
func (w *linker) register(ctx context.Context, group []packed) error {
	if target.ParseTriple(w.HostTriple).Arch == target.ArchUnknown {
		return &Error{Fault: UnknownHost, Subject: w.HostTriple}
	}
	name := w.Output
	if w.Result != Object {
		name = w.Names.Files.File(fmt.Sprintf("%s.%s.image.wrapper", w.base(), group[0].kind), ".o")
	}
	w.objects = append(w.objects, name)
	var registrations []register.Registration
	for i := range group {
		p := &group[i]
		w.Observer.Registered(&Registered{p.kind, p.links, p.images, stem(name) + ".bc", name})
		r := register.Registration{Kind: p.kind, Package: runtimes.Of(p.kind).Form == runtimes.OffloadBinary && dialect.Of(w.Device.Release).SYCLBinaries}
		if err := w.readImages(&r, p); err != nil {
			return err
		}
		if w.Module != nil {
			module := w.module(r)
			if err := module.WriteText(w.Module); err != nil {
				return err
			}
		}
		registrations = append(registrations, r)
	}
	if w.DryRun {
		return nil
	}
	return w.writeRegistration(ctx, registrations, name)
}

// module returns a registration as LLVM IR.
func (w *linker) module(r register.Registration) *registerir.Module {
	return &registerir.Module{Triple: w.HostTriple, Release: w.Device.Release, Registration: r, Relocatable: w.Relocatable}
}

// readImages sets the images of a registration, which are valid while the inputs of p are open.
func (w *linker) readImages(r *register.Registration, p *packed) (err error) {
	switch {
	case w.DryRun:
		if w.Module != nil {
			r.Images, err = w.placeholders(p)
		}
		return err
	case p.image != nil:
		r.Images = []register.Image{*p.image}
		return nil
	}
	for _, image := range p.images {
		input, err := w.files.Open(w.path(image))
		if err != nil {
			return err
		}
		p.inputs = append(p.inputs, input)
		found, err := r.ReadImages(input.All())
		if err != nil {
			return files.NameError(input.Name(), err)
		}
		r.Images = append(r.Images, found...)
	}
	return nil
}

// writeRegistration writes the object of registrations. For hosts that package register does
// not support, clang compiles the module of the only registration. The module is also written if
// files are kept.
func (w *linker) writeRegistration(ctx context.Context, registrations []register.Registration, name string) error {
	machine, coff, unsupported := register.HostMachine(w.HostTriple)
	if w.SaveTemps || unsupported != nil {
		ir, module := stem(name)+".bc", w.module(registrations[0])
		module.PageAligned = true
		if err := w.files.WriteFile(ctx, ir, func(output *files.Output) error { return module.WriteBitcode(output) }); err != nil {
			return err
		}
		if unsupported != nil {
			return w.compile(ctx, ir, name)
		}
	}
	o := register.Object{Machine: machine, COFF: coff, Relocatable: w.Relocatable, Keep: w.plan.entries, Registrations: registrations}
	return w.files.WriteFile(ctx, name, func(output *files.Output) error { return o.Write(output) })
}

// compile compiles the module of a registration with clang.
func (w *linker) compile(ctx context.Context, ir, object string) error {
	clang, err := w.Find("clang")
	if err != nil {
		return err
	}
	command := []string{clang, "--no-default-config", "--target=" + w.HostTriple, "-c", "-fPIC", "-x", "ir", "-o", object, ir}
	return w.runProgram(ctx, command, false)
}

// placeholders returns the images of a dry run, which have no content.
func (w *linker) placeholders(p *packed) ([]register.Image, error) {
	switch runtimes.Of(p.kind).Form {
	case runtimes.Images:
		var images []register.Image
		for _, link := range p.links {
			var b content.Buffer
			image := w.packaged(link, p.kind)
			if len(w.Override) > 0 {
				input, err := w.files.Open(link.Output)
				if err != nil {
					return nil, err
				}
				defer input.Close()
				image.Content = content.Memory(slices.Clone(input.Mapped(guard.Inside)))
			}
			if err := offloadbinary.Write(&b, offloadbinary.DefaultVersion, []offloadbinary.Image{image}); err != nil {
				return nil, err
			}
			r := register.Registration{Kind: p.kind}
			packed, err := r.ReadImages(content.Memory(b.Bytes()))
			if err != nil {
				return nil, err
			}
			images = append(images, packed...)
		}
		return images, nil
	case runtimes.OffloadBinary:
		return []register.Image{{Symbols: []string{"stub"}}}, nil
	}
	return []register.Image{{}}, nil
}
