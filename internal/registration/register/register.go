// Package register writes registration objects. These are relocatable objects, ELF for
// x86-64 and AArch64 and COFF for x86-64, that contain linked device images. Before main
// runs, their code passes the images and the program's offload entries to the runtime of
// OpenMP, HIP, CUDA or SYCL. The objects make the same calls in the same order as those of
// clang-linker-wrapper, which a compiler generates from LLVM IR
// (llvm/lib/Frontend/Offloading/OffloadWrapper.cpp). The package writes them directly, with code
// that llvm-mc assembled from the sources in asm.
//
// # Contents of an object
//
// The constructor is in .init_array.101, which runs before the program's own
// constructors. It registers its opposite with atexit. The object can be linked
// into executables, position independent or not, and into shared libraries, by
// bfd, gold and lld. For SYCL, there are a constructor and a destructor of priority 1.
//
// Compilers put the offload entries of host objects into the section
// llvm_offload_entries, between the symbols __start_llvm_offload_entries and
// __stop_llvm_offload_entries. Linkers define these symbols only if the section
// exists. Therefore the object has an empty section of that name. SHF_GNU_RETAIN and a
// relocation without effect (R_*_NONE) protect it from --gc-sections. lld removes the
// entries themselves, unless the link has -z nostart-stop-gc or [Object.Keep]
// names them.
//
// COFF linkers do not define such symbols. There, the object defines them as weak
// symbols in sections whose names sort before and after those of the entries, and
// the pointer to the constructor is in .CRT$XCA00101.
//
// The object supports Intel CET, BTI, PAC and GCS, and declares so in .note.gnu.property:
// linking it does not disable the protection of a program.
package register

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

// ParseKind returns the kind with a name: one of runtimes.Names.
func ParseKind(name string) (offloadbinary.OffloadKind, error) {
	k, ok := offloadbinary.ParseOffloadKind(name)
	if !ok || k == 0 {
		return 0, fmt.Errorf("kind: found %q, expected one of %s", name, strings.Join(runtimes.Names(), ", "))
	}
	return k, nil
}

// Range is a range of bytes.
type Range struct {
	Offset, Size int64
}

// Image is the content of one file, and its description for the runtime.
type Image struct {
	// Content is stored in the program. Its alignment is 4096 bytes for HIP, whose runtime
	// maps it, 8 for OpenMP, and 16 for other kinds.
	Content content.Content
	// Parts are more content, for a fat binary in several files.
	Parts []content.Part
	// Devices are the device images in Content that are registered with OpenMP; nil
	// stands for all of Content. Other kinds ignore it.
	Devices []Range

	// Triple, ImageKind and Symbols describe an image for SYCL: its target, its
	// kind as in offload binaries, and the names of its kernels. Other kinds ignore them.
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

// Registration registers images with one runtime.
type Registration struct {
	Kind offloadbinary.OffloadKind
	// Images has one element or more for OpenMP and SYCL, and exactly one, the fat
	// binary, for HIP and CUDA.
	Images []Image
	// Package reports that the only image is an offload binary, which SYCL's runtime
	// reads in LLVM 23 and later.
	Package bool
}

// Object is a registration object.
type Object struct {
	// Machine is elf.MachineX8664 or elf.MachineAArch64.
	Machine uint16
	// COFF makes an object for Windows, of MachineX8664.
	COFF bool
	// Registrations run in this order.
	Registrations []Registration
	// Entries is the section of the offload entries; "" is embedding.EntriesSection. With
	// another section, only the entries in it are registered. Its name must be a C
	// identifier.
	Entries string
	// Keep are symbols that --gc-sections must keep if they are defined.
	Keep []string
	// Define are symbols for objects that require them, see [Requirement].
	Define []string
	// Relocatable excludes OpenMP's images from later device links: they are in a
	// section of plain data, .llvm.offloading.relocatable, instead of one with the
	// type by which LLVM's tools find images to link.
	Relocatable bool
}

// Write writes the object. Its bytes depend only on the fields.
func (o *Object) Write(out content.Sink) error {
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
	runtime := runtimes.Of(r.Kind)
	switch {
	case runtime == nil:
		return fmt.Errorf("unknown kind %d", r.Kind)
	case len(r.Images) == 0:
		return errors.New("no image to register")
	case len(r.Images) > 1 && (r.Package || runtime.Form == runtimes.FatBinary):
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
