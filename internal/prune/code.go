package prune

import (
	"cmp"
	"context"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
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
	Wrappers []registered.Wrapper
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

// CheckSplit reports whether the bundles of a linked file are in a section of their own, which can be removed.
func CheckSplit(code *registered.Code) error {
	switch r := code.Regions; {
	case len(r) > 1:
		return fmt.Errorf("found bundles in sections %s and %s, expected one section; link them into one", r[0].Name, r[1].Name)
	case !r[0].Alone():
		return fmt.Errorf("section %s: found bundles among other data, expected a section of their own; link the file again", r[0].Name)
	}
	return nil
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
	found := registered.Find(in)
	if err := cmp.Or(found.Unresolved, found.Fault); err != nil {
		return nil, err
	}
	c := &Code{File: f, Section: -1, Wrappers: found.Wrappers}
	for i, w := range c.Wrappers {
		if w.Magic == embedding.MagicKpack {
			return nil, fmt.Errorf("wrapper %d points to a marker: the file is already split", i)
		}
	}
	switch {
	case len(found.Regions) == 0:
		return nil, fmt.Errorf("no device code in the file: no section %s with content", embedding.HIPSection)
	case !found.Reached():
		return nil, noWrapper(found.Regions[0].Name)
	}
	if err := CheckSplit(found); err != nil {
		return nil, err
	}
	c.Section = found.Regions[0].Section
	r, err := linkedHIP(ctx, f, &found.Regions[0], c.Wrappers, &Options{Budget: budget})
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
	for _, u := range r.order[:len(c.Wrappers)] {
		c.Of = append(c.Of, number[u])
	}
	return c, nil
}
