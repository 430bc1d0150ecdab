package coverage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Options are the options of Check and CheckPackage.
type Options struct {
	// Inputs are files, directories and packages.
	Inputs []string
	// GPUs must find code in each file with device code.
	GPUs []GPU
	// XZ is the path of the program xz, which decodes the content of packages that it compressed. If empty,
	// this program does, which takes several times as long.
	XZ string
}

// Check reports whether GPUs find code in files, and which code. In a directory or a package,
// files without device code are skipped; one without any device code is an error. Packages (wheels,
// zip, tar, deb and rpm files) are read as if all of them were installed: the code of a library can be
// in another package. Wheels, deb and rpm files in directories are packages, too.
func Check(ctx context.Context, s *engine.Session, opt Options) (_ *Report, err error) {
	defer guard.Into(&err)()
	c := newChecker(ctx, s, opt)
	defer c.close()
	in, err := c.gather(opt.Inputs)
	if err != nil {
		return nil, err
	}
	packed, err := c.folders(c.packed.folders())
	if err != nil {
		return nil, err
	}
	report := &Report{Files: []FileReport{}}
	for _, input := range in {
		var found Report
		switch {
		case input.packed:
			found.Files = filesOf(packed, input.name)
		case !input.dir:
			f, err := c.file(input.name)
			if err != nil {
				return nil, err
			}
			found.Files = []FileReport{f}
		default:
			if found.Files, err = c.folders(input.folders); err != nil {
				return nil, err
			}
			found.Files = append(found.Files, filesOf(packed, input.packages...)...)
			if len(found.Files) == 0 {
				return nil, fmt.Errorf("%s: no file with device code in the directory or its subdirectories", input.name)
			}
		}
		slices.SortStableFunc(found.Files, func(a, b FileReport) int { return strings.Compare(a.File, b.File) })
		report.Files = append(report.Files, found.Files...)
	}
	if len(report.Files) == 0 {
		return nil, fmt.Errorf("%s: no file with device code in the package; name the package with the libraries, too", in[0].name)
	}
	return report, nil
}

// filesOf returns the files of packages.
func filesOf(all []FileReport, packages ...string) (list []FileReport) {
	for _, f := range all {
		if slices.ContainsFunc(packages, func(name string) bool { return strings.HasPrefix(f.File, name+"!") }) {
			list = append(list, f)
		}
	}
	return list
}

// checker looks up the code for GPUs in files.
type checker struct {
	ctx     context.Context
	session *engine.Session
	root    *files.Root
	budget  *budget.Budget
	gpus    []GPU
	xz      string
	// archives are the kpack archives outside of packages that were searched for, by name.
	archives map[string]*archive
	packed   packed
	names    map[string]string // of kernels, see unique
	deep     bool              // whether to read what CheckPackage requires
}

func newChecker(ctx context.Context, s *engine.Session, opt Options) *checker {
	return &checker{
		ctx:     s.Context(ctx), // one account for the files of all packages
		session: s, root: s.Files(), budget: s.Budget(), gpus: opt.GPUs, xz: opt.XZ, archives: make(map[string]*archive), names: make(map[string]string),
		packed: packed{named: make(map[string]*file), paths: make(map[string][]*file), links: make(map[string]string)},
	}
}

// close closes all archives and releases the memory of files.
func (c *checker) close() {
	for _, a := range c.archives {
		if a.input != nil {
			a.input.Close()
		}
	}
	for _, memory := range c.packed.memory {
		memory.Release()
	}
}

// gathered is an input: a file, a package or a directory.
type gathered struct {
	name        string
	packed, dir bool
	folders     []files.Folder // of a directory, without the packages in it
	packages    []string       // in a directory
}

// gather finds the files of all inputs, and reads the packages among them.
func (c *checker) gather(inputs []string) ([]gathered, error) {
	if len(inputs) == 0 {
		return nil, errors.New("the list of inputs is empty")
	}
	var list []gathered
	for _, name := range inputs {
		g := gathered{name: name}
		var folders []files.Folder
		var err error
		if name != "-" {
			if folders, g.dir, err = c.root.Tree(c.ctx, name); err != nil {
				return nil, err
			}
		}
		if !g.dir {
			if g.packed, err = c.readPackage(name); err != nil {
				return nil, err
			}
		}
		for _, folder := range folders {
			var rest []string
			for _, file := range folder.Files {
				packed := false
				if isPackageName(file) {
					if packed, err = c.readPackage(file); err != nil {
						return nil, err
					}
				}
				if packed {
					g.packages = append(g.packages, file)
				} else {
					rest = append(rest, file)
				}
			}
			folder.Files = rest
			g.folders = append(g.folders, folder)
		}
		list = append(list, g)
	}
	c.packed.settle()
	return list, nil
}

// folders reports on the files of directories that have device code, and on directories of data.
func (c *checker) folders(folders []files.Folder) ([]FileReport, error) {
	folders, list, err := c.data(folders)
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		for _, name := range folder.Files {
			// The code in kpack archives is that of the libraries that refer to it.
			if archive, err := c.isArchive(name); err != nil {
				return nil, err
			} else if archive {
				continue
			}
			f, err := c.file(name)
			switch {
			case c.ofMachine(err):
				return nil, err
			case err != nil:
				f = unreadable(name, c.gpus, err)
			}
			if !slices.ContainsFunc(f.GPUs, func(g GPUReport) bool { return g.Verdict == HostOnly }) {
				list = append(list, f)
			}
		}
	}
	return list, nil
}

