//go:build !unix

package slots

import "os"

// lockFile does nothing: without locks, each process has all slots.
func lockFile(*os.File, bool) error { return nil }

// private reports whether others cannot write to a directory, as far as is known.
func private(string) bool { return true }
