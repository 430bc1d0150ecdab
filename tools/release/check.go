package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// check builds a release for the first platform twice, in directories of different names, and
// compares them. It also checks the licences of all modules.
func check() error {
	var dirs []string
	for _, name := range []string{"first", "the second, with a longer name"} {
		parent, err := os.MkdirTemp("", "rules_offload-check-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(parent)
		// Sources are unpacked and compiled below the directory of temporary files.
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
	if err := checkLock(dirs[0]); err != nil {
		return err
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

// checkLock checks that the module in a directory names its program with its
// checksum.
func checkLock(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "rules_offload-v*.tar.gz"))
	if err != nil || len(names) != 1 {
		return fmt.Errorf("%s: found %d archives of the module, expected 1", dir, len(names))
	}
	archive, err := os.ReadFile(names[0])
	if err != nil {
		return err
	}
	r, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	src, err := os.MkdirTemp("", "rules_offload-lock-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(src)
	if err := unpack(text, src); err != nil {
		return err
	}
	locks, err := filepath.Glob(filepath.Join(src, "*", lockFile))
	if err != nil || len(locks) != 1 {
		return fmt.Errorf("%s: found %d files %s, expected 1", names[0], len(locks), lockFile)
	}
	lock, err := os.ReadFile(locks[0])
	if err != nil {
		return err
	}
	program, err := os.ReadFile(filepath.Join(dir, "offload-linux-amd64"))
	if err != nil {
		return err
	}
	if want := fmt.Sprintf(`"linux-x86_64": {
        "sha256": "%x",`, sha256.Sum256(program)); !bytes.Contains(lock, []byte(want)) {
		return fmt.Errorf("%s: found no %s in\n%s", lockFile, want, lock)
	}
	return nil
}
