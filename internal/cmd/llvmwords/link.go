package llvmwords

import (
	"fmt"
	"path/filepath"

	"github.com/rules-offload/rules_offload/engine"
)

// Link returns the words of clang-linker-wrapper for a fault of a link, without
// the details.
func Link(e *engine.WrapError) string {
	switch e.Fault {
	case engine.WrapNoLinker:
		return "linker path missing, must pass 'linker-path'"
	case engine.WrapHost:
		return fmt.Sprintf("No available targets are compatible with triple %q", e.Subject)
	case engine.WrapMixedSYCL:
		return "Linking images of SYCL offload kind with images of any other kind is not supported"
	case engine.WrapKind:
		return e.Subject + " bundling is not supported"
	case engine.WrapDeviceLink:
		return fmt.Sprintf("'%s' failed", filepath.Base(e.Subject))
	case engine.WrapBundle:
		return "'clang-offload-bundler' failed"
	case engine.WrapSeveralBundles:
		return "Expected a single bundled image for direct fat binary output"
	case engine.WrapRelocatable:
		return "Relocatable linking is not supported on COFF targets"
	}
	return e.Error()
}
