package installation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/installed/wheel"
	"github.com/rules-offload/rules_offload/internal/elf/codeobject"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// PruneWheelOptions are the options of PruneWheels.
type PruneWheelOptions struct {
	// Inputs are wheels: whole ones, host wheels and device wheels.
	Inputs    []string
	OutputDir string
	// Keep and Drop name targets; one of them is set.
	Keep, Drop []string
	// IgnoreMissing permits names in Keep that no wheel has.
	IgnoreMissing bool
	// Strict makes it an error that a file loses all of its device code, or cannot be read.
	Strict   bool
	Verify   bool      // see engine.PruneOptions
	Modified time.Time // see SplitWheelOptions
}

// PruneWheelReport describes what PruneWheels wrote.
type PruneWheelReport struct {
	Inputs []string    `json:"inputs"`
	Wheels []WheelFile `json:"wheels"`
	// Dropped are the device wheels of which nothing is left; they are not written.
	Dropped []string `json:"dropped"`
	// Removed are the members that were for dropped GPUs only, and Empty the libraries that lost all of their
	// device code, with the names of their wheels.
	Removed []string `json:"removed"`
	Empty   []string `json:"empty"`
	// Files are the members with device code, with the name of their wheel.
	Files    []engine.PruneReport `json:"files"`
	Warnings []string             `json:"warnings"`
}

// PruneWheels writes wheels with less device code: libraries are pruned as in PruneTree, kpack archives
// of other targets are dropped, and so are the extras of a host wheel that install them.
func PruneWheels(ctx context.Context, s *engine.Session, opt PruneWheelOptions) (report PruneWheelReport, err error) {
	defer guard.Into(&err)()
	report = PruneWheelReport{Inputs: opt.Inputs, Wheels: []WheelFile{}, Dropped: []string{}, Removed: []string{}, Empty: []string{}, Files: []engine.PruneReport{}, Warnings: []string{}}
	err = writeWheels(ctx, s, opt.OutputDir, opt.Modified, func(w *wheels) error {
		p := wheelPrune{wheels: w, opt: &opt, report: &report, Selection: Selection{Keep: opt.Keep, Drop: opt.Drop}}
		for _, name := range opt.Inputs {
			in, err := w.open(name)
			if err == nil {
				err = p.one(ctx, in)
			}
			if err != nil {
				return err
			}
		}
		return p.check()
	})
	return report, err
}

// wheelPrune is the work of PruneWheels.
type wheelPrune struct {
	*wheels
	opt    *PruneWheelOptions
	report *PruneWheelReport
	Selection
}

// check reports names that no wheel has.
func (w *wheelPrune) check() error {
	for _, text := range w.Missing() {
		if len(w.opt.Keep) > 0 && !w.opt.IgnoreMissing {
			return &MissingError{strings.Join(w.opt.Inputs, ", "), text}
		}
		w.report.Warnings = append(w.report.Warnings, text)
	}
	return nil
}

// prunedWheel is what a pruned wheel has different from the input.
type prunedWheel struct {
	replaced map[string]string // temporary files by member
	dropped  map[string]bool   // members
	archs    []string          // target IDs and families that are left
	parts    bool              // whether the input has archives, data or code objects for GPUs
	rest     bool              // whether the input has other files that are installed
}

// one prunes a wheel.
func (w *wheelPrune) one(ctx context.Context, in *wheelInput) error {
	p := &prunedWheel{replaced: make(map[string]string), dropped: make(map[string]bool)}
	archives, _, err := w.archivesOf(ctx, in, func(m *wheel.Member) bool { return mayHaveCode(m.Head(headSize)) && !isArchive(m) })
	if err != nil {
		return err
	}
	for _, m := range in.Members {
		if err := w.member(ctx, in, m, archives[m.Name], p); err != nil {
			return err
		}
	}
	kept, err := w.pruneMembers(ctx, in, p)
	if err != nil {
		return err
	}
	if p.parts && !p.rest && len(p.archs)+len(kept) == 0 {
		w.report.Dropped = append(w.report.Dropped, in.file.Name())
		return nil
	}
	extras := w.keepExtras(in)
	if !p.parts && len(kept)+len(extras)+len(p.replaced)+len(p.dropped) == 0 {
		return in.named(fmt.Errorf("no device code in the wheel, and it requires no device wheels"))
	}
	change := wheelChange{replaced: p.replaced, drop: func(m *wheel.Member) bool { return p.dropped[m.Name] }}
	file, err := w.change(ctx, in, change, &w.report.Warnings)
	if err != nil {
		return err
	}
	for _, m := range in.Members {
		if p.dropped[m.Name] {
			w.report.Removed = append(w.report.Removed, in.file.Name()+"/"+m.Name)
		}
	}
	for _, arch := range append(p.archs, kept...) {
		if !slices.Contains(file.Archs, arch) {
			file.Archs = append(file.Archs, arch)
		}
	}
	file.Extras = append(file.Extras, extras...)
	w.report.Wheels = append(w.report.Wheels, file)
	return nil
}

