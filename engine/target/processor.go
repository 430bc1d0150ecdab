package target

import (
	"slices"
	"strings"
)

// feature is a feature that a target ID can set. The tables list features in alphabetical order, as canonical
// target IDs have them.
type feature struct {
	name  string
	flag  uint32 // in the flags of code objects of versions 2 and 3: the feature is on
	shift uint   // in those of later versions: the number of the lower bit of its state
}

// processor is what LLVM knows of a processor of one architecture.
type processor struct {
	name      string // canonical
	aliases   []string
	mach      uint8  // its number in the flags of an ELF header
	features  uint8  // settings that a target ID of this processor may name
	fixed     uint8  // settings that the hardware always has on
	isa       string // what follows amdgpu in its triple
	isaFamily string // the same for its family
	family    string // the processors whose code is alike, see CodeFamily
	earlier   []earlier
}

// earlier is what a processor had in releases of LLVM up to one, oldest first.
type earlier struct {
	until    Release
	features uint8
}

// Processors returns the names of all processors of AMD and NVIDIA GPUs in LLVM 22 to 24, without
// aliases.
func Processors() []string {
	names := make([]string, len(amdgcnProcessors))
	for i := range amdgcnProcessors {
		names[i] = amdgcnProcessors[i].name
	}
	return append(names, nvptxProcessors...)
}

// processors is a list of processors.
type processors []processor

// get returns the processor with a canonical name.
func (list processors) get(name string) (p processor, ok bool) {
	return list.find(func(p *processor) bool { return p.name == name })
}

// named returns the processor with a name, which can be an alias.
func (list processors) named(name string) (p processor, ok bool) {
	return list.find(func(p *processor) bool { return p.name == name || slices.Contains(p.aliases, name) })
}

// find returns the first processor for which is returns true.
func (list processors) find(is func(*processor) bool) (p processor, ok bool) {
	for i := range list {
		if is(&list[i]) {
			return list[i], true
		}
	}
	return processor{}, false
}

// KnownProcessor reports whether target IDs can begin with a name: that of a processor in LLVM 22
// to 24, an alias of one (fiji), the name of AMD's portable SPIR-V code (amdgcnspirv), or a
// processor that LLVM 22 no longer defines (gfx940).
func KnownProcessor(name string) bool {
	_, known := amdgcnProcessors.named(name)
	_, removed := removedProcessors.get(name)
	return known || removed || slices.Contains(nvptxProcessors, name) || name == spirvProcessor
}

// ArchGroup returns the processors of a generation of AMD's GPUs by its name, such as mi300 or
// rdna3, or nil.
func ArchGroup(name string) []string { return slices.Clone(archGroups.of(name)) }

// FindProcessor returns the name of the first AMD GPU processor in a text such as the name of a
// file, or "". A name ends before a letter, a digit or the end of the text. A name of the form of
// processors that LLVM 22 to 24 do not define is returned, too.
func FindProcessor(text string) string {
	for at := 0; ; {
		i := strings.Index(text[at:], "gfx")
		if i < 0 {
			return ""
		}
		at += i
		longest := ""
		for _, known := range slices.Concat(amdgcnProcessors, removedProcessors) {
			if rest, ok := strings.CutPrefix(text[at:], known.name); ok && len(known.name) > len(longest) && !continues(rest) {
				longest = known.name
			}
		}
		if longest == "" {
			longest = processorForm(text[at:])
		}
		if longest != "" {
			return longest
		}
		at += len("gfx")
	}
}

// processorForm returns the name at the start of text, which begins with gfx, that has the form of
// a processor, or "": gfx1999, gfx1999-strict, gfx19-9-generic.
func processorForm(text string) string {
	digits := func(from int, set string) int {
		for from < len(text) && strings.IndexByte(set, text[from]) >= 0 {
			from++
		}
		return from
	}
	const decimal = "0123456789"
	end := digits(len("gfx"), decimal)
	if end == len("gfx") {
		return ""
	}
	end = digits(end, decimal+"abcdef")
	suffix := end
	if suffix+1 < len(text) && text[suffix] == '-' {
		if n := digits(suffix+1, decimal); n > suffix+1 {
			suffix = n
		}
	}
	for _, kind := range []string{"-generic", "-strict"} {
		if rest, ok := strings.CutPrefix(text[suffix:], kind); ok && !continues(rest) {
			return text[:suffix+len(kind)]
		}
	}
	return text[:end]
}

// continues reports whether a name continues in the text after it.
func continues(rest string) bool {
	if rest == "" {
		return false
	}
	c := rest[0] | 0x20
	return '0' <= rest[0] && rest[0] <= '9' || 'a' <= c && c <= 'z'
}
