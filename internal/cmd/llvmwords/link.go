package llvmwords

import (
	"fmt"
	"path/filepath"

	"github.com/rules-offload/rules_offload/internal/link"
)

// Link returns the words of clang-linker-wrapper for a fault of a link, without
// the details.
func Link(e *link.Error) string {
	switch e.Fault {
	case link.NoLinker:
		return "linker path missing, must pass 'linker-path'"
	case link.UnknownHost:
		return fmt.Sprintf("No available targets are compatible with triple %q", e.Subject)
	case link.MixedSYCL:
		return "Linking images of SYCL offload kind with images of any other kind is not supported"
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
	}
	return e.Error()
}