// member drops a kpack archive, or a file for one GPU or family, if it is for dropped GPUs. Code in other
// files is that of pruneMembers.
func (w *wheelPrune) member(ctx context.Context, in *wheelInput, m *wheel.Member, archive *kpack.Archive, p *prunedWheel) error {
	_, rel := in.Scheme(m.Name)
	var part Part
	switch {
	case m.IsDir() || strings.HasPrefix(m.Name, in.DistInfo+"/"):
		return nil
	case archive != nil:
		part = Part{Archive, archive.Archs}
	default:
		part = Describe(rel, nil, nil)
	}
	if len(part.GPUs) == 0 {
		p.rest = p.rest || !isRawCode(m)
		return nil
	}
	p.parts = true
	kept := w.Keeps(part)
	switch {
	case len(kept) == 0:
		p.dropped[m.Name] = true
	case archive != nil && len(kept) < len(part.GPUs):
		name := "archives/" + w.place(in, m.Name)
		if err := w.makeFile(ctx, name, func(f *files.Output) error { return kpack.Write(f, archive.Keep(kept)) }); err != nil {
			return err
		}
		p.replaced[m.Name] = name
	}
	p.archs = append(p.archs, kept...)
	return nil
}

// isRawCode reports whether a member is a code object or a bundle, without host code.
func isRawCode(m *wheel.Member) bool {
	head := m.Head(headSize)
	return codeobject.Is(head) || bundle.Is(head) || ccob.Is(head) || offloadbinary.Is(head)
}

// pruneMembers prunes the members with device code, and returns the target IDs that are left.
func (w *wheelPrune) pruneMembers(ctx context.Context, in *wheelInput, p *prunedWheel) (kept []string, err error) {
	code := func(m *wheel.Member) bool { return mayHaveCode(m.Head(headSize)) && !isArchive(m) }
	for _, m := range in.Members {
		if code(m) && p.dropped[m.Name] {
			if err := w.forget(w.place(in, m.Name)); err != nil {
				return nil, err
			}
		}
	}
	for _, prefix := range in.schemes(func(m *wheel.Member) bool { return code(m) && !p.dropped[m.Name] }) {
		tree := in.tree(prefix)
		member := func(name string) string { return prefix + strings.TrimPrefix(name, tree+"/") }
		report, err := PruneTree(ctx, w.temp, PruneOptions{Strict: w.opt.Strict, PruneOptions: engine.PruneOptions{
			Input: tree, Output: "pruned/" + tree, Keep: w.opt.Keep, Drop: w.opt.Drop, IgnoreMissing: true, Verify: w.opt.Verify,
		}})
		if err != nil {
			return nil, err
		}
		for _, f := range report.Removed {
			p.dropped[member(f.File)], p.parts = true, true
			for _, id := range f.GPUs {
				w.Saw(id)
			}
		}
		for _, name := range report.Empty {
			w.report.Empty = append(w.report.Empty, in.file.Name()+"/"+member(name))
		}
		for _, text := range report.Warnings {
			if name, why, ok := strings.Cut(text, ": copied: "); ok {
				w.report.Warnings = append(w.report.Warnings, in.file.Name()+"/"+member(name)+": copied: "+why)
			}
		}
		for _, f := range report.Files {
			left, all := f.Architectures()
			if len(all) == 0 {
				continue
			}
			for _, arch := range all {
				w.Saw(arch)
			}
			p.replaced[member(f.Input)] = f.Output
			kept = append(kept, left...)
			f.Input, f.Output = in.file.Name()+"/"+strings.TrimPrefix(f.Input, tree+"/"), w.dir+"/"+in.Name.String()+"/"+strings.TrimPrefix(f.Input, tree+"/")
			w.report.Files = append(w.report.Files, f)
		}
	}
	return kept, nil
}

// keepExtras removes the extras of dropped targets from METADATA, and returns those that remain.
func (w *wheelPrune) keepExtras(in *wheelInput) (extras []string) {
	needed := make(map[string]bool) // projects
	targets := func(extra string) (arch string, ok bool) {
		arch = strings.TrimPrefix(extra, "device-")
		return arch, strings.HasPrefix(arch, "gfx")
	}
	for _, d := range in.Metadata.Devices() {
		for _, extra := range d.Extras {
			if arch, ok := targets(extra); ok && w.Data(arch) {
				needed[d.Project] = true
			}
		}
	}
	in.Metadata.KeepDevices(func(project, extra string) bool {
		arch, ok := targets(extra)
		keep := needed[project] && (!ok || w.Data(arch))
		if keep && !slices.Contains(extras, extra) {
			extras = append(extras, extra)
		}
		return keep
	})
	return extras
}
