package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/coverage"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/guard"
	"github.com/rules-offload/rules_offload/internal/kpack"
)

// CoversOptions are the options of Covers: which GPUs must find code, and in
// which files.
type CoversOptions struct {
	// Inputs are files and directories.
	Inputs []string
	GPUs   []coverage.GPU
}

// Covers reports whether GPUs find code in files, and which code. In a directory or a package,
// files without device code are skipped; one without any device code is an error. Packages (wheels,
// zip, tar, deb and rpm files) are read as if all of them were installed: the code of a library can be
// in another package. Wheels, deb and rpm files in directories are packages, too.
func (s *Session) Covers(ctx context.Context, opt CoversOptions) (*coverage.Report, error) {
	ctx = s.Context(ctx) // one account for the files of all packages
	c := s.coverer(opt.GPUs)
	defer c.close()
	in, err := c.gather(ctx, opt.Inputs)
	if err != nil {
		return nil, err
	}
	packed := &coverage.Report{Files: []coverage.FileReport{}}
	if err := c.folders(ctx, c.shipped.folders(), packed); err != nil {
		return nil, err
	}
	report := &coverage.Report{Files: []coverage.FileReport{}}
	for _, input := range in {
		found := &coverage.Report{}
		switch {
		case input.packed:
			found.Files = slices.DeleteFunc(slices.Clone(packed.Files), func(f coverage.FileReport) bool {
				return !strings.HasPrefix(f.File, input.name+"!")
			})
		case !input.dir:
			f, err := c.file(ctx, input.name)
			if err != nil {
				return nil, err
			}
			found.Files = append(found.Files, *f)
		default:
			if err := c.folders(ctx, input.folders, found); err != nil {
				return nil, err
			}
			for _, f := range packed.Files {
				if slices.ContainsFunc(input.packages, func(name string) bool { return strings.HasPrefix(f.File, name+"!") }) {
					found.Files = append(found.Files, f)
				}
			}
			if len(found.Files) == 0 {
				return nil, fmt.Errorf("%s: no file with device code in the directory or its subdirectories", input.name)
			}
		}
		found.Sort()
		report.Files = append(report.Files, found.Files...)
	}
	if len(report.Files) == 0 {
		return nil, fmt.Errorf("%s: no file with device code in the package; name the package with the libraries, too", in[0].name)
	}
	return report, nil
}

// coverer looks up the code for GPUs in files.
type coverer struct {
	session *Session
	gpus    []coverage.GPU
	// archives are the kpack archives that were searched for, by name; nil if they do not exist.
	archives map[string]*archiveFile
	shipped  shipped
	deep     bool // whether to read what CheckPackage requires
}

