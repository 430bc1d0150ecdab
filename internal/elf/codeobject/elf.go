package codeobject

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
)

// file is a code object as an ELF file, with an index of its symbols.
type file struct {
	*object.File
	ordered   []object.Symbol  // those that have a name and whose contents are in the file
	byName    map[uint64]int32 // by the hash of the name
	buffer    []byte           // for concatenated names
	variables int
}

// open reads the headers. Section names that cannot be read are empty, because
// they are used only in reports.
func open(data []byte) (*file, error) {
	if !Is(data) {
		return nil, notCodeObject(data)
	}
	parsed, err := object.ParseLinked(data)
	if err != nil {
		return nil, err
	}
	for i := range parsed.Sections {
		s := &parsed.Sections[i]
		s.Name = s.Name[:min(len(s.Name), maxSectionName)]
	}
	return &file{File: parsed}, nil
}

// maxSectionName limits the length of section names, in bytes.
const maxSectionName = 256

// notCodeObject returns the error for data that is not a code object.
func notCodeObject(data []byte) error {
	return fmt.Errorf("not an AMD code object: found % x, expected a 64-bit ELF file for machine %d", data[:min(len(data), 20)], elf.MachineAMDGPU)
}

func (f *file) sectionList() []Section {
	var list []Section
	for i, s := range f.Sections {
		if data, err := f.Data(i); i > 0 && len(data) > 0 && err == nil {
			list = append(list, Section{Name: s.Name, Size: s.Size})
		}
	}
	return list
}

// clang returns the newest release of clang that compiled a part of the file, 0 if it is not known.
func (f *file) clang() (newest int) {
	for i := range f.Sections {
		if string(f.Sections[i].Name) != ".comment" {
			continue
		}
		data, err := f.Data(i)
		if err != nil {
			continue
		}
		for _, producer := range bytes.Split(data, []byte{0}) {
			_, version, found := bytes.Cut(producer, []byte("clang version "))
			release, _, _ := bytes.Cut(version, []byte{'.'})
			if n, err := strconv.Atoi(string(release)); found && err == nil {
				newest = max(newest, n)
			}
		}
	}
	return newest
}

// readSymbols reads the symbols that stripping keeps.
func (f *file) readSymbols() error {
	for s, err := range f.DynamicSymbols() {
		if err != nil {
			return err
		}
		if len(s.Name) == 0 || s.Kind == object.Undefined {
			continue
		}
		f.ordered = append(f.ordered, s)
		if s.Type == elf.TypeObject && s.Global && !bytes.HasSuffix(s.Name, []byte(".kd")) && !bytes.HasPrefix(s.Name, []byte("__hip_cuid_")) {
			f.variables++
		}
	}
	f.byName = make(map[uint64]int32, len(f.ordered))
	for i := range f.ordered {
		f.byName[xxhash.Sum64(f.ordered[i].Name)] = int32(i)
	}
	return nil
}

// find returns the symbol named name+suffix, or nil if it is missing.
func (f *file) find(name []byte, suffix string) *object.Symbol {
	if suffix != "" {
		f.buffer = append(append(f.buffer[:0], name...), suffix...)
		name = f.buffer
	}
	i, ok := f.byName[xxhash.Sum64(name)]
	if !ok || !bytes.Equal(f.ordered[i].Name, name) {
		return nil
	}
	return &f.ordered[i]
}
