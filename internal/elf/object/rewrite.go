package object

import (
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// NewSection is a section to append to an object.
type NewSection struct {
	Name    string
	Content content.Content
	// Type, Flags and Align are sh_type, sh_flags and sh_addralign.
	Type  uint32
	Flags uint64
	Align uint64
	// Characteristics replaces them in a COFF object.
	Characteristics uint32
}

// BundleSection returns the section for one entry of a bundle of type o, as written by
// `llvm-objcopy --add-section=NAME=FILE --set-section-flags=NAME=readonly,exclude`,
// the command that clang-offload-bundler of LLVM 22 runs.
func BundleSection(name string, c content.Content) NewSection {
	return NewSection{
		Name: name, Content: c,
		Type: elf.ShtProgbits, Flags: elf.ShfExclude, Align: 1,
		Characteristics: scnMemRead | scnLnkRemove,
	}
}

// OffloadingSection returns the `.llvm.offloading` section with device images
// for a host object, as clang's -fembed-offload-object writes it
// (clang/lib/CodeGen/BackendUtil.cpp of LLVM 22).
func OffloadingSection(c content.Content) NewSection {
	return NewSection{
		Name: embedding.OffloadSection, Content: c,
		Type: elf.ShtOffloading, Flags: elf.ShfExclude, Align: 8,
		Characteristics: scnLnkRemove | scnAlign8 | scnMemDiscardable,
	}
}

// Edits are the changes that Rewrite makes to an object. All names are those of
// the input: sections are removed first, then symbols and sections are renamed,
// then sections are added.
type Edits struct {
	// Remove selects the sections to remove. Their relocation sections and the
	// symbols defined in them are also removed.
	Remove func(name []byte) bool
	// RenameSection and RenameSymbol map old names to new ones. A relocation
	// section is renamed with the section that it applies to.
	RenameSection, RenameSymbol map[string]string
	// Add are the sections to append, in order.
	Add []NewSection
	// Undefined are global symbols to append to the symbol table of an ELF object that
	// has one: linkers then look for their definitions, also in archives.
	Undefined []string
}

// ErrUnwritable is wrapped by errors of Rewrite for inputs that it cannot write:
// formats that Parse does not read, and ELF files without section headers or
// with more segments than the header can count.
var ErrUnwritable = errors.New("sections of this format cannot be changed")

// Rewrite writes in with the changes of e to out, with the layout of
// llvm-objcopy 22. Contents are passed to out as ranges of in.
func Rewrite(in content.Content, e Edits, out content.Sink) error {
	switch format := Identify(in.Mapped(guard.Inside)); {
	case format.IsELF():
		return rewriteELF(in, e, out)
	case format.IsCOFF():
		return rewriteCOFF(in, e, out)
	default:
		return fmt.Errorf("%w: %s", ErrUnwritable, format)
	}
}

// RemoveSections removes the sections of in that match selects.
func RemoveSections(in content.Content, match func(name []byte) bool, out content.Sink) error {
	return Rewrite(in, Edits{Remove: match}, out)
}

// partAt returns content at an offset of the output.
func partAt(off uint64, c content.Content) content.Part {
	return content.Part{Offset: int64(off), Content: c}
}

// appendParts appends parts of a section at an offset of the output.
func appendParts(pieces []content.Part, at uint64, parts []content.Part) []content.Part {
	for _, p := range parts {
		pieces = append(pieces, partAt(at+uint64(p.Offset), p.Content))
	}
	return pieces
}

// maxOutput returns the largest output size of a rewrite of input bytes. Only
// alignment and, in COFF, uninitialised data add bytes, and a header may state
// any size.
func maxOutput(input int, add []NewSection) uint64 {
	n := uint64(input)
	for i := range add {
		n += uint64(add[i].Content.Len())
	}
	return 2*n + 1<<30
}
