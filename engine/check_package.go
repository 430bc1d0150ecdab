package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/coverage"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/prune"
	"github.com/rules-offload/rules_offload/internal/registered"
	"github.com/rules-offload/rules_offload/internal/rocmdata"
)

// PackageOptions are the options of CheckPackage.
type PackageOptions struct {
	// Inputs are packages, directories and files that are installed together.
	Inputs []string
	// GPUs must find code in each file with device code.
	GPUs []coverage.GPU
}

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
	FaultRecord      FaultKind = "record"      // a file that does not match RECORD of its wheel
)

// PackageFault is a fault in a set of packages.
type PackageFault struct {
	File string    `json:"file"`
	Kind FaultKind `json:"kind"`
	Text string    `json:"text"` // what is wrong
	Fix  string    `json:"fix"`  // what to do
	// Warning is set for faults that may be intended.
	Warning bool `json:"warning"`
}

// PackageReport is the result of CheckPackage.
type PackageReport struct {
	Files  int            `json:"files"` // that were read
	Faults []PackageFault `json:"faults"`
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
func (s *Session) CheckPackage(ctx context.Context, opt PackageOptions) (*PackageReport, error) {
	ctx = s.Context(ctx) // one account for the files of all packages
	c := s.coverer(opt.GPUs)
	defer c.close()
	c.deep, c.shipped.hash = true, true
	inputs, err := c.gather(ctx, opt.Inputs)
	if err != nil {
		return nil, err
	}
	p := &packageCheck{c: c, ctx: ctx, faults: []PackageFault{}, variants: make(map[string]string), reached: make(map[string]bool)}
	if err := p.collect(inputs); err != nil {
		return nil, err
	}
	if len(p.files) == 0 {
		return nil, fmt.Errorf("%s: no file in it", opt.Inputs[0])
	}
	for _, step := range []func() error{p.contents, p.libraries, p.archives, p.tensile, p.data, p.records, p.twice, p.coverage} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(p.faults, func(a, b PackageFault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Text, b.Text))
	})
	return &PackageReport{Files: len(p.files), Faults: slices.Compact(p.faults)}, nil
}

// packageCheck collects faults.
type packageCheck struct {
	c       *coverer
	ctx     context.Context
	inputs  []gathered
	files   []*shippedFile
	folders []files.Folder
	faults  []PackageFault
	// variants are the target IDs of all code, each with a file that has it.
	variants map[string]string
	hosts    []*shippedFile  // libraries whose code is in archives
	reached  map[string]bool // the archives that libraries search, by name
}

func (p *packageCheck) fault(file string, kind FaultKind, fix, format string, args ...any) {
	p.faults = append(p.faults, PackageFault{File: file, Kind: kind, Text: fmt.Sprintf(format, args...), Fix: fix})
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
)

// collect reads the files of directories, and lists those of packages.
func (p *packageCheck) collect(inputs []gathered) error {
	p.inputs = inputs
	for _, f := range p.c.shipped.files {
		if f.same == "" {
			p.files = append(p.files, f)
		}
	}
	p.folders = p.c.shipped.folders()
	for _, g := range inputs {
		if !g.packed && !g.dir {
			g.folders = []files.Folder{{Name: filepath.Dir(g.name), Files: []string{g.name}}}
		}
		p.folders = append(p.folders, g.folders...)
		for _, folder := range g.folders {
			for _, name := range folder.Files {
				if err := p.local(g.name, name); err != nil {
					return err
				}
			}
		}
	}
	for _, f := range p.files {
		if f.study == nil {
			continue
		}
		for i := range f.study.images {
			p.variants[f.study.images[i].targetID()] = f.name
		}
	}
	for _, f := range p.files {
		if f.archive != nil && f.archive.parsed != nil {
			for i := range f.archive.parsed.Entries {
				p.variants[f.archive.parsed.Entries[i].Arch] = f.name
			}
		}
	}
	return nil
}

// local examines a file of a directory.
func (p *packageCheck) local(root, name string) error {
	f := &shippedFile{in: root, path: filepath.ToSlash(name), name: name}
	p.files = append(p.files, f)
	var err error
	if f.head, f.size, err = p.c.readHead(name); err != nil {
		return err
	}
	head := f.examined
	input, err := p.c.session.files.Open(name)
	if err != nil {
		return err
	}
	if f.isRecord() {
		f.text = slices.Clone(input.Bytes())
		return input.Close()
	}
	if !mayHaveCode(name, input.Bytes()) {
		return input.Close()
	}
	f.examined, err = p.c.examine(p.ctx, input) // closes a library
	input.Close()
	f.head, f.size = head.head, head.size
	if f.archive != nil {
		p.c.archives[filepath.Clean(name)] = f.archive
	}
	return err
}

