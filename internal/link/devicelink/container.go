package devicelink

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/llvm/dialect"
)

// NeedsContainer reports whether linked images for a triple, of OpenMP, are put
// into a container of their own before they are packed: Intel's runtime reads
// SPIR-V only there.
func NeedsContainer(triple string) bool {
	return isSPIRV(triple) && strings.Contains(target.ParseTriple(triple).Normalize(), "-intel")
}

// WriteContainer writes SPIR-V for Intel's OpenMP runtime: up to LLVM 22 as an ELF
// file with notes, later as an offload binary.
func WriteContainer(out content.Sink, release target.Release, triple string, spirv content.Content) error {
	if dialect.Of(release).IntelBinaries {
		return offloadbinary.Write(out, 2, []offloadbinary.Image{{
			Kind: offloadbinary.SPIRV, Offload: offloadbinary.OpenMP, Content: spirv,
			Properties: offloadbinary.Properties{{Key: "triple", Value: triple}, {Key: "version", Value: "1.0"}},
		}})
	}
	return writeIntelELF(out, spirv)
}

// writeIntelELF writes a 64-bit ELF file with the notes of an
// OpenMP image and the image itself, in sections without addresses.
func writeIntelELF(out content.Sink, spirv content.Content) error {
	le := binary.LittleEndian
	notes := intelNote(1, "1.0")                             // version
	notes = append(notes, intelNote(3, "0\x001\x00\x00")...) // image 0, SPIR-V, without options of compiler and linker
	notes = append(notes, intelNote(2, "1")...)              // how many images
	names := "\x00.note.inteloneompoffload\x00__openmp_offload_spirv_0\x00.shstrtab\x00"
	at := func(name string) uint32 { return uint32(bytes.Index([]byte(names), []byte("\x00"+name+"\x00")) + 1) }

	notesAt := uint64(elf.HeaderSize)
	imageAt := align(notesAt+uint64(len(notes)), 8)
	namesAt := imageAt + uint64(spirv.Len())
	tableAt := align(namesAt+uint64(len(names)), 8)
	sections := []elf.SectionHeader{
		{},
		{Name: at(".note.inteloneompoffload"), Type: elf.ShtNote, Offset: notesAt, Size: uint64(len(notes)), Align: 4},
		{Name: at("__openmp_offload_spirv_0"), Type: elf.ShtProgbits, Offset: imageAt, Size: uint64(spirv.Len()), Align: 1},
		{Name: at(".shstrtab"), Type: elf.ShtStrtab, Offset: namesAt, Size: uint64(len(names)), Align: 1},
	}
	table, err := binary.Append(nil, le, sections)
	if err != nil {
		return err
	}
	head := []byte(elf.Magic + "\x02\x01\x01")
	head = append(head, make([]byte, 16-len(head))...)
	head = le.AppendUint16(head, elf.EtDyn)
	head = le.AppendUint16(head, elf.MachineIntelGT)
	head = le.AppendUint32(head, 1)
	head = le.AppendUint64(head, 0) // entry
	head = le.AppendUint64(head, 0) // segments
	head = le.AppendUint64(head, tableAt)
	head = le.AppendUint32(head, 0) // flags
	for _, v := range []uint16{elf.HeaderSize, 0, 0, elf.SectionSize, uint16(len(sections)), uint16(len(sections) - 1)} {
		head = le.AppendUint16(head, v)
	}
	return content.WriteParts(out, []content.Part{
		{Content: content.Memory(append(head, notes...))},
		{Offset: int64(imageAt), Content: spirv},
		{Offset: int64(namesAt), Content: content.Memory([]byte(names))},
		{Offset: int64(tableAt), Content: content.Memory(table)},
	}, 0)
}

// intelNote returns a note of Intel's offloading.
func intelNote(typ uint32, body string) []byte {
	const owner = "INTELONEOMPOFFLOAD\x00"
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(len(owner)))
	b = le.AppendUint32(b, uint32(len(body)))
	b = le.AppendUint32(b, typ)
	for _, part := range []string{owner, body} {
		b = append(b, part...)
		for len(b)%4 != 0 {
			b = append(b, 0)
		}
	}
	return b
}

func align(n, to uint64) uint64 { return (n + to - 1) &^ (to - 1) }
