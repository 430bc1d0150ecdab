package engine

import (
	"context"
	"errors"
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
	Read     ReadOptions

	// Bundle is which of several bundles in the file to take, from 1; 0 means
	// that the first one that serves a request does.
	Bundle int
	// Rules say which entries serve which requests.
	Rules target.Rules
	// Trace, if not nil, gets every comparison of an entry with a request.
	Trace func(target.Match)
	// AllowMissing makes an empty file for a target that no entry serves,
	// instead of failing. The host target of a file that is no bundle gets that
	// file.
	AllowMissing bool
	// DryRun leaves a host object empty that would be taken out of an object
	// with sections of entries.
	DryRun bool
}

// UnbundleResult tells what Unbundle did.
type UnbundleResult struct {
	// Rewritten is how many outputs are host objects taken out of an object with
	// sections of entries.
	Rewritten int
}

// ErrEntryID says that a stored entry ID is none.
var ErrEntryID = errors.New("invalid entry ID")

// MissingError is targets that no entry of a bundle serves.
type MissingError struct {
	Targets []target.ID
	Stored  []string // the entry IDs of the bundle
}

// Error names the targets and the entries that there are.
func (e *MissingError) Error() string {
	names := make([]string, len(e.Targets))
	for i, t := range e.Targets {
		names[i] = t.String()
	}
	if len(e.Stored) == 0 {
		return fmt.Sprintf("no entry serves %s: the file is no offload bundle, or has no entries", strings.Join(names, ", "))
	}
	return fmt.Sprintf("no entry serves %s; the bundle has %s", strings.Join(names, ", "), strings.Join(e.Stored, ", "))
}

// Unbundle writes the entries of a bundle that serve the requests to their
// outputs. The targets must have passed target.CheckTargets.
func (s *Session) Unbundle(ctx context.Context, opt UnbundleOptions) (UnbundleResult, error) {
	var result UnbundleResult
	if opt.Type == ArchiveType {
		return result, errors.New("an archive is not unbundled into entries, but into archives: use UnbundleArchive")
	}
	input, err := s.Files.Open(opt.Input)
	if err != nil {
		return result, err
	}
	defer input.Close()
	err = s.withContents(ctx, input.Name(), input.All(), opt.Type, opt.Read, func(ctx context.Context, c *contents) error {
		return s.write(ctx, func(out *files.Outputs) error {
			entries, err := opt.choose(c)
			if err != nil {
				return in(input, err)
			}
			outputs := make([]files.Sink, len(entries))
			for i, request := range opt.Requests {
				output, err := out.Create(request.Output)
				if err != nil {
					return err
				}
				outputs[i] = output
				if entries[i] != nil && entries[i].whole {
					result.Rewritten++
					if opt.DryRun {
						entries[i] = nil
					}
				}
			}
			return s.writeEntries(ctx, c.name, entries, outputs)
		})
	})
	return result, err
}

// choose returns the entry for each request, nil for an empty output.
func (opt *UnbundleOptions) choose(c *contents) ([]*storedEntry, error) {
	stored := c.entries
	if opt.Bundle != 0 {
		stored = nil
		for _, e := range c.entries {
			if e.Bundle == opt.Bundle {
				stored = append(stored, e)
			}
		}
		if opt.Bundle > c.bundles {
			return nil, fmt.Errorf("there is no bundle %d: the file has %d", opt.Bundle, c.bundles)
		}
	}
	ids := make([]target.ID, 0, len(stored))
	names := make([]string, len(stored))
	for i, e := range stored {
		names[i] = e.ID
		if e.bad == nil && len(ids) == i {
			ids = append(ids, e.target)
		}
	}
	requests := make([]target.ID, len(opt.Requests))
	for i, request := range opt.Requests {
		requests[i] = request.Target
	}
	serving := opt.Rules.Serve(ids, requests, opt.Trace)

	chosen := make([]*storedEntry, len(requests))
	missing := &MissingError{Stored: names}
	none := true
	for i, k := range serving {
		switch {
		case k >= 0:
			chosen[i], none = &stored[k], false
		case len(ids) < len(stored):
			// Entries behind one without a proper ID are not to be trusted.
			e := stored[len(ids)]
			return nil, fmt.Errorf("entry %q at byte 0x%x: %w: %w", e.ID, e.Offset, ErrEntryID, e.bad)
		default:
			missing.Targets = append(missing.Targets, requests[i])
		}
	}
	if missing.Targets != nil && !opt.AllowMissing {
		return nil, missing
	}
	if none && c.bundles == 0 {
		for i, request := range requests {
			if request.Kind == target.Host {
				chosen[i] = &c.file
			}
		}
	}
	return chosen, nil
}
