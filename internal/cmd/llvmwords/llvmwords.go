// Package llvmwords has the messages of LLVM 22's tools for the faults that the engine finds in
// files. The drop-ins print them before the engine's own messages.
package llvmwords

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/llvm/bitcode"
)

// invalidData and endOfFile are LLVM's words for most faults of files.
const (
	invalidData = "Invalid data was encountered while parsing the file"
	endOfFile   = "The end of the file was unexpectedly encountered"
)

// Fault returns LLVM's words for a fault of an offload binary, archive or bitcode
// file, "" for other errors.
func Fault(err error) string {
	var binary *offloadbinary.Error
	var archive *ar.FormatError
	var module *bitcode.Error
	switch {
	case errors.As(err, &binary) && binary.Truncated:
		return endOfFile
	case errors.As(err, &binary):
		return invalidData
	case errors.As(err, &archive):
		return Archive(archive)
	case errors.As(err, &module):
		return "Failed to create module"
	}
	return ""
}

// Compressed returns LLVM's words for a fault of a compressed bundle, "" for faults that LLVM
// does not detect.
func Compressed(e *ccob.Error) string {
	const decompress = "Could not decompress embedded file contents: "
	switch e.Fault {
	case ccob.HeaderCut:
		return "Compressed bundle header size too small"
	case ccob.UnknownMethod:
		return "Unknown compressing method"
	case ccob.ZstdCorrupt:
		return decompress + "Data corruption detected"
	case ccob.ZstdNoFrame:
		return decompress + "Unknown frame descriptor"
	case ccob.ZstdParameter:
		return decompress + "Unsupported frame parameter"
	case ccob.ZstdCut:
		return decompress + "Src size is incorrect"
	case ccob.ZstdTooLong:
		return decompress + "Destination buffer is too small"
	case ccob.ZstdChecksum:
		return decompress + "Restored data doesn't match checksum"
	case ccob.ZstdDictionary:
		return decompress + "Dictionary mismatch"
	case ccob.ZlibCorrupt:
		return decompress + "zlib error: Z_DATA_ERROR"
	case ccob.ZlibTooLong:
		return decompress + "zlib error: Z_BUF_ERROR"
	}
	return ""
}

// Archive returns LLVM's words for a fault of an archive.
func Archive(e *ar.FormatError) string {
	switch e.Fault {
	case ar.NoArchive:
		return "file too small to be an archive"
	case ar.BigArchive:
		return "AIX big archives are not supported"
	case ar.SpecialName:
		return invalidData
	}
	return "truncated or malformed archive (" + malformed(e) + ")"
}

// malformed returns LLVM's words in the parentheses.
func malformed(e *ar.FormatError) string {
	at := fmt.Sprintf("at offset %d", e.Offset)
	name, member := "for "+e.Member, e.Member
	if !e.Named {
		name, member = at, at
	}
	const header = " for archive member header "
	switch e.Fault {
	case ar.HeaderCut:
		return "remaining size of archive too small for next archive member header " + name
	case ar.BadTerminator:
		return "terminator characters in archive member \"" + escape(e.Found) + "\" not the correct \"`\\n\" values for the archive member header " + name
	case ar.SizeDigits:
		return "characters in size field in archive member header are not all decimal numbers: '" + e.Found + "' for the archive member header " + at
	case ar.SizePastEnd:
		return "offset to next archive member past the end of the archive after member " + member
	case ar.LeadingSpace:
		return "name contains a leading space" + header + at
	case ar.NameLengthDigits:
		return "long name length characters after the #1/ are not all decimal numbers: '" + e.Found + "'" + header + at
	case ar.NameLengthPastEnd:
		return fmt.Sprintf("long name length: %d extends past the end of the member or archive", e.Number) + header + at
	case ar.NameOffsetDigits:
		return "long name offset characters after the '/' are not all decimal numbers: '" + escape(e.Found) + "'" + header + at
	case ar.NameOffsetPastEnd:
		return fmt.Sprintf("long name offset %d past the end of the string table", e.Number) + header + at
	case ar.NameUnterminated:
		return fmt.Sprintf("string table at long name offset %d not terminated", e.Number)
	}
	return e.Reason
}

// escape writes s as LLVM's write_escaped does.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '"', c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
