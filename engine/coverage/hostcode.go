package coverage

import (
	"iter"
	"slices"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/prune"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// hostCode is what the host code of a library does with device code.
type hostCode struct {
	registered []string // kernels, sorted
	complete   bool     // whether registered has all kernels
	// unreached are the offsets of bundles without a wrapper, and dangling the numbers of wrappers
	// without a bundle.
	unreached []int64
	dangling  []int
}

// readHostCode reads how the host code of a file refers to its images.
func readHostCode(c content.Content, images iter.Seq[*Image]) (h hostCode, err error) {
	data := c.Mapped(guard.Inside)
	if !elfedit.IsLinked(data) || len(data) < elf.HeaderSize {
		return h, nil
	}
	f, err := elfedit.Parse(c)
	if err != nil {
		return h, nil // such as a code object, or the debug part of a file
	}
	if h.registered, h.complete, err = registered.Kernels(c); err != nil {
		return h, err
	}
	err = h.wrappers(f, images)
	return h, err
}

// wrappers compares the wrappers of a library with its bundles.
func (h *hostCode) wrappers(f *elfedit.File, images iter.Seq[*Image]) error {
	section, err := f.Section(embedding.HIPSection)
	if err != nil || section < 0 || f.Sections[section].InFile() == 0 {
		return err
	}
	wrappers, err := prune.Wrappers(f)
	if err != nil {
		return err
	}
	start := f.Sections[section].Addr
	bundles := make(map[uint64]bool)
	for img := range images {
		if img.place.section == embedding.HIPSection {
			bundles[start+uint64(img.place.container)] = true
		}
	}
	used := make(map[uint64]bool)
	for i, w := range wrappers {
		if w.Magic != embedding.MagicHIP {
			continue
		}
		if used[w.Target] = true; len(bundles) > 0 && !bundles[w.Target] && (w.Target < start || w.Target-start >= f.Sections[section].Size) {
			h.dangling = append(h.dangling, i)
		}
	}
	for addr := range bundles {
		if len(wrappers) > 0 && !used[addr] {
			h.unreached = append(h.unreached, int64(addr-start))
		}
	}
	slices.Sort(h.unreached)
	return nil
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
func (e entry) kernels() []string { return e.code().kernels }

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
