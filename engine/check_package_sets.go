package engine

import (
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/coverage"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/rocmdata"
	"github.com/rules-offload/rules_offload/internal/wheel"
)

// libraries checks the libraries whose code is in archives.
func (p *packageCheck) libraries() error {
	for _, f := range p.files {
		switch {
		case f.marker == nil:
		case f.marker.fault != "":
			p.fault(f.name, FaultDamaged, "split the library again", "%s", f.marker.fault)
		default:
			p.hosts = append(p.hosts, f)
			if err := p.library(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// holder is code for a key in an archive.
type holder struct {
	archive *archiveFile
	entry   *kpack.Entry
}

// library checks a library with the archives that its marker names.
func (p *packageCheck) library(f *shippedFile) error {
	paths, err := p.c.search(p.ctx, f.name, f.marker)
	if err != nil {
		return err
	}
	archives, err := p.searched(paths)
	if err != nil {
		return err
	}
	if len(archives) == 0 {
		var patterns []string
		for _, path := range paths {
			patterns = append(patterns, path.Pattern)
		}
		p.fault(f.name, FaultMissing, fixArchive, "its code is in archives that do not exist: %s", strings.Join(patterns, ", "))
		return nil
	}
	held := make(map[string]map[string][]holder) // by key and target
	known := make(map[string]bool)               // kernels
	targets := make(map[string]bool)
	for _, a := range archives {
		for i := range a.parsed.Entries {
			e := &a.parsed.Entries[i]
			if !f.marker.keys[e.Key] {
				continue
			}
			if held[e.Key] == nil {
				held[e.Key] = make(map[string][]holder)
			}
			held[e.Key][e.Arch] = append(held[e.Key][e.Arch], holder{a, e})
			targets[e.Arch] = true
			for _, name := range a.kernels[e.Ordinal] {
				known[name] = true
			}
		}
	}
	if f.study != nil {
		for i := range f.study.images {
			for _, name := range f.study.images[i].kernels {
				known[name] = true
			}
		}
	}
	for _, key := range f.marker.sources {
		p.source(f, key, held[key], targets, archives)
	}
	if len(known) > 0 {
		p.unknownKernels(f, known)
		p.strangers(f, held)
	}
	p.olderRuntimes(f, paths, targets)
	return nil
}

// searched returns the archives that the runtime opens and that can be read.
func (p *packageCheck) searched(paths []coverage.SearchPath) ([]*archiveFile, error) {
	var list []*archiveFile
	for _, search := range paths {
		for _, a := range search.Archives {
			p.reached[a.Name] = true
			opened := p.c.archives[a.Name]
			if f := p.c.shipped.named[a.Name]; f != nil {
				opened = f.archive
			}
			if opened != nil && opened.parsed != nil && !slices.Contains(list, opened) {
				list = append(list, opened)
			}
		}
	}
	slices.SortFunc(list, func(a, b *archiveFile) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// source checks the code for a source of a library.
func (p *packageCheck) source(f *shippedFile, key string, held map[string][]holder, targets map[string]bool, archives []*archiveFile) {
	if len(held) == 0 {
		name, _, _ := kpack.SplitKey(key)
		for _, a := range archives {
			if slices.ContainsFunc(a.parsed.Entries, func(e kpack.Entry) bool { own, _, _ := kpack.SplitKey(e.Key); return own == name }) {
				p.fault(f.name, FaultBuild, fixArchive, "no archive has %s, and %s has other code of the library: they are of two builds", key, a.Name)
				return
			}
		}
		p.fault(f.name, FaultMissing, fixArchive, "no archive has %s: found archives %s", key, some(archiveNames(archives)))
		return
	}
	for id, list := range held {
		for _, other := range list[1:] {
			p.fault(other.archive.Name, FaultTwice, "remove one of the archives, or the code from it", "%s for %s is also in %s: the runtime uses the first one that it finds", key, id, list[0].archive.Name)
		}
		img := list[0].archive.images[list[0].entry.Ordinal]
		if !img.Empty && img.Size > 0 {
			continue
		}
		for less, real := range held {
			if other := real[0].archive.images[real[0].entry.Ordinal]; less != id && !other.Empty && other.Size > 0 && moreSpecific(id, less) {
				p.fault(list[0].archive.Name, FaultEmpty, fixSplit, "%s for %s is empty and hides the code for %s in %s", key, id, less, real[0].archive.Name)
			}
		}
	}
	p.otherSource(key, held)
	for id := range targets {
		if len(held[id]) > 0 {
			continue
		}
		switch sibling, whole := siblingOf(id, held); {
		case whole: // code for all variants
		case sibling != "":
			p.fault(f.name, FaultVariant, fixSplit, "%s has code for %s and none for %s, which other code of the library has", key, sibling, id)
		case !strings.Contains(id, ":") && !hasProcessor(held, id):
			p.warn(f.name, FaultMissing, "check that the source is not built for "+id, "%s has no code for %s, which other code of the library has", key, id)
		}
	}
	for id, name := range p.variants {
		if targets[id] || !strings.Contains(id, ":") {
			continue
		}
		if sibling, whole := siblingOf(id, held); !whole && sibling != "" {
			p.fault(f.name, FaultVariant, fixSplit, "%s has code for %s and none for %s, which %s has", key, sibling, id, name)
		}
	}
}

// otherSource reports a source whose code for two targets has no kernel in common: older splitters
// numbered the sources of each target by themselves, so that code of another source is found.
func (p *packageCheck) otherSource(key string, held map[string][]holder) {
	var first holder
	known := make(map[string]bool)
	for _, id := range slices.Sorted(maps.Keys(held)) {
		h := held[id][0]
		names := h.archive.kernels[h.entry.Ordinal]
		switch {
		case len(names) == 0:
		case first.entry == nil:
			first = h
			for _, name := range names {
				known[name] = true
			}
		case !slices.ContainsFunc(names, func(name string) bool { return known[name] }):
			p.fault(h.archive.Name, FaultBuild, fixSplit, "%s for %s and for %s (in %s) have no kernel in common: one is the code of another source", key, id, first.entry.Arch, first.archive.Name)
		}
	}
}

// hasProcessor reports whether there is code for a variant of a processor.
func hasProcessor(held map[string][]holder, processor string) bool {
	for id := range held {
		if strings.HasPrefix(id, processor+":") {
			return true
		}
	}
	return false
}

func archiveNames(archives []*archiveFile) (names []string) {
	for _, a := range archives {
		names = append(names, a.Name)
	}
	return names
}

// moreSpecific reports whether a is b with more features.
func moreSpecific(a, b string) bool {
	if a == b {
		return false
	}
	features := strings.Split(a, ":")
	for part := range strings.SplitSeq(b, ":") {
		if !slices.Contains(features, part) {
			return false
		}
	}
	return true
}

// siblingOf returns a target ID with code that differs from id in the state of a feature, and whether
// there is code that serves id as well.
func siblingOf(id string, held map[string][]holder) (sibling string, whole bool) {
	want, err := target.ParseTargetID(id)
	if err != nil {
		return "", false
	}
	for have := range held {
		if moreSpecific(id, have) {
			return "", true
		}
		h, err := target.ParseTargetID(have)
		if err != nil || h.Processor != want.Processor || len(h.Features) != len(want.Features) {
			continue
		}
		if sibling == "" || have < sibling {
			sibling = have
		}
	}
	return sibling, false
}

// strangers reports code whose kernels the library does not register: it is of another build.
func (p *packageCheck) strangers(f *shippedFile, held map[string]map[string][]holder) {
	if f.study == nil || !f.study.complete || len(f.study.registered) == 0 {
		return
	}
	for _, key := range f.marker.sources {
		for _, list := range held[key] {
			for _, h := range list {
				names := h.archive.kernels[h.entry.Ordinal]
				found := slices.ContainsFunc(names, func(name string) bool {
					_, ok := slices.BinarySearch(f.study.registered, name)
					return ok
				})
				if len(names) > 0 && !found {
					p.fault(h.archive.Name, FaultBuild, fixArchive, "%s does not register the kernels of %s for %s (%s): they are of two builds", f.name, key, h.entry.Arch, some(names))
				}
			}
		}
	}
}

// olderRuntimes reports code that runtimes before the summer of 2026 do not find.
func (p *packageCheck) olderRuntimes(f *shippedFile, paths []coverage.SearchPath, targets map[string]bool) {
	processors := make(map[string]bool)
	var gpus []coverage.GPU
	for id := range targets {
		processor, _, _ := strings.Cut(id, ":")
		if gpu, err := coverage.ParseGPU(processor); err == nil && !processors[processor] {
			processors[processor] = true
			gpus = append(gpus, gpu)
		}
	}
	slices.SortFunc(gpus, func(a, b coverage.GPU) int { return strings.Compare(a.Name, b.Name) })
	split := &coverage.Split{File: f.name, Bundles: f.bundles, Keys: f.marker.sources, Paths: paths}
	for _, g := range coverage.AskSplit(split, gpus).GPUs {
		for _, m := range g.Modes {
			if m.Older != "" && m.Verdict == coverage.Yes {
				p.warn(f.name, FaultMissing, "split with --complete for older runtimes", "runtimes before the summer of 2026 do not find all code for %s: the first archive of a variant decides alone", m.Mode)
				break
			}
		}
	}
}

// archives reports archives, and code in archives, that no library uses.
func (p *packageCheck) archives() error {
	if len(p.hosts) == 0 {
		return nil // packages for GPUs alone
	}
	asked := make(map[string]*shippedFile) // libraries by their name in keys
	keys := make(map[string]bool)
	for _, f := range p.hosts {
		for key := range f.marker.keys {
			name, _, _ := kpack.SplitKey(key)
			asked[name], keys[key] = f, true
		}
	}
	for _, f := range p.files {
		if f.archive == nil || f.archive.parsed == nil || f.archive.Entries == 0 {
			continue
		}
		if name := f.archive.Name; !p.reached[name] && !p.reached[filepath.Clean(name)] {
			p.fault(f.name, FaultUnreachable, "install the archive at a path that a library searches, or remove it", "no library of the package searches this archive")
			continue
		}
		told := make(map[string]bool)
		for i := range f.archive.parsed.Entries {
			key := f.archive.parsed.Entries[i].Key
			name, _, _ := kpack.SplitKey(key)
			if keys[key] || told[name] {
				continue
			}
			told[name] = true
			if host := asked[name]; host != nil {
				p.fault(f.name, FaultBuild, fixArchive, "it has %s, which %s does not ask for: they are of two builds", key, host.name)
			} else {
				p.fault(f.name, FaultUnreachable, "package the library, or remove its code from the archive", "it has code for %s, and no library of the package asks for it", name)
			}
		}
	}
	return nil
}

// tensile compares the catalogues of directories of Tensile with the code in them.
func (p *packageCheck) tensile() error {
	byName := make(map[string]*shippedFile)
	for _, f := range p.files {
		byName[f.name] = f
	}
	for _, t := range rocmdata.FindTensile(directories(p.folders)) {
		for _, processor := range slices.Sorted(maps.Keys(t.Catalogues)) {
			if len(t.Code[processor]) == 0 {
				p.fault(t.Name, FaultMissing, "package the code files for "+processor, "catalogues name %s, and no code file is for it", processor)
			}
		}
		for _, processor := range slices.Sorted(maps.Keys(t.Code)) {
			for _, name := range t.Code[processor] {
				if f := byName[name]; f != nil && f.study != nil {
					p.codeFile(f)
				}
			}
			if len(t.Catalogues) > 0 && !t.Catalogues[processor] {
				p.fault(t.Name, FaultUnreachable, "package the catalogue for "+processor+", or remove the code", "no catalogue names %s: its %d code files are not used", processor, len(t.Code[processor]))
			}
		}
	}
	return nil
}

// codeFile compares the code in a file with the target ID in its name.
func (p *packageCheck) codeFile(f *shippedFile) {
	id := rocmdata.CodeTarget(f.name)
	for i := range f.study.images {
		if img := &f.study.images[i]; img.code != nil && kpack.Fits(*img.code, id) {
			return
		}
	}
	if len(f.study.images) > 0 && f.study.images[0].code != nil {
		p.fault(f.name, FaultTarget, fixBuild, "the name says %s, and the file has code for %s", id, f.study.images[0].code.ID())
	}
}

// data reports faults of the data of MIOpen and AOTriton.
func (p *packageCheck) data() error {
	for _, d := range rocmdata.FindData(directories(p.folders)) {
		for i := range d.Files {
			fault, err := p.c.checkData(&d.Files[i])
			switch {
			case err != nil:
				return err
			case fault.Empty:
				p.fault(d.Files[i].Name, FaultEmpty, fixBuild, "%s", fault.Text)
			case fault.Text != "":
				p.fault(d.Files[i].Name, FaultDamaged, fixBuild, "%s", fault.Text)
			}
		}
	}
	return nil
}

// isRecord reports whether a file is the list of files of a wheel. It sets the fault of one that is
// too large to be read.
func (f *shippedFile) isRecord() bool {
	if path.Base(f.path) != "RECORD" || !strings.HasSuffix(path.Dir(f.path), ".dist-info") {
		return false
	}
	if f.size > wheel.MaxText {
		f.fault = fmt.Errorf("found %d bytes, expected at most %d", f.size, wheel.MaxText)
		return false
	}
	return true
}

// records compares the files of wheels with their lists.
func (p *packageCheck) records() error {
	for _, f := range p.files {
		if f.text == nil {
			continue
		}
		rows, err := wheel.ParseRecord(f.text)
		if err != nil {
			p.fault(f.name, FaultRecord, "build the wheel again", "%v", err)
			continue
		}
		listed := make(map[string]bool)
		root := path.Dir(path.Dir(f.path))
		for _, row := range rows {
			if listed[row.Path] {
				p.fault(f.name, FaultRecord, "build the wheel again", "%s is listed twice", row.Path)
			}
			listed[row.Path] = true
			if row.Hash == "" {
				continue
			}
			if err := p.record(f, root, row); err != nil {
				return err
			}
		}
		p.unlisted(f, listed)
	}
	return nil
}

// record compares a file with its entry in RECORD.
func (p *packageCheck) record(f *shippedFile, root string, row wheel.Row) error {
	if err := context.Cause(p.ctx); err != nil {
		return err
	}
	name := filepath.FromSlash(path.Join(root, row.Path))
	if path.IsAbs(row.Path) { // of an installation
		name = filepath.FromSlash(row.Path)
	}
	var sum [32]byte
	var size int64
	if own := p.c.shipped.named[f.in+"!"+row.Path]; own != nil {
		sum, size, name = own.sum, own.size, own.name
	} else if p.c.shipped.named[f.name] != nil {
		p.fault(f.in+"!"+row.Path, FaultRecord, "build the wheel again", "RECORD lists the file, and the wheel does not have it")
		return nil
	} else if info, err := p.c.session.files.Stat(name); err != nil || !info.Mode().IsRegular() {
		p.fault(name, FaultRecord, "install the wheel again", "RECORD lists the file, and it does not exist")
		return nil
	} else if sum, size, err = p.sumFile(name); err != nil {
		return err
	}
	switch {
	case row.Size >= 0 && row.Size != size:
		p.fault(name, FaultRecord, "write RECORD after the last change to the file", "found %d bytes, RECORD says %d", size, row.Size)
	case strings.HasPrefix(row.Hash, "sha256=") && strings.TrimRight(row.Hash, "=") != wheel.Hash(sum):
		p.fault(name, FaultRecord, "write RECORD after the last change to the file", "found the hash %s, RECORD says %s", wheel.Hash(sum), row.Hash)
	case !strings.HasPrefix(row.Hash, "sha256="):
		p.warn(name, FaultRecord, "write RECORD with sha256", "RECORD has the hash %.100s, which was not checked", row.Hash)
	}
	return nil
}

// unlisted reports the files of a wheel that RECORD does not list. Signatures are not listed.
func (p *packageCheck) unlisted(record *shippedFile, listed map[string]bool) {
	if p.c.shipped.named[record.name] == nil {
		return // installed, among the files of other wheels
	}
	for _, f := range p.files {
		member := strings.TrimPrefix(f.name, record.in+"!")
		if f.in != record.in || listed[member] || path.Dir(f.path) == path.Dir(record.path) && strings.HasPrefix(path.Base(f.path), "RECORD") {
			continue
		}
		p.fault(f.name, FaultRecord, "write RECORD after the last change to the wheel", "RECORD does not list the file")
	}
}
