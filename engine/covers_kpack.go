package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/coverage"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/guard"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/object"
)

// maxSearchPaths is the largest number of search paths of a library. The command searches each
// of them for the archives of all targets.
const maxSearchPaths = 64

// splitMarker states where the device code of a split library is.
type splitMarker struct {
	paths   []string        // of archives, relative to the directory of the library
	sources []string        // the key of each source in archives
	keys    map[string]bool // the same keys
	// fault describes why the marker cannot be read, or is "".
	fault string
}

// readMarker reads the marker of a library, or returns nil if its device code is in the
// library itself.
func readMarker(c content.Content) *splitMarker {
	where := externalCode(c.Bytes())
	if where == "" {
		return nil
	}
	h, err := kpack.ParseHost(c)
	if err != nil {
		return &splitMarker{fault: where + ", and its marker cannot be read: " + err.Error()}
	}
	if len(h.SearchPaths) > maxSearchPaths {
		return &splitMarker{fault: fmt.Sprintf("its marker has %d search paths, expected at most %d", len(h.SearchPaths), maxSearchPaths)}
	}
	m := &splitMarker{keys: make(map[string]bool)}
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

// archiveFile is an open kpack archive.
type archiveFile struct {
	coverage.Archive
	input  *files.Input
	parsed *kpack.Archive
	// images are the code objects that were read, by ordinal, and kernels the names of their kernels.
	images  map[int]*coverage.ArchivedImage
	kernels map[int][]string
}

// close closes all archives.
func (c *coverer) close() {
	for _, a := range c.archives {
		if a != nil && a.input != nil {
			a.input.Close()
		}
	}
	for _, memory := range c.shipped.memory {
		memory.Release()
	}
}

// search returns the archives of a library that exist, with the code for its keys.
func (c *coverer) search(ctx context.Context, library string, m *splitMarker) ([]coverage.SearchPath, error) {
	paths := make([]coverage.SearchPath, len(m.paths))
	for i, pattern := range m.paths {
		name, _ := c.locate(library, pattern)
		p := coverage.SearchPath{Pattern: name, Archives: make(map[string]*coverage.Archive)}
		ids := []string{""}
		if kpack.ArchivePath(pattern, "") != pattern {
			ids = targetIDs()
		}
		for _, id := range ids {
			a, err := c.archive(ctx, library, kpack.ArchivePath(pattern, id), m.keys)
			if err != nil {
				return nil, err
			}
			if a != nil {
				p.Archives[id] = a
			}
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
func (c *coverer) locate(library, path string) (name string, exists bool) {
	if f := c.shipped.named[library]; f != nil {
		target, name := c.shipped.locate(f, path)
		return name, target != nil
	}
	exact := filepath.FromSlash(path)
	if !filepath.IsAbs(exact) {
		exact = filepath.Dir(library) + string(filepath.Separator) + exact
	}
	clean := filepath.Clean(exact)
	there, err := c.session.files.Stat(exact)
	if err != nil {
		return clean, false
	}
	if same, err := c.session.files.Stat(clean); err == nil && os.SameFile(there, same) {
		return clean, true
	}
	return exact, true
}

// archive reads the code for keys in an archive, or returns nil if the archive does not exist.
func (c *coverer) archive(ctx context.Context, library, path string, keys map[string]bool) (*coverage.Archive, error) {
	name, exists := c.locate(library, path)
	if !exists {
		return nil, nil
	}
	a, ok := c.archives[name]
	if !ok {
		var err error
		if a, err = c.open(name); err != nil {
			return nil, err
		}
		c.archives[name] = a
	}
	own := a.Archive
	if own.Fault != "" {
		return &own, nil
	}
	own.Images = make(map[string]map[string]coverage.ArchivedImage)
	for i := range a.parsed.Entries {
		e := &a.parsed.Entries[i]
		if !keys[e.Key] {
			continue
		}
		img, err := c.entry(ctx, a, e)
		if err != nil {
			return nil, err
		}
		if own.Images[e.Key] == nil {
			own.Images[e.Key] = make(map[string]coverage.ArchivedImage)
		}
		own.Images[e.Key][e.Arch] = *img
	}
	return &own, nil
}

// open opens an archive. The runtime skips archives that it cannot read; their fault is in the
// result.
func (c *coverer) open(name string) (*archiveFile, error) {
	if f := c.shipped.named[name]; f != nil {
		if f.archive != nil {
			return f.archive, nil
		}
		a := newArchiveFile(name)
		a.Fault = fmt.Sprintf("not a kpack archive: found %d bytes without the magic KPAK", f.size)
		return a, nil
	}
	a := newArchiveFile(name)
	var err error
	if a.input, err = c.session.files.OpenRegular(name); err != nil {
		return a, a.skip(err)
	}
	return a, a.parse(a.input.All())
}

func newArchiveFile(name string) *archiveFile {
	return &archiveFile{Archive: coverage.Archive{Name: name}, images: make(map[int]*coverage.ArchivedImage), kernels: make(map[int][]string)}
}

// parse reads the table of contents.
func (a *archiveFile) parse(body content.Content) error {
	err := guard.Contain(func() (err error) {
		a.parsed, err = kpack.Parse(body)
		return err
	})
	if err != nil {
		return a.skip(err)
	}
	a.Targets, a.Entries = a.parsed.Archs, len(a.parsed.Entries)
	return nil
}

// skip sets the fault of the archive. Errors of the program are returned.
func (a *archiveFile) skip(err error) error {
	var plain interface{ Plain() string }
	var internal *guard.PanicError
	switch {
	case errors.As(err, &internal):
		return err
	case errors.As(err, &plain):
		a.Fault = strings.TrimPrefix(plain.Plain(), a.Name+": ")
	default:
		a.Fault = err.Error()
	}
	return nil
}

// entry describes a code object of an archive. Code objects that entries share are read once.
func (c *coverer) entry(ctx context.Context, a *archiveFile, e *kpack.Entry) (*coverage.ArchivedImage, error) {
	img, ok := a.images[e.Ordinal]
	if !ok {
		img = &coverage.ArchivedImage{Image: coverage.Image{Size: e.Size}}
		if err := c.describe(ctx, img, a, e); err != nil {
			return nil, err
		}
		a.images[e.Ordinal] = img
	}
	own := *img
	own.ID = e.ID()
	return &own, nil
}

// ofMachine reports whether an error is about the machine or the program, not about a file.
func ofMachine(ctx context.Context, err error) bool {
	_, limit := errors.AsType[*budget.LimitError](err)
	_, internal := errors.AsType[*guard.PanicError](err)
	return limit || internal || ctx.Err() != nil
}

// describe reads a code object. Errors are those of the machine; the faults of the archive are
// in the image.
func (c *coverer) describe(ctx context.Context, img *coverage.ArchivedImage, a *archiveFile, e *kpack.Entry) error {
	var described kernels.Image
	err := guard.Contain(func() error {
		body, memory, err := e.Content(ctx, c.session.budget, a.parsed.Scheme)
		if err != nil {
			return err
		}
		defer memory.Release()
		return described.Describe(body.Bytes(), e.Arch)
	})
	switch {
	case ofMachine(ctx, err):
		return files.NameError(a.Name, err)
	case err != nil:
		img.Fault = err.Error()
	default:
		img.Empty = described.Empty
		if c.deep {
			a.kernels[e.Ordinal] = kernelNames(&described)
		}
		if described.Format == kernels.CodeObject {
			img.Code = &described.Target
		}
	}
	return nil
}
