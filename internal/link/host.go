package link

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/register"
)

// hostLink runs the host linker and isolates its result if it is relocatable.
func (w *linker) hostLink(ctx context.Context) error {
	command := slices.Concat([]string{w.Linker}, w.LinkerArgs[:w.ObjectsAt], w.objects, w.LinkerArgs[w.ObjectsAt:])
	w.print(command)
	if !w.DryRun {
		end := w.Phase("Link host", filepath.Base(w.Linker))
		err := w.runProgram(ctx, command, true)
		end()
		if err != nil {
			return err
		}
	}
	if !w.Relocatable {
		return nil
	}
	if target.ParseTriple(target.Normalize(w.HostTriple, 4)).Format == "coff" {
		return &Error{Fault: NotELF}
	}
	return w.isolate(ctx)
}

// isCOFFLinker reports whether a linker reads response files with Windows
// quoting.
func isCOFFLinker(program string) bool {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	return name == "link" || strings.HasPrefix(name, "lld-link")
}

// isolate moves the offload entries of a relocatable object to a separate
// section, in place.
func (w *linker) isolate(ctx context.Context) error {
	defer w.Phase("Isolate", "")()
	if w.DryRun {
		w.printIsolation(register.Suffix(nil))
		return nil
	}
	input, err := w.files.OpenToReplace(w.Output)
	if err != nil {
		return err
	}
	defer input.Close()
	suffix := register.Suffix(input.Bytes())
	if w.Verbose {
		w.printIsolation(suffix)
	}
	if err := isolate(ctx, w.files, input, IsolateOptions{Input: w.Output, Output: w.Output, Suffix: suffix}); err != nil {
		return errors.Join(err, w.files.Remove(w.Output))
	}
	return nil
}
