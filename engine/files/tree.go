package files

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"slices"
)

// Directory is a directory with its regular files. Names begin with the name of the
// directory, as in a request, and are sorted.
type Folder struct {
	Name  string
	Files []string
	// Links are symbolic links to files that are in Files of this directory or of
	// another one of the tree.
	Links []string
}

// maxTree is the largest number of files and directories in a tree.
const maxTree = 1 << 20

// Tree returns the directory name and those below it, sorted by name, or false
// if name is not a directory. It follows symbolic links, and includes each
// target once. It skips devices, pipes and dangling links.
func (r *Root) Tree(ctx context.Context, name string) (folders []Folder, isDir bool, err error) {
	path, err := r.input(name)
	if err != nil {
		return nil, false, err
	}
	fi, err := os.Stat(path)
	if err != nil {
		return nil, false, fileError(name, err)
	}
	if !fi.IsDir() {
		return nil, false, nil
	}
	w := treeWalk{seen: make(map[fileID]bool), folders: make(map[string]*Folder)}
	w.walker = walker{root: r, ctx: ctx, most: maxTree, visit: w.add}
	if err := w.folder(name, path, fi); err != nil {
		return nil, false, err
	}
	// Links come last, because their targets may be in the tree.
	for len(w.links) > 0 {
		link := w.links[0]
		w.links = w.links[1:]
		if err := w.link(link); err != nil {
			return nil, false, err
		}
	}
	for _, f := range w.folders {
		slices.Sort(f.Files)
		slices.Sort(f.Links)
		folders = append(folders, *f)
	}
	slices.SortFunc(folders, func(a, b Folder) int { return cmp.Compare(a.Name, b.Name) })
	return folders, true, nil
}

// treeWalk walks a tree for Tree.
type treeWalk struct {
	walker
	seen    map[fileID]bool
	links   []link
	folders map[string]*Folder
}

// link is a symbolic link in a directory.
type link struct {
	folder *Folder
	name   string
}

// folder adds the files of a directory and of those below it.
func (w *treeWalk) folder(name, path string, fi fs.FileInfo) error {
	if !w.begin(name, path, fi) {
		return nil
	}
	return w.walk(name, path)
}

// begin adds a directory and reports whether it is new.
func (w *treeWalk) begin(name, path string, fi fs.FileInfo) bool {
	id := identify(path, fi)
	if w.seen[id] {
		return false
	}
	w.seen[id] = true
	w.folders[name] = &Folder{Name: name}
	return true
}

// add adds an entry of a directory. It leaves links for later.
func (w *treeWalk) add(e walked) (bool, error) {
	folder := w.folders[e.dir]
	switch mode := e.info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		w.links = append(w.links, link{folder, e.name})
	case mode.IsDir():
		return w.begin(e.name, e.path, e.info), nil
	case mode.IsRegular():
		w.seen[identify(e.path, e.info)] = true
		folder.Files = append(folder.Files, e.name)
	}
	return false, nil
}

// link adds the target of a link.
func (w *treeWalk) link(l link) error {
	path, err := w.root.input(l.name)
	if err != nil {
		return err
	}
	fi, err := os.Stat(path)
	switch {
	case err != nil: // a dangling link
	case fi.IsDir():
		return w.folder(l.name, path, fi)
	case !fi.Mode().IsRegular():
	case w.seen[identify(path, fi)]:
		l.folder.Links = append(l.folder.Links, l.name)
	default:
		w.seen[identify(path, fi)] = true
		l.folder.Files = append(l.folder.Files, l.name)
	}
	return nil
}
