package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/prune"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// KpackTreeReport describes what KpackSplitTree wrote.
type KpackTreeReport struct {
	TreeReport
	// Files are the libraries and programs that were split, by path.
	Files    []KpackSplitReport `json:"files"`
	Archives []KpackArchiveFile `json:"archives"`
	Warnings []string           `json:"warnings"`
}

// KpackSplitTree splits the libraries and programs in a directory. Input and Output are
// directories, Dir is one in Output. The names of libraries in keys are their paths.
// Other files are copied, and links are preserved.
func (s *Session) KpackSplitTree(ctx context.Context, opt KpackSplitOptions) (_ KpackTreeReport, err error) {
	defer guard.Into(&err)()
	report := KpackTreeReport{TreeReport: TreeReport{Input: opt.Input, Output: opt.Output}, Files: []KpackSplitReport{}, Archives: []KpackArchiveFile{}, Warnings: []string{}}
	dir := filepath.ToSlash(filepath.Clean(opt.Dir))
	if !filepath.IsLocal(opt.Dir) || dir == "." {
		return report, fmt.Errorf("%s: expected a path inside the new directory, such as .kpack", opt.Dir)
	}
	if err := checkGroup(opt.Group); err != nil {
		return report, err
	}
	err = s.newTree(ctx, opt.Input, opt.Output, false, func(t *treeCopy) error {
		report.Links = t.links
		fat := make([]bool, len(t.regular))
		why := make([]string, len(t.regular))
		err := t.each(ctx, func(_ context.Context, i int, input *files.Input, out *files.Outputs, name string) error {
			if fat[i], why[i] = hasWrappers(input); fat[i] {
				return nil
			}
			_, err := s.copyTo(input, out, name, "", false)
			return err
		})
		if err != nil {
			return err
		}
		for i, e := range t.regular {
			report.Count++
			report.SizeBefore += e.Size
			if !fat[i] {
				report.SizeAfter += e.Size
			}
			if why[i] != "" {
				report.Warnings = append(report.Warnings, t.input+"/"+e.Path+": copied: "+why[i])
			}
		}
		return s.write(ctx, func(out *files.Outputs) error {
			return s.splitAll(ctx, t, fat, out, dir, opt, &report)
		})
	})
	return report, err
}

// hasWrappers reports whether a file is a library or program with HIP code. If that is
// not known, unknown is the reason.
func hasWrappers(input *files.Input) (fat bool, unknown string) {
	data := input.Mapped(guard.Inside)
	if !elfedit.IsLinked(data) {
		return false, ""
	}
	f, err := elfedit.Parse(input.All())
	if err != nil && !errors.Is(err, elfedit.ErrPacked) && !prune.MayHaveCode(data) {
		return false, ""
	}
	if err != nil {
		return false, err.Error()
	}
	section, err := f.Section(embedding.HIPSection)
	return err != nil || section >= 0 && f.Sections[section].InFile() > 0, ""
}

// splitAll splits the libraries of a tree, in order, into archives that they share.
func (s *Session) splitAll(ctx context.Context, t *treeCopy, fat []bool, out *files.Outputs, dir string, opt KpackSplitOptions, report *KpackTreeReport) error {
	var archs []string
	writers := make(map[string]*kpack.Writer)
	outputs := make(map[string]*files.Output)
	add := func(a *kpack.Archive) error {
		arch := a.Archs[0]
		if writers[arch] == nil {
			if err := out.MakeDir(t.tree.Name(dir)); err != nil {
				return err
			}
			w, err := out.Create(t.tree.Name(kpackFile(dir, opt.Group, arch)))
			if err != nil {
				return err
			}
			if writers[arch], err = kpack.NewWriter(w, *a.Empty()); err != nil {
				return err
			}
			outputs[arch] = w
			archs = append(archs, arch)
		}
		return writers[arch].Add(a)
	}
	for i, e := range t.regular {
		if !fat[i] {
			continue
		}
		one, err := s.splitOne(ctx, t, e, dir, opt, add)
		if err != nil {
			return err
		}
		report.Files = append(report.Files, one)
		report.SizeAfter += one.SizeAfter
		report.Warnings = append(report.Warnings, one.Warnings...)
	}
	if len(archs) == 0 {
		if len(opt.Archs) > 0 && len(report.Files) > 0 {
			return fmt.Errorf("%s: no file has code for the targets to keep", t.input)
		}
		return fmt.Errorf("%s: no library or program in the directory has device code to split", t.input)
	}
	for _, arch := range archs {
		entries, err := writers[arch].Close()
		if err != nil {
			return err
		}
		if err := outputs[arch].Close(); err != nil {
			return err
		}
		report.Archives = append(report.Archives, KpackArchiveFile{
			File: opt.Output + "/" + kpackFile(dir, opt.Group, arch), Arch: arch, Entries: entries, Size: outputs[arch].Size(),
		})
	}
	for _, f := range report.Files {
		for i := range f.Archives { // libraries share archives: their sizes are those of the whole tree
			f.Archives[i].Size = outputs[f.Archives[i].Arch].Size()
		}
	}
	return nil
}

// splitOne splits one library of a tree and passes its archives to add.
func (s *Session) splitOne(ctx context.Context, t *treeCopy, e files.TreeEntry, dir string, opt KpackSplitOptions, add func(*kpack.Archive) error) (report KpackSplitReport, err error) {
	search, err := searchPath(e.Path, dir, opt.Group)
	if err != nil {
		return report, err
	}
	input, err := s.files.OpenToReplace(t.input + "/" + e.Path)
	if err != nil {
		return report, err
	}
	defer input.Close()
	opt.Output, opt.Dir = opt.Output+"/"+e.Path, opt.Output+"/"+dir
	o := kpack.SplitOptions{Marker: kpack.Marker{Name: e.Path, SearchPaths: []string{search}}, MayDropAll: true}
	err = s.splitCode(ctx, input, opt, o, &report, func(split *kpack.Split) error {
		if len(split.Archives) == 0 {
			report.Warnings = append(report.Warnings, report.Input+": loses all of its code, because none of it is for the targets to keep")
		}
		for _, a := range split.Archives {
			if err := add(a); err != nil {
				return err
			}
		}
		return s.write(ctx, func(out *files.Outputs) error {
			return s.writeLinked(input, out, t.tree.Name(e.Path), split.Host, opt.Verify)
		})
	})
	return report, err
}
