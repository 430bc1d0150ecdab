package offload

import (
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Paths in the repository have slashes. "" is the root, as for Gazelle.

// relOf returns the path in the repository for the result of a function of path, whose root is ".".
func relOf(name string) string {
	if name == "." {
		return ""
	}
	return name
}

// dirOf returns the directory of a file.
func dirOf(file string) string { return relOf(path.Dir(file)) }

// inRepository returns the path in the repository of a name that is relative to a directory. ok is
// false for absolute names and those outside of the repository.
func inRepository(dir, name string) (rel string, ok bool) {
	rel = relOf(path.Join(dir, name))
	return rel, !path.IsAbs(name) && rel != ".." && !strings.HasPrefix(rel, "../")
}

// pathIn returns the path of a file relative to a directory that contains it.
func pathIn(folder, file string) (string, bool) {
	if folder == "" {
		return file, true
	}
	return strings.CutPrefix(file, folder+"/")
}

// relative returns the path of a directory from another one.
func relative(from, to string) string {
	up, err := filepath.Rel("/"+filepath.FromSlash(from), "/"+filepath.FromSlash(to))
	if err != nil {
		return "."
	}
	return filepath.ToSlash(up)
}

// isFile reports whether a path in the repository is a file.
func isFile(root, file string) bool {
	info, err := os.Stat(filepath.Join(root, filepath.FromSlash(file)))
	return err == nil && info.Mode().IsRegular()
}
