package files

import (
	"errors"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A temporary file of an output is named
//
//	.offload-INODE-RANDOM-CHECK
//
// INODE is the number of the file that the program created, RANDOM a random number, and
// CHECK a hash of both, all in base 36. A file that a killed process left is removed only
// if its own inode number is the one in its name: a file that a user named, copied, restored
// from an archive or moved to such a name is kept.

// tempPrefix is the prefix of the names of temporary files and directories.
const tempPrefix = ".offload-"

// noInode replaces the number in names of files and directories that are never removed by a
// later process.
const noInode = 0

// tempBase returns a new name for a file with an inode number.
func tempBase(inode uint64) string {
	random := rand.Uint64()
	return tempPrefix + strings.Join([]string{
		strconv.FormatUint(inode, 36), strconv.FormatUint(random, 36), strconv.FormatUint(tempCheck(inode, random), 36),
	}, "-")
}

// tempInode returns the inode number in a name of tempBase, or false for any other name.
func tempInode(name string) (inode uint64, ok bool) {
	rest, ok := strings.CutPrefix(name, tempPrefix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 3 {
		return 0, false
	}
	var numbers [3]uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 36, 64)
		if err != nil || strconv.FormatUint(n, 36) != part {
			return 0, false
		}
		numbers[i] = n
	}
	inode = numbers[0]
	return inode, inode != noInode && numbers[2] == tempCheck(inode, numbers[1])
}

// tempCheck returns the hash in the name of a temporary file.
func tempCheck(inode, random uint64) uint64 {
	h := fnv.New64a()
	h.Write([]byte("rules_offload temporary file " + strconv.FormatUint(inode, 36) + "-" + strconv.FormatUint(random, 36)))
	return h.Sum64()
}

// Protect, if not nil, is called before the process creates what it would leave if a signal ended it: a
// temporary name, a directory, one of several outputs. The program sets it to handle signals from then on,
// which takes a tenth of the time of a small call. It can be called several times, also in parallel.
var Protect func()

func protect() {
	if Protect != nil {
		Protect()
	}
}

// createTemp creates a new file in dir. If the system supports it, the file has
// no name, so that it disappears if the process is killed; name is then "". The
// umask is applied to mode.
func createTemp(dir string, mode fs.FileMode) (f *os.File, name string, err error) {
	if f, err = openUnnamed(dir, mode); err == nil {
		return f, "", nil
	}
	name, err = tempName(dir, noInode, func(name string) (err error) {
		f, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	lockFile(f)
	// Rename it to a name with its inode number. Where that is not possible, a later process
	// does not remove the file if this one is killed.
	if fi, err := f.Stat(); err == nil && inodeOf(fi) != noInode {
		first := name
		if named, err := tempName(dir, inodeOf(fi), func(name string) error { return os.Link(first, name) }); err == nil {
			os.Remove(first)
			name = named
		}
	}
	return f, name, nil
}

// appendOnlyError is the error for a temporary name in a directory in which files can be created, but not renamed
// or removed.
type appendOnlyError struct{}

// Error returns the reason.
func (appendOnlyError) Error() string { return "the directory only permits new files" }

// Unwrap returns the error of the system for a rename.
func (appendOnlyError) Unwrap() error { return syscall.EPERM }

// tempName calls create with random names in dir until one is new. inode is that of the file
// that gets the name, or noInode.
func tempName(dir string, inode uint64, create func(name string) error) (string, error) {
	if appendOnly(dir) {
		return "", appendOnlyError{}
	}
	protect()
	removeStale(dir)
	for {
		name := filepath.Join(dir, tempBase(inode))
		switch err := create(name); {
		case err == nil:
			return name, nil
		case !errors.Is(err, fs.ErrExist):
			return "", err
		}
	}
}

// staleAfter is the age of a temporary file that no process uses any longer.
const staleAfter = time.Hour

// searched holds the directories in which removeStale looked, so that it reads each only once.
var searched = directories{most: 1024}

// directories is a set of directories of limited size.
type directories struct {
	most int

	mu    sync.Mutex
	names map[string]bool
}

// add adds a directory and reports whether it is new. A full set is emptied before.
func (d *directories) add(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[name] {
		return false
	}
	if d.names == nil || len(d.names) >= d.most {
		d.names = make(map[string]bool)
	}
	d.names[name] = true
	return true
}

// removeStale removes temporary files of killed processes from a directory,
// before the first temporary name is created there. It keeps files that are new
// or locked by a process, and those that the program did not create.
func removeStale(dir string) {
	if !searched.add(dir) {
		return
	}
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	const most = 4096 // number of names to read in a large directory
	names, _ := d.Readdirnames(most)
	for _, name := range names {
		if inode, ok := tempInode(name); ok {
			removeIfStale(filepath.Join(dir, name), inode)
		}
	}
}

// removeIfStale removes a file with the name of a temporary one if it is the file for which
// the name was made, is old, and is not locked.
func removeIfStale(path string, inode uint64) {
	if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() {
		return
	}
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	fi, err := f.Stat()
	if err == nil && fi.Mode().IsRegular() && inodeOf(fi) == inode && time.Since(fi.ModTime()) >= staleAfter && lockFile(f) {
		os.Remove(path)
	}
}