func (s *Session) coverer(gpus []coverage.GPU) *coverer {
	return &coverer{
		session: s, gpus: gpus, archives: make(map[string]*archiveFile),
		shipped: shipped{named: make(map[string]*shippedFile), paths: make(map[string][]*shippedFile), links: make(map[string]string)},
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
func (c *coverer) gather(ctx context.Context, inputs []string) ([]gathered, error) {
	if len(inputs) == 0 {
		return nil, errors.New("the list of inputs is empty")
	}
	var list []gathered
	for _, name := range inputs {
		g := gathered{name: name}
		folders, isDir, err := c.session.tree(ctx, name)
		if err != nil {
			return nil, err
		}
		if g.dir = isDir; !isDir {
			if g.packed, err = c.ship(ctx, name); err != nil {
				return nil, err
			}
		}
		for _, folder := range folders {
			var rest []string
			for _, file := range folder.Files {
				packed := false
				if isPackageName(file) {
					if packed, err = c.ship(ctx, file); err != nil {
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
	c.shipped.settle()
	return list, nil
}

// folders reports on the files of directories that have device code, and on directories of data.
func (c *coverer) folders(ctx context.Context, folders []files.Folder, report *coverage.Report) error {
	folders, data, err := c.data(ctx, folders)
	if err != nil {
		return err
	}
	report.Files = append(report.Files, data...)
	for _, folder := range folders {
		for _, name := range folder.Files {
			// The code in kpack archives is that of the libraries that refer to it.
			archive, err := c.isArchive(name)
			if err != nil {
				return err
			}
			if archive {
				continue
			}
			f, err := c.file(ctx, name)
			if err != nil {
				return err
			}
			if !f.HostOnly() {
				report.Files = append(report.Files, *f)
			}
		}
	}
	return nil
}

// isArchive reports whether a file is a kpack archive.
func (c *coverer) isArchive(name string) (bool, error) {
	if f := c.shipped.named[name]; f != nil {
		return f.archive != nil, nil
	}
	head, _, err := c.readHead(name)
	return kpack.Is(head), err
}

// file reports on one file.
func (c *coverer) file(ctx context.Context, name string) (*coverage.FileReport, error) {
	bundles, m, err := c.bundles(ctx, name)
	if err != nil {
		return nil, err
	}
	var r coverage.FileReport
	switch {
	case m == nil:
		r = coverage.Ask(name, bundles, c.gpus)
	case m.fault != "":
		r = coverage.Unreadable(name, c.gpus, m.fault)
	default:
		paths, err := c.search(ctx, name, m)
		if err != nil {
			return nil, err
		}
		r = coverage.AskSplit(&coverage.Split{File: name, Bundles: bundles, Keys: m.sources, Paths: paths}, c.gpus)
	}
	return &r, nil
}

// bundles returns the bundles of a file. If device code is in other files, m states where;
// otherwise it is nil.
func (c *coverer) bundles(ctx context.Context, name string) (bundles []coverage.Bundle, m *splitMarker, err error) {
	if f := c.shipped.named[name]; f != nil {
		return f.bundles, f.marker, f.fault
	}
	f, err := c.session.Open(ctx, name, images.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	e, err := c.read(ctx, f)
	return e.bundles, e.marker, err
}

// read describes an open file. Its error is about the device code, or about the machine.
func (c *coverer) read(ctx context.Context, f *images.File) (e examined, err error) {
	file, err := c.session.kernels(ctx, f, InspectOptions{Input: f.Name()})
	if err != nil {
		return e, err
	}
	e.bundles = c.group(file)
	err = guard.Contain(func() (err error) {
		e.marker = readMarker(f.Content())
		if c.deep {
			e.study, err = studyOf(f.Content(), file)
		}
		return err
	})
	return e, err
}

// group groups the images of a file by the bundle that contains them.
func (c *coverer) group(file *DeviceFile) []coverage.Bundle {
	type key struct {
		members, section string
		form             images.Form
		container        int64
	}
	index := make(map[key]int)
	var bundles []coverage.Bundle
	for i, e := range file.Found {
		if e.Form == images.FormFile && file.Images[i].Format != kernels.CodeObject {
			continue // the runtime for these GPUs loads neither shaders nor PTX
		}
		k := key{members: fmt.Sprintf("%q", e.Members), section: e.Section, form: e.Form}
		bare := false
		switch e.Form {
		case images.FormBundle, images.FormCompressed:
			k.container = e.Container
		case images.FormSection:
			bare = e.ID == ""
			if !bare {
				k.section = "" // each entry has a section of its own
			}
		default:
			bare = true
		}
		at, ok := index[k]
		if !ok {
			at = len(bundles)
			index[k] = at
			bundles = append(bundles, coverage.Bundle{Bare: bare})
		}
		if file.Images[i].Host {
			continue
		}
		bundles[at].Images = append(bundles[at].Images, coverageImage(e, &file.Images[i]))
	}
	// A bundle without a device entry is not device code.
	return slices.DeleteFunc(bundles, func(b coverage.Bundle) bool {
		return !slices.ContainsFunc(b.Images, func(img coverage.Image) bool { return img.Size > 0 })
	})
}

func coverageImage(e *images.DeviceImage, img *kernels.Image) coverage.Image {
	c := coverage.Image{ID: e.ID, Size: e.Size, Empty: img.Empty}
	if img.Format == kernels.CodeObject {
		c.Code = new(img.Target)
	}
	return c
}
