package engine

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/ar"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/target"
)

// UnbundleArchiveOptions say what UnbundleArchive takes out of an archive.
type UnbundleArchiveOptions struct {
	Input    string
	Requests []UnbundleRequest // each output is an archive
	Read     ReadOptions

	// Rules say which entries serve which requests.
	Rules target.Rules
	// Trace, if not nil, gets every comparison of an entry with a request.
	Trace func(target.Match)
	// AllowMissing makes an empty archive for a target that no entry serves,
	// instead of failing.
	AllowMissing bool
	// Check refuses members with entries that must not be in one bundle.
	Check bool
}

// NoCodeObjectError reports a target that nothing in an archive serves.
type NoCodeObjectError struct {
	Target  target.ID
	Archive string
	Stored  []string // the entry IDs in the archive, sorted
}

// Error returns the words of clang-offload-bundler.
func (e *NoCodeObjectError) Error() string {
	return fmt.Sprintf("no compatible code object found for the target '%s' in heterogeneous archive library: %s", e.Target, e.Archive)
}

// UnbundleArchive makes an archive for each target, of all entries in the members
// of an archive that serve the target. Text bundles and members that are no
// bundles are passed over. The targets must have passed target.CheckTargets.
//
// Errors are those of Unbundle, but a *NoCodeObjectError for a target that
// nothing serves, a *MemberConflictError with Check, and an *ar.FormatError for a
// damaged archive.
func (s *Session) UnbundleArchive(ctx context.Context, opt UnbundleArchiveOptions) error {
	f, err := s.openBundles(ctx, opt.Input, bundle.ArchiveType, opt.Read)
	if err != nil {
		return err
	}
	defer f.Close()
	var picks []pick
	var stored []string
	for source, err := range f.Sources() {
		opt.Read.tell(source)
		if err == nil && opt.Check {
			err = checkMember(ctx, source, opt.Input)
		}
		if err != nil {
			return err
		}
		for _, e := range source.BundlerOrder() {
			if e.BadID != nil {
				return nameError(e.Place.String(), badEntry(e))
			}
			stored = append(stored, e.ID)
			if requests := opt.requests(e); requests != nil {
				picks = append(picks, pick{image: e, requests: requests})
			}
		}
	}
	if err := opt.missing(picks, stored); err != nil {
		return err
	}
	list := make([]*images.DeviceImage, len(picks))
	for i := range picks {
		list[i] = picks[i].image
	}
	contents, err := f.Load(ctx, list...)
	if err != nil {
		return err
	}
	defer contents.Close()
	err = s.budget.Each(ctx, len(picks), func(_ context.Context, i int) error {
		picks[i].member = ar.NewMember{Name: deviceMemberName(picks[i].image), Data: contents.Get(i)}
		index(&picks[i].member)
		return nil
	})
	if err != nil {
		return err
	}
	return s.writeArchives(ctx, picks, opt.Requests)
}

// pick is an entry that serves requests.
type pick struct {
	image    *images.DeviceImage
	requests []int // their numbers
	member   ar.NewMember
}

// requests returns the numbers of the requests that an entry serves.
func (opt *UnbundleArchiveOptions) requests(e *images.DeviceImage) []int {
	var served []int
	for i, request := range opt.Requests {
		m := opt.Rules.Match(e.Target, request.Target)
		if opt.Trace != nil {
			opt.Trace(m)
		}
		if m.Compatible() {
			served = append(served, i)
		}
	}
	return served
}

// deviceMemberName returns the name that an entry of an archive member gets in an
// archive for its device.
func deviceMemberName(e *images.DeviceImage) string {
	name := path.Base(filepath.ToSlash(e.Holder()))
	ext := name[max(strings.LastIndexByte(name, '.'), 0):]
	if !strings.HasPrefix(ext, ".") {
		ext = ""
	}
	stem := strings.TrimSuffix(name, ext)
	switch {
	case strings.Contains(e.Target.TargetID, "gfx"):
		ext = ".bc"
	case strings.Contains(e.Target.TargetID, "sm_"):
		ext = ".cubin"
	}
	return strings.ReplaceAll(stem+"-"+e.ID+stem+ext, ":", "_")
}

// missing reports a request that nothing serves.
func (opt *UnbundleArchiveOptions) missing(picks []pick, stored []string) error {
	if opt.AllowMissing {
		return nil
	}
	served := make([]bool, len(opt.Requests))
	for _, p := range picks {
		for _, i := range p.requests {
			served[i] = true
		}
	}
	for i, request := range opt.Requests {
		if !served[i] {
			slices.Sort(stored)
			return &NoCodeObjectError{Target: request.Target, Archive: opt.Input, Stored: slices.Compact(stored)}
		}
	}
	return nil
}

// writeArchives writes an archive for each request.
func (s *Session) writeArchives(ctx context.Context, picks []pick, requests []UnbundleRequest) error {
	lists := make([][]ar.NewMember, len(requests))
	for _, p := range picks {
		for _, i := range p.requests {
			lists[i] = append(lists[i], p.member)
		}
	}
	return s.write(ctx, func(out *files.Outputs) error {
		outputs := make([]*files.Output, len(requests))
		for i, request := range requests {
			var err error
			if outputs[i], err = out.Create(request.Output); err != nil {
				return err
			}
		}
		return s.budget.Each(ctx, len(requests), func(ctx context.Context, i int) error {
			for _, m := range lists[i] {
				s.meter.expect(m.Data.Len())
			}
			return ar.Write(ctx, s.meter.watch(outputs[i]), lists[i])
		})
	})
}
