//go:build !unix

package cache

import "os"

// locked opens a file, creates it if it is missing, and calls fn. Without locks, a concurrent change is
// lost; the next trim corrects the size.
func locked(name string, fn func(*os.File) error) error {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	return fn(f)
}