// contents reports faults of single files.
func (p *packageCheck) contents() error {
	for _, f := range p.files {
		extension := path.Ext(f.path)
		isCode := rocmdata.IsCode(f.path) || extension == kpackExtension || extension == ".so" || strings.Contains(path.Base(f.path), ".so.")
		switch {
		case isCode && f.size == 0:
			p.fault(f.name, FaultEmpty, fixBuild, "the file has 0 bytes")
		case isCode && strings.HasPrefix(string(f.head), "version https://"):
			p.fault(f.name, FaultDamaged, "run git lfs pull before packaging", "the file is a Git LFS pointer")
		case f.fault != nil:
			p.fault(f.name, FaultDamaged, fixBuild, "%s", strings.TrimPrefix(f.fault.Error(), f.name+": "))
		case f.archive != nil && f.archive.Fault != "":
			p.fault(f.name, FaultDamaged, fixSplit, "%s", f.archive.Fault)
		case f.archive != nil:
			p.archiveContents(f)
		case f.study != nil:
			p.codeContents(f)
		}
	}
	return nil
}

// archiveContents reports faults of an archive.
func (p *packageCheck) archiveContents(f *shippedFile) {
	a := f.archive
	if a.Entries == 0 {
		p.fault(f.name, FaultEmpty, fixSplit, "the archive has no code objects")
		return
	}
	empty := true
	for i := range a.parsed.Entries {
		e := &a.parsed.Entries[i]
		img := a.images[e.Ordinal]
		empty = empty && (img.Empty || img.Size == 0)
		switch {
		case img.Fault != "":
			p.fault(f.name, FaultDamaged, fixSplit, "%s for %s: %s", e.Key, e.Arch, img.Fault)
		case !slices.Contains(a.Targets, e.Arch):
			p.fault(f.name, FaultTarget, fixSplit, "%s is for %s, and the archive says that it has code for %s only", e.Key, e.Arch, strings.Join(a.Targets, ", "))
		case img.Size == 0:
			p.fault(f.name, FaultEmpty, fixSplit, "%s for %s has 0 bytes", e.Key, e.Arch)
		case img.Code == nil:
			p.fault(f.name, FaultDamaged, fixSplit, "%s for %s is not an AMD code object", e.Key, e.Arch)
		case !kpack.Fits(*img.Code, e.Arch):
			p.fault(f.name, FaultTarget, fixSplit, "%s for %s is code for %s", e.Key, e.Arch, img.Code.ID())
		}
	}
	if empty {
		p.warn(f.name, FaultEmpty, fixSplit, "no code object in the archive has kernels or variables")
	}
	// The name says for which target the runtime opens the archive.
	stem := strings.TrimSuffix(path.Base(f.path), kpackExtension)
	for at := range len(stem) {
		if stem[at] != '_' {
			continue
		}
		name := stem[at+1:]
		id, err := target.ParseTargetID(name)
		if _, ok := target.AMDGPUFeatures(id.Processor); err != nil || !ok {
			continue
		}
		if !slices.Contains(a.Targets, name) {
			p.fault(f.name, FaultTarget, "rename the archive, or split the library again", "the runtime opens the file for %s, and it has code for %s", name, strings.Join(a.Targets, ", "))
		}
		return
	}
}

// codeContents reports faults of the device code in a file.
func (p *packageCheck) codeContents(f *shippedFile) {
	s := f.study
	type place struct {
		section   string
		members   string
		container int64
		id        string
	}
	seen := make(map[place]bool)
	for i := range s.images {
		img := &s.images[i]
		if img.id == "" || img.size == 0 {
			continue
		}
		at := place{img.section, img.members, img.container, img.id}
		if seen[at] {
			p.fault(f.name, FaultTwice, fixBuild, "a bundle has the entry %s twice; only the first one is used", img.id)
		}
		seen[at] = true
		if img.code != nil && !kpack.Fits(*img.code, img.targetID()) {
			p.fault(f.name, FaultTarget, fixBuild, "the entry %s is code for %s", img.id, img.code.ID())
		}
	}
	for _, offset := range s.unreached {
		p.fault(f.name, FaultUnreachable, "link the library again", "no wrapper refers to the bundle at byte 0x%x of section %s", offset, embedding.HIPSection)
	}
	for _, wrapper := range s.dangling {
		p.fault(f.name, FaultMissing, "link the library again", "wrapper %d refers to no bundle", wrapper)
	}
	if f.marker == nil {
		known := make(map[string]bool)
		for i := range s.images {
			for _, name := range s.images[i].kernels {
				known[name] = true
			}
		}
		if len(s.images) > 0 {
			p.unknownKernels(f, known)
		}
	}
}

