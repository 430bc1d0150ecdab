package coverage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/installed/rocmdata"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// FaultKind is the kind of a fault in packages.
type FaultKind string

// The kinds of faults.
const (
	FaultMissing     FaultKind = "missing"     // a file, or code that is expected in one
	FaultEmpty       FaultKind = "empty"       // a file or code with nothing in it
	FaultDamaged     FaultKind = "damaged"     // a file that is cut short or cannot be read
	FaultTarget      FaultKind = "target"      // code for another GPU than the name says
	FaultBuild       FaultKind = "build"       // a library and archives of two builds
	FaultTwice       FaultKind = "twice"       // the same code or file in two places
	FaultVariant     FaultKind = "variant"     // a variant of xnack or sramecc is missing
	FaultKernel      FaultKind = "kernel"      // a kernel that is registered and in no image
	FaultUnreachable FaultKind = "unreachable" // code that no host code finds
	FaultRecord      FaultKind = "record"      // a wheel that cannot be installed, or a file that does not match RECORD
)

// Fault is a fault in a set of packages.
type Fault struct {
	File string    `json:"file"`
	Kind FaultKind `json:"kind"`
	Text string    `json:"text"` // what is wrong
	Fix  string    `json:"fix"`  // what to do
	// Warning is set for faults that may be intended.
	Warning bool `json:"warning"`
}

// PackageReport is the result of CheckPackage.
type PackageReport struct {
	Files  int     `json:"files"` // that were read
	Faults []Fault `json:"faults"`
}

// Err returns an error if there is a fault that is not a warning.
func (r *PackageReport) Err() error {
	count := 0
	for _, f := range r.Faults {
		if !f.Warning {
			count++
		}
	}
	if count == 0 {
		return nil
	}
	plural := func(n int, what string) string {
		if n == 1 {
			return "1 " + what
		}
		return fmt.Sprintf("%d %ss", n, what)
	}
	return fmt.Errorf("%s in %s", plural(count, "fault"), plural(r.Files, "file"))
}

