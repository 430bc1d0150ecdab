package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/target"
)

// UnbundleRequest asks for the entry that serves a target.
type UnbundleRequest struct {
	Target target.ID
	Output string
}

// UnbundleOptions say what Unbundle takes out of a bundle.
type UnbundleOptions struct {
	// Type is the type of Input; "" is bundle.ObjectType.
	Type     bundle.FileType
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

// ErrEntryID reports a stored entry ID that cannot be read.
var ErrEntryID = errors.New("invalid entry ID")

// MissingError reports targets that no entry of a bundle serves.
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
// outputs. The targets must have passed target.CheckTargets. Targets that no
// entry serves give a *MissingError, entry IDs that cannot be read ErrEntryID, an
// unknown type a *bundle.FileTypeError, a damaged compressed bundle a
// *ccob.Error.
func (s *Session) Unbundle(ctx context.Context, opt UnbundleOptions) (UnbundleResult, error) {
	var result UnbundleResult
	if opt.Type == bundle.ArchiveType {
		return result, errors.New("an archive is not unbundled into entries, but into archives: use UnbundleArchive")
	}
	f, err := s.openBundles(ctx, opt.Input, opt.Type, opt.Read)
	if err != nil {
		return result, err
	}
	defer f.Close()
	for source, err := range f.Sources() {
		opt.Read.tell(source)
		if err == nil {
			result, err = s.unbundle(ctx, f, source, opt)
		}
		if err != nil {
			return result, err
		}
	}
	return result, nil
}

// unbundle writes the entries of the only source of a file.
func (s *Session) unbundle(ctx context.Context, f *images.File, source *images.Source, opt UnbundleOptions) (UnbundleResult, error) {
	var result UnbundleResult
	entries, err := opt.choose(source)
	if err != nil {
		return result, nameError(f.Name(), err)
	}
	err = s.write(ctx, func(out *files.Outputs) error {
		var copies []images.Copy
		for i, request := range opt.Requests {
			output, err := out.Create(request.Output)
			if err != nil {
				return err
			}
			if entries[i] == nil {
				continue
			}
			if entries[i].HostObject() {
				result.Rewritten++
				if opt.DryRun {
					continue
				}
			}
			s.meter.expect(entries[i].Size)
			copies = append(copies, images.Copy{Image: entries[i], To: s.meter.watch(output)})
		}
		return f.Copy(ctx, copies)
	})
	return result, err
}

// choose returns the entry for each request, nil for an empty output.
func (opt *UnbundleOptions) choose(source *images.Source) ([]*images.DeviceImage, error) {
	stored := source.BundlerOrder()
	if opt.Bundle != 0 {
		stored = slices.DeleteFunc(stored, func(e *images.DeviceImage) bool { return e.Bundle != opt.Bundle })
		if opt.Bundle > source.NumBundles {
			return nil, fmt.Errorf("there is no bundle %d: the file has %d", opt.Bundle, source.NumBundles)
		}
	}
	ids := make([]target.ID, 0, len(stored))
	names := make([]string, len(stored))
	for i, e := range stored {
		names[i] = e.ID
		if e.BadID == nil && len(ids) == i {
			ids = append(ids, e.Target)
		}
	}
	requests := make([]target.ID, len(opt.Requests))
	for i, request := range opt.Requests {
		requests[i] = request.Target
	}
	serving := opt.Rules.Serve(ids, requests, opt.Trace)

	chosen := make([]*images.DeviceImage, len(requests))
	missing := &MissingError{Stored: names}
	none := true
	for i, k := range serving {
		switch {
		case k >= 0:
			chosen[i], none = stored[k], false
		case len(ids) < len(stored):
			// Entries after one without a proper ID are not to be trusted.
			return nil, badEntry(stored[len(ids)])
		default:
			missing.Targets = append(missing.Targets, requests[i])
		}
	}
	if missing.Targets != nil && !opt.AllowMissing {
		return nil, missing
	}
	if none && source.NumBundles == 0 {
		for i, request := range requests {
			if request.Kind == target.Host {
				chosen[i] = source.Self
			}
		}
	}
	return chosen, nil
}

// badEntry returns the error for an entry without a proper ID.
func badEntry(e *images.DeviceImage) error {
	return fmt.Errorf("entry %q at byte 0x%x: %w: %w", e.ID, e.Offset, ErrEntryID, e.BadID)
}
