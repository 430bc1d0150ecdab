package installation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// PruneOptions are the options of PruneTree.
type PruneOptions struct {
	// PruneOptions are those of each file. Input and Output are directories. OneOfSeveral and KeepEmpty are
	// ignored.
	engine.PruneOptions
	// Strict makes it an error that a file loses all of its device code, or cannot be read.
	Strict bool
}

// PruneTreeReport describes what PruneTree did with the files of a directory.
type PruneTreeReport struct {
	TreeReport
	// Files are the files with device code, by path.
	Files []engine.PruneReport `json:"files"`
	// Removed are the files that were for dropped GPUs only, by path.
	Removed []RemovedFile `json:"removed"`
	// Empty are the libraries, programs, objects and archives that lost all of their device code.
	Empty []string `json:"empty"`
	// Lists are the lists of files that were changed: RECORD of wheels and manifests of Tensile.
	Lists []string `json:"lists"`
	// Warnings are about files that were copied without reading them, and about missing targets.
	Warnings []string `json:"warnings"`
	// Unread is the number of files that were copied without reading them.
	Unread int `json:"unread"`
}

// RemovedFile is a file that was for dropped GPUs only.
type RemovedFile struct {
	File string `json:"file"`
	Size int64  `json:"size"`
	// GPUs are the target IDs or the family that it was for.
	GPUs []string `json:"gpus"`

	path string // below the directory
}

// fate is what became of a file.
type fate struct {
	engine.PruneReport
	removed []string // GPUs, if the file was removed
	unread  string   // why it was copied without reading it, or ""
}

// PruneTree prunes the files of a directory into a new one:
//
//   - Libraries, programs, objects and archives lose the code of dropped GPUs; one that loses all of it keeps
//     empty bundles.
//   - Bundles, code objects, kpack archives and data for dropped GPUs only are removed, with the links to them
//     and their lines in lists of files.
//   - Other files are copied, also those that cannot be read.
//
// With an error, the new directory is not created.
func PruneTree(ctx context.Context, s *engine.Session, opt PruneOptions) (report PruneTreeReport, err error) {
	defer guard.Into(&err)()
	report = PruneTreeReport{
		TreeReport: TreeReport{Input: opt.Input, Output: opt.Output}, Files: []engine.PruneReport{}, Removed: []RemovedFile{},
		Empty: []string{}, Lists: []string{}, Warnings: []string{},
	}
	err = newTree(ctx, s, opt.Input, opt.Output, opt.DryRun, func(t *treeCopy) error {
		p := &treePrune{treeCopy: t, opt: opt, fates: make([]fate, len(t.regular)), Selection: Selection{Keep: opt.Keep, Drop: opt.Drop}}
		if err := t.each(ctx, p.one); err != nil {
			return err
		}
		p.describe(&report)
		if err := p.check(&report); err != nil || t.tree == nil {
			return err
		}
		return p.lists(ctx, &report)
	})
	return report, err
}

// treePrune is the work of PruneTree.
type treePrune struct {
	*treeCopy
	opt   PruneOptions
	fates []fate

	mu sync.Mutex
	Selection
}

// keeps returns which of the GPUs of a part are kept.
func (p *treePrune) keeps(part Part) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Keeps(part)
}

// one prunes a file.
func (p *treePrune) one(ctx context.Context, i int, input *files.Input, out *files.Outputs, name string) (err error) {
	e, f := p.regular[i], &p.fates[i]
	head := input.Mapped(guard.Inside)[:min(input.Size(), headSize)]
	f.PruneReport = engine.PruneReport{
		Input: input.Name(), Output: p.opt.Output + "/" + e.Path, Format: "none", SizeBefore: input.Size(), SizeAfter: input.Size(),
		Bundles: []engine.PruneBundle{}, Warnings: []string{},
	}
	var archive *kpack.Archive
	var archs []string
	if kpack.Is(head) {
		if archive, err = kpack.Parse(input.All()); err != nil {
			return p.unread(ctx, f, input, out, name, files.NameError(input.Name(), err))
		}
		archs = archive.Archs
	}
	part := Describe(e.Path, head, archs)
	kept := p.keeps(part)
	switch {
	case len(part.GPUs) > 0 && len(kept) == 0:
		f.removed = part.GPUs
		return nil
	case archive != nil && len(kept) < len(part.GPUs):
		return p.archive(f, archive, kept, out, name)
	case part.Kind == Object, part.Kind == Archive, !mayHaveCode(head):
		return p.copy(input, out, name)
	}
	return p.code(ctx, f, input, out, name)
}

