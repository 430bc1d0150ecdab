package installation

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/installed/wheel"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// MergeWheelOptions are the options of MergeWheels.
type MergeWheelOptions struct {
	// Inputs are a host wheel and device wheels, in any order.
	Inputs    []string
	OutputDir string
	engine.MergeSettings
	Modified time.Time // see SplitWheelOptions
}

// MergeWheelReport describes what MergeWheels wrote.
type MergeWheelReport struct {
	Inputs []string  `json:"inputs"`
	Wheel  WheelFile `json:"wheel"`
	// Libraries are the members that have their code again.
	Libraries []string `json:"libraries"`
	Warnings  []string `json:"warnings"`
}

// MergeWheels writes one wheel with the code of a host wheel and its device wheels.
func MergeWheels(ctx context.Context, s *engine.Session, opt MergeWheelOptions) (report MergeWheelReport, err error) {
	defer guard.Into(&err)()
	report = MergeWheelReport{Inputs: opt.Inputs, Libraries: []string{}, Warnings: []string{}}
	err = writeWheels(ctx, s, opt.OutputDir, opt.Modified, func(w *wheels) error {
		var all []*wheelInput
		for _, name := range opt.Inputs {
			in, err := w.open(name)
			if err != nil {
				return err
			}
			all = append(all, in)
		}
		host, devices, err := sortWheels(all)
		if err != nil {
			return err
		}
		m := wheelMerge{wheels: w, host: host, devices: devices, opt: &opt, report: &report, stored: make(map[string][]byte), replaced: make(map[string]string)}
		return m.run(ctx)
	})
	return report, err
}

// sortWheels finds the host wheel, and orders the device wheels as in its METADATA.
func sortWheels(all []*wheelInput) (host *wheelInput, devices []*wheelInput, err error) {
	needs := func(in, other *wheelInput) bool {
		return other != in && in.Metadata.Requires(other.Metadata.Get("Name"), other.Metadata.Get("Version"))
	}
	for _, in := range all {
		if slices.ContainsFunc(all, func(other *wheelInput) bool { return needs(in, other) }) {
			devices = append(devices, in)
			continue
		}
		if host != nil {
			return nil, nil, fmt.Errorf("%s and %s: neither requires the exact version of the other; expected one host wheel, and device wheels of its version %s",
				host.file.Name(), in.file.Name(), host.Metadata.Get("Version"))
		}
		host = in
	}
	switch {
	case host == nil:
		return nil, nil, errors.New("each of the wheels requires another one; expected one host wheel")
	case len(devices) == 0:
		return nil, nil, host.named(errors.New("no device wheel for it; name the host wheel and its device wheels"))
	}
	known := host.Metadata.Devices()
	rank := func(in *wheelInput) int {
		i := slices.IndexFunc(known, func(d wheel.Device) bool { return d.Project == wheel.Normalize(in.Metadata.Get("Name")) })
		if i < 0 {
			return len(known)
		}
		return i
	}
	slices.SortStableFunc(devices, func(a, b *wheelInput) int {
		if r := rank(a) - rank(b); r != 0 {
			return r
		}
		return strings.Compare(a.base, b.base)
	})
	for i, d := range devices {
		if i > 0 && d.base == devices[i-1].base {
			return nil, nil, fmt.Errorf("%s and %s are the same wheel", devices[i-1].file.Name(), d.file.Name())
		}
	}
	return host, devices, nil
}

// wheelMerge is the work of MergeWheels.
type wheelMerge struct {
	*wheels
	host     *wheelInput
	devices  []*wheelInput
	opt      *MergeWheelOptions
	report   *MergeWheelReport
	archives []*kpack.Archive
	stored   map[string][]byte // the archives by the names in names, as they are in the wheels
	names    []string
	merger   *engine.Session   // reads temporary files and the archives
	rest     int               // files of device wheels that are not archives
	replaced map[string]string // temporary files by member
}

func (w *wheelMerge) run(ctx context.Context) error {
	libraries, err := w.unpackELF(ctx, w.host)
	if err != nil {
		return err
	}
	archs := []string{}
	for _, d := range w.devices {
		found, err := w.readArchives(ctx, d)
		if err != nil {
			return err
		}
		for _, arch := range found {
			if !slices.Contains(archs, arch) {
				archs = append(archs, arch)
			}
		}
	}
	w.merger = engine.New(engine.Config{Dir: w.tempDir, Contents: w.stored, Budget: w.s.Budget(), Meter: w.s.Meter()})
	for _, name := range libraries {
		if err := w.mergeLibrary(ctx, name); err != nil {
			return err
		}
	}
	if len(w.replaced)+w.rest == 0 {
		return w.host.named(errors.New("no library in the wheel was split; expected a host wheel"))
	}
	w.host.Metadata.KeepDevices(func(string, string) bool { return false })
	change := wheelChange{replaced: w.replaced, add: func(to *wheel.Writer) error {
		for _, d := range w.devices {
			if err := w.copyRest(to, d); err != nil {
				return d.named(err)
			}
		}
		return nil
	}}
	w.report.Wheel, err = w.change(ctx, w.host, change, &w.report.Warnings)
	w.report.Wheel.Archs = archs
	return err
}

