package register

import (
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
)

// ErrRegistered reports an object whose registration object was not made for relocatable links.
var ErrRegistered = errors.New("has registered images, which a later device link would link and register again")

// Isolation returns the edits that complete a relocatable link: they move the offload entries of an
// object to a section with a suffix of its own, and remove the images that were linked. With a
// suffix, an object without entries is accepted, and its reference to a HIP fat binary gets the
// suffix, too. Without one, the suffix is computed from data. If reference is not empty, an object with
// entries refers to this symbol, so that linkers find the registration of the entries in an archive.
func Isolation(data []byte, suffix, reference string) (object.Edits, error) {
	var edits object.Edits
	switch format := object.Identify(data); format {
	case object.ELFRelocatable:
	case object.Unknown:
		return edits, errors.New("found a file of an unknown format, expected a relocatable ELF object")
	default:
		return edits, fmt.Errorf("found %s, expected a relocatable ELF object", format)
	}
	file, err := object.Parse(data)
	if err != nil {
		return edits, err
	}
	entries, images := false, []string(nil)
	for i := range file.Sections {
		s := &file.Sections[i]
		switch name := string(s.Name); {
		case name == embedding.EntriesSection:
			entries = true
		case s.Type == elf.ShtOffloading && name == embedding.RelocatableSection:
			// Images that LLVM's tools registered are not part of this library's images,
			// and must not be linked again.
		case s.Type == elf.ShtOffloading && s.Flags&elf.ShfAlloc != 0:
			return edits, fmt.Errorf("section %s %w", name, ErrRegistered)
		case s.Type == elf.ShtOffloading:
			images = append(images, name)
		}
	}
	if !entries && suffix == "" {
		return edits, fmt.Errorf("no section %s: nothing to isolate", embedding.EntriesSection)
	}
	rename := suffix != ""
	if !rename {
		suffix = Suffix(data)
	}
	renamed := embedding.EntriesSection + "_" + suffix
	if strings.ContainsFunc(suffix, func(r rune) bool {
		return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_')
	}) {
		return edits, fmt.Errorf("suffix %q: linkers define the bounds of a section only if its name is a C identifier", suffix)
	}
	edits.Remove = func(name []byte) bool {
		for _, image := range images {
			if string(name) == image {
				return true
			}
		}
		return false
	}
	if entries && reference != "" {
		edits.Undefined = []string{reference}
	}
	edits.RenameSection = map[string]string{embedding.EntriesSection: renamed}
	edits.RenameSymbol = map[string]string{
		"__start_" + embedding.EntriesSection: "__start_" + renamed,
		"__stop_" + embedding.EntriesSection:  "__stop_" + renamed,
	}
	if rename {
		for symbol, err := range file.Symbols() {
			if err != nil {
				return edits, err
			}
			if name := string(symbol.Name); symbol.Kind == object.Undefined && strings.HasPrefix(name, embedding.HIPSymbol) {
				edits.RenameSymbol[name] = embedding.HIPSymbol + "_" + suffix
			}
		}
	}
	return edits, nil
}

// Suffix returns the suffix of the entries of an object that has no name of its own: a hash.
func Suffix(data []byte) string {
	sum := md5.Sum(data)
	return strconv.FormatUint(binary.LittleEndian.Uint64(sum[:]), 16)
}
