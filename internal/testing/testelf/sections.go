package testelf

import (
	"bytes"
	"debug/elf"
)

// Sizes and offsets of ELF64 headers.
const (
	shoffAt, shnumAt, shstrndxAt = 40, 60, 62
	sectionHeader                = 64
)

// StripSections removes the section headers of a file.
func StripSections(data []byte) []byte {
	data = bytes.Clone(data)
	le.PutUint64(data[shoffAt:], 0)
	le.PutUint16(data[shnumAt:], 0)
	le.PutUint16(data[shstrndxAt:], 0)
	return data
}

// RenameSection gives a section another name, which must not be longer.
func RenameSection(data []byte, old, name string) []byte {
	data = bytes.Clone(data)
	table := sectionNames(data)
	at := bytes.Index(data[table:], append([]byte(old), 0))
	copy(data[table+uint64(at):], append([]byte(name), 0))
	return data
}

// MergeSections makes two adjacent sections one, with the name of the first.
func MergeSections(data []byte, first, second string) []byte {
	data = bytes.Clone(data)
	a, b := headerOf(data, first), headerOf(data, second)
	const typeAt, offsetAt, sizeAt, flagsAt = 4, 24, 32, 8
	le.PutUint64(a[sizeAt:], le.Uint64(b[offsetAt:])+le.Uint64(b[sizeAt:])-le.Uint64(a[offsetAt:]))
	le.PutUint32(b[typeAt:], uint32(elf.SHT_NULL))
	le.PutUint64(b[flagsAt:], 0)
	le.PutUint64(b[sizeAt:], 0)
	return data
}

// sectionNames returns the offset of the names of sections.
func sectionNames(data []byte) uint64 {
	at := le.Uint64(data[shoffAt:]) + sectionHeader*uint64(le.Uint16(data[shstrndxAt:]))
	return le.Uint64(data[at+24:])
}

// headerOf returns the header of a section.
func headerOf(data []byte, name string) []byte {
	names := sectionNames(data)
	for i := range uint64(le.Uint16(data[shnumAt:])) {
		h := data[le.Uint64(data[shoffAt:])+sectionHeader*i:][:sectionHeader]
		if bytes.HasPrefix(data[names+uint64(le.Uint32(h)):], append([]byte(name), 0)) {
			return h
		}
	}
	panic("no section " + name)
}
