package kpack

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/compression/longzstd"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/prune"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// spirv is the target ID of code that is compiled when it is loaded.
const spirv = "amdgcnspirv"

// SplitOptions are the options of SplitCode.
type SplitOptions struct {
	Marker
	Group  string
	Scheme Scheme
	Level  int // of compression, as in clang-offload-bundler
	// Archs are the targets that get an archive; if empty, all targets do.
	Archs []string
	// Complete adds code for a processor to the archives of its variants, if a
	// source has no code for them, because older runtimes search only one archive.
	Complete bool
	// MayDropAll permits a library without code for Archs, from which all code is
	// then removed.
	MayDropAll bool
	// Existing returns an existing archive of a target, to which the entries of the
	// library are added, or nil for none.
	Existing func(arch string) (*Archive, error)
	Budget   *budget.Budget
}

// Split is a library split into its host and device parts.
type Split struct {
	// Host is the library without its device code.
	Host     *elfedit.Layout
	Archives []*Archive // in the order of the targets in the library
	// Dropped are the targets without an archive.
	Dropped []string
}

// item is a code object to store in an archive.
type item struct {
	wrapper, bundle, entry int
	id                     string
	content                content.Content
}

// SplitCode splits a library into its parts.
func SplitCode(ctx context.Context, code *prune.Code, o SplitOptions) (*Split, error) {
	if err := CheckName(o.Name); err != nil {
		return nil, err
	}
	split := &Split{}
	archs, items, err := collect(code, &o, split)
	if err != nil {
		return nil, err
	}
	for _, arch := range archs {
		a, err := o.archive(ctx, arch, items[arch])
		if err != nil {
			return nil, err
		}
		split.Archives = append(split.Archives, a)
	}
	split.Host, err = o.host(code)
	return split, err
}

// collect groups the code objects of a library by target ID.
func collect(code *prune.Code, o *SplitOptions, split *Split) (archs []string, items map[string][]item, err error) {
	items = make(map[string][]item)
	matched := make(map[string]bool)
	for w, b := range code.Of {
		for i := range code.Bundles[b] {
			e := &code.Bundles[b][i]
			arch := e.Target.TargetID
			named := len(o.Archs) == 0
			for _, name := range o.Archs {
				if e.Is(name) {
					named, matched[name] = true, true
				}
			}
			switch {
			case arch == "":
				return nil, nil, fmt.Errorf("wrapper %d: entry %q has no target ID; expected one like hipv4-amdgcn-amd-amdhsa--gfx90a", w, e.ID)
			case !named:
				if !slices.Contains(split.Dropped, arch) {
					split.Dropped = append(split.Dropped, arch)
				}
				continue
			case arch == spirv:
				return nil, nil, fmt.Errorf("wrapper %d: runtimes do not load %s from archives; split only for other targets", w, spirv)
			case strings.ContainsAny(arch, "/\\\x00"):
				return nil, nil, fmt.Errorf("wrapper %d: entry %q: the target ID cannot be part of a file name", w, e.ID)
			}
			if items[arch] == nil {
				archs = append(archs, arch)
			}
			items[arch] = append(items[arch], item{w, b, i, e.ID, e.Content})
		}
	}
	if len(archs) == 0 && !(o.MayDropAll && len(split.Dropped) > 0) {
		if len(o.Archs) > 0 {
			return nil, nil, fmt.Errorf("no code for %s: found %s", strings.Join(o.Archs, ", "), strings.Join(split.Dropped, ", "))
		}
		return nil, nil, errors.New("no device code in the bundles of the file")
	}
	if o.Complete {
		for _, arch := range archs {
			items[arch] = completed(code, arch, items[arch])
		}
	}
	return archs, items, nil
}

// completed adds code for the processor, or for fewer features, if a wrapper has no code
// for a target ID.
func completed(code *prune.Code, arch string, have []item) []item {
	want, err := target.ParseTargetID(arch)
	if err != nil || len(want.Features) == 0 {
		return have
	}
	var all []item
	for w, b := range code.Of {
		if i := slices.IndexFunc(have, func(it item) bool { return it.wrapper == w }); i >= 0 {
			for _, it := range have {
				if it.wrapper == w {
					all = append(all, it)
				}
			}
			continue
		}
		best, features := -1, -1
		for i := range code.Bundles[b] {
			id, err := target.ParseTargetID(code.Bundles[b][i].Target.TargetID)
			if err != nil || id.Processor != want.Processor || len(id.Features) <= features {
				continue
			}
			if slices.ContainsFunc(id.Features, func(f target.Feature) bool { return !slices.Contains(want.Features, f) }) {
				continue
			}
			best, features = i, len(id.Features)
		}
		if best >= 0 {
			e := &code.Bundles[b][best]
			all = append(all, item{w, b, best, e.ID, e.Content})
		}
	}
	return all
}

