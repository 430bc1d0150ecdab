package linkcache

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/link/process"
)

// Memory remembers values for later processes. It may forget them at any time.
type Memory interface {
	// Recall returns the value of a key, or false if none is known.
	Recall(key Key) (value []byte, found bool)
	// Remember stores the value of a key.
	Remember(key Key, value []byte)
}

// program adds the contents of a program and of its shared libraries. For a script, the programs that it
// runs must be those that -### lists.
func (k *keyer) program(name string) error {
	real, err := filepath.EvalSymlinks(k.path(name))
	if err != nil {
		return err
	}
	if err := k.installed(real); err != nil {
		return err
	}
	f, err := os.Open(real)
	if err != nil {
		return err
	}
	defer f.Close()
	var head [4]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return err
	}
	if bytes.HasPrefix(head[:], []byte("#!")) {
		return nil
	}
	loader, err := elf.Interpreter(f)
	switch {
	case errors.Is(err, elf.ErrNotProgram):
		return errUnknown
	case err != nil || loader == "":
		return err
	}
	var printed bytes.Buffer
	list := process.Command{Args: []string{loader, "--list", real}, Env: k.link.Env, Dir: k.link.Dir, Stdout: &printed}
	if err := list.Run(k.ctx); err != nil {
		return err
	}
	for line := range strings.Lines(printed.String()) {
		if library, ok := loadedLibrary(line); !ok {
			continue
		} else if err := k.installed(library); err != nil {
			return err
		}
	}
	return nil
}

// installed adds the path and the content of a file that programs consist of. Such files are large and seldom
// change: the digest of the content is remembered for the state of the file.
func (k *keyer) installed(name string) error {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	state, err := stateOf(real)
	if err != nil {
		return err
	}
	key := state.key()
	if k.memory != nil && state.number != (number{}) {
		if digest, found := k.memory.Recall(key); found {
			k.add(real, used{state, Key(digest), true})
			return nil
		}
	}
	start := time.Now()
	_, digest, err := digestOf(real)
	if err != nil {
		return err
	}
	if after, err := stateOf(real); err != nil || after != state {
		return errUnknown // it is being replaced
	}
	kept := state.settled(start)
	if k.memory != nil && kept {
		k.memory.Remember(key, digest[:])
	}
	k.add(real, used{state, digest, kept})
	return nil
}

// loadedLibrary returns the path in a line of a loader's list: "NAME => PATH (ADDRESS)" or
// "PATH (ADDRESS)".
func loadedLibrary(line string) (path string, ok bool) {
	line = strings.TrimSpace(line)
	if _, after, found := strings.Cut(line, " => "); found {
		line = after
	}
	i := strings.LastIndex(line, " (")
	if i < 0 || !strings.HasPrefix(line, "/") {
		return "", false
	}
	return line[:i], true
}