// isArchive reports whether a member is a kpack archive, by its name.
func isArchive(m *wheel.Member) bool { return path.Ext(m.Name) == kpack.Extension }

// archivesOf unpacks a wheel, and returns its kpack archives and their bytes by the names of members. It also
// writes the members for which also returns true to temporary files.
func (w *wheels) archivesOf(ctx context.Context, d *wheelInput, also func(m *wheel.Member) bool) (map[string]*kpack.Archive, map[string]content.Content, error) {
	if err := w.unpack(ctx, d, func(m *wheel.Member) string {
		if _, stored := m.Stored(); isArchive(m) && !stored || also(m) {
			return w.place(d, m.Name)
		}
		return ""
	}); err != nil {
		return nil, nil, err
	}
	all, bodies := make(map[string]*kpack.Archive), make(map[string]content.Content)
	for _, m := range d.Members {
		if !isArchive(m) {
			continue
		}
		data, stored := m.Stored()
		if !stored {
			input, err := w.read(w.place(d, m.Name))
			if err != nil {
				return nil, nil, err
			}
			data = input.All()
		}
		a, err := kpack.Parse(data)
		if err != nil {
			return nil, nil, d.named(fmt.Errorf("%s: %w", m.Name, err))
		}
		all[m.Name], bodies[m.Name] = a, data
	}
	return all, bodies, nil
}

// readArchives reads the archives of a device wheel, and returns their target IDs.
func (w *wheelMerge) readArchives(ctx context.Context, d *wheelInput) (archs []string, err error) {
	all, bodies, err := w.archivesOf(ctx, d, func(*wheel.Member) bool { return false })
	if err != nil {
		return nil, err
	}
	for _, m := range d.Members {
		if ownFile(d, m) {
			w.rest++
		}
		if a := all[m.Name]; a != nil {
			w.archives = append(w.archives, a)
			name := d.base + "/" + m.Name
			w.names = append(w.names, name)
			w.stored[name] = bodies[m.Name].Mapped(guard.Inside)
			archs = append(archs, a.Archs...)
		}
	}
	return archs, nil
}

// mergeLibrary puts the code of a library back, if it was split.
func (w *wheelMerge) mergeLibrary(ctx context.Context, member string) error {
	name := w.place(w.host, member)
	input, err := w.temp.Files().OpenRegular(name)
	if err != nil {
		return err
	}
	defer input.Close()
	h, err := kpack.ParseHost(input.All())
	if err != nil { // not split, or not a library that can be
		return w.forget(name)
	}
	w.replaced[member] = "merged/" + name
	w.report.Libraries = append(w.report.Libraries, member)
	if !hasCode(h, w.archives) {
		w.report.Warnings = append(w.report.Warnings, fmt.Sprintf("%s: %s has no device code, because no device wheel has code for %s", w.host.file.Name(), member, h.Name))
	}
	if err := w.makeDirOf(w.replaced[member]); err != nil {
		return err
	}
	return w.merger.KpackMerge(ctx, engine.KpackMergeOptions{
		Input: name, Output: w.replaced[member], Archives: w.names, MayBeEmpty: true, MergeSettings: w.opt.MergeSettings,
	})
}

// hasCode reports whether an archive has code for a library.
func hasCode(h *kpack.Host, archives []*kpack.Archive) bool {
	return slices.ContainsFunc(archives, func(a *kpack.Archive) bool {
		return slices.ContainsFunc(a.Entries, func(e kpack.Entry) bool {
			binary, _, _ := kpack.SplitKey(e.Key)
			return binary == h.Name
		})
	})
}

// ownFile reports whether a member of a device wheel is one of the files that are not kpack archives.
func ownFile(d *wheelInput, m *wheel.Member) bool {
	return !isArchive(m) && !m.IsDir() && !strings.HasPrefix(m.Name, d.DistInfo+"/")
}

// copyRest copies the files of a device wheel that are not kpack archives.
func (w *wheelMerge) copyRest(to *wheel.Writer, d *wheelInput) error {
	for _, m := range d.Members {
		if !ownFile(d, m) {
			continue
		}
		name := m.Name
		if prefix, rel := d.Scheme(m.Name); prefix != "" {
			name = strings.TrimSuffix(w.host.DistInfo, ".dist-info") + ".data/" + path.Base(prefix) + "/" + rel
		}
		if err := to.Copy(d.Wheel, m, name); err != nil {
			return err
		}
	}
	return nil
}
