package launch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cache"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/launch/key"
	"github.com/rules-offload/rules_offload/internal/link/process"
)

// A program is the identity of a program: a hash of the contents of its file and its shared libraries.
type program struct {
	path   string // without symbolic links
	script bool
	id     [sha256.Size]byte
	state  string // the signature of its file
}

// unchanged reports whether the file of a program is the one that was identified.
func (p *program) unchanged() bool {
	state, err := signature(p.path)
	return err == nil && state == p.state
}

// programRecords are the identities of programs, by their path, size, times and inode, so that
// each is read once.
const programRecords = "programs"

// identify returns the identity of a program.
func (r *run) identify(ctx context.Context, name string) (*program, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p := r.programs[name]; p != nil {
		return p, nil
	}
	path, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, err
	}
	var h key.Hash
	h.Text("program", path, variable(r.opt.Env, "LD_LIBRARY_PATH"))
	state, err := signature(path)
	if err != nil {
		return nil, err
	}
	h.Text(state)
	p := &program{path: path, state: state}
	// The record has the signature of each library, and the identity.
	if record := r.record(programRecords, h.Key()); record != nil && p.load(record) {
		r.programs[name] = p
		return p, nil
	}
	libraries, script, err := loaded(ctx, path, r.opt.Env)
	if err != nil {
		return nil, err
	}
	p.script = script
	var content key.Hash
	var record strings.Builder
	fmt.Fprintf(&record, "%v\n", script)
	for _, library := range append([]string{path}, libraries...) {
		state, err := signature(library)
		if err != nil {
			return nil, err
		}
		sum, err := hashFile(library)
		if err != nil {
			return nil, err
		}
		content.Text(filepath.Base(library), string(sum[:]))
		fmt.Fprintf(&record, "%s\t%s\n", library, state)
	}
	p.id = content.Key()
	fmt.Fprintf(&record, "%x\n", p.id)
	r.putRecord(programRecords, h.Key(), []byte(record.String()))
	r.programs[name] = p
	return p, nil
}

// load reads a record, and reports whether all files are still the same.
func (p *program) load(record []byte) bool {
	for line := range strings.Lines(string(record)) {
		line = strings.TrimSuffix(line, "\n")
		name, state, ok := strings.Cut(line, "\t")
		switch {
		case line == "true" || line == "false":
			p.script = line == "true"
		case ok:
			if now, err := signature(name); err != nil || now != state {
				return false
			}
		default:
			n, err := fmt.Sscanf(line, "%x", new([]byte))
			d, derr := cache.ParseDigest(line + "/0")
			if n != 1 || err != nil || derr != nil {
				return false
			}
			p.id = d.Hash
			return true
		}
	}
	return false
}

func hashFile(name string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// loaded returns the shared libraries that the loader finds for a program, and whether the program is a script.
func loaded(ctx context.Context, path string, env []string) (libraries []string, script bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	var head [2]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return nil, false, err
	}
	if string(head[:]) == "#!" {
		return nil, true, nil
	}
	loader, err := elf.Interpreter(f)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	if loader == "" {
		return nil, false, nil
	}
	var printed bytes.Buffer
	list := process.Command{Args: []string{loader, "--list", path}, Env: env, Stdout: &printed}
	if err := list.Run(ctx); err != nil {
		return nil, false, fmt.Errorf("%s: cannot list its libraries: %w", path, err)
	}
	for line := range strings.Lines(printed.String()) {
		line = strings.TrimSpace(line)
		if _, after, found := strings.Cut(line, " => "); found {
			line = after
		}
		i := strings.LastIndex(line, " (")
		if i < 0 {
			return nil, false, fmt.Errorf("%s: a library is missing: %s", path, line)
		}
		if !strings.HasPrefix(line, "/") {
			continue // of the kernel
		}
		real, err := filepath.EvalSymlinks(line[:i])
		if err != nil {
			return nil, false, err
		}
		libraries = append(libraries, real)
	}
	if len(libraries) == 0 {
		return nil, false, errors.New(path + ": the loader lists no libraries")
	}
	return libraries, false, nil
}

// variable returns the value of a variable in an environment.
func variable(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}
