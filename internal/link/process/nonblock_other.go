//go:build !unix

package process

// nonblock has no effect on systems without pipes in the file system.
const nonblock = 0
