package installation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// SplitTreeReport describes what SplitTree wrote.
type SplitTreeReport struct {
	TreeReport
	// Files are the libraries and programs that were split, by path.
	Files    []engine.KpackSplitReport `json:"files"`
	Archives []engine.KpackArchiveFile `json:"archives"`
	Warnings []string                  `json:"warnings"`
	// Unsplit is the number of libraries and programs that were copied with their device code.
	Unsplit int `json:"unsplit"`
}

// SplitTree splits the libraries and programs in a directory. Input and Output are directories, Dir is one in
// Output. The names of libraries in keys are their paths. Other files are copied, also libraries that are
// split and their archives, and links are preserved. Code is added to archives that are there before.
func SplitTree(ctx context.Context, s *engine.Session, opt engine.KpackSplitOptions) (report SplitTreeReport, err error) {
	defer guard.Into(&err)()
	report = SplitTreeReport{
		TreeReport: TreeReport{Input: opt.Input, Output: opt.Output}, Files: []engine.KpackSplitReport{},
		Archives: []engine.KpackArchiveFile{}, Warnings: []string{},
	}
	dir := filepath.ToSlash(filepath.Clean(opt.Dir))
	if !filepath.IsLocal(opt.Dir) || dir == "." {
		return report, fmt.Errorf("%s: expected a path inside the new directory, such as .kpack", opt.Dir)
	}
	err = newTree(ctx, s, opt.Input, opt.Output, false, func(t *treeCopy) error {
		w := &treeSplit{treeCopy: t, opt: opt, dir: dir, fat: make([]bool, len(t.regular)), report: &report}
		return w.run(ctx)
	})
	return report, err
}

// treeSplit is the work of SplitTree.
type treeSplit struct {
	*treeCopy
	opt    engine.KpackSplitOptions
	dir    string // of the archives
	fat    []bool
	report *SplitTreeReport
}

func (w *treeSplit) run(ctx context.Context) error {
	w.report.Links = w.links
	why := make([]string, len(w.regular))
	err := w.each(ctx, func(_ context.Context, i int, input *files.Input, out *files.Outputs, name string) error {
		if w.mayGrow(w.regular[i].Path) {
			return nil
		}
		if w.fat[i], why[i] = kpack.Splittable(input.All()); w.fat[i] {
			return nil
		}
		return w.copy(input, out, name)
	})
	if err != nil {
		return err
	}
	for i, e := range w.regular {
		w.report.Count++
		w.report.SizeBefore += e.Size
		if !w.fat[i] && !w.mayGrow(e.Path) {
			w.report.SizeAfter += e.Size
		}
		if why[i] != "" {
			w.report.Unsplit++
			w.report.Warnings = append(w.report.Warnings, w.input+"/"+e.Path+": copied: "+why[i])
		}
	}
	return w.s.Files().Write(ctx, func(out *files.Outputs) error { return w.split(ctx, out) })
}

// mayGrow reports whether a path is that of an archive to which code can be added.
func (w *treeSplit) mayGrow(name string) bool {
	return path.Dir(name) == w.dir && strings.HasPrefix(path.Base(name), w.opt.Group+"_") && path.Ext(name) == kpack.Extension
}

// split splits the libraries, in order, into archives that they share.
func (w *treeSplit) split(ctx context.Context, out *files.Outputs) error {
	opt := w.opt
	opt.Dir = opt.Output + "/" + w.dir
	writer, err := w.s.NewKpackWriter(out, w.name(w.dir), opt, func(name string) (*files.Input, error) {
		input, err := w.open(w.dir + "/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return input, err
	})
	if err != nil {
		return err
	}
	defer writer.Close()
	for i, e := range w.regular {
		if !w.fat[i] {
			continue
		}
		one, err := w.library(ctx, writer, e.Path)
		if err != nil {
			return err
		}
		w.report.Files = append(w.report.Files, one)
		w.report.SizeAfter += one.SizeAfter
		w.report.Warnings = append(w.report.Warnings, one.Warnings...)
	}
	if w.report.Archives, err = writer.Finish(); err != nil {
		return err
	}
	if len(w.report.Archives) == 0 && len(w.opt.Archs) > 0 && len(w.report.Files) > 0 {
		return fmt.Errorf("%s: no file has code for the targets to keep", w.input)
	}
	size := make(map[string]int64)
	written := make(map[string]bool)
	for _, a := range w.report.Archives {
		size[a.Arch] = a.Size
		written[path.Base(a.File)] = true
	}
	for _, f := range w.report.Files {
		for i := range f.Archives { // libraries share archives: their sizes are those of the whole tree
			f.Archives[i].Size = size[f.Archives[i].Arch]
		}
	}
	for _, e := range w.regular {
		if !w.mayGrow(e.Path) || written[path.Base(e.Path)] {
			continue
		}
		w.report.SizeAfter += e.Size
		if err := w.copyOf(e.Path, out); err != nil {
			return err
		}
	}
	return nil
}

// copyOf copies a file by its path.
func (w *treeSplit) copyOf(name string, out *files.Outputs) error {
	input, err := w.open(name)
	if err != nil {
		return err
	}
	defer input.Close()
	return w.copy(input, out, w.name(name))
}

// library splits a library.
func (w *treeSplit) library(ctx context.Context, writer *engine.KpackWriter, name string) (report engine.KpackSplitReport, err error) {
	search, err := engine.KpackSearchPath(name, w.dir, w.opt.Group)
	if err != nil {
		return report, err
	}
	input, err := w.open(name)
	if err != nil {
		return report, err
	}
	defer input.Close()
	return writer.Split(ctx, input, name, search, w.opt.Output+"/"+name, w.name(name))
}
