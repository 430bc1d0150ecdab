package engine

import (
	"context"
	"crypto/md5"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
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
	var data []byte
	if !w.DryRun {
		// A separate Session, because the result replaces its input.
		own := New(Config{Budget: w.session.budget})
		input, err := own.files.Open(w.Output)
		if err != nil {
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
	own := New(Config{Budget: w.session.budget})
	beside := w.Output + ".isolated"
	defer os.Remove(beside)
	if err := own.Isolate(ctx, IsolateOptions{Input: w.Output, Output: beside, Suffix: suffix}); err != nil {
		return errors.Join(err, os.Remove(w.Output))
	}
	if info, err := os.Stat(w.Output); err == nil {
		os.Chmod(beside, info.Mode().Perm())
	}
	return os.Rename(beside, w.Output)
}
