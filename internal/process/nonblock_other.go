//go:build !unix

package process

// nonblock does nothing where there are no pipes in the file system.
const nonblock = 0
