package coverage

import (
	"iter"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// hostCode is what the host code of a library does with device code.
type hostCode struct {
	registered []string // kernels, sorted
	complete   bool     // whether registered has all kernels
}

// readHostCode reads how the host code of a file refers to its device code.
func readHostCode(c content.Content) (h hostCode, err error) {
	if !elfedit.IsLinked(c.Mapped(guard.Inside)) {
		return h, nil
	}
	if _, err := elfedit.ParseLoaded(c); err != nil {
		return h, nil // such as a code object, or the debug part of a file
	}
	h.registered, h.complete, err = registered.Kernels(c)
	return h, err
}

// unreached returns the places of bundles that no wrapper points to, in a file with wrappers. The runtime does not
// read them.
func unreached(c content.Content) map[place]bool {
	list := make(map[place]bool)
	code := registered.Find(c)
	for i := range code.Regions {
		r := &code.Regions[i]
		for _, b := range r.Bundles {
			if !b.Reached && embedding.IsHIPSection(r.Name) && len(code.Wrappers) > 0 {
				list[place{members: noMembers, section: r.Name, container: b.Offset}] = true
			}
		}
	}
	return list
}

// images returns the device images of a file that is no archive.
func (c *code) images() iter.Seq[*Image] {
	return func(yield func(*Image) bool) {
		for i := range c.bundles {
			for k := range c.bundles[i].Images {
				if !yield(&c.bundles[i].Images[k]) {
					return
				}
			}
		}
	}
}

// targetID returns the target ID of an image.
func (img *Image) targetID() string {
	if img.ID != "" {
		if e, err := target.Parse(img.ID); err == nil {
			return e.TargetID
		}
	}
	if img.Code != nil {
		return img.Code.ID()
	}
	return ""
}

// entry is an entry of an archive.
type entry struct {
	*kpack.Entry
	archive *archive
}

// code returns the code object of the entry.
func (e entry) code() *archived { return e.archive.code[e.Ordinal] }

// kernels returns the names of the kernels of the entry.
func (e entry) kernels() map[string]bool { return e.code().Kernels }

// entries returns the entries of an archive that can be read.
func (a *archive) entries() (list []entry) {
	if a != nil && a.parsed != nil {
		for i := range a.parsed.Entries {
			list = append(list, entry{&a.parsed.Entries[i], a})
		}
	}
	return list
}

// entries returns the entries of a file that is an archive.
func (c *code) entries() []entry { return c.archive.entries() }
