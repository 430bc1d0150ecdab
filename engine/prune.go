package engine

import (
	"context"
	"errors"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/prune"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// PruneOptions are the options of Prune.
type PruneOptions struct {
	Input, Output string
	// Keep and Drop name entries; at most one of them is set.
	Keep, Drop []string
	// Replace replaces the content of every entry with a given name by a file.
	Replace []PruneReplacement
	// Compress and Decompress change how bundles are stored; at most one is set.
	Compress, Decompress bool
	Level                int // of compression
	// IgnoreMissing turns names in Keep that are missing into warnings, and copies a
	// file without device code.
	IgnoreMissing bool
	// OneOfSeveral means that names that are missing are expected, because another file can have them.
	OneOfSeveral bool
	// KeepEmpty permits that a library, program, object or archive loses all of its device code. The file
	// keeps empty bundles. Without it, and for other files, that is an EmptyError.
	KeepEmpty bool
	// DryRun writes nothing.
	DryRun bool
	// Verify checks that a linked ELF file conforms to the format before the
	// output is committed.
	Verify bool
}

// PruneReplacement is a file with new content for the entries with a name.
type PruneReplacement struct{ Name, File string }

// ErrNoDeviceCode reports a file without device code.
var ErrNoDeviceCode = prune.ErrNoDeviceCode

// EmptyError reports a file of which no device code would remain.
type EmptyError struct {
	Stored []string // the entry IDs in the file, each once
	text   string
}

// Error returns the entries of the file.
func (e *EmptyError) Error() string { return e.text }

// UnsupportedError reports a file of which it is unknown whether it has device code.
type UnsupportedError struct{ Err error }

// Error returns the reason.
func (e *UnsupportedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *UnsupportedError) Unwrap() error { return e.Err }

// pruneError returns an error of package prune with the types of this package.
func pruneError(err error) error {
	if e, ok := errors.AsType[*prune.EmptyError](err); ok {
		return &EmptyError{e.Stored, err.Error()}
	}
	if _, ok := errors.AsType[*prune.UnsupportedError](err); ok {
		return &UnsupportedError{err}
	}
	return err
}

// PruneReport describes the changes to a file. Sizes are in bytes.
type PruneReport struct {
	Input  string `json:"input"`
	Output string `json:"output"`
	// Format is the kind of the file: "elf-shared", "elf-program", "elf-object", "archive", "bundle",
	// "fatbinary", "offload-binary" or "pe"; "none" for a file without device code.
	Format     string        `json:"format"`
	SizeBefore int64         `json:"size_before"`
	SizeAfter  int64         `json:"size_after"`
	Bundles    []PruneBundle `json:"bundles"`
	Warnings   []string      `json:"warnings"`
}

// PruneBundle describes the changes to a bundle. Sizes are stored sizes in bytes; Kept, Dropped and
// Replaced are entry IDs.
type PruneBundle struct {
	Index            int      `json:"index"`
	Member           string   `json:"member"`  // of an archive
	Section          string   `json:"section"` // of an object
	CompressedBefore bool     `json:"compressed_before"`
	CompressedAfter  bool     `json:"compressed_after"`
	SizeBefore       int64    `json:"size_before"`
	SizeAfter        int64    `json:"size_after"`
	Kept             []string `json:"kept"`
	Dropped          []string `json:"dropped"`
	Replaced         []string `json:"replaced"`
}

// Architectures returns the target IDs of the device code that was kept, and of all device code of the
// file before, in file order.
func (r *PruneReport) Architectures() (kept, all []string) {
	type member struct {
		list *[]string
		name string
	}
	seen := make(map[member]bool)
	add := func(list *[]string, id string) {
		name := id
		if parsed, err := target.Parse(id); err == nil && parsed.TargetID != "" {
			name = parsed.TargetID
		} else if _, arch, ok := strings.Cut(id, "--"); ok {
			name = arch
		}
		host := id == string(target.Host) || strings.HasPrefix(id, string(target.Host)+"-")
		if is := (member{list, name}); !host && !seen[is] {
			seen[is], *list = true, append(*list, name)
		}
	}
	for _, b := range r.Bundles {
		for _, id := range b.Kept {
			add(&kept, id)
			add(&all, id)
		}
		for _, id := range b.Dropped {
			add(&all, id)
		}
	}
	return kept, all
}

// Prune writes a copy of a file with device code removed, replaced, or
// compressed differently.
func (s *Session) Prune(ctx context.Context, opt PruneOptions) (report PruneReport, err error) {
	defer guard.Into(&err)()
	input, err := s.files.Open(opt.Input)
	if err != nil {
		return report, err
	}
	defer input.Close()
	err = s.write(ctx, func(out *files.Outputs) error {
		report, err = s.PruneFile(ctx, input, out, opt)
		return err
	})
	return report, err
}

// PruneFile is Prune for a file that is open, and for outputs that appear together. It ignores Input of the
// options.
func (s *Session) PruneFile(ctx context.Context, input *files.Input, out *files.Outputs, opt PruneOptions) (report PruneReport, err error) {
	defer guard.Into(&err)()
	o, replacements, err := s.pruneOptions(&opt)
	defer closeAll(replacements)
	if err != nil {
		return report, err
	}
	return s.pruneTo(ctx, input, out, opt.Output, o, opt.Verify)
}

// pruneOptions opens the replacements of a call.
func (s *Session) pruneOptions(opt *PruneOptions) (o prune.Options, replacements []*files.Input, err error) {
	o = prune.Options{
		Keep: opt.Keep, Drop: opt.Drop, Compress: opt.Compress, Decompress: opt.Decompress, Level: opt.Level,
		IgnoreMissing: opt.IgnoreMissing, OneOfSeveral: opt.OneOfSeveral, KeepEmpty: opt.KeepEmpty, DryRun: opt.DryRun, Budget: s.budget,
	}
	for _, r := range opt.Replace {
		file, err := s.files.Open(r.File)
		if err != nil {
			return o, replacements, err
		}
		replacements = append(replacements, file)
		o.Replace = append(o.Replace, prune.Replacement{Name: r.Name, Content: file.All()})
	}
	return o, replacements, nil
}

// pruneTo writes one file of a transaction.
func (s *Session) pruneTo(ctx context.Context, input *files.Input, out *files.Outputs, output string, o prune.Options, verify bool) (report PruneReport, err error) {
	work, err := prune.Open(ctx, input.All(), o)
	if errors.Is(err, prune.ErrNoDeviceCode) && o.IgnoreMissing {
		return s.copyTo(input, out, output, "no device code in the file", o.DryRun)
	}
	if err != nil {
		return report, in(input, pruneError(err))
	}
	defer work.Close()
	layout, err := work.Layout(ctx)
	if err != nil {
		return report, in(input, err)
	}
	r := work.Report(layout)
	report = PruneReport{
		Input: input.Name(), Output: output, Format: r.Format, SizeBefore: r.SizeBefore, SizeAfter: r.SizeAfter,
		Bundles: []PruneBundle{}, Warnings: r.Warnings,
	}
	for _, b := range r.Bundles {
		report.Bundles = append(report.Bundles, PruneBundle(b))
	}
	if o.DryRun {
		return report, nil
	}
	return report, s.writeLinked(input, out, output, layout, verify && work.Linked())
}

// copyTo copies a file without changes.
func (s *Session) copyTo(input *files.Input, out *files.Outputs, output, why string, dryRun bool) (PruneReport, error) {
	report := PruneReport{
		Input: input.Name(), Output: output, Format: "none", SizeBefore: input.Size(), SizeAfter: input.Size(),
		Bundles: []PruneBundle{}, Warnings: []string{why},
	}
	if dryRun {
		return report, nil
	}
	_, err := out.WriteFile(output, func(w *files.Output) error {
		w.KeepMode(input.Mode())
		return w.Append(input.All())
	})
	return report, err
}
