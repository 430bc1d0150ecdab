package kpack

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// MergeOptions are the options of Merge.
type MergeOptions struct {
	// Archives are searched in this order.
	Archives []*Archive
	Compress bool
	Level    int // of compression
	// MayBeEmpty permits a library for which no archive has code. Its bundles then have a
	// host entry only.
	MayBeEmpty bool
	Budget     *budget.Budget
}

// Merge computes the library with the code that archives contain for it. Decompressed
// code uses memory that is reserved from the budget until release is called.
func Merge(ctx context.Context, h *Host, o MergeOptions) (layout *elfedit.Layout, release func(), err error) {
	var memory reservations
	if layout, err = merge(ctx, h, &o, &memory); err != nil {
		memory.release()
	}
	return layout, func() { memory.release() }, err
}

// reservations are the memory reservations of decompressed code.
type reservations []*budget.Reservation

func (r reservations) release() {
	for _, memory := range r {
		memory.Release()
	}
}

func merge(ctx context.Context, h *Host, o *MergeOptions, memory *reservations) (*elfedit.Layout, error) {
	if h.file == nil {
		return nil, errors.New("PE files are not supported; expected an ELF file")
	}
	section, err := emptied(h.file)
	if err != nil {
		return nil, err
	}
	if h.file.Sections[section].InFile() > 0 {
		return nil, fmt.Errorf("section %s: already has contents", embedding.HIPSection)
	}
	c := elfedit.Change{Section: section, Align: 4096, Slots: make(map[elfedit.Place]uint64), Restore: embedding.KpackSection}
	e := elfedit.Edit{}
	places := make(map[string]uint64) // of bundles, by their content
	entries := byKey(o.Archives)
	found := false
	for i, w := range h.Wrappers {
		if w.Magic != embedding.MagicKpack {
			return nil, fmt.Errorf("wrapper %d: points to a bundle, expected wrappers that point to a marker", i)
		}
		items, name, err := bundleItems(ctx, h, w, entries, o.Budget, memory)
		if err != nil {
			return nil, fmt.Errorf("wrapper %d: %w", i, err)
		}
		found = found || len(items) > 1
		at, ok := places[name]
		if !ok {
			parts, size, err := bundleParts(ctx, items, o)
			if err != nil {
				return nil, fmt.Errorf("wrapper %d: %w", i, err)
			}
			at = (c.Size + 4095) / 4096 * 4096
			places[name] = at
			for _, p := range parts {
				c.Parts = append(c.Parts, content.Part{Offset: int64(at) + p.Offset, Content: p.Content})
			}
			c.Size = at + uint64(size)
		}
		c.Slots[elfedit.Place{Offset: w.Addr + 8}] = at
		e.Patches = append(e.Patches,
			elfedit.Patch{Addr: w.Addr, Data: binary.LittleEndian.AppendUint32(nil, embedding.MagicHIP)},
			elfedit.Patch{Addr: w.Addr + 16, Data: make([]byte, 8)})
	}
	if !found && !o.MayBeEmpty {
		return nil, fmt.Errorf("no archive has code for %s", clip(h.Name))
	}
	e.Changes = []elfedit.Change{c}
	return h.file.Layout(e)
}

// emptied returns the section that had the bundles before the file was split: that of compilers or, with another name, the
// only one that is read-only and has no content.
func emptied(f *elfedit.File) (int, error) {
	section, err := f.Section(embedding.HIPSection)
	if err != nil || section >= 0 {
		return section, err
	}
	for i := range f.Sections {
		if s := &f.Sections[i]; s.Type != elf.ShtNobits || s.Flags&(elf.ShfAlloc|elf.ShfWrite) != elf.ShfAlloc {
			continue
		}
		if section >= 0 {
			return -1, fmt.Errorf("sections %s and %s are read-only and empty: expected one, that of the bundles", f.Sections[section].Name, f.Sections[i].Name)
		}
		section = i
	}
	if section < 0 {
		return -1, fmt.Errorf("section %s: missing", embedding.HIPSection)
	}
	return section, nil
}

// archived is an entry and the archive that contains it.
type archived struct {
	*Entry
	archive int
	scheme  Scheme
}

// byKey returns the entries of archives by key, in order.
func byKey(archives []*Archive) map[string][]archived {
	all := make(map[string][]archived)
	for n, a := range archives {
		for i := range a.Entries {
			e := &a.Entries[i]
			all[e.Key] = append(all[e.Key], archived{e, n, a.Scheme})
		}
	}
	return all
}

// hostID returns the ID of the host entry of a bundle.
func hostID(f *elfedit.File) string {
	if f.Machine == elf.MachineAArch64 {
		return "host-aarch64-unknown-linux-gnu-"
	}
	return "host-x86_64-unknown-linux-gnu-"
}

// bundleItems returns the entries of the bundle for a wrapper, and a name that is
// equal for bundles with the same entries.
func bundleItems(ctx context.Context, h *Host, w registered.Wrapper, entries map[string][]archived, b *budget.Budget, memory *reservations) (items []bundle.Item, name string, err error) {
	items = []bundle.Item{{ID: hostID(h.file)}}
	key := Key(h.Name, int(w.Index))
	var signature []byte
	for _, e := range entries[key] {
		body, reserved, err := e.Content(ctx, b, e.scheme)
		if err != nil {
			return nil, "", fmt.Errorf("%s for %s: %w", clip(key), e.Arch, err)
		}
		*memory = append(*memory, reserved)
		id := e.ID()
		if i := slices.IndexFunc(items, func(other bundle.Item) bool { return other.ID == id }); i >= 0 {
			if !bytes.Equal(items[i].Content.Mapped(guard.Inside), body.Mapped(guard.Inside)) {
				return nil, "", fmt.Errorf("%s: two archives have different code for %s", clip(key), id)
			}
			continue
		}
		items = append(items, bundle.Item{ID: id, Content: body})
		signature = fmt.Appendf(signature, "%d %d %q\n", e.archive, e.Ordinal, id)
	}
	return items, string(signature), nil
}

// bundleParts returns the bytes of a bundle.
func bundleParts(ctx context.Context, items []bundle.Item, o *MergeOptions) ([]content.Part, int64, error) {
	layout, err := bundle.NewLayout(items, bundle.Options{Align: 4096})
	if err != nil {
		return nil, 0, err
	}
	if o.Compress {
		var out content.Buffer
		_, err := ccob.Encode(ctx, &out, layout.Parts, ccob.EncodeOptions{Level: ccob.LevelOf(o.Level), Budget: o.Budget})
		return []content.Part{{Content: content.Memory(out.Bytes())}}, out.Len(), err
	}
	return layout.Parts, layout.Size, nil
}
