package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/prune"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// TreeReport describes a directory that was copied with changes to some of its files.
type TreeReport struct {
	Input      string `json:"input"`
	Output     string `json:"output"`
	Count      int    `json:"count"`       // of files, each once
	Links      int    `json:"links"`       // symbolic and hard links
	SizeBefore int64  `json:"size_before"` // bytes of all files
	SizeAfter  int64  `json:"size_after"`  // without archives
}

// PruneTreeReport describes what PruneTree did with the files of a directory.
type PruneTreeReport struct {
	TreeReport
	// Files are the files with device code, by path.
	Files []PruneReport `json:"files"`
	// Warnings are about files that were copied without reading them.
	Warnings []string `json:"warnings"`
}

// PruneTree prunes the files of a directory into a new one. Files without device code
// are copied and links are preserved. With an error, the new directory is not
// created.
func (s *Session) PruneTree(ctx context.Context, opt PruneOptions) (_ PruneTreeReport, err error) {
	defer guard.Into(&err)()
	report := PruneTreeReport{TreeReport: TreeReport{Input: opt.Input, Output: opt.Output}, Files: []PruneReport{}, Warnings: []string{}}
	o, replacements, err := s.pruneOptions(&opt)
	defer closeAll(replacements)
	if err != nil {
		return report, err
	}
	err = s.newTree(ctx, opt.Input, opt.Output, opt.DryRun, func(t *treeCopy) error {
		report.Links = t.links
		found := make([]PruneReport, len(t.regular))
		err := t.each(ctx, func(ctx context.Context, i int, input *files.Input, out *files.Outputs, name string) error {
			var err error
			found[i], err = s.pruneTo(ctx, input, out, name, o, opt.Verify)
			var unread *prune.UnsupportedError
			switch {
			case errors.Is(err, prune.ErrNoDeviceCode):
				found[i], err = s.copyTo(input, out, name, "", opt.DryRun)
			case errors.As(err, &unread):
				found[i], err = s.copyTo(input, out, name, fmt.Sprintf("copied: %v", unread), opt.DryRun)
			}
			found[i].Output = opt.Output + "/" + t.regular[i].Path
			return err
		})
		if err != nil {
			return err
		}
		for _, f := range found {
			report.Count++
			report.SizeBefore += f.SizeBefore
			report.SizeAfter += f.SizeAfter
			if f.Format != "none" {
				report.Files = append(report.Files, f)
				continue
			}
			for _, w := range f.Warnings {
				if strings.HasPrefix(w, "copied: ") {
					report.Warnings = append(report.Warnings, f.Input+": "+w)
				}
			}
		}
		return nil
	})
	return report, err
}

// treeCopy is a directory that is copied to a new one.
type treeCopy struct {
	s       *Session
	input   string
	tree    *files.NewTree // nil in a dry run
	regular []files.TreeEntry
	links   int
}

// newTree creates a copy of a directory: it creates directories and links, and fn
// writes the regular files.
func (s *Session) newTree(ctx context.Context, input, output string, dryRun bool, fn func(t *treeCopy) error) error {
	entries, err := s.files.EntriesBelow(ctx, input)
	if err != nil {
		return err
	}
	t := &treeCopy{s: s, input: strings.TrimRight(input, "/")}
	if !dryRun {
		if t.tree, err = s.files.NewTree(output); err != nil {
			return err
		}
		defer t.tree.Abort()
		if t.tree.Contains(input) {
			return fmt.Errorf("%s: is inside the input %s; name a directory outside of it", output, input)
		}
	}
	var hard []files.TreeEntry
	for _, e := range entries {
		switch {
		case e.Same != "":
			t.links++
			hard = append(hard, e)
		case e.Mode.IsRegular():
			t.regular = append(t.regular, e)
		case e.Link != "":
			t.links++
			if t.tree != nil {
				err = t.tree.Symlink(e)
			}
		default:
			if t.tree != nil {
				err = t.tree.Mkdir(e)
			}
		}
		if err != nil {
			return err
		}
	}
	if err := guard.Contain(func() error { return fn(t) }); err != nil {
		return err
	}
	if t.tree == nil {
		return nil
	}
	for _, e := range hard {
		if err := t.tree.Link(e); err != nil {
			return err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return t.tree.Commit()
}

// each calls fn with every regular file, concurrently.
func (t *treeCopy) each(ctx context.Context, fn func(ctx context.Context, i int, input *files.Input, out *files.Outputs, name string) error) error {
	for _, e := range t.regular {
		t.s.meter.expect(e.Size)
	}
	return t.s.budget.Each(ctx, len(t.regular), func(ctx context.Context, i int) error {
		return t.one(ctx, i, fn)
	})
}

// one calls fn with one regular file.
func (t *treeCopy) one(ctx context.Context, i int, fn func(ctx context.Context, i int, input *files.Input, out *files.Outputs, name string) error) error {
	e := t.regular[i]
	defer t.s.meter.add(e.Size)
	input, err := t.s.files.OpenToReplace(t.input + "/" + e.Path)
	if err != nil {
		return err
	}
	defer input.Close()
	return t.s.write(ctx, func(out *files.Outputs) error {
		name := ""
		if t.tree != nil {
			name = t.tree.Name(e.Path)
		}
		return fn(ctx, i, input, out, name)
	})
}
