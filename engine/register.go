package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/limits"
	"github.com/rules-offload/rules_offload/internal/llvm/dialect"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/registration/registerir"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// RegisterOptions are the options of Register.
type RegisterOptions struct {
	Kind offloadbinary.OffloadKind
	// Triple is the host triple: x86-64 or AArch64 with ELF, or x86-64 Windows.
	Triple string
	// Release is the release whose SYCL runtime is called, and which reads the bitcode of IR. From
	// LLVM 23 on, that runtime registers an offload binary, not each image.
	Release target.Release
	// Images are files with device images: for OpenMP any number of images and
	// offload binaries, where each image is registered; for HIP and CUDA one fat
	// binary; for SYCL one offload binary.
	Images []string
	Output string

	// Entries is the section of the offload entries that are registered with the
	// images; if empty, llvm_offload_entries.
	Entries string
	// KeepEntries are host objects whose offload entries linkers must keep,
	// even lld with --gc-sections.
	KeepEntries []string
	// Relocatable hides the images from later device links.
	Relocatable bool

	// IR writes the registration as LLVM bitcode, for any host.
	IR bool
	// FirstImage registers only the first image of each offload binary, as
	// llvm-offload-wrapper does.
	FirstImage bool
	// Check rejects fat binaries for HIP and CUDA that are not device code.
	Check bool
	// Define are symbols for the object to define, which objects that Require
	// writes refer to.
	Define []string
	// Symbol, if not empty, makes Register write an object that defines this
	// symbol as the HIP fat binary and registers nothing. Host code compiled
	// without -fgpu-rdc registers the fat binary that it refers to as
	// __hip_fatbin, see IsolateOptions.Suffix.
	Symbol string
	// ReferencedBy, if not empty, is the host object that may refer to Symbol. If it does
	// not, because its source has no device code that the host uses, the object of
	// Register is empty.
	ReferencedBy string
}

// Register writes a registration object like that of clang-linker-wrapper from
// LLVM 22.
func (s *Session) Register(ctx context.Context, opt RegisterOptions) (err error) {
	defer guard.Into(&err)()
	machine, coff, err := register.HostMachine(opt.Triple)
	if err != nil && !opt.IR {
		return err
	}
	return s.transform(ctx, slices.Concat(opt.Images, opt.KeepEntries), func(inputs []*files.Input, out *files.Outputs) error {
		inputs, hosts := inputs[:len(opt.Images)], inputs[len(opt.Images):]
		switch {
		case opt.Symbol != "" && coff:
			return fmt.Errorf("triple %q: a fat binary with a symbol requires ELF", opt.Triple)
		case opt.Symbol != "":
			return s.holdFatBinary(machine, inputs, out, &opt)
		}
		return s.register(ctx, machine, coff, inputs, hosts, out, &opt)
	})
}

// register writes an object that registers the images in inputs.
func (s *Session) register(ctx context.Context, machine uint16, coff bool, inputs, hosts []*files.Input, out *files.Outputs, opt *RegisterOptions) error {
	o := register.Object{Machine: machine, COFF: coff, Entries: opt.Entries, Relocatable: opt.Relocatable, Define: opt.Define}
	for _, host := range hosts {
		var keep []string
		err := guard.Contain(func() (err error) {
			keep, err = register.EntrySymbols(host.Mapped(guard.Inside))
			return err
		})
		if err != nil {
			return in(host, err)
		}
		o.Keep = append(o.Keep, keep...)
	}
	memory, err := s.reserveInflated(ctx, inputs)
	if err != nil {
		return err
	}
	defer memory.Release()
	runtime := runtimes.Of(opt.Kind)
	if runtime == nil {
		return fmt.Errorf("unknown kind %d", opt.Kind)
	}
	r := register.Registration{Kind: opt.Kind, Package: runtime.Form == runtimes.OffloadBinary && dialect.Of(opt.Release).SYCLBinaries}
	for _, input := range inputs {
		images, err := r.ReadImages(input.All())
		if err == nil && opt.Check && runtime.Form == runtimes.FatBinary {
			err = loadable(input.Mapped(guard.Inside))
		}
		if err == nil {
			err = s.verifyCompressed(ctx, input.All())
		}
		if err != nil {
			return in(input, err)
		}
		if opt.FirstImage && len(images) > 0 {
			images = images[:1]
			images[0].Devices = images[0].Devices[:min(1, len(images[0].Devices))]
		}
		r.Images = append(r.Images, images...)
	}
	o.Registrations = []register.Registration{r}
	output, err := out.Create(opt.Output)
	if err != nil {
		return err
	}
	if opt.IR {
		module := registerir.Module{Triple: opt.Triple, Release: opt.Release, Registration: r, Relocatable: opt.Relocatable, PageAligned: true}
		return module.WriteBitcode(output)
	}
	return o.Write(output)
}

