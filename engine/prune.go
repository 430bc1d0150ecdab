package engine

import (
	"context"
	"errors"

	"github.com/rules-offload/rules_offload/engine/prune"
	"github.com/rules-offload/rules_offload/internal/files"
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
	// DryRun writes nothing.
	DryRun bool
	// Verify checks that a linked ELF file conforms to the format before the
	// output is committed.
	Verify bool
}

// PruneReplacement is a file with new content for the entries with a name.
type PruneReplacement struct{ Name, File string }

// Prune writes a copy of a file with device code removed, replaced, or
// compressed differently.
func (s *Session) Prune(ctx context.Context, opt PruneOptions) (report prune.Report, err error) {
	input, err := s.files.Open(opt.Input)
	if err != nil {
		return report, err
	}
	defer input.Close()
	o, replacements, err := s.pruneOptions(&opt)
	defer closeAll(replacements)
	if err != nil {
		return report, err
	}
	err = s.write(ctx, func(out *files.Outputs) error {
		report, err = s.pruneTo(ctx, input, out, opt.Output, o, opt.Verify)
		return err
	})
	return report, err
}

// pruneOptions opens the replacements of a call.
func (s *Session) pruneOptions(opt *PruneOptions) (o prune.Options, replacements []*files.Input, err error) {
	o = prune.Options{
		Keep: opt.Keep, Drop: opt.Drop, Compress: opt.Compress, Decompress: opt.Decompress, Level: opt.Level,
		IgnoreMissing: opt.IgnoreMissing, DryRun: opt.DryRun, Budget: s.budget,
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
func (s *Session) pruneTo(ctx context.Context, input *files.Input, out *files.Outputs, output string, o prune.Options, verify bool) (report prune.Report, err error) {
	work, err := prune.Open(ctx, input.All(), o)
	if errors.Is(err, prune.ErrNoDeviceCode) && o.IgnoreMissing {
		return s.copyTo(input, out, output, "no device code in the file", o.DryRun)
	}
	if err != nil {
		return report, in(input, err)
	}
	defer work.Close()
	layout, err := work.Layout(ctx)
	if err != nil {
		return report, in(input, err)
	}
	report = work.Report(layout)
	report.Input, report.Output = input.Name(), output
	if o.DryRun {
		return report, nil
	}
	return report, s.writeLinked(input, out, output, layout, verify && work.Linked())
}

// copyTo copies a file without changes.
func (s *Session) copyTo(input *files.Input, out *files.Outputs, output, why string, dryRun bool) (prune.Report, error) {
	report := prune.Report{
		Input: input.Name(), Output: output, Format: "none", SizeBefore: input.Size(), SizeAfter: input.Size(),
		Bundles: []prune.BundleReport{}, Warnings: []string{why},
	}
	if dryRun {
		return report, nil
	}
	w, err := out.Create(output)
	if err != nil {
		return report, err
	}
	w.KeepMode(input.Mode())
	if err := w.Append(input.All()); err != nil {
		return report, err
	}
	return report, w.Close()
}
