package files

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// copyRange copies n bytes of src at srcOff to dst at dstOff inside the kernel
// and returns how many it copied. Fewer than n means that the kernel cannot
// copy more (another file system, an old kernel, a full disk): the caller then
// writes the rest, which fails if there is an error.
func copyRange(dst *os.File, dstOff int64, src *os.File, srcOff, n int64) int64 {
	done := int64(0)
	for done < n {
		k, err := unix.CopyFileRange(int(src.Fd()), &srcOff, int(dst.Fd()), &dstOff, int(min(n-done, 1<<30)), 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || k <= 0 {
			break
		}
		done += int64(k)
	}
	return done
}

// exchange swaps two files. Unlike a rename over a file, it can be reverted,
// and ext4 does not immediately write the new file to the disk.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// appendOnly reports whether files in a directory can be created, but not renamed or removed.
var appendOnly = func(dir string) bool {
	var st unix.Statx_t
	return unix.Statx(unix.AT_FDCWD, dir, 0, 0, &st) == nil && st.Attributes&unix.STATX_ATTR_APPEND != 0
}

// touch sets the time of a file to now, which requires only write permission.
func touch(name string) error {
	now := unix.Timespec{Nsec: unix.UTIME_NOW}
	return unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{now, now}, 0)
}

// openUnnamed creates a file in dir that has no name until linkFile.
var openUnnamed = func(dir string, mode fs.FileMode) (*os.File, error) {
	if !procMounted() {
		return nil, errors.ErrUnsupported
	}
	return os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, mode)
}

var (
	findProc sync.Once
	hasProc  bool
)

// procMounted reports whether linkFile can work.
func procMounted() bool {
	findProc.Do(func() {
		_, err := os.Stat("/proc/self/fd")
		hasProc = err == nil
	})
	return hasProc
}

// linkFile gives a file of openUnnamed its name, which must be new.
func linkFile(f *os.File, name string) error {
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(int(f.Fd())), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
}
