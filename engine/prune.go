package engine

import (
	"context"
	"errors"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/prune"
)

// PruneOptions say what Prune changes.
type PruneOptions struct {
	Input, Output string
	// Keep and Drop name entries; at most one of them is set.
	Keep, Drop []string
	// Replace gives every entry with a name the content of a file.
	Replace []PruneReplacement
	// Compress and Decompress change how bundles are stored; at most one is set.
	Compress, Decompress bool
	Level                int // of compression
	// IgnoreMissing turns names in Keep that are missing into warnings, and copies a
	// file without device code.
	IgnoreMissing bool
	// DryRun writes nothing.
	DryRun bool
	// Verify checks that a linked ELF file that was written obeys the rules of the
	// format before it appears.
	Verify bool
}

// PruneReplacement is a file with new content for the entries with a name.
type PruneReplacement struct{ Name, File string }

// Prune writes a file with less, other or otherwise compressed device code.
func (s *Session) Prune(ctx context.Context, opt PruneOptions) (report prune.Report, err error) {
	input, err := s.files.Open(opt.Input)
	if err != nil {
		return report, err
	}
	defer input.Close()
	o := prune.Options{
		Keep: opt.Keep, Drop: opt.Drop, Compress: opt.Compress, Decompress: opt.Decompress, Level: opt.Level,
		IgnoreMissing: opt.IgnoreMissing, DryRun: opt.DryRun, Budget: s.budget, Done: s.meter.add,
	}
	for _, r := range opt.Replace {
		file, err := s.files.Open(r.File)
		if err != nil {
			return report, err
		}
		defer file.Close()
		o.Replace = append(o.Replace, prune.Replacement{Name: r.Name, Content: file.All()})
	}
	err = s.write(ctx, func(out *files.Outputs) error {
		report, err = s.pruneTo(ctx, input, out, opt.Output, o, opt.Verify)
		return err
	})
	return report, err
}

// pruneTo writes one file of a transaction.
func (s *Session) pruneTo(ctx context.Context, input *files.Input, out *files.Outputs, output string, o prune.Options, verify bool) (report prune.Report, err error) {
	work, err := prune.Open(ctx, input.All(), o)
	if errors.Is(err, prune.ErrNoDeviceCode) && o.IgnoreMissing {
		report = prune.Report{
			Input: input.Name(), Output: output, Format: "none", SizeBefore: input.Size(), SizeAfter: input.Size(),
			Bundles: []prune.BundleReport{}, Warnings: []string{"no device code in the file"},
		}
		if o.DryRun {
			return report, nil
		}
		w, err := out.Create(output)
		if err != nil {
			return report, err
		}
		w.SetMode(input.Mode())
		return report, w.Append(input.All())
	}
	if err != nil {
		return report, in(input, err)
	}
	defer work.Close()
	err = s.budget.WithBytes(ctx, work.Memory(), func(ctx context.Context) error {
		plan, err := work.Plan(ctx)
		if err != nil {
			return in(input, err)
		}
		report = work.Report(plan)
		report.Input, report.Output = input.Name(), output
		if o.DryRun {
			return nil
		}
		return s.writePlan(input, out, output, plan, verify && work.Linked())
	})
	return report, err
}
