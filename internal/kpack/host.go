package kpack

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tinylib/msgp/msgp"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/embedding"
	"github.com/rules-offload/rules_offload/internal/prune"
	"github.com/rules-offload/rules_offload/internal/registration/registered"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// archPlaceholder stands for a target ID in search paths.
const archPlaceholder = "@GFXARCH@"

// ArchivePath returns the path of the archive for a target ID: a search path with the target ID in
// place of its first @GFXARCH@.
func ArchivePath(searchPath, targetID string) string {
	return strings.Replace(searchPath, archPlaceholder, targetID, 1)
}

// Marker states where the runtime finds the code of a library.
type Marker struct {
	Name        string // of the library, as in keys
	SearchPaths []string
}

// bytes returns the stored form of the marker.
func (m *Marker) bytes() []byte {
	b := msgp.AppendMapHeader(nil, 2)
	b = msgp.AppendArrayHeader(msgp.AppendString(b, "kpack_search_paths"), uint32(len(m.SearchPaths)))
	for _, p := range m.SearchPaths {
		b = msgp.AppendString(b, p)
	}
	return msgp.AppendString(msgp.AppendString(b, "kernel_name"), m.Name)
}

// parseMarker reads the marker at the start of data.
func parseMarker(data []byte) (*Marker, error) {
	if len(data) == 0 || msgp.NextType(data) != msgp.MapType {
		return nil, errors.New("marker: expected a MessagePack map")
	}
	if _, err := checkValue(data[:min(len(data), 1<<20)], maxDepth); err != nil {
		return nil, fmt.Errorf("marker: %w", err)
	}
	m := &Marker{}
	_, err := fields(data, "marker", func(key string, b []byte) ([]byte, error) {
		switch key {
		case "kernel_name":
			return text(b, &m.Name)
		case "kpack_search_paths":
			return array(b, "an array of text", &m.SearchPaths)
		}
		return msgp.Skip(b)
	})
	switch {
	case err != nil:
		return nil, err
	case m.Name == "":
		return nil, errors.New("marker: kernel_name is missing or empty")
	case len(m.SearchPaths) == 0:
		return nil, errors.New("marker: kpack_search_paths is missing or empty")
	}
	return m, nil
}

// Host is a library or program whose code is in archives.
type Host struct {
	*Marker
	Wrappers []registered.Wrapper
	// file is the ELF file; nil for a PE file.
	file *elfedit.File
}

// ErrNoMarker reports a file without a marker.
var ErrNoMarker = errors.New("not a kpack archive, and its code was not split")

// ParseHost reads a library or program with a marker.
func ParseHost(c content.Content) (*Host, error) {
	if bytes.HasPrefix(c.Mapped(guard.Inside), []byte("MZ")) {
		return parsePE(c)
	}
	f, err := elfedit.Parse(c)
	if err != nil {
		return nil, err
	}
	code := registered.Find(c)
	if code.Unresolved != nil {
		return nil, code.Unresolved
	}
	h := &Host{file: f, Wrappers: code.Wrappers}
	at := uint64(0)
	for i, w := range h.Wrappers {
		if w.Magic != embedding.MagicKpack {
			continue
		}
		if h.Marker != nil && w.Target == at {
			continue
		}
		off, ok := f.Offset(w.Target, 1)
		if !ok {
			return nil, fmt.Errorf("wrapper %d: its marker at address 0x%x is not in the file", i, w.Target)
		}
		m, err := parseMarker(c.Mapped(guard.Inside)[off:loadedEnd(f, w.Target, off)])
		if err != nil {
			return nil, fmt.Errorf("wrapper %d: %w", i, err)
		}
		if h.Marker != nil && h.Marker.Name != m.Name {
			return nil, fmt.Errorf("wrapper %d: its marker is for %q, that of others for %q", i, m.Name, h.Marker.Name)
		}
		h.Marker, at = m, w.Target
	}
	if h.Marker == nil {
		return nil, ErrNoMarker
	}
	return h, nil
}

// loadedEnd returns the file offset after the segment that loads a byte.
func loadedEnd(f *elfedit.File, addr, off uint64) uint64 {
	for _, s := range f.Segments {
		if s.Type == elf.PtLoad && addr >= s.Addr && addr-s.Addr < s.FileSize {
			return s.Offset + s.FileSize
		}
	}
	return off
}

// Splittable reports whether a file is a library or program with HIP code that can be split. If it has such
// code that cannot be split, or if that is not known, why is the reason.
func Splittable(c content.Content) (fat bool, why string) {
	code := registered.Find(c)
	if object.Identify(c.Mapped(guard.Inside)) == object.PE && len(code.Regions) > 0 {
		return false, "libraries for Windows cannot be split"
	}
	if !elfedit.IsLinked(c.Mapped(guard.Inside)) {
		return false, ""
	}
	if code.Fault != nil {
		return false, code.Fault.Error()
	}
	if _, err := elfedit.Parse(c); err != nil {
		if prune.MayHaveCode(c) {
			why = err.Error()
		}
		return false, why
	}
	if code.Reached() {
		if err := prune.CheckSplit(code); err != nil {
			return false, err.Error()
		}
		return true, ""
	}
	return slices.ContainsFunc(code.Regions, func(r registered.Region) bool { return embedding.IsHIPSection(r.Name) }), ""
}
