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
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// UnbundleRequest requests the entry for a target.
type UnbundleRequest struct {
	Target target.ID
	Output string
}

// UnbundleOptions are the options of Unbundle.
type UnbundleOptions struct {
	// Type is the type of Input; "" is bundle.ObjectType. Bundle and DryRun have
	// no effect on an archive, and Check has none on other types.
	Type  bundle.FileType
	Input string
	// Requests have the outputs. For an archive, each of them is an archive.
	Requests []UnbundleRequest
	Read     ReadOptions

	// Bundle is the number of the bundle in a file with several, from 1; 0 means
	// that the first bundle with an entry for a request is used.
	Bundle int
	// Rules determine which entries match which requests.
	Rules target.Rules
	// Trace, if not nil, is called with every comparison of an entry and a
	// request.
	Trace func(target.Match)
	// AllowMissing writes an empty file or archive for a target that no entry
	// matches, instead of failing. If the input is neither a bundle nor an archive,
	// its content is written for the host target.
	AllowMissing bool
	// Check rejects members with entries that must not be in one bundle.
	Check bool
	// DryRun writes an empty file instead of a host object extracted from an
	// object with sections of entries.
	DryRun bool
}

// UnbundleResult describes the outputs of Unbundle.
type UnbundleResult struct {
	// Rewritten is the number of outputs that are host objects extracted from an
	// object with sections of entries.
	Rewritten int
}

// ErrEntryID reports a stored entry ID that cannot be read.
var ErrEntryID = errors.New("invalid entry ID")

// MissingError reports targets that no entry of a bundle or an archive matches.
type MissingError struct {
	Targets []target.ID
	Stored  []string // the entry IDs of the bundle or, sorted, of the archive
	Archive string   // the archive that was unbundled; "" for other types
}

// Error lists the targets, and the entries of a bundle.
func (e *MissingError) Error() string {
	if e.Archive != "" {
		return fmt.Sprintf("%s: no entry matches %s", e.Archive, e.Targets[0])
	}
	names := make([]string, len(e.Targets))
	for i, t := range e.Targets {
		names[i] = t.String()
	}
	if len(e.Stored) == 0 {
		return fmt.Sprintf("no entry serves %s: the file is not an offload bundle or has no entries", strings.Join(names, ", "))
	}
	return fmt.Sprintf("no entry serves %s; the bundle has %s", strings.Join(names, ", "), strings.Join(e.Stored, ", "))
}

// Unbundle writes the entries of a bundle that match the requests to their
// outputs. For an archive, it writes archives with all matching entries of all
// members; text bundles and members that are not bundles are skipped. The error is
// that of target.CheckTargets for targets that contradict each other, a
// *MissingError for targets that no entry matches, ErrEntryID for an entry ID that
// cannot be read, a *bundle.FileTypeError for an unknown type, a *ccob.Error for a
// damaged compressed bundle, and a *MemberConflictError with Check. Errors for damaged
// archives have no exported type; their messages say what is wrong.
func (s *Session) Unbundle(ctx context.Context, opt UnbundleOptions) (_ UnbundleResult, err error) {
	defer guard.Into(&err)()
	var result UnbundleResult
	ids := make([]target.ID, len(opt.Requests))
	for i, r := range opt.Requests {
		ids[i] = r.Target
	}
	if err := target.Unbundling.Check(ids); err != nil {
		return result, err
	}
	if opt.Type == bundle.ArchiveType {
		return result, s.unbundleArchive(ctx, &opt)
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
		return result, files.NameError(f.Name(), err)
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
			s.meter.Expect(entries[i].Size)
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
			return nil, fmt.Errorf("no bundle %d: the file has %d", opt.Bundle, source.NumBundles)
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
			// Entries after one with an invalid ID are not reliable.
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

// badEntry returns the error for an entry with an invalid ID.
func badEntry(e *images.DeviceImage) error {
	return fmt.Errorf("entry %q at byte 0x%x: %w: %w", e.ID, e.Offset, ErrEntryID, e.BadID)
}
