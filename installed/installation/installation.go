// Package installation changes what is installed together: the libraries of a directory or of wheels, the
// kpack archives with their code, the data for each GPU that libraries of ROCm search for at run time, and
// the lists of files.
//
// [PruneTree] and [PruneWheels] write installations for fewer GPUs. [SplitTree] and [SplitWheel] put what is
// for one GPU into files and wheels of its own; [MergeWheels] does the reverse. All outputs of a call appear
// together, or none.
package installation

import (
	"bytes"
	"context"
	"errors"
	"syscall"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/installed/rocmdata"
	"github.com/rules-offload/rules_offload/internal/elf/codeobject"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Kind says what a file of an installation is.
type Kind string

// The kinds of files.
const (
	// Archive is a kpack archive: the code of libraries for some targets.
	Archive Kind = "kpack archive"
	// Object is a code object for one target, outside of a bundle.
	Object Kind = "code object"
	// Data is a file for one GPU or family by its name, see rocmdata.GPU. Its content can be device code.
	Data Kind = "data"
	// Other is any other file. It can be a library or a bundle with device code.
	Other Kind = "other"
)

// Part describes a file of an installation.
type Part struct {
	Kind Kind
	// GPUs are the target IDs, or the family, that the file is for; empty for Other.
	GPUs []string
}

// headSize is the number of bytes that Describe needs of a file that is no kpack archive.
const headSize = 64

// Describe describes a file by its path and its first bytes. Of a kpack archive, archs are its targets.
func Describe(name string, head []byte, archs []string) Part {
	switch {
	case kpack.Is(head):
		return Part{Archive, archs}
	case codeobject.Is(head):
		if t, err := codeobject.ParseTarget(head); err == nil && t.Processor != "" {
			return Part{Object, []string{t.ID()}}
		}
	}
	if gpu := rocmdata.GPU(name); gpu != "" {
		return Part{Data, []string{gpu}}
	}
	return Part{Other, nil}
}

// Keeps returns which of the GPUs of a part are kept.
func (s *Selection) Keeps(p Part) (kept []string) {
	for _, gpu := range p.GPUs {
		keep := s.Code
		if p.Kind != Archive {
			keep = s.Data
		}
		if keep(gpu) {
			kept = append(kept, gpu)
		}
	}
	return kept
}

// mayHaveCode reports whether the first bytes of a file are those of a file with device code.
func mayHaveCode(head []byte) bool {
	for _, magic := range []string{"\x7fELF", "!<arch>\n", "CCOB", "__CLANG_OFFLOAD_BUNDLE__", "\x10\xff\x10\xad", "MZ", "\x50\xed\x55\xba"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	return false
}

// ofContent reports whether an error is about the content of a file, and not of the machine: the other files
// can be processed.
func ofContent(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if _, ok := errors.AsType[*budget.LimitError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*guard.LostError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*guard.PanicError](err); ok {
		return false
	}
	_, ok := errors.AsType[syscall.Errno](err)
	return !ok
}
