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
	for _, p := range f.phdrs {
		if p.typ != elf.PtNote {
			continue
		}
		segments = true
		if !f.has(p.offset, p.filesize) {
			return fmt.Errorf("note segment at byte 0x%x: %d bytes pass the end of the file (%d bytes)", p.offset, p.filesize, len(f.data))
		}
		if err := o.notes(p.offset, p.filesize); err != nil {
			return err
		}
	}
	if segments {
		return nil
	}
	for _, s := range f.shdrs {
		if s.typ != elf.ShtNote {
			continue
		}
		if !f.has(s.offset, s.size) {
			return fmt.Errorf("note section at byte 0x%x: %d bytes pass the end of the file (%d bytes)", s.offset, s.size, len(f.data))
		}
		if err := o.notes(s.offset, s.size); err != nil {
			return err
		}
	}
	return nil
}

// notes reads the notes at off.
func (o *Object) notes(off, size uint64) error {
	const header = 12
	f := o.elf
	for end := off + size; end-off >= header; {
		name, desc, typ := uint64(u32(f.data[off:])), uint64(u32(f.data[off+4:])), u32(f.data[off+8:])
		nameAt := off + header
		descAt := nameAt + align4(name)
		if room := end - nameAt; align4(name) > room || desc > room-align4(name) {
			return fmt.Errorf("note at byte 0x%x: a name of %d and a description of %d bytes pass the end of the notes at 0x%x", off, name, desc, end)
		}
		owner := string(bytes.TrimRight(f.bytes(nameAt, name), "\x00"))
		var err error
		switch {
		case owner == "AMDGPU" && typ == noteMetadata:
			o.HasMetadata = true
			err = o.readMetadata(f.bytes(descAt, desc), descAt)
		case owner == "AMD" && typ == noteMetadataV2:
			o.HasMetadata = true
			err = o.readMetadataV2(f.bytes(descAt, desc), descAt)
		}
		if err != nil {
			o.Kernels = nil
			return err
		}
		off = min(descAt+align4(desc), end)
	}
	return nil
}

func align4(n uint64) uint64 { return (n + 3) &^ 3 }
