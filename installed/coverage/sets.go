package coverage

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/installed/rocmdata"
	"github.com/rules-offload/rules_offload/internal/kpack"
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

// library checks a library with the archives that its marker names.
func (p *packageCheck) library(f *file) error {
	paths, err := p.search(f.name, f.marker)
	if err != nil {
		return err
	}
	archives := p.searched(paths)
	if len(archives) == 0 {
		p.fault(f.name, FaultMissing, fixArchive, "its code is in archives that do not exist: %s", patterns(paths))
		return nil
	}
	held := make(map[string]map[string][]entry) // by key and target
	known := make(map[string]bool)              // kernels
	targets := make(map[string]bool)
	for _, key := range f.marker.sources {
		held[key] = make(map[string][]entry)
		for _, a := range archives {
			for arch, e := range a.byKey[key] {
				e := entry{e, a}
				held[key][arch] = append(held[key][arch], e)
				targets[arch] = true
				maps.Copy(known, e.kernels())
			}
		}
	}
	for img := range f.images() {
		maps.Copy(known, img.Kernels)
	}
	for _, key := range f.marker.sources {
		p.source(f, key, held[key], targets, archives)
	}
	if len(known) > 0 {
		p.unknownKernels(f, known)
		library := &split{f.name, ofDevices(f.bundles), f.marker.sources, paths, &f.host}
		p.hiddenKernels(f, library.sources())
		p.strangers(f, held)
	}
	p.olderRuntimes(f, paths, targets)
	return nil
}

