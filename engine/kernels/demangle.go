package kernels

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// Limits of demangling, for names made to waste time: a mangled name can stand
// for one that is far longer.
const (
	maxMangled       = 32 << 10 // bytes
	maxDemangledPow2 = 16       // 64 KiB
)

// Demangle returns a symbol of C++ or Rust as its source has it, in the style of
// LLVM. Names that are not mangled, and those too long to demangle, stay as
// they are.
func Demangle(name string) (demangled string) {
	if !strings.HasPrefix(name, "_Z") && !strings.HasPrefix(name, "_R") || len(name) > maxMangled {
		return name
	}
	defer func() {
		if recover() != nil { // a name that the demangler does not expect
			demangled = name
		}
	}()
	s, err := demangle.ToString(name, demangle.LLVMStyle, demangle.MaxLength(maxDemangledPow2))
	if err != nil || len(s) >= 1<<maxDemangledPow2 {
		return name
	}
	return s
}
