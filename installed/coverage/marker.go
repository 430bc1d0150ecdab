package coverage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// maxSearchPaths is the largest number of search paths of a library. The command searches each
// of them for the archives of all targets.
const maxSearchPaths = 64

// marker states where the device code of a split library is.
type marker struct {
	paths   []string        // of archives, relative to the directory of the library
	sources []string        // the key of each source in archives
	keys    map[string]bool // the same keys
	// fault describes why the marker cannot be read, or is "".
	fault string
}

// readMarker reads the marker of a library, or returns nil if its device code is in the
// library itself.
func readMarker(c content.Content) *marker {
	where := externalCode(c.Mapped(guard.Inside))
	if where == "" {
		return nil
	}
	h, err := kpack.ParseHost(c)
	if err != nil {
		return &marker{fault: where + ", and its marker cannot be read: " + err.Error()}
	}
	if len(h.SearchPaths) > maxSearchPaths {
		return &marker{fault: fmt.Sprintf("its marker has %d search paths, expected at most %d", len(h.SearchPaths), maxSearchPaths)}
	}
	m := &marker{keys: make(map[string]bool)}
	for _, p := range h.SearchPaths {
		m.paths = append(m.paths, strings.Clone(p))
	}
	for _, w := range h.Wrappers {
		key := kpack.Key(h.Name, int(w.Index))
		if w.Magic != embedding.MagicKpack || m.keys[key] {
			continue
		}
		m.keys[key] = true
		m.sources = append(m.sources, key)
	}
	return m
}

// externalCode describes where the device code of a library is, or returns ""
// if it is in the library itself.
func externalCode(data []byte) string {
	if bytes.HasPrefix(data, []byte("MZ")) {
		if _, err := kpack.ParseHost(content.Memory(data)); err == nil {
			return "the device code is in the archives that the marker of the PE file names"
		}
	}
	if !object.Identify(data).IsELF() {
		return ""
	}
	f, err := object.Parse(data)
	if err != nil {
		return ""
	}
	wrapped := false
	for i := range f.Sections {
		switch string(f.Sections[i].Name) {
		case embedding.KpackSection:
			return "the device code is in the archives that section " + embedding.KpackSection + " names"
		case embedding.HIPWrappers:
			wrapper, err := f.Data(i)
			wrapped = err == nil && len(wrapper) >= 4 && binary.LittleEndian.Uint32(wrapper) == embedding.MagicKpack
		}
	}
	if wrapped {
		return "the device code is in other archives: section " + embedding.HIPWrappers + " has the magic HIPK, and section " + embedding.KpackSection + " is missing"
	}
	return ""
}

// search returns the archives of a library that exist, and reads their code for its keys.
func (c *checker) search(library string, m *marker) ([]searchPath, error) {
	paths := make([]searchPath, len(m.paths))
	for i, pattern := range m.paths {
		p := searchPath{archives: make(map[string]*archive)}
		p.pattern, _ = c.locate(library, pattern)
		ids := []string{""}
		if kpack.ArchivePath(pattern, "") != pattern {
			ids = targetIDs()
		}
		for _, id := range ids {
			name, exists := c.locate(library, kpack.ArchivePath(pattern, id))
			if !exists {
				continue
			}
			a, err := c.open(name)
			if err == nil {
				err = c.readEntries(a, func(e *kpack.Entry) bool { return m.keys[e.Key] })
			}
			if err != nil {
				return nil, err
			}
			p.archives[id] = a
		}
		paths[i] = p
	}
	return paths, nil
}

// targetIDs returns the target IDs of all processors of AMD.
func targetIDs() []string {
	var all []string
	for _, processor := range target.Processors() {
		features, ok := target.AMDGPUFeatures(processor)
		if !ok {
			continue
		}
		ids := []string{processor}
		for _, f := range features {
			for _, id := range slices.Clone(ids) {
				ids = append(ids, id+":"+f+"+", id+":"+f+"-")
			}
		}
		all = append(all, ids...)
	}
	return all
}

// locate returns the name of a file relative to a library, and whether the file exists. Symbolic
// links are followed before "..", as the runtime does.
func (c *checker) locate(library, path string) (name string, exists bool) {
	if f := c.packed.named[library]; f != nil {
		target, name := c.packed.locate(f, path)
		return name, target != nil
	}
	exact := filepath.FromSlash(path)
	if !filepath.IsAbs(exact) {
		exact = filepath.Dir(library) + string(filepath.Separator) + exact
	}
	clean := filepath.Clean(exact)
	there, err := c.root.Stat(exact)
	if err != nil {
		return clean, false
	}
	if same, err := c.root.Stat(clean); err == nil && os.SameFile(there, same) {
		return clean, true
	}
	return exact, true
}

// open opens an archive. The runtime skips archives that it cannot read; their fault is in the
// result.
func (c *checker) open(name string) (*archive, error) {
	if f := c.packed.named[name]; f != nil {
		if f.archive == nil {
			return &archive{name: name, fault: fmt.Sprintf("not a kpack archive: found %d bytes without the magic KPAK", f.size)}, nil
		}
		return f.archive, nil
	}
	if a := c.archives[name]; a != nil {
		return a, nil
	}
	a := &archive{name: name}
	c.archives[name] = a
	var err error
	if a.input, err = c.root.OpenRegular(name); err != nil {
		return a, a.skip(err)
	}
	return a, a.parse(a.input.All())
}

// parse reads the table of contents.
func (a *archive) parse(body content.Content) error {
	var parsed *kpack.Archive
	err := guard.Contain(func() (err error) {
		parsed, err = kpack.Parse(body)
		return err
	})
	if err != nil {
		return a.skip(err)
	}
	a.parsed, a.code = parsed, make(map[int]*archived)
	a.byKey = make(map[string]map[string]*kpack.Entry)
	for i := range parsed.Entries {
		e := &parsed.Entries[i]
		if a.byKey[e.Key] == nil {
			a.byKey[e.Key] = make(map[string]*kpack.Entry)
		}
		a.byKey[e.Key][e.Arch] = e
	}
	return nil
}

// skip sets the fault of the archive. Errors of the program are returned.
func (a *archive) skip(err error) error {
	var plain interface{ Plain() string }
	var internal *guard.PanicError
	switch {
	case errors.As(err, &internal):
		return err
	case errors.As(err, &plain):
		a.fault = strings.TrimPrefix(plain.Plain(), a.name+": ")
	default:
		a.fault = err.Error()
	}
	return nil
}

// readEntries reads the code objects of some entries of an archive. Those that entries share are read
// once.
func (c *checker) readEntries(a *archive, which func(*kpack.Entry) bool) error {
	if a.fault != "" {
		return nil
	}
	for i := range a.parsed.Entries {
		e := &a.parsed.Entries[i]
		if a.code[e.Ordinal] != nil || !which(e) {
			continue
		}
		var described kernels.Image
		err := guard.Contain(func() error {
			body, memory, err := e.Content(c.ctx, c.budget, a.parsed.Scheme)
			if err != nil {
				return err
			}
			defer memory.Release()
			return described.Describe(body.Mapped(guard.Inside), e.Arch)
		})
		switch {
		case c.ofMachine(err):
			return files.NameError(a.name, err)
		case err != nil:
			a.code[e.Ordinal] = &archived{Image: Image{Size: e.Size}, fault: err.Error()}
		default:
			a.code[e.Ordinal] = &archived{Image: c.image(e.Size, &described)}
		}
	}
	return nil
}
