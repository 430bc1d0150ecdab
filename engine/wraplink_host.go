package engine

import (
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/files"
)

// hostLink runs the host linker and isolates its result if it is relocatable.
func (w *wrapLink) hostLink(ctx context.Context) error {
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
		return &WrapError{Fault: WrapRelocatable}
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
func (w *wrapLink) isolate(ctx context.Context) error {
	defer w.Phase("Isolate", "")()
	var input *files.Input
	var data []byte
	if !w.DryRun {
		var err error
		if input, err = w.session.files.OpenToReplace(w.Output); err != nil {
			return err
		}
		defer input.Close()
		data = input.Bytes()
	}
	sum := md5.Sum(data)
	suffix := strconv.FormatUint(binary.LittleEndian.Uint64(sum[:]), 16)
	if w.DryRun || w.Verbose {
		w.printIsolation(suffix)
	}
	if w.DryRun {
		return nil
	}
	if err := w.session.isolate(ctx, input, w.Output, suffix); err != nil {
		return errors.Join(err, w.session.files.Remove(w.Output))
	}
	return nil
}
