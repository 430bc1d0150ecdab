package key

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rules-offload/rules_offload/internal/cache"
)

// Files reads files once for all jobs of a compilation. Relative names are those of the working directory of the
// process. Several goroutines may use it at the same time.
type Files struct {
	mu    sync.Mutex
	known map[string]*file
	dirs  map[string]map[string]bool // names in a directory, and whether they are directories
	// states are the states of variants, by the hash of the names and directories that they depend on: the
	// compilations for different GPUs have the same.
	states map[[32]byte]*state
}

// state is a state that is computed once.
type state struct {
	once sync.Once
	hash [32]byte
}

// state returns the state of a variant.
func (f *Files) state(v *Variant, search []string) [32]byte {
	var h Hash
	h.Text(search...)
	h.Text("names")
	h.Text(v.Names...)
	for _, dir := range slices.Sorted(maps.Keys(v.Quoted)) {
		h.Text("beside", dir)
		h.Text(v.Quoted[dir]...)
	}
	k := h.Key()
	f.mu.Lock()
	got := f.states[k]
	if got == nil {
		got = &state{}
		f.states[k] = got
	}
	f.mu.Unlock()
	got.once.Do(func() { got.hash, _ = v.state(f, search, time.Time{}) })
	return got.hash
}

// file is a file that was read.
type file struct {
	read   sync.Once
	digest cache.Digest
	err    error

	scan    sync.Once
	facts   Facts
	scanErr error
}

// NewFiles returns an empty Files.
func NewFiles() *Files {
	return &Files{known: map[string]*file{}, dirs: map[string]map[string]bool{}, states: map[[32]byte]*state{}}
}

func (f *Files) get(name string) *file {
	f.mu.Lock()
	defer f.mu.Unlock()
	got := f.known[name]
	if got == nil {
		got = &file{}
		f.known[name] = got
	}
	return got
}

// Digest returns the digest of the content of a file.
func (f *Files) Digest(name string) (cache.Digest, error) {
	got := f.get(name)
	got.read.Do(func() {
		var data []byte
		data, got.err = os.ReadFile(name)
		got.digest = cache.DigestOf(data)
	})
	return got.digest, got.err
}

// exists reports whether a name exists, and whether it is a directory.
func (f *Files) exists(dir, name string) (exists, isDir bool) {
	if strings.Contains(name, "..") || strings.Contains(name, "./") || filepath.IsAbs(name) {
		path := name
		if !filepath.IsAbs(name) {
			path = dir + "/" + name
		}
		info, err := os.Stat(path)
		return err == nil, err == nil && info.IsDir()
	}
	for {
		first, rest, nested := strings.Cut(name, "/")
		entries := f.list(dir)
		isDir, ok := entries[first]
		if !ok || !nested {
			return ok, isDir
		}
		if !isDir {
			return false, false
		}
		dir, name = dir+"/"+first, rest
	}
}

// list returns the names in a directory, nil without any.
func (f *Files) list(dir string) map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	names, ok := f.dirs[dir]
	if ok {
		return names
	}
	entries, err := os.ReadDir(dir)
	if err == nil {
		names = make(map[string]bool, len(entries))
		for _, e := range entries {
			isDir := e.IsDir()
			if e.Type()&os.ModeSymlink != 0 {
				info, err := os.Stat(filepath.Join(dir, e.Name()))
				if err != nil {
					continue
				}
				isDir = info.IsDir()
			}
			names[e.Name()] = isDir
		}
	}
	f.dirs[dir] = names
	return names
}
