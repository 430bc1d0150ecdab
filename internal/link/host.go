package link

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// hostLink runs the host linker and isolates its result if it is relocatable.
func (w *linker) hostLink(ctx context.Context) error {
	command := slices.Concat([]string{w.Linker}, w.LinkerArgs[:w.ObjectsAt], w.objects, w.LinkerArgs[w.ObjectsAt:])
	w.Observer.Command(command)
	if !w.DryRun {
		end := w.Observer.Phase("Link host", filepath.Base(w.Linker))
		err := w.runProgram(ctx, command, true)
		end()
		if err != nil && w.Policy.Failed != nil {
			err = w.Policy.Failed(nil, nil, err)
		}
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
// section.
func (w *linker) isolate(ctx context.Context) error {
	defer w.Observer.Phase("Isolate", "")()
	if w.DryRun {
		w.Observer.Isolated(register.Suffix(nil))
		return nil
	}
	merged := cmp.Or(w.Merged, w.Output)
	input, err := w.files.OpenToReplace(merged)
	if err != nil {
		return err
	}
	defer input.Close()
	opt := IsolateOptions{Input: merged, Output: w.Output}
	if w.Merged == "" {
		opt.Suffix = register.Suffix(input.Mapped(guard.Inside))
		w.Observer.Isolated(opt.Suffix)
	}
	err = isolate(ctx, w.files, input, opt)
	if err != nil && w.Merged == "" {
		err = errors.Join(err, w.files.Remove(w.Output))
	}
	return err
}
