package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// check builds a release for the first platform twice, in folders of different
// names, and compares. The licences of all modules are checked on the way.
func check() error {
	var dirs []string
	for _, name := range []string{"first", "the second, with a longer name"} {
		parent, err := os.MkdirTemp("", "rules_offload-check-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(parent)
		// Sources are unpacked and compiled below the folder of temporary files.
		tmp := filepath.Join(parent, name, "tmp")
		dir := filepath.Join(parent, name, "out")
		for _, d := range []string{tmp, dir} {
			if err := os.MkdirAll(d, 0o777); err != nil {
				return err
			}
		}
		before := os.Getenv("TMPDIR")
		if err := os.Setenv("TMPDIR", tmp); err != nil {
			return err
		}
		err = buildFrom("HEAD", dir, platforms[:1])
		if before == "" {
			os.Unsetenv("TMPDIR")
		} else {
			os.Setenv("TMPDIR", before)
		}
		if err != nil {
			return err
		}
		dirs = append(dirs, dir)
	}
	entries, err := os.ReadDir(dirs[0])
	if err != nil {
		return err
	}
	for _, e := range entries {
		a, err := os.ReadFile(filepath.Join(dirs[0], e.Name()))
		if err != nil {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dirs[1], e.Name()))
		if err != nil {
			return err
		}
		if !bytes.Equal(a, b) {
			return fmt.Errorf("%s: two builds of the same commit have different bytes", e.Name())
		}
		fmt.Printf("%s: %d bytes, twice the same\n", e.Name(), len(a))
	}
	return nil
}
