// Package register writes registration objects: relocatable objects, ELF for
// x86-64 and AArch64 and COFF for x86-64, that carry linked device images into a program and, before
// main runs, hand them and the program's offload entries to the runtime of
// OpenMP, HIP, CUDA or SYCL. They do what the objects do that clang-linker-wrapper
// has a compiler make of LLVM IR (llvm/lib/Frontend/Offloading/OffloadWrapper.cpp), in the same
// order of calls, but are written directly: the code is
// assembled from the sources in asm.
//
// # What an object holds
//
// The constructor is in .init_array.101, which runs before the constructors of
// the program's own; it registers with atexit what undoes it. It can be linked
// into executables, position independent or not, and into shared libraries, by
// bfd, gold and lld. SYCL has a constructor and a destructor of priority 1.
//
// The offload entries of the host objects, which compilers put into the section
// llvm_offload_entries, are found between __start_llvm_offload_entries and
// __stop_llvm_offload_entries. Linkers define these only where the section
// exists, so the object has an empty piece of it, which SHF_GNU_RETAIN and a
// relocation without effect (R_*_NONE) make --gc-sections keep. lld takes the entries
// themselves for garbage unless -z nostart-stop-gc is given or [Object.Keep]
// names them.
//
// In COFF, whose linkers make no such bounds, the object defines them as weak
// symbols in sections whose names sort before and after those of the entries, and
// constructors are pointers in .CRT$XCA00101.
//
// Code that linkers may protect by Intel CET, BTI, PAC or GCS stays protected:
// the object says in .note.gnu.property that it is ready.
package register

import (
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/object"
)

// Kind is the runtime that images are registered with.
type Kind uint8

// The runtimes.
const (
	OpenMP Kind = iota + 1 // libomptarget
	HIP
	CUDA
	SYCL
)

// ParseKind returns the kind of that name: openmp, hip, cuda or sycl.
func ParseKind(name string) (Kind, error) {
	for k := OpenMP; k <= SYCL; k++ {
		if k.String() == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("kind %q is none of openmp, hip, cuda, sycl", name)
}

// String returns the name of k, as --kind has it.
func (k Kind) String() string {
	return [...]string{"none", "openmp", "hip", "cuda", "sycl"}[k]
}

// EntriesSection is the section in which compilers put offload entries.
const EntriesSection = "llvm_offload_entries"

// Range is a run of bytes.
type Range struct {
	Offset, Size int64
}

// Image is what one file brings along.
type Image struct {
	// Content is what the program holds. HIP maps it and wants it at a page's
	// start: it lies at a multiple of 4096. Other kinds get 8 (OpenMP) or 16.
	Content files.Content
	// Parts are more content, for a fat binary in several files.
	Parts []object.Part
	// Devices are the device images in Content that OpenMP is told of; without
	// any it is the whole. Other kinds have none.
	Devices []Range

	// Triple, ImageKind and Symbols are what SYCL is told of an image: its target,
	// its kind as offload binaries have it, and the names of its kernels.
	Triple    string
	ImageKind uint8
	Symbols   []string
}

// size returns the number of bytes of the content.
func (img *Image) size() int64 {
	if n := len(img.Parts); n > 0 {
		return img.Parts[n-1].Offset + img.Parts[n-1].Content.Len()
	}
	return img.Content.Len()
}

// Registration hands images to one runtime.
type Registration struct {
	Kind Kind
	// Images are for OpenMP and SYCL any number, for HIP and CUDA exactly one, the
	// fat binary.
	Images []Image
	// Package reports that the one image is an offload binary which SYCL's runtime
	// reads itself, as it does from LLVM 23 on.
	Package bool
}

// Object is a registration object.
type Object struct {
	// Machine is object.MachineX8664 or object.MachineAArch64.
	Machine uint16
	// COFF makes an object for Windows, of MachineX8664.
	COFF bool
	// Registrations are done in this order.
	Registrations []Registration
	// Entries is the section of the offload entries, EntriesSection if empty.
	// Another one makes the registration see those entries alone that were put
	// there; its name must be an identifier of C.
	Entries string
	// Keep are symbols that --gc-sections must keep if they are defined.
	Keep []string
	// Define are symbols for objects that require them, see [Requirement].
	Define []string
	// Relocatable keeps OpenMP's images from later device links: their section
	// is one of plain data, .llvm.offloading.relocatable, and not of the type
	// by which LLVM's tools find images to be linked.
	Relocatable bool
}

// Write writes the object. Its bytes depend on the fields alone.
func (o *Object) Write(out files.Sink) error {
	m, err := newModule(o)
	if err != nil {
		return err
	}
	for _, r := range o.Registrations {
		if err := m.register(&r); err != nil {
			return fmt.Errorf("%s: %w", r.Kind, err)
		}
	}
	return m.finish(out)
}

func (r *Registration) check() error {
	switch {
	case r.Kind < OpenMP || r.Kind > SYCL:
		return fmt.Errorf("kind %d is not known", r.Kind)
	case len(r.Images) == 0:
		return errors.New("no image to register")
	case r.Kind == SYCL && !r.Package:
	case r.Kind != OpenMP && len(r.Images) > 1:
		return fmt.Errorf("%d images, expected one fat binary", len(r.Images))
	}
	for i, img := range r.Images {
		if img.Content.Len() == 0 {
			return fmt.Errorf("image %d of %d is empty", i+1, len(r.Images))
		}
		for _, d := range img.Devices {
			if d.Offset < 0 || d.Size < 0 || d.Offset > img.Content.Len() || d.Size > img.Content.Len()-d.Offset {
				return fmt.Errorf("image %d of %d: device image at 0x%x + 0x%x passes its end at 0x%x",
					i+1, len(r.Images), d.Offset, d.Size, img.Content.Len())
			}
		}
	}
	return nil
}
