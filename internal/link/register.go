package link

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/register"
	"github.com/rules-offload/rules_offload/internal/registerir"
)

// register writes the registration object for one runtime.
func (w *linker) register(ctx context.Context, p *packedKind) error {
	if target.ParseTriple(w.HostTriple).Arch == target.ArchUnknown {
		return &Error{Fault: UnknownHost, Subject: w.HostTriple}
	}
	stem := fmt.Sprintf("%s.%s.image.wrapper", w.base(), p.kind)
	name := w.names.File(stem, ".o")
	w.objects = append(w.objects, name)
	r := register.Registration{Kind: p.kind, Package: p.kind == offloadbinary.SYCL && w.Device.Release > register.LastSYCLDescriptor}
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
	inputs, err := w.readImages(&r, p)
	defer closeInputs(inputs)
	if err != nil {
		return err
	}
	module.Registration = r
	if w.PrintModule {
		if err := module.WriteText(w.Stderr); err != nil {
			return err
		}
	}
	module.PageAligned = true
	return w.writeRegistration(ctx, module, name)
}

// readImages sets the images of a registration, which are valid while the inputs are open. The
// caller must close the inputs, also after an error.
func (w *linker) readImages(r *register.Registration, p *packedKind) (inputs []*files.Input, err error) {
	if p.image != nil {
		r.Images = []register.Image{*p.image}
		return nil, nil
	}
	for _, image := range p.images {
		input, err := w.files.Open(image)
		if err != nil {
			return inputs, err
		}
		inputs = append(inputs, input)
		found, err := r.ReadImages(input.All())
		if err != nil {
			return inputs, files.NameError(input.Name(), err)
		}
		r.Images = append(r.Images, found...)
	}
	return inputs, nil
}

// writeRegistration writes the object of a registration. For hosts that package register does
// not support, clang compiles the module. The module is also written if files are kept.
func (w *linker) writeRegistration(ctx context.Context, module registerir.Module, name string) error {
	machine, coff, unsupported := register.HostMachine(w.HostTriple)
	if w.SaveTemps || unsupported != nil {
		ir := strings.TrimSuffix(name, ".o") + ".bc"
		err := w.files.Write(ctx, func(out *files.Outputs) error {
			output, err := out.Create(ir)
			if err != nil {
				return err
			}
			return module.WriteBitcode(output)
		})
		if err != nil {
			return err
		}
		if unsupported != nil {
			return w.compile(ctx, ir, name)
		}
	}
	o := register.Object{Machine: machine, COFF: coff, Relocatable: w.Relocatable, Keep: w.keep, Registrations: []register.Registration{module.Registration}}
	return w.files.Write(ctx, func(out *files.Outputs) error {
		output, err := out.Create(name)
		if err != nil {
			return err
		}
		return o.Write(output)
	})
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
func (w *linker) placeholders(p *packedKind) ([]register.Image, error) {
	switch p.kind {
	case offloadbinary.OpenMP:
		var images []register.Image
		for _, l := range p.links {
			var b content.Buffer
			image := w.packaged(&w.links[l])
			if len(w.Override) > 0 {
				input, err := w.files.Open(w.linked[l])
				if err != nil {
					return nil, err
				}
				defer input.Close()
				image.Content = content.Memory(slices.Clone(input.Bytes()))
			}
			if err := offloadbinary.Write(&b, 1, []offloadbinary.Image{image}); err != nil {
				return nil, err
			}
			r := register.Registration{Kind: offloadbinary.OpenMP}
			packed, err := r.ReadImages(content.Memory(b.Bytes()))
			if err != nil {
				return nil, err
			}
			images = append(images, packed...)
		}
		return images, nil
	case offloadbinary.SYCL:
		return []register.Image{{Symbols: []string{"stub"}}}, nil
	}
	return []register.Image{{}}, nil
}

func closeInputs(inputs []*files.Input) {
	for _, input := range inputs {
		input.Close()
	}
}