// code prunes a file that can have device code.
func (p *treePrune) code(ctx context.Context, f *fate, input *files.Input, out *files.Outputs, name string) error {
	opt := p.opt.PruneOptions
	opt.Output, opt.OneOfSeveral, opt.KeepEmpty = name, true, !p.opt.Strict
	report, err := p.s.PruneFile(ctx, input, out, opt)
	if errors.Is(err, engine.ErrNoDeviceCode) {
		return p.copy(input, out, name)
	}
	if empty, ok := errors.AsType[*engine.EmptyError](err); ok && !p.opt.Strict {
		f.removed = targetsOf(empty.Stored)
		return nil
	}
	if err != nil {
		return p.unread(ctx, f, input, out, name, err)
	}
	report.Output = f.Output
	f.PruneReport = report
	return nil
}

// targetsOf returns the target IDs in entry IDs.
func targetsOf(ids []string) []string {
	r := engine.PruneReport{Bundles: []engine.PruneBundle{{Dropped: ids}}}
	_, all := r.Architectures()
	return all
}

// unread copies a file that cannot be read, for a reason.
func (p *treePrune) unread(ctx context.Context, f *fate, input *files.Input, out *files.Outputs, name string, reason error) error {
	if _, unsupported := errors.AsType[*engine.UnsupportedError](reason); !unsupported && p.opt.Strict || !ofContent(ctx, reason) {
		return reason
	}
	f.unread = strings.TrimPrefix(reason.Error(), input.Name()+": ")
	return p.copy(input, out, name)
}

// archive writes a kpack archive with the code of some of its targets.
func (p *treePrune) archive(f *fate, a *kpack.Archive, kept []string, out *files.Outputs, name string) error {
	less := a.Keep(kept)
	f.Format = "kpack"
	dropped := slices.DeleteFunc(slices.Clone(a.Archs), func(arch string) bool { return slices.Contains(kept, arch) })
	f.Bundles = append(f.Bundles, engine.PruneBundle{SizeBefore: f.SizeBefore, Kept: kept, Dropped: dropped, Replaced: []string{}})
	if p.tree == nil {
		return nil
	}
	size, err := out.WriteFile(name, func(w *files.Output) error { return kpack.Write(w, less) })
	f.SizeAfter, f.Bundles[0].SizeAfter = size, size
	return err
}

// describe adds the files to the report.
func (p *treePrune) describe(report *PruneTreeReport) {
	for i := range p.fates {
		f, e := &p.fates[i], p.regular[i]
		report.Count++
		report.SizeBefore += f.SizeBefore
		if f.removed != nil {
			p.removed[e.Path] = true
			report.Removed = append(report.Removed, RemovedFile{f.Input, f.SizeBefore, f.removed, e.Path})
			for _, id := range f.removed {
				p.Saw(id)
			}
			continue
		}
		report.SizeAfter += f.SizeAfter
		if f.unread != "" {
			report.Unread++
			report.Warnings = append(report.Warnings, f.Input+": copied: "+f.unread)
		}
		if f.Format == "none" {
			continue
		}
		report.Files = append(report.Files, f.PruneReport)
		kept, all := f.Architectures()
		if len(kept) == 0 && len(all) > 0 {
			report.Empty = append(report.Empty, f.Input)
		}
		for _, id := range all {
			p.Saw(id)
		}
	}
	report.Links = p.links
}

// MissingError reports targets to keep for which an installation has neither code nor data.
type MissingError struct {
	In   string // the directory or the wheels
	Text string // the target and what there is
}

// Error returns the target and what there is.
func (e *MissingError) Error() string { return e.In + ": " + e.Text }

// check reports names that no file has.
func (p *treePrune) check(report *PruneTreeReport) error {
	for _, text := range p.Missing() {
		if len(p.opt.Keep) > 0 && !p.opt.IgnoreMissing {
			return &MissingError{p.input, text}
		}
		report.Warnings = append(report.Warnings, p.input+": "+text)
	}
	for _, r := range p.opt.Replace {
		with := Selection{Keep: []string{r.Name}, seen: p.seen}
		if missing := with.Missing(); len(missing) > 0 {
			return fmt.Errorf("%s: %s; nothing is replaced", p.input, missing[0])
		}
	}
	return nil
}
