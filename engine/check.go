package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/check"
)

// CheckOptions say what Check compares a bundle with.
type CheckOptions struct {
	Input string // the bundle
	// Entries are those that the bundle should have, all of them in order. If
	// there are none, any will do.
	Entries []BundleEntry
	MaxSize int64 // bytes that the file may have; 0 for any
	Linked  bool  // whether it becomes part of a program
	// DeviceCode requires the images of AMD GPUs to be whole device code.
	DeviceCode bool
	// Report is a file for the list of entries, in JSON; "" for none.
	Report string
}

// Check reads a binary bundle back, by a way of its own, and tells what is wrong
// with it: the error joins several if there are. Nothing is written then. The warnings
// name what keeps some programs from reading a bundle that is right.
func (s *Session) Check(ctx context.Context, opt CheckOptions) (warnings []error, err error) {
	bundle, err := s.files.Open(opt.Input)
	if err != nil {
		return nil, err
	}
	defer bundle.Close()
	checks := check.Options{MaxSize: opt.MaxSize, Linked: opt.Linked, DeviceCode: opt.DeviceCode}
	for _, e := range opt.Entries {
		expected := check.Entry{ID: e.Target.String(), Name: e.Input}
		if e.Input != "" {
			input, err := s.files.Open(e.Input)
			if err != nil {
				return nil, err
			}
			defer input.Close()
			expected.Content = input.Bytes()
		}
		checks.Entries = append(checks.Entries, expected)
	}
	err = s.write(ctx, func(out *files.Outputs) error {
		var result check.Result
		err := files.Guard(func() error {
			return s.budget.WithBytes(ctx, check.Memory(bundle.Bytes()), func(context.Context) error {
				result = check.Bundle(bundle.Bytes(), checks)
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
