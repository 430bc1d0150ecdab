package engine

import "github.com/rules-offload/rules_offload/internal/testing/fixture"

// Short names for the files that tests read.
var (
	bytesOf          = fixture.Bytes
	packedImage      = fixture.OffloadBinary
	deflated         = fixture.CompressedOffloadBinary
	bundled          = fixture.Bundle
	compressed       = fixture.Compressed
	compressedByLLVM = fixture.CompressedByLLVM
	fatbinary        = fixture.Fatbinary
	elfObject        = fixture.ELF
	archive          = fixture.Archive
	hostObject       = fixture.HostEntries
	sectionData      = fixture.SectionData
	symbolNames      = fixture.SymbolNames
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
