package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/target"
)

// UnbundleRequest asks for the entry that serves a target.
type UnbundleRequest struct {
	Target target.ID
	Output string
}

// UnbundleOptions say what Unbundle takes out of a bundle.
type UnbundleOptions struct {
	Type     FileType
	Input    string
	Requests []UnbundleRequest

	// Rules say which entries serve which requests.
	Rules target.Rules
	// AllowMissing makes an empty file for a target that no entry serves,
	// instead of failing.
	AllowMissing bool
}

// Unbundle writes the entries of a bundle that serve the requests to their
// outputs. The targets must have passed target.CheckTargets.
func (s *Session) Unbundle(ctx context.Context, opt UnbundleOptions) error {
	input, err := s.Files.Open(opt.Input)
	if err != nil {
		return err
	}
	defer input.Close()
	return s.write(ctx, func(out *files.Outputs) error {
		stored, err := readBundle(input)
		if err != nil {
			return err
		}
		entries := make([]target.ID, len(stored))
		for i, entry := range stored {
			entries[i] = entry.target
		}
		requests := make([]target.ID, len(opt.Requests))
		for i, request := range opt.Requests {
			requests[i] = request.Target
		}
		serving := opt.Rules.Serve(entries, requests, nil)

		var missing []string
		outputs := make([]*files.Output, len(requests))
		for i, request := range opt.Requests {
			if serving[i] < 0 && !opt.AllowMissing {
				missing = append(missing, request.Target.String())
				continue
			}
			if outputs[i], err = out.Create(request.Output); err != nil {
				return err
			}
		}
		if missing != nil {
			return in(input, missingError(missing, entries))
		}
		return s.Budget.Each(ctx, len(requests), func(_ context.Context, i int) error {
			if serving[i] < 0 {
				return nil
			}
			entry := stored[serving[i]]
			return outputs[i].Append(input.Content(entry.Offset, entry.Size))
		})
	})
}

// missingError says which requests nothing serves, and what there is.
func missingError(missing []string, entries []target.ID) error {
	stored := make([]string, len(entries))
	for i, entry := range entries {
		stored[i] = entry.Text
	}
	return fmt.Errorf("no entry serves %s; the bundle has %s", strings.Join(missing, ", "), strings.Join(stored, ", "))
}
