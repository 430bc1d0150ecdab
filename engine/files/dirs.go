package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// MakeDir creates a directory for outputs, and its missing parents. If the outputs
// are not committed, the created directories are removed.
func (s *Outputs) MakeDir(name string) error {
	path, err := s.root.output(name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return fileError(name, os.ErrClosed)
	}
	var missing []string
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		if fi, err := os.Stat(dir); err == nil {
			if !fi.IsDir() {
				return &Error{Name: name, Err: errors.New("not a directory")}
			}
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fileError(name, err)
		}
		missing = append(missing, dir)
	}
	if len(missing) > 0 {
		protect()
	}
	for _, dir := range slices.Backward(missing) {
		if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return fileError(name, err)
		} else if err == nil {
			s.dirs = append(s.dirs, dir)
		}
	}
	return nil
}

// removeDirs removes the created directories that are empty.
func (s *Outputs) removeDirs() {
	for _, dir := range slices.Backward(s.dirs) {
		os.Remove(dir)
	}
	s.dirs = nil
}
