package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/llvm/bitcode"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// DeviceDepsOptions are the options of CheckDeviceDeps.
type DeviceDepsOptions struct {
	// Target is the label of the linked target, for messages.
	Target string
	// Objects are bitcode files that are always linked.
	Objects []string
	// Library are bitcode files that are linked only if they define a missing
	// symbol, like members of an archive.
	Library []LibraryObject
	// Output, if not empty, is the name of an empty file to write.
	Output string
}

// LibraryObject is a bitcode file of a library.
type LibraryObject struct {
	File string
	// Label is the label of the library, for messages.
	Label string
}

// CopiedVariableError reports a device link with code from a library that defines a variable. The
// program would contain two copies of the variable: one in the library and one in the linked
// code.
type CopiedVariableError struct {
	Target   string // the label of the linked target
	Library  string // the label of the library
	Variable string // the name of the variable
	Symbol   string // a symbol that the link takes from the library, defined in the same source as the variable
}

// Error names the variable that would exist twice, and the reason.
func (e *CopiedVariableError) Error() string {
	return fmt.Sprintf("variable %s would exist twice: the source in %s that defines it also defines %s, which is linked into %s, and the host sets only the library's copy",
		e.Variable, e.Library, e.Symbol, e.Target)
}

// ErrNotBitcode reports an input that is not LLVM bitcode.
var ErrNotBitcode = errors.New("not LLVM bitcode")

// CheckDeviceDeps returns a [CopiedVariableError] if a device link takes code from a library that
// has variables, because the host sets only the library's copies. For an input that is not bitcode,
// it returns [ErrNotBitcode].
func CheckDeviceDeps(ctx context.Context, s *engine.Session, opt DeviceDepsOptions) error {
	needed := map[string]bool{}
	have := map[string]bool{}
	take := func(globals []bitcode.Global) {
		for _, g := range globals {
			switch {
			case g.Local:
			case g.Defined:
				have[g.Name] = true
				delete(needed, g.Name)
			case !have[g.Name]:
				needed[g.Name] = true
			}
		}
	}
	for _, name := range opt.Objects {
		globals, err := globals(s, name)
		if err != nil {
			return err
		}
		take(globals)
	}
	rest := make([][]bitcode.Global, len(opt.Library))
	for i, object := range opt.Library {
		var err error
		if rest[i], err = globals(s, object.File); err != nil {
			return err
		}
	}
	for taken := true; taken; {
		if err := ctx.Err(); err != nil {
			return err
		}
		taken = false
		for i, globals := range rest {
			wanted := ""
			for _, g := range globals {
				if g.Defined && !g.Local && needed[g.Name] {
					wanted = g.Name
					break
				}
			}
			if wanted == "" {
				continue
			}
			if variable := copied(globals); variable != "" {
				return &CopiedVariableError{Target: opt.Target, Library: opt.Library[i].Label, Variable: variable, Symbol: wanted}
			}
			take(globals)
			rest[i], taken = nil, true
		}
	}
	if opt.Output == "" {
		return nil
	}
	return s.Files().WriteFile(ctx, opt.Output, func(*files.Output) error { return nil })
}

// globals returns the global values of a bitcode file.
func globals(s *engine.Session, name string) ([]bitcode.Global, error) {
	input, err := s.Files().Open(name)
	if err != nil {
		return nil, err
	}
	defer input.Close()
	if data := input.Mapped(guard.Inside); !bitcode.Is(data) {
		return nil, files.NameError(input.Name(), ErrNotBitcode)
	}
	globals, err := bitcode.Globals(bytes.Clone(input.Mapped(guard.Inside)))
	return globals, files.NameError(input.Name(), err)
}

// addressSpaceShared is the address space of AMD GPUs for the memory of a
// workgroup.
const addressSpaceShared = 3

// copied returns the first variable whose second copy would change the
// behaviour of the program.
func copied(globals []bitcode.Global) string {
	for _, g := range globals {
		// The variables with which Clang marks compilation units are never read.
		if g.Variable && g.Defined && !g.Constant && g.AddressSpace != addressSpaceShared && !strings.HasPrefix(g.Name, "__hip_cuid_") {
			return g.Name
		}
	}
	return ""
}
