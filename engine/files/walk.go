package files

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// walker walks directory trees, in the order of names. It does not follow symbolic links.
type walker struct {
	root *Root
	ctx  context.Context
	most int // the largest number of entries; 0 for no limit
	// visit is called with each entry, with a directory before its content. It returns whether to
	// walk that content.
	visit func(entry walked) (bool, error)

	count int
}

// walked is an entry that a walker found.
type walked struct {
	dir  string // the directory as the request named it
	name string // of the entry, beginning with dir
	path string // on disk
	info fs.FileInfo
}

// walk visits the entries below a directory, which is at path on disk.
func (w *walker) walk(dir, path string) error {
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return fileError(dir, err)
	}
	if w.count += len(entries); w.most > 0 && w.count > w.most {
		return &Error{Name: dir, Err: fmt.Errorf("more than %d files in the directory and its subdirectories", w.most)}
	}
	for _, e := range entries {
		found := walked{dir: dir, name: filepath.Join(dir, e.Name())}
		if found.path, err = w.root.input(found.name); err != nil {
			return err
		}
		if found.info, err = e.Info(); err != nil {
			return fileError(found.name, err)
		}
		inside, err := w.visit(found)
		if err != nil {
			return err
		}
		if inside && found.info.IsDir() {
			if err := w.walk(found.name, found.path); err != nil {
				return err
			}
		}
	}
	return nil
}
