package prune

import (
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// CodeEntry is a device entry of a bundle in a linked file.
type CodeEntry struct {
	ID      string
	Target  target.ID
	Content content.Content

	entry entry
}

// Is reports whether a name, as in Options.Keep, names the entry.
func (e *CodeEntry) Is(name string) bool { return e.entry.is(name) }

// Selects reports whether a name, as in Options.Keep, names HIP code for a target ID.
func Selects(name, targetID string) bool {
	e := bundleEntry("hipv4-amdgcn-amd-amdhsa--"+targetID, 0, 0)
	return e.is(name)
}

// Code is the device code of a linked file with HIP wrappers.
type Code struct {
	File     *elfedit.File
	Section  int
	Wrappers []Wrapper
	// Bundles are the device entries of the bundles, and Of the bundle of each wrapper.
	Bundles [][]CodeEntry
	Of      []int

	release []func()
}

// Close releases the memory of bundles that were decompressed.
func (c *Code) Close() {
	for _, release := range c.release {
		release()
	}
	c.release = nil
}

// ReadCode reads the device code that wrappers point to. Entries of compressed
// bundles are in memory until Close.
func ReadCode(ctx context.Context, in content.Content, budget *budget.Budget) (*Code, error) {
	if !elfedit.Is(in.Mapped(guard.Inside)) {
		if len(in.Mapped(guard.Inside)) >= 2 && string(in.Mapped(guard.Inside)[:2]) == "MZ" {
			return nil, fmt.Errorf("PE files are not supported; expected an ELF file")
		}
		return nil, fmt.Errorf("not a shared library or program: found no ELF header")
	}
	f, err := elfedit.Parse(in)
	if err != nil {
		return nil, err
	}
	c := &Code{File: f}
	if c.Section, err = f.Section(embedding.HIPSection); err != nil {
		return nil, err
	}
	if c.Wrappers, err = Wrappers(f); err != nil {
		return nil, err
	}
	for i, w := range c.Wrappers {
		if w.Magic == embedding.MagicKpack {
			return nil, fmt.Errorf("wrapper %d points to a marker: the file is already split", i)
		}
	}
	if c.Section < 0 || f.Sections[c.Section].InFile() == 0 {
		return nil, fmt.Errorf("no device code in the file: no section %s with content", embedding.HIPSection)
	}
	if len(c.Wrappers) == 0 {
		return nil, fmt.Errorf("section %s: no wrapper in section %s points to it", embedding.HIPSection, embedding.HIPWrappers)
	}
	r, err := linkedHIP(ctx, f, c.Section, c.Wrappers, &Options{Budget: budget})
	if err != nil {
		return nil, err
	}
	number := make(map[*unit]int)
	for i, u := range r.units {
		number[u] = i
		plain := u.stored
		if u.reader != nil {
			raw, err := u.reader.Decode(ctx)
			if err != nil {
				c.Close()
				return nil, fmt.Errorf("%s: %w", u.where(), err)
			}
			c.release = append(c.release, raw.Release)
			plain = content.Memory(raw.Bytes())
		}
		var entries []CodeEntry
		for _, e := range u.entries {
			if e.host || e.size == 0 {
				continue
			}
			entries = append(entries, CodeEntry{ID: e.id, Target: e.target, Content: plain.Slice(e.offset, e.size), entry: e})
		}
		c.Bundles = append(c.Bundles, entries)
	}
	for _, u := range r.order {
		c.Of = append(c.Of, number[u])
	}
	return c, nil
}
