package llvmwords

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/link"
	"github.com/rules-offload/rules_offload/internal/link/devicelink"
)

// Link returns the words of clang-linker-wrapper for a fault of a link, without
// the details.
func Link(e *link.Error) string {
	switch e.Fault {
	case link.NoLinker:
		return "linker path missing, must pass 'linker-path'"
	case link.UnknownHost:
		return fmt.Sprintf("No available targets are compatible with triple %q", e.Subject)
	case link.MixedKinds:
		return "Linking images of " + e.Subject + " offload kind with images of any other kind is not supported"
	case link.NoRuntime:
		return e.Subject + " bundling is not supported"
	case link.NoImage:
		return fmt.Sprintf("'%s' failed", filepath.Base(e.Subject))
	case link.NoBundle:
		return "'clang-offload-bundler' failed"
	case link.SeveralRuntimes:
		return "Expected a single bundled image for direct fat binary output"
	case link.NotELF:
		return "Relocatable linking is not supported on COFF targets"
	case link.NoHeader:
		if header, ok := errors.AsType[*devicelink.HeaderError](e.Err); ok {
			return elfHeader(header)
		}
	}
	return e.Error()
}

// elfHeader returns the words of LLVM for a file without a valid ELF header. LLVM does not compare
// the first bytes of the file; the words for a file that differs only in them are those for its class.
func elfHeader(e *devicelink.HeaderError) string {
	size := elf.HeaderSize
	switch e.Class {
	case elf.Class32:
		size = elf.HeaderSize32
	case elf.Class64:
	default:
		return "Invalid ELF class"
	}
	if e.Order != elf.LittleEndian && e.Order != elf.BigEndian {
		return "Invalid ELF data"
	}
	if e.Size < size {
		return fmt.Sprintf("invalid buffer: the size (%d) is smaller than an ELF header (%d)", e.Size, size)
	}
	return "Invalid ELF class"
}
