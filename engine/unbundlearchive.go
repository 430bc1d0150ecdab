package engine

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/ar"
	"github.com/rules-offload/rules_offload/engine/files"
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

// NoCodeObjectError is a target that nothing in an archive serves.
type NoCodeObjectError struct {
	Target  target.ID
	Archive string
	Stored  []string // the entry IDs in the archive, sorted
}

// Error returns the words of clang-offload-bundler.
func (e *NoCodeObjectError) Error() string {
	return fmt.Sprintf("no compatible code object found for the target '%s' in heterogeneous archive library: %s", e.Target, e.Archive)
}

// picked is what is taken out of one member.
type picked struct {
	entries []pickedEntry
	memory  int64 // bytes of those entries that are not in the archive as they are
	matches []target.Match
	stored  []string // the IDs of all entries
}

type pickedEntry struct {
	number   int   // among the entries of the member
	requests []int // that it serves
	member   ar.NewMember
}

// UnbundleArchive makes an archive for each target, of all entries in the members
// of an archive that serve the target. Text bundles and members that are no
// bundles are passed over. The targets must have passed target.CheckTargets.
func (s *Session) UnbundleArchive(ctx context.Context, opt UnbundleArchiveOptions) error {
	return s.withArchive(opt.Input, func(members []archiveMember) error {
		picks := make([]picked, len(members))
		memory := int64(0)
		err := files.Ordered(ctx, s.Budget, len(members), 4*s.Budget.Cores(), func(ctx context.Context, i int) (picked, error) {
			var p picked
			err := s.withContents(ctx, members[i].path, members[i].data, ArchiveType, opt.Read, func(_ context.Context, c *contents) (err error) {
				if opt.Check {
					if err := checkMember(c, members[i].name, opt.Input); err != nil {
						return err
					}
				}
				p, err = opt.pick(c, members[i].name)
				return nameError(c.name, err)
			})
			return p, err
		}, func(i int, p picked) error {
			for _, m := range p.matches {
				opt.Trace(m)
			}
			picks[i] = p
			memory += p.memory
			return nil
		})
		if err != nil {
			return err
		}
		if err := opt.missing(picks); err != nil {
			return err
		}
		return s.Budget.WithBytes(ctx, memory, func(ctx context.Context) error {
			err := s.Budget.Each(ctx, len(members), func(ctx context.Context, i int) error {
				return s.gather(ctx, &members[i], &picks[i], opt)
			})
			if err != nil {
				return err
			}
			return s.writeArchives(ctx, picks, opt.Requests)
		})
	})
}

// pick chooses the entries of a member that serve a request.
func (opt *UnbundleArchiveOptions) pick(c *contents, name string) (picked, error) {
	var p picked
	for k := range c.entries {
		e := &c.entries[k]
		if e.bad != nil {
			return p, fmt.Errorf("entry %q at byte 0x%x: %w: %w", e.ID, e.Offset, ErrEntryID, e.bad)
		}
		p.stored = append(p.stored, e.ID)
		entry := pickedEntry{number: k}
		for i, request := range opt.Requests {
			m := opt.Rules.Match(e.target, request.Target)
			if opt.Trace != nil {
				p.matches = append(p.matches, m)
			}
			if m.Compatible() {
				entry.requests = append(entry.requests, i)
			}
		}
		if entry.requests == nil {
			continue
		}
		entry.member.Name = deviceMemberName(name, e)
		p.entries = append(p.entries, entry)
		switch {
		case e.whole:
			p.memory += e.content.Len()
		case e.reader != nil || c.decoded:
			p.memory += e.Size
		}
	}
	return p, nil
}

// deviceMemberName returns the name that an entry of an archive member gets in an
// archive for its device.
func deviceMemberName(member string, e *storedEntry) string {
	name := path.Base(filepath.ToSlash(member))
	ext := name[max(strings.LastIndexByte(name, '.'), 0):]
	if !strings.HasPrefix(ext, ".") {
		ext = ""
	}
	stem := strings.TrimSuffix(name, ext)
	switch {
	case strings.Contains(e.target.TargetID, "gfx"):
		ext = ".bc"
	case strings.Contains(e.target.TargetID, "sm_"):
		ext = ".cubin"
	}
	return strings.ReplaceAll(stem+"-"+e.ID+stem+ext, ":", "_")
}

// missing reports a request that nothing serves.
func (opt *UnbundleArchiveOptions) missing(picks []picked) error {
	if opt.AllowMissing {
		return nil
	}
	served := make([]bool, len(opt.Requests))
	for _, p := range picks {
		for _, e := range p.entries {
			for _, i := range e.requests {
				served[i] = true
			}
		}
	}
	for i, request := range opt.Requests {
		if !served[i] {
			var stored []string
			for _, p := range picks {
				stored = append(stored, p.stored...)
			}
			slices.Sort(stored)
			return &NoCodeObjectError{Target: request.Target, Archive: opt.Input, Stored: slices.Compact(stored)}
		}
	}
	return nil
}

// gather gets the contents of picked entries, into memory where they are not in
// the archive as they are, and their symbols.
func (s *Session) gather(ctx context.Context, member *archiveMember, p *picked, opt UnbundleArchiveOptions) error {
	if len(p.entries) == 0 {
		return nil
	}
	opt.Read.Stats = nil // told before
	return s.withContents(ctx, member.path, member.data, ArchiveType, opt.Read, func(ctx context.Context, c *contents) error {
		var entries []*storedEntry
		var sinks []files.Sink
		buffers := make([]files.Buffer, len(p.entries))
		for k := range p.entries {
			e := &c.entries[p.entries[k].number]
			if e.whole || e.reader != nil || c.decoded {
				entries, sinks = append(entries, e), append(sinks, &buffers[k])
			}
		}
		if err := s.writeEntries(ctx, c.name, entries, sinks); err != nil {
			return err
		}
		for k := range p.entries {
			picked := &p.entries[k]
			e := &c.entries[picked.number]
			if e.whole || e.reader != nil || c.decoded {
				picked.member.Data = files.Memory(buffers[k].Bytes())
			} else {
				picked.member.Data = e.content
			}
			index(&picked.member)
		}
		return nil
	})
}

// writeArchives writes an archive for each request.
func (s *Session) writeArchives(ctx context.Context, picks []picked, requests []UnbundleRequest) error {
	lists := make([][]ar.NewMember, len(requests))
	for _, p := range picks {
		for _, e := range p.entries {
			for _, i := range e.requests {
				lists[i] = append(lists[i], e.member)
			}
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
		return s.Budget.Each(ctx, len(requests), func(ctx context.Context, i int) error {
			for _, m := range lists[i] {
				s.Meter.expect(m.Data.Len())
			}
			return ar.Write(ctx, s.Meter.watch(outputs[i]), lists[i])
		})
	})
}
