package object

import (
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/files"
)

// NewSection is a section to be appended to an object.
type NewSection struct {
	Name    string
	Content files.Content
	// Type, Flags and Align are sh_type, sh_flags and sh_addralign.
	Type  uint32
	Flags uint64
	Align uint64
	// Characteristics takes their place in a COFF object.
	Characteristics uint32
}

// BundleSection returns the section that holds one entry of a bundle of type o:
// what `llvm-objcopy --add-section=NAME=FILE --set-section-flags=NAME=readonly,exclude`
// makes, which clang-offload-bundler of LLVM 22 runs.
func BundleSection(name string, content files.Content) NewSection {
	return NewSection{
		Name: name, Content: content,
		Type: ShtProgbits, Flags: ShfExclude, Align: 1,
		Characteristics: scnMemRead | scnLnkRemove,
	}
}

// OffloadingSection returns the `.llvm.offloading` section that carries device
// images in a host object, as clang's -fembed-offload-object makes it
// (clang/lib/CodeGen/BackendUtil.cpp of LLVM 22).
func OffloadingSection(content files.Content) NewSection {
	return NewSection{
		Name: ".llvm.offloading", Content: content,
		Type: ShtOffloading, Flags: ShfExclude, Align: 8,
		Characteristics: scnLnkRemove | scnAlign8 | scnMemDiscardable,
	}
}

// Edits says how Rewrite changes an object. Names are those of the input:
// sections are removed first, then symbols and sections are renamed, then
// sections are added.
type Edits struct {
	// Remove chooses the sections to remove. Their relocation sections go with
	// them, and the symbols they define.
	Remove func(name []byte) bool
	// RenameSection and RenameSymbol map old names to new ones. A relocation
	// section follows the section it applies to.
	RenameSection, RenameSymbol map[string]string
	// Add is appended in order.
	Add []NewSection
}

// ErrUnwritable is wrapped by the errors of Rewrite for inputs of a kind that it
// does not write: formats that Parse does not read, ELF files without section
// headers or with more segments than the header can count.
var ErrUnwritable = errors.New("sections of this format cannot be changed")

// Rewrite writes in with the changes of e to out, laid out as llvm-objcopy 22
// lays it out. Contents go to out as ranges of in.
func Rewrite(in files.Content, e Edits, out files.Sink) error {
	switch format := Identify(in.Bytes()); {
	case format.IsELF():
		return rewriteELF(in, e, out)
	case format.IsCOFF():
		return rewriteCOFF(in, e, out)
	default:
		return fmt.Errorf("%w: %s", ErrUnwritable, format)
	}
}

// AddSections appends sections to the object in.
func AddSections(in files.Content, add []NewSection, out files.Sink) error {
	return Rewrite(in, Edits{Add: add}, out)
}

// RemoveSections removes the sections of in that match chooses.
func RemoveSections(in files.Content, match func(name []byte) bool, out files.Sink) error {
	return Rewrite(in, Edits{Remove: match}, out)
}

// piece is a run of bytes at its place in the output.
type piece struct {
	off     uint64
	content files.Content
}

// writePieces writes pieces, which are in order and do not overlap, and zeros
// between them and up to size.
func writePieces(pieces []piece, size uint64, out files.Sink) error {
	var at uint64
	for _, p := range pieces {
		if p.content.Len() == 0 {
			continue
		}
		if p.off > at {
			if err := out.Zeros(int64(p.off - at)); err != nil {
				return err
			}
		}
		if err := out.Append(p.content); err != nil {
			return err
		}
		at = p.off + uint64(p.content.Len())
	}
	if size > at {
		return out.Zeros(int64(size - at))
	}
	return nil
}

// maxOutput bounds the output of a rewrite of input bytes. Only alignment and, in
// COFF, uninitialised data add bytes, and a header may claim any.
func maxOutput(input int, add []NewSection) uint64 {
	n := uint64(input)
	for i := range add {
		n += uint64(add[i].Content.Len())
	}
	return 2*n + 1<<30
}
