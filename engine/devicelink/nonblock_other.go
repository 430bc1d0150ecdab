//go:build !unix

package devicelink

// nonblock does nothing where there are no pipes in the file system.
const nonblock = 0
