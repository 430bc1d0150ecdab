package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/check"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// CheckOptions are the options of Check.
type CheckOptions struct {
	Input string // the bundle
	// Entries are all expected entries of the bundle, in order. If empty, any
	// entries are accepted.
	Entries []BundleEntry
	MaxSize int64 // largest size of the file in bytes; 0 for no limit
	Linked  bool  // whether the bundle becomes part of a program
	// DeviceCode requires the images for AMD GPUs to be complete device code.
	DeviceCode bool
	// Report is the file for the list of entries, in JSON; if empty, none is
	// written.
	Report string
}

// Check reads a binary bundle with a second, independent reader and reports what is
// wrong with it. The error joins all faults; with an error, no report is written. The
// warnings name properties of a correct bundle that keep some programs from reading
// it.
func (s *Session) Check(ctx context.Context, opt CheckOptions) (warnings []error, err error) {
	defer guard.Into(&err)()
	err = s.transform(ctx, []string{opt.Input}, func(inputs []*files.Input, out *files.Outputs) error {
		bundle := inputs[0]
		items, contents, err := s.openEntries(opt.Entries)
		defer closeAll(contents)
		if err != nil {
			return err
		}
		checks := check.Options{MaxSize: opt.MaxSize, Linked: opt.Linked, DeviceCode: opt.DeviceCode}
		for i, item := range items {
			checks.Entries = append(checks.Entries, check.Entry{ID: item.ID, Name: opt.Entries[i].Input, Content: item.Content.Mapped(guard.Inside)})
		}
		var result check.Result
		err = guard.Faults(func() error {
			return s.budget.WithBytes(ctx, check.Memory(bundle.Mapped(guard.Inside)), func(context.Context) error {
				result = check.Bundle(bundle.Mapped(guard.Inside), checks)
				return nil
			})
		})
		if err != nil {
			return in(bundle, err)
		}
		for _, list := range [][]error{result.Problems, result.Warnings} {
			for i, problem := range list {
				list[i] = in(bundle, problem)
			}
		}
		warnings = result.Warnings
		if len(result.Problems) > 0 || opt.Report == "" {
			return errors.Join(result.Problems...)
		}
		report, err := out.Create(opt.Report)
		if err != nil {
			return err
		}
		encoder := json.NewEncoder(report)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result.Found)
	})
	return warnings, err
}
