package engine

import (
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/object"
	"github.com/rules-offload/rules_offload/internal/register"
)

// IsolateOptions are the options of Isolate.
type IsolateOptions struct {
	// Input is a relocatable ELF object: host objects that were linked with the
	// registration object of their device images, or, with a Suffix, one host
	// object.
	Input  string
	Output string
	// Suffix distinguishes the offload entries of Input from those of other objects. It consists of
	// letters, digits and underscores. The entries are moved to the section
	// llvm_offload_entries_SUFFIX. The fat binary that host code without -fgpu-rdc registers is
	// renamed to __hip_fatbin_SUFFIX, see RegisterOptions.Symbol. If empty, the suffix is computed
	// from the content of Input, which then must have entries.
	Suffix string
}

// Isolate completes a relocatable device link, as clang-linker-wrapper of LLVM 22
// does. It moves the offload entries of the object to a section with a unique name,
// which only the object's registration reads, and removes the images that were
// linked. The object can then be linked into programs that have other target regions.
//
// The result is the same without a relocatable link: isolate all host objects of a
// library with one suffix, and create their registration object for the section with
// that suffix.
func (s *Session) Isolate(ctx context.Context, opt IsolateOptions) error {
	input, err := s.files.Open(opt.Input)
	if err != nil {
		return err
	}
	defer input.Close()
	return s.isolate(ctx, input, opt.Output, opt.Suffix)
}

// isolate is Isolate for an open input.
func (s *Session) isolate(ctx context.Context, input *files.Input, name, suffix string) error {
	return s.write(ctx, func(out *files.Outputs) error {
		edits, err := isolation(input.Bytes(), suffix)
		if err != nil {
			return in(input, err)
		}
		output, err := out.Create(name)
		if err != nil {
			return err
		}
		return in(input, object.Rewrite(input.All(), edits, output))
	})
}

// ErrRegistered reports an object whose registration object was not made for relocatable links.
var ErrRegistered = errors.New("has registered images, which a later device link would link and register again")

// isolation returns what Isolate changes in an object.
func isolation(data []byte, suffix string) (object.Edits, error) {
	var edits object.Edits
	if format := object.Identify(data); format != object.ELFRelocatable {
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
		case name == register.EntriesSection:
			entries = true
		case s.Type == object.ShtOffloading && name == relocatableOffloading:
			// Images that LLVM's tools registered are not part of this library's images,
			// and must not be linked again.
		case s.Type == object.ShtOffloading && s.Flags&object.ShfAlloc != 0:
			return edits, fmt.Errorf("section %s %w", name, ErrRegistered)
		case s.Type == object.ShtOffloading:
			images = append(images, name)
		}
	}
	if !entries && suffix == "" {
		return edits, fmt.Errorf("no section %s: nothing to isolate", register.EntriesSection)
	}
	rename := suffix != ""
	if !rename {
		sum := md5.Sum(data)
		suffix = strconv.FormatUint(binary.LittleEndian.Uint64(sum[:]), 16)
	}
	renamed := register.EntriesSection + "_" + suffix
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
	edits.RenameSection = map[string]string{register.EntriesSection: renamed}
	edits.RenameSymbol = map[string]string{
		"__start_" + register.EntriesSection: "__start_" + renamed,
		"__stop_" + register.EntriesSection:  "__stop_" + renamed,
	}
	if rename {
		for symbol, err := range file.Symbols() {
			if err != nil {
				return edits, err
			}
			if name := string(symbol.Name); symbol.Kind == object.Undefined && strings.HasPrefix(name, fatBinarySymbol) {
				edits.RenameSymbol[name] = fatBinarySymbol + "_" + suffix
			}
		}
	}
	return edits, nil
}

// fatBinarySymbol is the prefix of the symbol by which host code refers to a
// HIP fat binary in another object.
const fatBinarySymbol = "__hip_fatbin"
