// Package prune removes, replaces, compresses and decompresses the device code in
// files that are built: shared libraries and programs, objects, archives, bundles, CUDA
// fatbinaries and offload binaries. The type of the file does not change.
//
// [Open] finds the device code and selects the changes; [Work.Layout] computes the new
// file.
package prune

import (
	"context"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/devicecode/cubin"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// ErrNoDeviceCode reports a file without device code.
var ErrNoDeviceCode = errors.New("no device code in the file")

// EmptyError reports a file of which no device code would remain.
type EmptyError struct {
	Stored []string // the entry IDs in the file, each once
}

// Error returns the entries of the file.
func (e *EmptyError) Error() string {
	return fmt.Sprintf("no device code would remain: found %s; keep at least one of them", list(e.Stored))
}

// MissingError reports a target to keep for which there is no entry.
type MissingError struct {
	Name   string   // the target
	Stored []string // the entry IDs in the file, each once
}

// Error returns the missing target and the entries of the file.
func (e *MissingError) Error() string {
	return fmt.Sprintf("no entry for %s: found %s", e.Name, list(e.Stored))
}

// UnsupportedError reports a file that is not supported, so that it is unknown whether
// it has device code.
type UnsupportedError struct{ Err error }

// Error returns the reason.
func (e *UnsupportedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *UnsupportedError) Unwrap() error { return e.Err }

// unsupported wraps an error in an UnsupportedError.
func unsupported(err error) error {
	if err == nil {
		return nil
	}
	return &UnsupportedError{err}
}

// Options select the changes to the device code of a file.
type Options struct {
	// Keep and Drop name entries: processors with all their variants, target IDs with
	// features, or whole entry IDs. At most one of them is set.
	Keep, Drop []string
	Replace    []Replacement
	// Compress and Decompress change how bundles are stored. At most one is set.
	Compress, Decompress bool
	Level                int // of compression, as in clang-offload-bundler
	// IgnoreMissing turns names in Keep that are missing into warnings.
	IgnoreMissing bool
	// OneOfSeveral means that names that are missing are expected: another file can have them.
	OneOfSeveral bool
	// KeepEmpty permits that host code loses all of its device code. Files of device code alone are an
	// EmptyError.
	KeepEmpty bool
	// DryRun computes only the report; compressed sizes are upper bounds.
	DryRun bool
	Budget *budget.Budget
	// Done, if not nil, is called with the numbers of bytes compressed.
	Done func(n int64)

	memory *memory // of the units that are opened; nil to reserve none
}

// Report describes the changes to a file.
type Report struct {
	Format     string
	SizeBefore int64
	SizeAfter  int64
	Bundles    []BundleReport
	Warnings   []string
}

// BundleReport describes the changes to a bundle. Sizes are stored sizes in
// bytes.
type BundleReport struct {
	Index            int
	Member           string
	Section          string
	CompressedBefore bool
	CompressedAfter  bool
	SizeBefore       int64
	SizeAfter        int64
	Kept             []string
	Dropped          []string
	Replaced         []string
}

// Work is a file with device code to change.
type Work struct {
	in     content.Content
	opt    Options
	format string
	units  []*unit
	// order lists the units in the order of reports. A unit that two wrappers
	// point to is listed twice.
	order []*unit
	// build computes the new file from the changed units.
	build    func() (*elfedit.Layout, error)
	warnings []string
	account  *budget.Account // of Open and Layout
	release  []func()
}

func (w *Work) warn(format string, args ...any) {
	w.warnings = append(w.warnings, fmt.Sprintf(format, args...))
}

// Open finds the device code in a file and selects the changes. Memory for what it finds is reserved
// until Close.
func Open(ctx context.Context, in content.Content, opt Options) (*Work, error) {
	opt.memory = &memory{budget: opt.Budget}
	w := &Work{in: in, opt: opt, account: opt.Budget.Account(ctx), release: []func(){opt.memory.release}}
	ctx = w.account.Context(ctx)
	data := in.Mapped(guard.Inside)
	var err error
	switch format := object.Identify(data); {
	case format == object.ELFRelocatable:
		err = w.openObject(ctx)
	case elfedit.Is(data):
		err = w.openLinked(ctx)
	case ar.Is(data):
		err = w.openArchive(ctx)
	case format == object.PE:
		err = w.openPE(ctx)
	default:
		err = w.openContainers(ctx)
	}
	if err == nil {
		err = w.choose()
	}
	if err != nil {
		w.Close()
	}
	return w, err
}

// openContainers finds the device code in a file of offload binaries, bundles or fatbinaries.
func (w *Work) openContainers(ctx context.Context) error {
	switch data := w.in.Mapped(guard.Inside); {
	case offloadbinary.Is(data):
		return w.openOffloadBinaries(ctx)
	case bundle.Is(data), ccob.Is(data):
		return w.openBundles(ctx)
	case cubin.IsFatbinary(data):
		return w.openFatbinaries(ctx)
	}
	return ErrNoDeviceCode
}

// unchanged reports whether the new file is equal to the old one.
func (w *Work) unchanged() bool {
	for _, u := range w.units {
		if u.changes(&w.opt) {
			return false
		}
	}
	return true
}

// Layout computes the new file. Its parts are valid until Close. Memory for decompressed
// bundles is reserved until then.
func (w *Work) Layout(ctx context.Context) (*elfedit.Layout, error) {
	ctx = w.account.Context(ctx)
	if w.unchanged() {
		for _, u := range w.units {
			u.keep()
		}
		return wholeFile(w.in), nil
	}
	for _, u := range w.units {
		release, err := u.rewrite(ctx, &w.opt)
		if release != nil {
			w.release = append(w.release, release)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u.where(), err)
		}
	}
	return w.build()
}

// wholeFile returns the layout that copies a file.
func wholeFile(in content.Content) *elfedit.Layout {
	p := &elfedit.Layout{Size: in.Len()}
	if in.Len() > 0 {
		p.Parts = []content.Part{{Content: in}}
	}
	return p
}

// Close releases the memory of the layout.
func (w *Work) Close() {
	for _, release := range w.release {
		release()
	}
	w.release = nil
}

// Report describes the changes of a layout.
func (w *Work) Report(p *elfedit.Layout) Report {
	r := Report{Format: w.format, SizeBefore: w.in.Len(), SizeAfter: p.Size, Bundles: []BundleReport{}, Warnings: append([]string{}, w.warnings...)}
	for i, u := range w.order {
		b := BundleReport{
			Index: i, Member: u.member, Section: u.section,
			CompressedBefore: u.reader != nil, CompressedAfter: u.compressed,
			SizeBefore: u.stored.Len(), SizeAfter: u.size,
			Kept: []string{}, Dropped: []string{}, Replaced: []string{},
		}
		for _, e := range u.entries {
			if e.drop {
				b.Dropped = append(b.Dropped, e.id)
				continue
			}
			if b.Kept = append(b.Kept, e.id); e.replacement != nil {
				b.Replaced = append(b.Replaced, e.id)
			}
		}
		r.Bundles = append(r.Bundles, b)
	}
	r.Warnings = append(r.Warnings, p.Warnings...)
	if p.Appended > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d bytes after the last section are kept at the end of the file; a signature there is no longer valid", p.Appended))
	}
	return r
}

// hasHostCode reports whether the file has more than device code.
func (w *Work) hasHostCode() bool {
	return w.format != "bundle" && w.format != "fatbinary" && w.format != "offload-binary"
}

// Linked reports whether the file is a shared library or a program.
func (w *Work) Linked() bool { return w.format == "elf-shared" || w.format == "elf-program" }
