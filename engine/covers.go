package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/rules-offload/rules_offload/engine/coverage"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/guard"
)

// CoversOptions are the options of Covers: which GPUs must find code, and in
// which files.
type CoversOptions struct {
	// Inputs are files and directories.
	Inputs []string
	GPUs   []coverage.GPU
}

// Covers reports whether GPUs find code in files, and which code. In a directory,
// files without device code are skipped; a directory without any device code is an
// error.
func (s *Session) Covers(ctx context.Context, opt CoversOptions) (*coverage.Report, error) {
	report := &coverage.Report{Files: []coverage.FileReport{}}
	c := coverer{session: s, gpus: opt.GPUs, archives: make(map[string]*archiveFile)}
	defer c.close()
	for _, input := range opt.Inputs {
		folders, isDir, err := c.tree(ctx, input)
		if err != nil {
			return nil, err
		}
		if !isDir {
			f, err := c.file(ctx, input)
			if err != nil {
				return nil, err
			}
			report.Files = append(report.Files, *f)
			continue
		}
		found := &coverage.Report{}
		for _, folder := range folders {
			list, err := c.folder(ctx, folder)
			if err != nil {
				return nil, err
			}
			found.Files = append(found.Files, list...)
		}
		if len(found.Files) == 0 {
			return nil, fmt.Errorf("%s: no file with device code in the directory or its subdirectories", input)
		}
		found.Sort()
		report.Files = append(report.Files, found.Files...)
	}
	return report, nil
}

// coverer looks up the code for GPUs in files.
type coverer struct {
	session *Session
	gpus    []coverage.GPU
	// archives are the kpack archives that were searched for, by name; nil if they do not exist.
	archives map[string]*archiveFile
}

// tree returns the folders of an input that is a directory.
func (c *coverer) tree(ctx context.Context, input string) (folders []files.Folder, isDir bool, err error) {
	if input == "-" {
		return nil, false, nil
	}
	return c.session.files.Tree(ctx, input)
}

// folder reports on the files of a folder that have device code.
func (c *coverer) folder(ctx context.Context, folder files.Folder) ([]coverage.FileReport, error) {
	var list []coverage.FileReport
	rest := folder.Files
	if t := tensile(folder); t != nil {
		rest = slices.DeleteFunc(slices.Clone(rest), func(name string) bool { return t.part[name] })
		code := make(map[string][]coverage.Bundle)
		for processor, names := range t.code {
			for _, name := range names {
				bundles, _, err := c.bundles(ctx, name)
				if err != nil {
					return nil, err
				}
				code[processor] = append(code[processor], bundles...)
			}
		}
		list = append(list, coverage.AskTensile(folder.Name, t.catalogue, code, c.gpus))
	}
	for _, name := range rest {
		f, err := c.file(ctx, name)
		if err != nil {
			return nil, err
		}
		if !f.HostOnly() {
			list = append(list, *f)
		}
	}
	return list, nil
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
	f, err := c.session.Open(ctx, name, images.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	file, err := c.session.kernels(ctx, f, InspectOptions{Input: name})
	if err != nil {
		return nil, nil, err
	}
	err = guard.Contain(func() error {
		m = readMarker(f.Content())
		return nil
	})
	return c.group(file), m, err
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
		target := img.Target
		c.Code = &target
	}
	return c
}

// tensileFolder is a folder of Tensile, the generator of matrix kernels.
type tensileFolder struct {
	catalogue map[string]bool     // processors that .dat files name
	code      map[string][]string // code files by the processor in their name
	part      map[string]bool     // all files of both kinds
}

// tensile recognizes a folder of Tensile by its catalogues and code files. It
// returns nil for other folders.
func tensile(folder files.Folder) *tensileFolder {
	t := &tensileFolder{catalogue: make(map[string]bool), code: make(map[string][]string), part: make(map[string]bool)}
	catalogues := 0
	for _, name := range slices.Sorted(slices.Values(append(slices.Clone(folder.Files), folder.Links...))) {
		base := filepath.Base(name)
		processor := target.FindProcessor(base)
		switch filepath.Ext(base) {
		case ".dat":
			catalogues++
			if t.part[name] = true; processor != "" {
				t.catalogue[processor] = true
			}
		case ".co", ".hsaco":
			if processor != "" {
				t.part[name] = true
				t.code[processor] = append(t.code[processor], name)
			}
		}
	}
	if catalogues == 0 || len(t.catalogue)+len(t.code) == 0 {
		return nil
	}
	return t
}
