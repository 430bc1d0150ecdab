package engine

import (
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/ar"
)

// unbundleArchive writes an archive for each target with all entries of the
// input's members that match the target. Text bundles and members that are not
// bundles are skipped.
func (s *Session) unbundleArchive(ctx context.Context, opt *UnbundleOptions) error {
	// Open searches the members, in parallel, and visits each: the picker selects the
	// entries that match and loads their contents.
	picker := &picker{opt: opt, members: make(map[*images.Source]*picked)}
	read := opt.Read.options(bundle.ArchiveType)
	read.Visit = picker.visit
	f, err := s.Open(ctx, opt.Input, read)
	if err != nil {
		return err
	}
	defer f.Close()
	members, err := picker.check(ctx, f)
	if err != nil {
		return err
	}
	lists := make([][]ar.NewMember, len(opt.Requests))
	for _, member := range members {
		for _, p := range member.picks {
			for _, i := range p.requests {
				lists[i] = append(lists[i], p.member)
			}
		}
	}
	if err := picker.missing(lists); err != nil {
		return err
	}
	for _, member := range members {
		if member.fault != nil {
			return member.fault
		}
	}
	return s.writeArchives(ctx, lists, opt.Requests)
}

// picker picks entries from members as they are searched.
type picker struct {
	opt    *UnbundleOptions
	served sync.Map // the numbers of the requests that an entry ID matches: string to []int

	mu      sync.Mutex
	members map[*images.Source]*picked
}

// picked holds the entries picked from an archive member.
type picked struct {
	// order lists the entries in the order in which they are visited, up to one
	// with an invalid ID; nil if they are not required after the visit.
	order []*images.DeviceImage
	picks []pick
	fault error // of the contents
}

// pick is an entry that matches requests.
type pick struct {
	requests []int // their numbers
	member   ar.NewMember
}

// visit picks entries from a member.
func (p *picker) visit(ctx context.Context, v *images.Visit) error {
	member := &picked{order: v.Source.BundlerOrder()}
	var list []*images.DeviceImage
	for i, e := range member.order {
		if e.BadID != nil {
			member.order = member.order[:i+1]
			break
		}
		if requests := p.requests(e); requests != nil {
			list = append(list, e)
			member.picks = append(member.picks, pick{requests: requests})
		}
	}
	v.Failed = func(err error) { member.fault = err }
	contents, err := v.Load(ctx, list...)
	if err != nil {
		member.fault = err
	} else {
		for i, content := range contents {
			m := &member.picks[i].member
			m.Name, m.Data = deviceMemberName(list[i]), content
			index(m)
		}
	}
	if !p.requires(v.Source, member.order) {
		member.order = nil
		v.Forget()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members[v.Source] = member
	return nil
}

// requires reports whether check requires the images of a source, with the given order.
func (p *picker) requires(source *images.Source, order []*images.DeviceImage) bool {
	n := len(order)
	return p.opt.Trace != nil || p.opt.Check || n > 0 && order[n-1].BadID != nil || p.opt.Read.Warn != nil && source.Warnings() != nil
}

// check returns what was picked from each member, in the order of the archive, or the first
// fault of a member.
func (p *picker) check(ctx context.Context, f *images.File) (members []*picked, err error) {
	opt := p.opt
	for source, err := range f.Sources() {
		opt.Read.tell(source)
		if err == nil && opt.Check {
			err = checkMember(ctx, source, opt.Input)
		}
		if err != nil {
			return nil, err
		}
		member := p.members[source]
		if opt.Trace != nil {
			opt.trace(member.order)
		}
		if n := len(member.order); n > 0 && member.order[n-1].BadID != nil {
			bad := member.order[n-1]
			return nil, files.NameError(bad.Place.String(), badEntry(bad))
		}
		members = append(members, member)
	}
	return members, nil
}

// requests returns the numbers of the requests that an entry matches.
func (p *picker) requests(e *images.DeviceImage) []int {
	if known, ok := p.served.Load(e.ID); ok {
		return known.([]int)
	}
	var served []int
	for i, request := range p.opt.Requests {
		if p.opt.Rules.Match(e.Target, request.Target).Compatible() {
			served = append(served, i)
		}
	}
	p.served.Store(e.ID, served)
	return served
}

// trace calls Trace with the comparisons of entries with the requests.
func (opt *UnbundleOptions) trace(entries []*images.DeviceImage) {
	for _, e := range entries {
		if e.BadID != nil {
			return
		}
		for _, request := range opt.Requests {
			opt.Trace(opt.Rules.Match(e.Target, request.Target))
		}
	}
}

// deviceMemberName returns the name of an entry of an archive member in the
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

// missing reports a request that no entry matches: its list is empty.
func (p *picker) missing(lists [][]ar.NewMember) error {
	i := slices.IndexFunc(lists, func(list []ar.NewMember) bool { return len(list) == 0 })
	if i < 0 || p.opt.AllowMissing {
		return nil
	}
	var stored []string
	p.served.Range(func(id, _ any) bool {
		stored = append(stored, id.(string))
		return true
	})
	slices.Sort(stored)
	return &MissingError{Targets: []target.ID{p.opt.Requests[i].Target}, Stored: stored, Archive: p.opt.Input}
}

// writeArchives writes an archive for each request.
func (s *Session) writeArchives(ctx context.Context, lists [][]ar.NewMember, requests []UnbundleRequest) error {
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
				s.meter.Expect(m.Data.Len())
			}
			return ar.Write(ctx, s.meter.watch(outputs[i]), lists[i])
		})
	})
}
