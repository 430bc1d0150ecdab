// Package offloadbinary reads and writes offload binaries: the packages with
// the magic 10 FF 10 AD in which clang stores device images and their
// properties.
//
// # Layout
//
// All numbers are little endian; offsets are relative to the start of the
// package.
//
//	 0  10 FF 10 AD
//	 4  u32 version
//	 8  u64 size of the package; in versions 1 and 2 with the padding at its end
//	16  u64 offset of the entries
//	24  u64 version 1: size of an entry, and there is one; later: number of entries
//	32  u64 version 3 only: inflated size
//
// An entry has 40 bytes:
//
//	 0  u16 image kind, u16 offload kind, u32 flags
//	 8  u64 offset of its string records, u64 number of them
//	24  u64 offset of the image, u64 size
//
// A string record has the offsets of a NUL-terminated key and value and, from
// version 2, the size of the value. Several packages may be adjacent, with
// zeros between them; version 1 stores several images in this way.
//
// In a version 3 package whose inflated size is not 0, all bytes from the
// entries are one zstd or zlib stream; the inflated size includes the header
// and the content of the stream.
//
// LLVM 15 to 22 support version 1, LLVM 23 version 2, later releases version 3.
package offloadbinary

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
)

// Magic is the first bytes of every package.
const Magic = "\x10\xff\x10\xad"

// Is reports whether data begins with the magic of a package.
func Is(data []byte) bool { return bytes.HasPrefix(data, []byte(Magic)) }

// Align is the alignment of packages and of images in version 1, in bytes.
const Align = 8

// Image is an image of a package with its properties.
type Image struct {
	Kind    ImageKind
	Offload OffloadKind
	Flags   uint32
	// Properties are those of the image, in file order.
	Properties Properties
	Content    content.Content
	// Offset is the offset of Content in the argument of Parse or, if the package
	// is compressed, in the inflated package.
	Offset int64
}

// Property is a property of an image, such as arch=gfx942. Neither part may
// contain a NUL, except values in version 2.
type Property struct {
	Key, Value string
}

// Properties are properties in the order of a file.
type Properties []Property

// Get returns the value of a property, or "" if it is not set. If several have
// the key, it returns the last one.
func (p Properties) Get(key string) string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i].Key == key {
			return p[i].Value
		}
	}
	return ""
}

// Get returns the value of a property of the image, see Properties.Get.
func (img *Image) Get(key string) string { return img.Properties.Get(key) }

// ImageKind is the format of an image.
type ImageKind uint16

// The formats of images in packages.
const (
	None ImageKind = iota
	Object
	Bitcode
	Cubin
	Fatbinary
	PTX
	SPIRV
)

var imageKinds = [...]struct{ name, extension string }{
	None:      {"none", ""},
	Object:    {"elf", "o"},
	Bitcode:   {"llvm ir", "bc"},
	Cubin:     {"cubin", "cubin"},
	Fatbinary: {"fatbinary", "fatbin"},
	PTX:       {"ptx", "s"},
	SPIRV:     {"spirv", "spv"},
}

// String returns the name of k in the output of llvm-objdump.
func (k ImageKind) String() string {
	if int(k) < len(imageKinds) {
		return imageKinds[k].name
	}
	return fmt.Sprintf("unknown (%d)", uint16(k))
}

// Extension returns the file name extension, without the dot, that LLVM uses
// for images of the kind; "" for a kind without an extension.
func (k ImageKind) Extension() string {
	if int(k) < len(imageKinds) {
		return imageKinds[k].extension
	}
	return ""
}

// KindOfName returns the kind that LLVM 23 derives from the extension of a file
// name, or None for other extensions.
func KindOfName(name string) ImageKind {
	extension := strings.TrimPrefix(path.Ext(name), ".")
	for kind, k := range imageKinds {
		if extension != "" && k.extension == extension {
			return ImageKind(kind)
		}
	}
	return None
}

// KindOfData returns the kind of an image according to its content, or None if
// it is not recognized.
func KindOfData(data []byte) ImageKind {
	switch {
	case hasPrefix(data, "BC\xc0\xde", "\xde\xc0\x17\x0b"):
		return Bitcode
	case hasPrefix(data, "\x03\x02\x23\x07", "\x07\x23\x02\x03"):
		return SPIRV
	case hasPrefix(data, "\x50\xed\x55\xba"):
		return Fatbinary
	case hasPrefix(data, elf.Magic):
		if len(data) >= 20 && binary.LittleEndian.Uint16(data[18:]) == elf.MachineCUDA {
			return Cubin
		}
		return Object
	}
	return None
}

func hasPrefix(data []byte, magics ...string) bool {
	for _, magic := range magics {
		if bytes.HasPrefix(data, []byte(magic)) {
			return true
		}
	}
	return false
}

// OffloadKind is a set of bits: the programming models that an image is for.
type OffloadKind uint16

// The programming models.
const (
	OpenMP OffloadKind = 1 << iota
	CUDA
	HIP
	SYCL
)

var offloadKinds = []string{"openmp", "cuda", "hip", "sycl"}

// ParseOffloadKind returns the kind with the given name: openmp, cuda, hip,
// sycl, or none for no bits. For any other name, it returns no bits and false.
func ParseOffloadKind(name string) (OffloadKind, bool) {
	for bit, known := range offloadKinds {
		if name == known {
			return 1 << bit, true
		}
	}
	return 0, name == "none"
}

// String returns the names of the models, separated by commas.
func (k OffloadKind) String() string {
	if k == 0 {
		return "none"
	}
	var names []string
	for bit, name := range offloadKinds {
		if k&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	if rest := k &^ (1<<len(offloadKinds) - 1); rest != 0 {
		names = append(names, fmt.Sprintf("0x%x", uint16(rest)))
	}
	return strings.Join(names, ",")
}
