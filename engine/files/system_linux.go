package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// copyRange copies n bytes of src at srcOff to dst at dstOff inside the kernel
// and returns how many it copied. Fewer than n means that the kernel cannot
// (another file system, an old kernel, a full disk): the caller writes the rest
// itself and learns the reason if there is one.
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

// exchange swaps two files. Unlike a rename over a file it can be taken back,
// and ext4 does not start to write the new file to the disk on the spot.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