// isArchive reports whether a file is a kpack archive.
func (c *checker) isArchive(name string) (bool, error) {
	if f := c.packed.named[name]; f != nil {
		return f.archive != nil, nil
	}
	head, _, err := c.readHead(name)
	return kpack.Is(head), err
}

// file reports on one file.
func (c *checker) file(name string) (FileReport, error) {
	found, err := c.code(name)
	if err != nil {
		return FileReport{}, err
	}
	switch m := found.marker; {
	case m == nil:
		return askSources(name, sourcesOf(found.bundles), c.gpus, &found.host), nil
	case m.fault != "":
		return elsewhere(name, c.gpus, m.fault), nil
	}
	paths, err := c.search(name, found.marker)
	if err != nil {
		return FileReport{}, err
	}
	return askSplit(&split{name, ofDevices(found.bundles), found.marker.sources, paths, &found.host}, c.gpus), nil
}

// code is what a file has for GPUs. Nothing in it refers to the bytes of the file.
type code struct {
	bundles []Bundle
	marker  *marker  // states where device code is if it is in other files; otherwise it is nil
	archive *archive // set for kpack archives, also for those that cannot be read
	fault   error    // of device code that cannot be read
	host    hostCode // see CheckPackage
}

// code returns what a file has for GPUs, unless it is an archive outside of packages.
func (c *checker) code(name string) (code, error) {
	if f := c.packed.named[name]; f != nil {
		return f.code, f.fault
	}
	f, err := c.session.Open(c.ctx, name, images.Options{})
	if err != nil {
		return code{}, err
	}
	defer f.Close()
	return c.read(f)
}

// read describes an open file. Its error is about the device code, or about the machine.
func (c *checker) read(f *images.File) (found code, err error) {
	file, err := c.session.Describe(c.ctx, f, engine.InspectOptions{})
	if err != nil {
		return found, err
	}
	found.bundles = c.group(file.Found, file.Images)
	err = guard.Contain(func() (err error) {
		found.marker = readMarker(f.Content())
		if len(found.bundles) == 0 && found.marker == nil {
			return nil
		}
		rest := unreached(f.Content())
		for i := range found.bundles {
			b := &found.bundles[i]
			b.unreached = len(b.Images) > 0 && rest[b.Images[0].place]
		}
		found.host, err = readHostCode(f.Content())
		return err
	})
	return found, err
}

// noMembers is place.members of an image that is in no archive: the text of no strings.
const noMembers = "[]"

// group groups the images of a file by the bundle that contains them.
func (c *checker) group(list []*images.DeviceImage, described []kernels.Image) []Bundle {
	type key struct {
		place
		form images.Form
	}
	index := make(map[key]int)
	var bundles []Bundle
	for i, e := range list {
		if e.Form == images.FormFile && described[i].Format != kernels.CodeObject {
			continue // the runtime for these GPUs loads neither shaders nor PTX
		}
		at := place{fmt.Sprintf("%q", e.Members), e.Section, e.Container}
		k := key{at, e.Form}
		bare := false
		switch e.Form {
		case images.FormBundle, images.FormCompressed:
		case images.FormSection:
			k.container = 0
			if bare = e.ID == ""; !bare {
				k.section = "" // each entry has a section of its own
			}
		default:
			k.container, bare = 0, true
		}
		b, ok := index[k]
		if !ok {
			b = len(bundles)
			index[k] = b
			bundles = append(bundles, Bundle{Bare: bare})
		}
		if described[i].Host {
			continue
		}
		img := c.image(e.Size, &described[i])
		img.ID, img.place = e.ID, at
		bundles[b].Images = append(bundles[b].Images, img)
	}
	return bundles
}

// image returns what is required of an image.
func (c *checker) image(size int64, described *kernels.Image) Image {
	return imageOf(size, described, c.unique)
}

// ImageOf returns an image of size bytes with a description of its content.
func ImageOf(size int64, described *kernels.Image) Image {
	return imageOf(size, described, strings.Clone)
}

// imageOf is ImageOf with a function that copies the names of kernels.
func imageOf(size int64, described *kernels.Image, name func(string) string) Image {
	img := Image{Size: size, Empty: described.Empty, Kernels: make(map[string]bool, len(described.Kernels))}
	if described.Format == kernels.CodeObject {
		img.Code = new(described.Target)
	}
	for i := range described.Kernels {
		img.Kernels[name(described.Kernels[i].Name)] = true
	}
	return img
}

// unique returns a copy of a name. Equal names, such as those of a kernel in images for several GPUs, share it.
func (c *checker) unique(name string) string {
	shared, ok := c.names[name]
	if !ok {
		shared = strings.Clone(name)
		c.names[shared] = shared
	}
	return shared
}

// ofMachine reports whether an error is about the machine or the program, not about a file.
func (c *checker) ofMachine(err error) bool {
	_, limit := errors.AsType[*budget.LimitError](err)
	_, internal := errors.AsType[*guard.PanicError](err)
	return limit || internal || c.ctx.Err() != nil
}
