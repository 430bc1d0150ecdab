package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/internal/prune"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/wheel"
)

// WheelPruneOptions are the options of WheelPrune.
type WheelPruneOptions struct {
	// Inputs are wheels: whole ones, host wheels and device wheels.
	Inputs    []string
	OutputDir string
	// Keep and Drop name targets; one of them is set.
	Keep, Drop []string
	// IgnoreMissing permits names in Keep that no wheel has.
	IgnoreMissing bool
	Verify        bool      // see PruneOptions
	Modified      time.Time // see WheelSplitOptions
}

// WheelPruneReport describes what WheelPrune wrote.
type WheelPruneReport struct {
	Inputs []string    `json:"inputs"`
	Wheels []WheelFile `json:"wheels"`
	// Dropped are the device wheels of which nothing is left; they are not written.
	Dropped []string `json:"dropped"`
	// Files are the members with device code, with the name of their wheel.
	Files    []PruneReport `json:"files"`
	Warnings []string      `json:"warnings"`
}

// WheelPrune writes wheels with less device code: libraries are pruned as in PruneTree, kpack archives
// of other targets are dropped, and so are the extras of a host wheel that install them.
func (s *Session) WheelPrune(ctx context.Context, opt WheelPruneOptions) (report WheelPruneReport, err error) {
	defer guard.Into(&err)()
	report = WheelPruneReport{Inputs: opt.Inputs, Wheels: []WheelFile{}, Dropped: []string{}, Files: []PruneReport{}, Warnings: []string{}}
	err = s.writeWheels(ctx, opt.OutputDir, opt.Modified, func(w *wheels) error {
		p := wheelPrune{wheels: w, opt: &opt, report: &report, seen: []string{}}
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

// wheelPrune is the work of WheelPrune.
type wheelPrune struct {
	*wheels
	opt    *WheelPruneOptions
	report *WheelPruneReport
	seen   []string // target IDs of all code
}

// keeps reports whether code for a target ID is kept.
func (w *wheelPrune) keeps(arch string) bool {
	if !slices.Contains(w.seen, arch) {
		w.seen = append(w.seen, arch)
	}
	selects := func(name string) bool { return prune.Selects(name, arch) }
	if len(w.opt.Keep) > 0 {
		return slices.ContainsFunc(w.opt.Keep, selects)
	}
	return !slices.ContainsFunc(w.opt.Drop, selects)
}

// check reports names that no wheel has.
func (w *wheelPrune) check() error {
	for _, name := range append(slices.Clone(w.opt.Keep), w.opt.Drop...) {
		if slices.ContainsFunc(w.seen, func(arch string) bool { return prune.Selects(name, arch) }) {
			continue
		}
		text := fmt.Sprintf("no code for %s: found %s", name, strings.Join(w.seen, ", "))
		if len(w.opt.Keep) > 0 && !w.opt.IgnoreMissing {
			return fmt.Errorf("%s: %s", strings.Join(w.opt.Inputs, ", "), text)
		}
		w.report.Warnings = append(w.report.Warnings, text)
	}
	return nil
}

// one prunes a wheel.
func (w *wheelPrune) one(ctx context.Context, in *wheelInput) error {
	archives, err := w.archivesOf(ctx, in, memberMayHaveCode)
	if err != nil {
		return err
	}
	var archs []string
	dropped := make(map[string]bool)
	for _, m := range in.Members {
		a := archives[m.Name]
		if a == nil {
			continue
		}
		kept := slices.DeleteFunc(slices.Clone(a.Archs), func(arch string) bool { return !w.keeps(arch) })
		if len(kept) > 0 && len(kept) < len(a.Archs) {
			return in.named(fmt.Errorf("%s has code for %s; expected an archive for each target", m.Name, strings.Join(a.Archs, ", ")))
		}
		dropped[m.Name] = len(kept) == 0
		archs = append(archs, kept...)
	}
	if len(archives) > 0 && len(archs) == 0 {
		w.report.Dropped = append(w.report.Dropped, in.file.Name())
		return nil
	}
	replaced, kept, err := w.pruneMembers(ctx, in)
	if err != nil {
		return err
	}
	extras := w.keepExtras(in)
	if len(archives)+len(kept)+len(extras) == 0 {
		return in.named(fmt.Errorf("no device code in the wheel, and it requires no device wheels"))
	}
	change := wheelChange{replaced: replaced, drop: func(m *wheel.Member) bool { return dropped[m.Name] }}
	file, err := w.change(ctx, in, change, &w.report.Warnings)
	if err != nil {
		return err
	}
	for _, arch := range append(archs, kept...) {
		if !slices.Contains(file.Archs, arch) {
			file.Archs = append(file.Archs, arch)
		}
	}
	file.Extras = append(file.Extras, extras...)
	w.report.Wheels = append(w.report.Wheels, file)
	return nil
}

// pruneMembers prunes the members with device code, and returns the temporary files that replace
// them, and the target IDs that are left.
func (w *wheelPrune) pruneMembers(ctx context.Context, in *wheelInput) (replaced map[string]string, kept []string, err error) {
	replaced = make(map[string]string)
	for _, prefix := range in.schemes(memberMayHaveCode) {
		tree := in.tree(prefix)
		report, err := w.temp.PruneTree(ctx, PruneOptions{
			Input: tree, Output: "pruned/" + tree, Keep: w.opt.Keep, Drop: w.opt.Drop, IgnoreMissing: true, Verify: w.opt.Verify,
		})
		if err != nil {
			return nil, nil, err
		}
		for _, f := range report.Files {
			left, all := f.Architectures()
			if len(all) == 0 {
				continue
			}
			for _, arch := range all {
				w.keeps(arch)
			}
			replaced[prefix+strings.TrimPrefix(f.Input, tree+"/")] = f.Output
			kept = append(kept, left...)
			f.Input, f.Output = in.file.Name()+"/"+strings.TrimPrefix(f.Input, tree+"/"), w.dir+"/"+in.Name.String()+"/"+strings.TrimPrefix(f.Input, tree+"/")
			w.report.Files = append(w.report.Files, f)
		}
	}
	return replaced, kept, nil
}

// memberMayHaveCode reports whether the first bytes of a member are those of a file with device code.
func memberMayHaveCode(m *wheel.Member) bool {
	return slices.ContainsFunc([]string{"\x7fELF", "!<arch>\n", "CCOB", "__CLANG_OFFLOAD_BUNDLE__", "\x10\xff\x10\xad"}, m.Begins)
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
			if arch, ok := targets(extra); ok && w.keeps(arch) {
				needed[d.Project] = true
			}
		}
	}
	in.Metadata.KeepDevices(func(project, extra string) bool {
		arch, ok := targets(extra)
		keep := needed[project] && (!ok || w.keeps(arch))
		if keep && !slices.Contains(extras, extra) {
			extras = append(extras, extra)
		}
		return keep
	})
	return extras
}