// CheckPackage checks that the files of packages, which are installed together, fit each other:
// libraries, the archives that have their code, data for GPUs, and the lists of files of wheels.
func CheckPackage(ctx context.Context, s *engine.Session, opt Options) (_ *PackageReport, err error) {
	defer guard.Into(&err)()
	p := &packageCheck{checker: newChecker(ctx, s, opt), faults: []Fault{}, variants: make(map[string]string), reached: make(map[string]bool)}
	defer p.close()
	p.deep = true
	inputs, err := p.gather(opt.Inputs)
	if err != nil {
		return nil, err
	}
	if err := p.collect(inputs); err != nil {
		return nil, err
	}
	if len(p.files) == 0 {
		return nil, fmt.Errorf("%s: no file in it", opt.Inputs[0])
	}
	p.contents()
	for _, step := range []func() error{p.libraries, p.unused, p.libraryData, p.wheels, p.records, p.covers} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	p.twice()
	slices.SortFunc(p.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
	return &PackageReport{Files: len(p.files), Faults: slices.Compact(p.faults)}, nil
}

// packageCheck collects faults.
type packageCheck struct {
	*checker
	files  []*file
	dirs   []files.Folder
	faults []Fault
	// variants are the target IDs of all code, each with a file that has it.
	variants map[string]string
	hosts    []*file         // libraries whose code is in archives
	reached  map[string]bool // the archives that libraries search, by name
}

func (p *packageCheck) fault(file string, kind FaultKind, fix, format string, args ...any) {
	p.faults = append(p.faults, Fault{File: file, Kind: kind, Text: fmt.Sprintf(format, args...), Fix: fix})
}

func (p *packageCheck) warn(file string, kind FaultKind, fix, format string, args ...any) {
	p.fault(file, kind, fix, format, args...)
	p.faults[len(p.faults)-1].Warning = true
}

// What to do about faults.
const (
	fixBuild   = "build or copy the file again"
	fixArchive = "put the archives of the same build into the package"
	fixSplit   = "split the library again and package all archives"
	fixWheel   = "build the wheel again"
)

// collect reads the files of directories, and lists those of packages.
func (p *packageCheck) collect(inputs []gathered) error {
	for _, f := range p.packed.files {
		if f.same == "" {
			p.files = append(p.files, f)
		}
	}
	p.dirs = p.packed.folders()
	for _, g := range inputs {
		if !g.packed && !g.dir {
			g.folders = []files.Folder{{Name: filepath.Dir(g.name), Files: []string{g.name}}}
		}
		p.dirs = append(p.dirs, g.folders...)
		for _, folder := range g.folders {
			for _, name := range folder.Files {
				f, err := p.local(g.name, name)
				if err != nil {
					return err
				}
				p.files = append(p.files, f)
			}
		}
	}
	for _, f := range p.files {
		for img := range f.images() {
			p.variant(img.targetID(), f)
		}
	}
	for _, f := range p.files {
		for _, e := range f.entries() {
			p.variant(e.Arch, f)
		}
	}
	return nil
}

// variant adds the target ID of code in a file to those of the package.
func (p *packageCheck) variant(id string, f *file) {
	if fixedFeature(id) == "" {
		p.variants[id] = f.name
	}
}

// local examines a file of a directory.
func (p *packageCheck) local(root, name string) (*file, error) {
	f := &file{in: root, path: filepath.ToSlash(name), name: name}
	var err error
	if f.head, f.size, err = p.readHead(name); err != nil {
		return nil, err
	}
	input, err := p.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	switch {
	case f.isRecord():
		f.text = slices.Clone(input.Mapped(guard.Inside))
	case mayHaveCode(name, input.Mapped(guard.Inside)):
		err = p.examine(f, input)
		if f.archive != nil {
			p.archives[filepath.Clean(name)] = f.archive
		}
	}
	return f, err
}

// contents reports faults of single files.
func (p *packageCheck) contents() {
	for _, f := range p.files {
		var unread *registered.Error
		extension := path.Ext(f.path)
		isCode := rocmdata.IsCode(f.path) || extension == kpack.Extension || extension == ".so" || strings.Contains(path.Base(f.path), ".so.")
		switch {
		case isCode && f.size == 0:
			p.fault(f.name, FaultEmpty, fixBuild, "the file has 0 bytes")
		case isCode && strings.HasPrefix(string(f.head), "version https://"):
			p.fault(f.name, FaultDamaged, "run git lfs pull before packaging", "the file is a Git LFS pointer")
		case errors.As(f.code.fault, &unread) && unread.Wrapper >= 0:
			p.fault(f.name, FaultMissing, "link the library again", "%v", unread)
		case f.code.fault != nil:
			p.fault(f.name, FaultDamaged, fixBuild, "%s", strings.TrimPrefix(f.code.fault.Error(), f.name+": "))
		case f.archive != nil && f.archive.fault != "":
			p.fault(f.name, FaultDamaged, fixSplit, "%s", f.archive.fault)
		case f.archive != nil:
			p.archiveContents(f)
		default:
			p.codeContents(f)
		}
	}
}

// archiveContents reports faults of an archive.
func (p *packageCheck) archiveContents(f *file) {
	targets := f.archive.parsed.Archs
	if len(f.entries()) == 0 {
		p.fault(f.name, FaultEmpty, fixSplit, "the archive has no code objects")
		return
	}
	empty := true
	for _, e := range f.entries() {
		code := e.code()
		empty = empty && code.empty()
		switch {
		case code.fault != "":
			p.fault(f.name, FaultDamaged, fixSplit, "%s for %s: %s", e.Key, e.Arch, code.fault)
		case !slices.Contains(targets, e.Arch):
			p.fault(f.name, FaultTarget, fixSplit, "%s is for %s, and the archive says that it has code for %s only", e.Key, e.Arch, strings.Join(targets, ", "))
		case code.Size == 0:
			p.fault(f.name, FaultEmpty, fixSplit, "%s for %s has 0 bytes", e.Key, e.Arch)
		case code.Code == nil:
			p.fault(f.name, FaultDamaged, fixSplit, "%s for %s is not an AMD code object", e.Key, e.Arch)
		case fixedFeature(e.Arch) != "":
			p.fixedFault(f, fmt.Sprintf("%s for %s", e.Key, e.Arch), e.Arch)
		case !kpack.Fits(*code.Code, e.Arch):
			p.fault(f.name, FaultTarget, fixSplit, "%s for %s is code for %s", e.Key, e.Arch, code.Code.ID())
		}
	}
	if empty {
		p.warn(f.name, FaultEmpty, fixSplit, "no code object in the archive has kernels or variables")
	}
	// The name says for which target the runtime opens the archive.
	stem := strings.TrimSuffix(path.Base(f.path), kpack.Extension)
	for at := range len(stem) {
		if stem[at] != '_' {
			continue
		}
		name := stem[at+1:]
		id, err := target.ParseTargetID(name)
		if _, ok := target.AMDGPUFeatures(id.Processor); err != nil || !ok {
			continue
		}
		if !slices.Contains(targets, name) {
			p.fault(f.name, FaultTarget, "rename the archive, or split the library again", "the runtime opens the file for %s, and it has code for %s", name, strings.Join(targets, ", "))
		}
		return
	}
}

// codeContents reports faults of the device code in a file.
func (p *packageCheck) codeContents(f *file) {
	type entry struct {
		place
		id string
	}
	seen := make(map[entry]bool)
	known := make(map[string]bool) // kernels
	found := false
	for img := range f.images() {
		found = true
		maps.Copy(known, img.Kernels)
		if img.ID == "" || img.Size == 0 {
			continue
		}
		at := entry{img.place, img.ID}
		if seen[at] {
			p.fault(f.name, FaultTwice, fixBuild, "a bundle has the entry %s twice; only the first one is used", img.ID)
		}
		seen[at] = true
		if fixedFeature(img.targetID()) != "" {
			p.fixedFault(f, "the entry "+img.ID, img.targetID())
		}
		if img.Code != nil && !kpack.Fits(*img.Code, img.targetID()) {
			p.fault(f.name, FaultTarget, fixBuild, "the entry %s is code for %s", img.ID, img.Code.ID())
		}
	}
	for i := range f.bundles {
		if b := &f.bundles[i]; b.unreached {
			at := b.Images[0].place
			p.fault(f.name, FaultUnreachable, "link the library again", "no wrapper refers to the bundle at byte 0x%x of section %s", at.container, at.section)
		}
	}
	if f.marker == nil && found {
		p.unknownKernels(f, known)
		p.hiddenKernels(f, sourcesOf(f.bundles))
	}
}

// fixedFault reports code whose target ID sets a feature that the hardware always has.
func (p *packageCheck) fixedFault(f *file, what, id string) {
	processor, _, _ := strings.Cut(id, ":")
	p.fault(f.name, FaultTarget, "compile for "+processor+", without a setting", "%s is not found: %s always has %s, so that the runtime searches for %s", what, processor, fixedFeature(id), processor)
}

// unknownKernels reports the registered kernels of a library that no image has.
func (p *packageCheck) unknownKernels(f *file, known map[string]bool) {
	missing := slices.DeleteFunc(slices.Clone(f.host.registered), func(name string) bool { return known[name] })
	if len(missing) > 0 {
		p.fault(f.name, FaultKernel, "build host code and device code from the same sources", "it registers kernels that no image has: %s", some(missing))
	}
}

// some lists the first names of a list.
func some(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// twice reports different files at the same path of two packages.
func (p *packageCheck) twice() {
	for name, list := range p.packed.paths {
		first := list[0]
		for _, f := range list[1:] {
			hasCode := func(f *file) bool { return f.archive != nil || len(ofDevices(f.bundles)) > 0 || f.marker != nil }
			switch {
			case f.same != "" || first.same != "":
			case f.in == first.in:
				p.fault(f.name, FaultTwice, "remove one of them", "the package has the file twice")
			case f.sum != first.sum && (hasCode(f) || hasCode(first)):
				p.fault(f.name, FaultTwice, "give one of the packages another path or remove the file from it", "%s has another file %s: the package that is installed last wins", first.in, name)
			}
		}
	}
}

// covers reports the GPUs that find no code.
func (p *packageCheck) covers() error {
	if len(p.gpus) == 0 {
		return nil
	}
	list, err := p.folders(p.dirs)
	for _, f := range list {
		for _, g := range f.GPUs {
			if !g.onlyKernels() && g.Verdict != Yes {
				p.fault(f.File, FaultMissing, "package the code for "+g.GPU, "%s", f.noted(g.GPU+": "+g.explain()))
			}
		}
	}
	return err
}
