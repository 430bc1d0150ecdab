package codeobject

import (
	"bytes"
	"fmt"

	"github.com/rules-offload/rules_offload/internal/elf"
)

// Types of notes with the names AMDGPU and AMD.
const (
	noteMetadata   = 32 // AMDGPU: the metadata of versions 3 and later
	noteMetadataV2 = 10 // AMD: the metadata of version 2
)

// readNotes reads the metadata from its notes, which are in the note segments, or
// in the note sections if there are no such segments. Code that a link generated in
// parts (--lto-partitions) has a note for each part.
func (o *Object) readNotes() error {
	f := o.elf
	segments := false
	for _, p := range f.Segments {
		if p.Type != elf.PtNote {
			continue
		}
		segments = true
		if err := o.notes("segment", p.Offset, p.FileSize); err != nil {
			return err
		}
	}
	if segments {
		return nil
	}
	for _, s := range f.Sections {
		if s.Type != elf.ShtNote {
			continue
		}
		if err := o.notes("section", s.Offset, s.Size); err != nil {
			return err
		}
	}
	return nil
}

// notes reads the notes of a segment or section at off.
func (o *Object) notes(where string, off, size uint64) error {
	const header = 12
	data, ok := o.elf.Range(off, size)
	if !ok {
		return fmt.Errorf("note %s at byte 0x%x: %d bytes pass the end of the file", where, off, size)
	}
	for end := off + size; len(data) >= header; {
		name, desc, typ := uint64(u32(data)), uint64(u32(data[4:])), u32(data[8:])
		rest := data[header:]
		if room := uint64(len(rest)); align4(name) > room || desc > room-align4(name) {
			return fmt.Errorf("note at byte 0x%x: a name of %d and a description of %d bytes pass the end of the notes at 0x%x", off, name, desc, end)
		}
		owner := string(bytes.TrimRight(rest[:name], "\x00"))
		description, descAt := rest[align4(name):][:desc], off+header+align4(name)
		var err error
		switch {
		case owner == "AMDGPU" && typ == noteMetadata:
			o.HasMetadata = true
			err = o.readMetadata(description, descAt)
		case owner == "AMD" && typ == noteMetadataV2:
			o.HasMetadata = true
			err = o.readMetadataV2(description, descAt)
		}
		if err != nil {
			o.Kernels = nil
			return err
		}
		next := min(descAt+align4(desc), end)
		data = data[next-off:]
		off = next
	}
	return nil
}

func align4(n uint64) uint64 { return (n + 3) &^ 3 }