// unknownKernels reports the registered kernels of a library that no image has.
func (p *packageCheck) unknownKernels(f *shippedFile, known map[string]bool) {
	if f.study == nil {
		return
	}
	var missing []string
	for _, name := range f.study.registered {
		if !known[name] {
			missing = append(missing, name)
		}
	}
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
func (p *packageCheck) twice() error {
	for name, list := range p.c.shipped.paths {
		first := list[0]
		for _, f := range list[1:] {
			code := func(f *shippedFile) bool { return f.archive != nil || len(f.bundles) > 0 || f.marker != nil }
			switch {
			case f.same != "" || first.same != "":
			case f.in == first.in:
				p.fault(f.name, FaultTwice, "remove one of them", "the package has the file twice")
			case f.sum != first.sum && (code(f) || code(first)):
				p.fault(f.name, FaultTwice, "give one of the packages another path or remove the file from it", "%s has another file %s: the package that is installed last wins", first.in, name)
			}
		}
	}
	return nil
}

// coverage reports the GPUs that find no code.
func (p *packageCheck) coverage() error {
	if len(p.c.gpus) == 0 {
		return nil
	}
	report := &coverage.Report{}
	if err := p.c.folders(p.ctx, p.folders, report); err != nil {
		return err
	}
	for _, f := range report.Files {
		for _, g := range f.GPUs {
			if g.Verdict != coverage.Yes {
				p.fault(f.File, FaultMissing, "package the code for "+g.GPU, "%s", f.Explain(&g))
			}
		}
	}
	return nil
}

// study is what CheckPackage requires of a file with device code.
type study struct {
	images     []studiedImage
	registered []string // kernels
	// unreached are the offsets of bundles without a wrapper, and dangling the numbers of wrappers
	// without a bundle.
	unreached []int64
	dangling  []int
	complete  bool // whether registered has all kernels
}

// studiedImage is a device image.
type studiedImage struct {
	section, members, id string
	container, size      int64
	code                 *target.CodeObject
	kernels              []string
}

// targetID returns the target ID of an image.
func (i *studiedImage) targetID() string {
	if i.id != "" {
		if e, err := target.Parse(i.id); err == nil {
			return e.TargetID
		}
	}
	if i.code != nil {
		return i.code.ID()
	}
	return ""
}

// kernelNames returns the names of the kernels of an image.
func kernelNames(img *kernels.Image) []string {
	names := make([]string, len(img.Kernels))
	for i := range img.Kernels {
		names[i] = strings.Clone(img.Kernels[i].Name)
	}
	return names
}

// studyOf reads the images of a file, and how its host code refers to them.
func studyOf(c content.Content, file *DeviceFile) (*study, error) {
	s := &study{}
	for i, e := range file.Found {
		img := &file.Images[i]
		if img.Host || e.Form == images.FormFile && img.Format != kernels.CodeObject {
			continue
		}
		d := studiedImage{section: e.Section, members: strings.Join(e.Members, "\x00"), id: e.ID, container: e.Container, size: e.Size, kernels: kernelNames(img)}
		if img.Format == kernels.CodeObject {
			d.code = new(img.Target)
		}
		s.images = append(s.images, d)
	}
	data := c.Bytes()
	if !elfedit.IsLinked(data) || len(data) < elf.HeaderSize {
		return s, nil
	}
	f, err := elfedit.Parse(c)
	if err != nil {
		return s, nil // such as a code object, or the debug part of a file
	}
	if s.registered, s.complete, err = registered.Kernels(c); err != nil {
		return s, err
	}
	return s, s.wrappers(f)
}

// wrappers compares the wrappers of a library with its bundles.
func (s *study) wrappers(f *elfedit.File) error {
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
	for i := range s.images {
		if s.images[i].section == embedding.HIPSection {
			bundles[start+uint64(s.images[i].container)] = true
		}
	}
	used := make(map[uint64]bool)
	for i, w := range wrappers {
		if w.Magic != embedding.MagicHIP {
			continue
		}
		if used[w.Target] = true; len(bundles) > 0 && !bundles[w.Target] && (w.Target < start || w.Target-start >= f.Sections[section].Size) {
			s.dangling = append(s.dangling, i)
		}
	}
	for addr := range bundles {
		if len(wrappers) > 0 && !used[addr] {
			s.unreached = append(s.unreached, int64(addr-start))
		}
	}
	slices.Sort(s.unreached)
	return nil
}

// sumFile returns the SHA-256 sum of a file.
func (p *packageCheck) sumFile(name string) (sum [sha256.Size]byte, size int64, err error) {
	input, err := p.c.session.files.OpenRegular(name)
	if err != nil {
		return sum, 0, err
	}
	defer input.Close()
	h := sha256.New()
	if size, err = io.Copy(h, io.NewSectionReader(input, 0, input.Size())); err != nil {
		return sum, size, err
	}
	h.Sum(sum[:0])
	return sum, size, nil
}
