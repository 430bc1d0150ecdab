package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// TreeEntry is a file, a directory or a symbolic link below a directory.
type TreeEntry struct {
	Path string // below the directory, with slashes
	Mode fs.FileMode
	Size int64
	// Link is the target of a symbolic link.
	Link string
	// Same is the Path of an earlier entry that is the same file, for hard links.
	Same string
}

// EntriesBelow lists the entries below a directory; a directory precedes its content. Entries
// other than files, directories and symbolic links are an error.
func (r *Root) EntriesBelow(ctx context.Context, name string) ([]TreeEntry, error) {
	root, err := r.input(name)
	if err != nil {
		return nil, err
	}
	if fi, err := os.Stat(root); err != nil {
		return nil, fileError(name, err)
	} else if !fi.IsDir() {
		return nil, &Error{Name: name, Err: errors.New("not a directory")}
	}
	var all []TreeEntry
	seen := make(map[fileID]string)
	w := walker{root: r, ctx: ctx, visit: func(found walked) (bool, error) {
		rel, err := filepath.Rel(name, found.name)
		if err != nil {
			return false, err
		}
		e := TreeEntry{Path: filepath.ToSlash(rel), Mode: found.info.Mode()}
		switch {
		case e.Mode.IsDir():
		case e.Mode&fs.ModeSymlink != 0:
			if e.Link, err = os.Readlink(found.path); err != nil {
				return false, fileError(found.name, err)
			}
		case e.Mode.IsRegular():
			e.Size = found.info.Size()
			id := identify(found.path, found.info)
			if e.Same = seen[id]; e.Same == "" {
				seen[id] = e.Path
			}
		default:
			return false, &Error{Name: found.name, Err: errors.New("not a file, a directory or a symbolic link")}
		}
		all = append(all, e)
		return true, nil
	}}
	if err := w.walk(name, root); err != nil {
		return nil, err
	}
	return all, nil
}

// NewTree is a new directory that is either committed completely or not
// created.
type NewTree struct {
	root         *Root
	name, target string
	temp         string
	modes        []TreeEntry // of directories
}

// NewTree creates a temporary directory next to name, which Commit renames to name.
// If name exists, it must be an empty directory.
func (r *Root) NewTree(name string) (*NewTree, error) {
	path, err := r.output(name)
	if err != nil {
		return nil, err
	}
	target := filepath.Clean(path)
	if left, err := os.ReadDir(target); err == nil && len(left) > 0 {
		return nil, reject(name, "already exists; name a new directory")
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fileError(name, err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return nil, fileError(name, err)
	}
	temp, err := tempName(filepath.Dir(target), noInode, func(name string) error { return os.Mkdir(name, 0o777) })
	if err != nil {
		return nil, fileError(name, err)
	}
	return &NewTree{root: r, name: name, target: target, temp: temp}, nil
}

// Dir returns the directory on disk that Commit renames.
func (t *NewTree) Dir() string { return t.temp }

// Contains reports whether the new directory would be inside an input
// directory.
func (t *NewTree) Contains(input string) bool {
	in, err := filepath.Abs(t.root.path(input))
	if err != nil {
		return false
	}
	out, err := filepath.Abs(t.target)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(in, out)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// Name returns the name for creating a file of the tree with [Outputs.Create] before
// Commit.
func (t *NewTree) Name(path string) string {
	name := filepath.Join(t.temp, filepath.FromSlash(path))
	if t.root.dir != "" {
		if rel, err := filepath.Rel(t.root.dir, name); err == nil && !filepath.IsAbs(t.name) {
			return rel
		}
	}
	return name
}

func (t *NewTree) path(path string) string { return filepath.Join(t.temp, filepath.FromSlash(path)) }

// Mkdir creates a directory. Commit sets its mode.
func (t *NewTree) Mkdir(e TreeEntry) error {
	t.modes = append(t.modes, e)
	return treeError(t.name, os.MkdirAll(t.path(e.Path), 0o777))
}

// RemoveDir removes a directory that Mkdir created if it is empty, and reports whether it was.
func (t *NewTree) RemoveDir(path string) bool {
	if os.Remove(t.path(path)) != nil {
		return false
	}
	t.modes = slices.DeleteFunc(t.modes, func(e TreeEntry) bool { return e.Path == path })
	return true
}

// Symlink creates a symbolic link.
func (t *NewTree) Symlink(e TreeEntry) error {
	return treeError(t.name, os.Symlink(e.Link, t.path(e.Path)))
}

// Link creates a hard link to another file of the tree.
func (t *NewTree) Link(e TreeEntry) error {
	return treeError(t.name, os.Link(t.path(e.Same), t.path(e.Path)))
}

func treeError(name string, err error) error {
	if err == nil {
		return nil
	}
	return fileError(name, err)
}

// Commit renames the directory to its final name.
func (t *NewTree) Commit() error {
	for _, e := range slices.Backward(t.modes) {
		if err := os.Chmod(t.path(e.Path), e.Mode.Perm()); err != nil {
			return fileError(t.name, err)
		}
	}
	if err := os.Rename(t.temp, t.target); err != nil {
		return fileError(t.name, err)
	}
	t.temp = ""
	return nil
}

// Abort removes the directory. After Commit it has no effect.
func (t *NewTree) Abort() {
	if t.temp == "" {
		return
	}
	for _, e := range t.modes {
		_ = os.Chmod(t.path(e.Path), 0o777)
	}
	os.RemoveAll(t.temp)
	t.temp = ""
}