// searched returns the archives that the runtime opens and that can be read.
func (p *packageCheck) searched(paths []searchPath) (list []*archive) {
	for _, search := range paths {
		for _, a := range search.archives {
			p.reached[a.name] = true
			if a.parsed != nil && !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	slices.SortFunc(list, func(a, b *archive) int { return strings.Compare(a.name, b.name) })
	return list
}

// source checks the code for a source of a library.
func (p *packageCheck) source(f *file, key string, held map[string][]entry, targets map[string]bool, archives []*archive) {
	if len(held) == 0 {
		name, _, _ := kpack.SplitKey(key)
		var names []string
		for _, a := range archives {
			names = append(names, a.name)
			if slices.ContainsFunc(a.entries(), func(e entry) bool { own, _, _ := kpack.SplitKey(e.Key); return own == name }) {
				p.fault(f.name, FaultBuild, fixArchive, "no archive has %s, and %s has other code of the library: they are of two builds", key, a.name)
				return
			}
		}
		p.fault(f.name, FaultMissing, fixArchive, "no archive has %s: found archives %s", key, some(names))
		return
	}
	for id, list := range held {
		for _, other := range list[1:] {
			p.fault(other.archive.name, FaultTwice, "remove one of the archives, or the code from it", "%s for %s is also in %s: the runtime uses the first one that it finds", key, id, list[0].archive.name)
		}
		if !list[0].code().empty() {
			continue
		}
		for less, real := range held {
			if less != id && !real[0].code().empty() && moreSpecific(id, less) {
				p.fault(list[0].archive.name, FaultEmpty, fixSplit, "%s for %s is empty and hides the code for %s in %s", key, id, less, real[0].archive.name)
			}
		}
	}
	p.otherSource(key, held)
	for id := range targets {
		if len(held[id]) > 0 || fixedFeature(id) != "" {
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
func (p *packageCheck) otherSource(key string, held map[string][]entry) {
	var first entry
	var known map[string]bool
	for _, id := range slices.Sorted(maps.Keys(held)) {
		h := held[id][0]
		names := h.kernels()
		switch {
		case len(names) == 0:
		case first.archive == nil:
			first = h
			known = names
		case disjoint(names, known):
			p.fault(h.archive.name, FaultBuild, fixSplit, "%s for %s and for %s (in %s) have no kernel in common: one is the code of another source", key, id, first.Arch, first.archive.name)
		}
	}
}

// disjoint reports whether no name is in both sets.
func disjoint(a, b map[string]bool) bool {
	for name := range a {
		if b[name] {
			return false
		}
	}
	return true
}

// hasProcessor reports whether there is code for a variant of a processor.
func hasProcessor(held map[string][]entry, processor string) bool {
	for id := range held {
		if strings.HasPrefix(id, processor+":") {
			return true
		}
	}
	return false
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
func siblingOf(id string, held map[string][]entry) (sibling string, whole bool) {
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
func (p *packageCheck) strangers(f *file, held map[string]map[string][]entry) {
	if !f.host.complete || len(f.host.registered) == 0 {
		return
	}
	for _, key := range f.marker.sources {
		for _, list := range held[key] {
			for _, h := range list {
				names := h.kernels()
				if len(names) > 0 && !slices.ContainsFunc(f.host.registered, func(name string) bool { return names[name] }) {
					p.fault(h.archive.name, FaultBuild, fixArchive, "%s does not register the kernels of %s for %s (%s): they are of two builds", f.name, key, h.Arch, some(slices.Sorted(maps.Keys(names))))
				}
			}
		}
	}
}

// olderRuntimes reports code that runtimes before the summer of 2026 do not find.
func (p *packageCheck) olderRuntimes(f *file, paths []searchPath, targets map[string]bool) {
	processors := make(map[string]bool)
	var gpus []GPU
	for id := range targets {
		processor, _, _ := strings.Cut(id, ":")
		if gpu, err := ParseGPU(processor); err == nil && !processors[processor] {
			processors[processor] = true
			gpus = append(gpus, gpu)
		}
	}
	slices.SortFunc(gpus, func(a, b GPU) int { return strings.Compare(a.Name, b.Name) })
	library := &split{f.name, ofDevices(f.bundles), f.marker.sources, paths, nil}
	for _, g := range askSplit(library, gpus).GPUs {
		for _, m := range g.Modes {
			if m.Older != "" && m.Verdict == Yes {
				p.warn(f.name, FaultMissing, "split with --complete for older runtimes", "runtimes before the summer of 2026 do not find all code for %s: the first archive of a variant decides alone", m.Mode)
				break
			}
		}
	}
}

// unused reports archives, and code in archives, that no library uses.
func (p *packageCheck) unused() error {
	if len(p.hosts) == 0 {
		return nil // packages for GPUs alone
	}
	asked := make(map[string]*file) // libraries by their name in keys
	keys := make(map[string]bool)
	for _, f := range p.hosts {
		for key := range f.marker.keys {
			name, _, _ := kpack.SplitKey(key)
			asked[name], keys[key] = f, true
		}
	}
	for _, f := range p.files {
		entries := f.entries()
		if len(entries) == 0 {
			continue
		}
		if name := f.archive.name; !p.reached[name] && !p.reached[filepath.Clean(name)] {
			p.fault(f.name, FaultUnreachable, "install the archive at a path that a library searches, or remove it", "no library of the package searches this archive")
			continue
		}
		told := make(map[string]bool)
		for _, e := range entries {
			name, _, _ := kpack.SplitKey(e.Key)
			if keys[e.Key] || told[name] {
				continue
			}
			told[name] = true
			if host := asked[name]; host != nil {
				p.fault(f.name, FaultBuild, fixArchive, "it has %s, which %s does not ask for: they are of two builds", e.Key, host.name)
			} else {
				p.fault(f.name, FaultUnreachable, "package the library, or remove its code from the archive", "it has code for %s, and no library of the package asks for it", name)
			}
		}
	}
	return nil
}

// libraryData checks the data of libraries: it compares the catalogues of directories of Tensile with the code
// in them, and reports faults of the data of MIOpen and AOTriton.
func (p *packageCheck) libraryData() error {
	byName := make(map[string]*file)
	for _, f := range p.files {
		byName[f.name] = f
	}
	dirs := directories(p.dirs)
	for _, t := range rocmdata.FindTensile(dirs) {
		for _, processor := range slices.Sorted(maps.Keys(t.Catalogues)) {
			if len(t.Code[processor]) == 0 {
				p.fault(t.Name, FaultMissing, "package the code files for "+processor, "catalogues name %s, and no code file is for it", processor)
			}
		}
		for _, processor := range slices.Sorted(maps.Keys(t.Code)) {
			for _, name := range t.Code[processor] {
				if f := byName[name]; f != nil {
					p.codeFile(f)
				}
			}
			if len(t.Catalogues) > 0 && !t.Catalogues[processor] {
				p.fault(t.Name, FaultUnreachable, "package the catalogue for "+processor+", or remove the code", "no catalogue names %s: its %d code files are not used", processor, len(t.Code[processor]))
			}
		}
	}
	for _, d := range rocmdata.FindData(dirs) {
		for i := range d.Files {
			fault, err := p.checkData(&d.Files[i])
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

// codeFile compares the code in a file with the target ID in its name.
func (p *packageCheck) codeFile(f *file) {
	id := rocmdata.CodeTarget(f.name)
	var first *Image
	for img := range f.images() {
		if img.Code != nil && kpack.Fits(*img.Code, id) {
			return
		}
		if first == nil {
			first = img
		}
	}
	if first != nil && first.Code != nil {
		p.fault(f.name, FaultTarget, fixBuild, "the name says %s, and the file has code for %s", id, first.Code.ID())
	}
}