// reserveInflated reserves the memory for compressed offload binaries.
func (s *Session) reserveInflated(ctx context.Context, inputs []*files.Input) (*budget.Reservation, error) {
	need := int64(0)
	add := func(size int64) (bool, error) {
		if need += size; need > limits.Inflated {
			return false, fmt.Errorf("compressed offload binaries inflate to more than %d bytes in total", limits.Inflated)
		}
		return false, nil
	}
	for _, input := range inputs {
		err := guard.Contain(func() error {
			if !offloadbinary.Is(input.Mapped(guard.Inside)) {
				return nil
			}
			for _, err := range offloadbinary.Parse(input.All(), offloadbinary.Options{Inflate: add}) {
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, in(input, err)
		}
	}
	memory, err := s.budget.Reserve(ctx, need)
	if err != nil && context.Cause(ctx) == nil {
		err = in(inputs[0], err)
	}
	return memory, err
}

// holdFatBinary writes the object of Register for a Symbol.
func (s *Session) holdFatBinary(machine uint16, inputs []*files.Input, out *files.Outputs, opt *RegisterOptions) error {
	if opt.Kind != offloadbinary.HIP || len(inputs) != 1 || len(opt.Define) > 0 || len(opt.KeepEntries) > 0 {
		return errors.New("a symbol requires one fat binary for HIP, without offload entries")
	}
	unused := false
	if opt.ReferencedBy != "" {
		referenced, err := s.refersTo(opt.ReferencedBy, opt.Symbol)
		if err != nil {
			return err
		}
		unused = !referenced
	}
	if offloadbinary.Is(inputs[0].Mapped(guard.Inside)) {
		return in(inputs[0], errors.New("found an offload binary, expected a fat binary, which the runtime of hip loads"))
	}
	output, err := out.Create(opt.Output)
	if err != nil {
		return err
	}
	o := register.FatBinary{Machine: machine, Symbol: opt.Symbol, Content: inputs[0].All(), Unused: unused}
	return in(inputs[0], o.Write(output))
}

// refersTo reports whether a host object uses a symbol that it does not define.
func (s *Session) refersTo(name, symbol string) (found bool, err error) {
	host, err := s.files.Open(name)
	if err != nil {
		return false, err
	}
	defer host.Close()
	err = guard.Contain(func() error {
		f, err := object.Parse(host.Mapped(guard.Inside))
		if err != nil {
			return err
		}
		for one, err := range f.Symbols() {
			if err != nil {
				return err
			}
			if one.Kind == object.Undefined && string(one.Name) == symbol {
				found = true
			}
		}
		return nil
	})
	return found, in(host, err)
}

// RequireOptions are the options of Require.
type RequireOptions struct {
	// Triple is the host triple: x86-64 or AArch64 with ELF.
	Triple string
	// Symbols are the symbols that a program with the object must define.
	Symbols []string
	// Define are symbols that the object defines, by which linkers find it in an archive.
	Define []string
	Output string
}

// Require writes an object that makes the link of a program fail unless the
// program defines certain symbols, see RegisterOptions.Define.
func (s *Session) Require(ctx context.Context, opt RequireOptions) (err error) {
	defer guard.Into(&err)()
	machine, coff, err := register.HostMachine(opt.Triple)
	if err != nil {
		return err
	}
	if coff {
		return fmt.Errorf("triple %q: the object requires ELF", opt.Triple)
	}
	return s.files.WriteFile(ctx, opt.Output, func(output *files.Output) error {
		o := register.Requirement{Machine: machine, Symbols: opt.Symbols, Define: opt.Define}
		return o.Write(output)
	})
}

// verifyCompressed checks the bundles in c as unbundling would, if c begins with
// a compressed bundle.
func (s *Session) verifyCompressed(ctx context.Context, c content.Content) error {
	if !ccob.Is(c.Mapped(guard.Inside)) {
		return nil
	}
	for extent, err := range ccob.Walk(c.Mapped(guard.Inside), bundle.End) {
		if err != nil {
			return err
		}
		if extent.Header == nil {
			continue
		}
		reader, err := ccob.Open(c.Slice(extent.Offset, extent.End-extent.Offset).Mapped(guard.Inside), ccob.Options{Budget: s.budget})
		if err == nil {
			err = reader.Verify(ctx)
		}
		if err != nil {
			return fmt.Errorf("compressed bundle at byte 0x%x: %w", extent.Offset, err)
		}
	}
	return nil
}