// archive returns the archive of one target.
func (o *SplitOptions) archive(ctx context.Context, arch string, items []item) (*Archive, error) {
	a := &Archive{Group: o.Group, Family: arch, Archs: []string{arch}, Scheme: o.Scheme}
	next := 0
	if o.Existing != nil {
		old, err := o.Existing(arch)
		if err != nil {
			return nil, err
		}
		if old != nil {
			if old.Group != o.Group {
				return nil, fmt.Errorf("the archive for %s is of group %q, expected %q", arch, old.Group, o.Group)
			}
			if !slices.Contains(old.Archs, arch) {
				return nil, fmt.Errorf("the archive for %s has code for %s", arch, strings.Join(old.Archs, ", "))
			}
			a = old
			for i := range a.Entries {
				next = max(next, a.Entries[i].Ordinal+1)
			}
		}
	}
	first := next
	ordinals := make(map[[2]int]int) // by bundle and entry
	var added []Entry
	var contents []content.Content
	for _, it := range items {
		e := Entry{
			Key: Key(o.Name, it.wrapper), Arch: arch, Type: "hsaco", Size: it.content.Len(),
			Metadata: map[string]any{"target": it.id}, Target: it.id,
		}
		there, err := a.has(ctx, o.Budget, &e, it.content)
		if err != nil {
			return nil, err
		}
		if there {
			continue
		}
		ordinal, shared := ordinals[[2]int{it.bundle, it.entry}]
		if !shared {
			ordinal = next
			ordinals[[2]int{it.bundle, it.entry}] = next
			next++
			contents = append(contents, it.content)
		}
		e.Ordinal = ordinal
		added = append(added, e)
	}
	stored, err := o.store(ctx, a.Scheme, contents)
	if err != nil {
		return nil, err
	}
	for i := range added {
		added[i].Stored = stored[added[i].Ordinal-first]
	}
	a.Entries = append(a.Entries, added...)
	return a, nil
}

// has reports whether an archive has an entry. An entry with different bytes is
// an error.
func (a *Archive) has(ctx context.Context, b *budget.Budget, e *Entry, body content.Content) (bool, error) {
	for i := range a.Entries {
		old := &a.Entries[i]
		if old.Key != e.Key || old.Arch != e.Arch {
			continue
		}
		c, memory, err := old.Content(ctx, b, a.Scheme)
		defer memory.Release()
		if err != nil {
			return false, fmt.Errorf("%s for %s in the archive: %w", e.Key, e.Arch, err)
		}
		if !bytes.Equal(c.Mapped(guard.Inside), body.Mapped(guard.Inside)) {
			return false, fmt.Errorf("the archive has different code of %s for %s; give the library another name in archives, or create new archives", e.Key, e.Arch)
		}
		return true, nil
	}
	return false, nil
}

// store returns the stored form of contents in a scheme.
func (o *SplitOptions) store(ctx context.Context, scheme Scheme, contents []content.Content) ([]content.Content, error) {
	if scheme == None {
		return contents, nil
	}
	stored := make([]content.Content, len(contents))
	err := o.Budget.Each(ctx, len(contents), func(ctx context.Context, i int) error {
		frame, err := longzstd.Encode(ctx, nil, contents[i].Mapped(guard.Inside), longzstd.FromNumber(o.Level))
		stored[i] = content.Memory(frame)
		return err
	})
	return stored, err
}

// host returns the library with a marker instead of its device code.
func (o *SplitOptions) host(code *prune.Code) (*elfedit.Layout, error) {
	marker := o.Marker.bytes()
	e := elfedit.Edit{Changes: []elfedit.Change{{
		Section: code.Section, Size: uint64(len(marker)), Parts: []content.Part{{Content: content.Memory(marker)}},
		Slots: make(map[elfedit.Place]uint64), Reference: embedding.KpackSection, Align: 1,
	}}}
	for i, w := range code.Wrappers {
		e.Changes[0].Slots[elfedit.Place{Offset: w.Addr + 8}] = 0
		e.Patches = append(e.Patches,
			elfedit.Patch{Addr: w.Addr, Data: binary.LittleEndian.AppendUint32(nil, embedding.MagicKpack)},
			elfedit.Patch{Addr: w.Addr + 16, Data: binary.LittleEndian.AppendUint32(nil, uint32(i))})
	}
	return code.File.Layout(e)
}
