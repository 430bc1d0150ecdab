package installation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
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

// treeCopy is a directory that is copied to a new one.
type treeCopy struct {
	s       *engine.Session
	input   string
	tree    *files.NewTree // nil in a dry run
	regular []files.TreeEntry
	links   int
	// removed are the paths of files that the new directory does not have.
	removed map[string]bool
}

// newTree creates a copy of a directory: it creates directories and links, and fn writes the regular
// files. Links to removed files, and directories in which nothing is left, are removed, too.
func newTree(ctx context.Context, s *engine.Session, input, output string, dryRun bool, fn func(t *treeCopy) error) error {
	entries, err := s.Files().EntriesBelow(ctx, input)
	if err != nil {
		return err
	}
	t := &treeCopy{s: s, input: strings.TrimRight(input, "/"), removed: make(map[string]bool)}
	if !dryRun {
		if t.tree, err = s.Files().NewTree(output); err != nil {
			return err
		}
		defer t.tree.Abort()
		if t.tree.Contains(input) {
			return fmt.Errorf("%s: is inside the input %s; name a directory outside of it", output, input)
		}
	}
	var links []files.TreeEntry
	for _, e := range entries {
		switch {
		case e.Same != "", e.Link != "":
			t.links++
			links = append(links, e)
		case e.Mode.IsRegular():
			t.regular = append(t.regular, e)
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
	if err := t.link(links); err != nil {
		return err
	}
	t.removeEmpty()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return t.tree.Commit()
}

// link creates the links to files that are not removed.
func (t *treeCopy) link(links []files.TreeEntry) error {
	gone := make(map[string]bool) // also links
	for name := range t.removed {
		gone[name] = true
	}
	for range links { // links to links
		more := false
		for _, e := range links {
			to := e.Same
			if to == "" {
				to = path.Join(path.Dir(e.Path), filepath.ToSlash(e.Link))
			}
			if gone[to] && !gone[e.Path] {
				gone[e.Path], more = true, true
			}
		}
		if !more {
			break
		}
	}
	for _, e := range links {
		var err error
		switch {
		case gone[e.Path]:
			t.links--
			t.removed[e.Path] = true
		case e.Same != "":
			err = t.tree.Link(e)
		default:
			err = t.tree.Symlink(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeEmpty removes the directories of removed files that are empty.
func (t *treeCopy) removeEmpty() {
	for name := range t.removed {
		for dir := path.Dir(name); dir != "." && t.tree.RemoveDir(dir); dir = path.Dir(dir) {
		}
	}
}

// each calls fn with every regular file, concurrently.
func (t *treeCopy) each(ctx context.Context, fn func(ctx context.Context, i int, input *files.Input, out *files.Outputs, name string) error) error {
	for _, e := range t.regular {
		t.s.Meter().Expect(e.Size)
	}
	return t.s.Budget().Each(ctx, len(t.regular), func(ctx context.Context, i int) error {
		defer t.s.Meter().Add(t.regular[i].Size)
		return t.one(ctx, i, fn)
	})
}

// one calls fn with one regular file.
func (t *treeCopy) one(ctx context.Context, i int, fn func(ctx context.Context, i int, input *files.Input, out *files.Outputs, name string) error) error {
	e := t.regular[i]
	input, err := t.open(e.Path)
	if err != nil {
		return err
	}
	defer input.Close()
	return t.s.Files().Write(ctx, func(out *files.Outputs) error { return fn(ctx, i, input, out, t.name(e.Path)) })
}

// open opens a file of the input by its path.
func (t *treeCopy) open(name string) (*files.Input, error) {
	return t.s.Files().OpenToReplace(t.input + "/" + name)
}

// name returns the name for writing a file of the new directory, or "" in a dry run.
func (t *treeCopy) name(name string) string {
	if t.tree == nil {
		return ""
	}
	return t.tree.Name(name)
}

// copy copies a file without changes.
func (t *treeCopy) copy(input *files.Input, out *files.Outputs, name string) error {
	if t.tree == nil {
		return nil
	}
	_, err := out.WriteFile(name, func(w *files.Output) error {
		w.KeepMode(input.Mode())
		return w.Append(input.All())
	})
	return err
}

// sum returns the SHA-256 sum and the size of a file of the new directory.
func (t *treeCopy) sum(name string) (sum [sha256.Size]byte, size int64, err error) {
	f, err := os.Open(filepath.Join(t.tree.Dir(), filepath.FromSlash(name)))
	if err != nil {
		return sum, 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return [sha256.Size]byte(h.Sum(nil)), size, err
}

// content returns the bytes of a small file of the new directory.
func (t *treeCopy) content(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(t.tree.Dir(), filepath.FromSlash(name)))
}
