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
	"github.com/rules-offload/rules_offload/installed/rocmdata"
	"github.com/rules-offload/rules_offload/installed/wheel"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// SplitWheelOptions are the options of SplitWheel.
type SplitWheelOptions struct {
	Input, OutputDir string
	// Families are the GPUs that share a wheel. Each other GPU has its own.
	Families []WheelFamily
	// DeviceName is the name of the projects of device wheels without the GPU; it must end in
	// "-device". If empty, it is derived from the name of the input.
	DeviceName string
	// Requires are requirements of each device wheel, in which @GFXARCH@ stands for its GPUs: with
	// math-device-@GFXARCH@==7.2, the device wheel for gfx942 requires math-device-gfx942==7.2.
	Requires []string
	engine.SplitSettings
	// Modified is the time of new members; if zero, they have that of METADATA.
	Modified time.Time
}

// WheelFamily names GPUs that share a device wheel. Archs are names of processors.
type WheelFamily struct {
	Name  string
	Archs []string
}

// SplitWheelReport describes what SplitWheel wrote.
type SplitWheelReport struct {
	Input   string      `json:"input"`
	Host    WheelFile   `json:"host"`
	Devices []WheelFile `json:"devices"`
	// Libraries are the members whose code is in device wheels.
	Libraries []string `json:"libraries"`
	// Data are the members for one GPU or family that are in device wheels.
	Data []string `json:"data"`
	// Removed are the members for GPUs that are not in Archs.
	Removed    []string `json:"removed"`
	SizeBefore int64    `json:"size_before"`
	Warnings   []string `json:"warnings"`
}

// archPlaceholder stands for a GPU in requirements, as in ROCm.
const archPlaceholder = "@GFXARCH@"

// deviceWheel is a wheel with device code to write.
type deviceWheel struct {
	wheel.Device
	archs []string
	// family is the family that the wheel has data for, such as gfx11xx, or "".
	family string
	gpus   []string // the processors that the wheel is for, if family is ""
	parts  []devicePart
}

// devicePart is a file in a device wheel.
type devicePart struct {
	prefix, rel string        // installation scheme and path there, see wheel.Wheel.Scheme
	file        string        // temporary
	member      *wheel.Member // of the input, if file is ""
}

// SplitWheel writes a host wheel, which is the input without device code, and a wheel with kpack
// archives for each GPU or family. The device wheels require the version of the host wheel, which has
// an extra for each of them.
func SplitWheel(ctx context.Context, s *engine.Session, opt SplitWheelOptions) (report SplitWheelReport, err error) {
	defer guard.Into(&err)()
	report = SplitWheelReport{Input: opt.Input, Devices: []WheelFile{}, Libraries: []string{}, Data: []string{}, Removed: []string{}, Warnings: []string{}}
	err = writeWheels(ctx, s, opt.OutputDir, opt.Modified, func(w *wheels) error {
		in, err := w.open(opt.Input)
		if err != nil {
			return err
		}
		report.SizeBefore = in.file.Size()
		split := &wheelSplit{wheels: w, in: in, opt: &opt, report: &report, replaced: make(map[string]string), moved: make(map[string]bool)}
		return split.run(ctx)
	})
	return report, err
}

// wheelSplit is the work of SplitWheel.
type wheelSplit struct {
	*wheels
	in       *wheelInput
	opt      *SplitWheelOptions
	report   *SplitWheelReport
	devices  []*deviceWheel
	replaced map[string]string // temporary files by member
	moved    map[string]bool   // members that the host wheel does not have
}

func (w *wheelSplit) run(ctx context.Context) error {
	if len(w.in.Metadata.Devices()) > 0 {
		return w.in.named(fmt.Errorf("the wheel is already split: it has extras for %s; merge it first", w.in.Metadata.Devices()[0].Project))
	}
	if name := w.opt.DeviceName; name == "" {
		w.opt.DeviceName = wheel.Normalize(w.in.Metadata.Get("Name")) + "-device"
	} else if !wheel.ValidName(name) || !strings.HasSuffix(wheel.Normalize(name), "-device") {
		return fmt.Errorf("device name %q: expected the name of a project that ends in -device", name)
	}
	if err := w.checkFamilies(); err != nil {
		return err
	}
	fat, err := w.libraries(ctx)
	if err != nil {
		return err
	}
	w.data(fat)
	prefixes := w.in.schemes(func(m *wheel.Member) bool { return fat[m.Name] })
	if len(prefixes)+len(w.moved) == 0 {
		return w.in.named(errors.New("no library or program in the wheel has device code to split, and no file is for one GPU"))
	}
	for _, prefix := range prefixes {
		if err := w.splitScheme(ctx, prefix, fat); err != nil {
			return err
		}
	}
	return w.write(ctx)
}

// checkFamilies checks the names of families.
func (w *wheelSplit) checkFamilies() error {
	seen := make(map[string]string)
	for _, f := range w.opt.Families {
		if !wheel.ValidName(f.Name) || len(f.Archs) == 0 {
			return fmt.Errorf("family %q: expected a name of letters and digits, and its GPUs", f.Name)
		}
		for _, arch := range f.Archs {
			if other, ok := seen[arch]; ok {
				return fmt.Errorf("%s is in the families %s and %s", arch, other, f.Name)
			}
			seen[arch] = f.Name
		}
	}
	return nil
}

// libraries writes the libraries and programs with HIP code to temporary files.
func (w *wheelSplit) libraries(ctx context.Context) (map[string]bool, error) {
	names, err := w.unpackELF(ctx, w.in)
	if err != nil {
		return nil, err
	}
	fat := make(map[string]bool)
	for _, name := range names {
		file := w.place(w.in, name)
		input, err := w.temp.Files().OpenRegular(file)
		if err != nil {
			return nil, err
		}
		has, unknown := kpack.Splittable(input.All())
		input.Close()
		prefix, _ := w.in.Scheme(name)
		switch scheme := path.Base(prefix); {
		case has && (scheme == "scripts" || scheme == "headers"):
			unknown = "it has device code, but is not installed beside libraries"
		case has:
			fat[name] = true
			continue
		}
		if unknown != "" {
			w.report.Warnings = append(w.report.Warnings, fmt.Sprintf("%s: %s is copied: %s", w.in.file.Name(), name, unknown))
		}
		if err := w.forget(file); err != nil {
			return nil, err
		}
	}
	return fat, nil
}

// data moves the files for one GPU or family to its device wheel.
func (w *wheelSplit) data(fat map[string]bool) {
	selected := Selection{Keep: w.opt.Archs}
	for _, m := range w.in.Members {
		prefix, rel := w.in.Scheme(m.Name)
		if scheme := path.Base(prefix); m.IsDir() || fat[m.Name] || scheme == "scripts" || scheme == "headers" || strings.HasPrefix(m.Name, w.in.DistInfo+"/") {
			continue
		}
		gpu := rocmdata.GPU(rel)
		if gpu == "" {
			continue
		}
		w.moved[m.Name] = true
		if !selected.Data(gpu) {
			w.report.Removed = append(w.report.Removed, m.Name)
			continue
		}
		w.report.Data = append(w.report.Data, m.Name)
		d := w.device(gpu)
		d.parts = append(d.parts, devicePart{prefix: prefix, rel: rel, member: m})
		if !slices.ContainsFunc(d.archs, func(arch string) bool { return withoutFeatures(arch) == withoutFeatures(gpu) }) {
			d.archs = append(d.archs, withoutFeatures(gpu))
		}
	}
}

// splitScheme splits the libraries of an installation scheme.
func (w *wheelSplit) splitScheme(ctx context.Context, prefix string, fat map[string]bool) error {
	tree := w.in.tree(prefix)
	top, first := "", true
	for _, m := range w.in.Members {
		if p, rel := w.in.Scheme(m.Name); p == prefix && fat[m.Name] {
			dir, _, inside := strings.Cut(rel, "/")
			if !inside || !first && dir != top {
				dir = "."
			}
			top, first = dir, false
		}
	}
	dir := path.Join(top, ".kpack")
	report, err := SplitTree(ctx, w.temp, engine.KpackSplitOptions{
		Input: tree, Output: "split/" + tree, Dir: dir, Group: wheel.Escape(w.in.Metadata.Get("Name")), SplitSettings: w.opt.SplitSettings,
	})
	if err != nil {
		return err
	}
	w.report.Warnings = append(w.report.Warnings, report.Warnings...)
	for _, f := range report.Files {
		member := prefix + strings.TrimPrefix(f.Input, tree+"/")
		w.replaced[member] = f.Output
		w.report.Libraries = append(w.report.Libraries, member)
	}
	for _, a := range report.Archives {
		d := w.device(a.Arch)
		if !slices.Contains(d.archs, a.Arch) {
			d.archs = append(d.archs, a.Arch)
		}
		rel := strings.TrimPrefix(a.File, "split/"+tree+"/")
		d.parts = append(d.parts, devicePart{prefix: prefix, rel: rel, file: a.File})
	}
	return nil
}

// device returns the device wheel for a target ID or a family of GPUs.
func (w *wheelSplit) device(gpu string) *deviceWheel {
	processor := withoutFeatures(gpu)
	all := processors(processor)
	suffix, extras := processor, []string{processor, "device-" + processor}
	for _, f := range w.opt.Families {
		in := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return !slices.Contains(f.Archs, p) })
		switch {
		case len(in) == 0:
		case len(all) > 1 && len(in) == len(all):
			extras = nil // those of the processors of the family
			fallthrough
		case len(all) == 1:
			suffix = f.Name
			extras = append(extras, f.Name, "device-"+f.Name)
		}
	}
	project := wheel.Normalize(w.opt.DeviceName + "-" + suffix)
	i := slices.IndexFunc(w.devices, func(d *deviceWheel) bool { return d.Project == project })
	if i < 0 {
		i = len(w.devices)
		w.devices = append(w.devices, &deviceWheel{Device: wheel.Device{Project: project}})
	}
	d := w.devices[i]
	switch {
	case suffix == processor && len(all) > 1:
		d.family = processor
	case len(all) == 1 && !slices.Contains(d.gpus, processor):
		d.gpus = append(d.gpus, processor)
	}
	d.addExtras(extras)
	return d
}

// addExtras adds extras that the wheel does not have.
func (d *deviceWheel) addExtras(extras []string) {
	for _, extra := range extras {
		if extra = wheel.Normalize(extra); !slices.Contains(d.Extras, extra) {
			d.Extras = append(d.Extras, extra)
		}
	}
}

// shareFamilies adds the extras of the GPUs of a family to the wheel with data for it: those that have a
// wheel of their own, or else all.
func (w *wheelSplit) shareFamilies() {
	for _, d := range w.devices {
		if d.family == "" {
			continue
		}
		found := false
		for _, other := range w.devices {
			if slices.ContainsFunc(other.gpus, func(p string) bool { return rocmdata.InFamily(p, d.family) }) {
				d.addExtras(other.Extras)
				found = true
			}
		}
		for _, p := range processors(d.family) {
			if !found {
				d.addExtras([]string{p, "device-" + p})
			}
		}
	}
}

// write writes the wheels.
func (w *wheelSplit) write(ctx context.Context) (err error) {
	w.shareFamilies()
	var devices []wheel.Device
	for _, d := range w.devices {
		file, err := w.writeDevice(d)
		if err != nil {
			return err
		}
		w.report.Devices = append(w.report.Devices, file)
		devices = append(devices, d.Device)
	}
	for _, d := range w.devices {
		devices = append(devices, wheel.Device{Project: d.Project, Extras: []string{"device-all"}})
	}
	w.in.Metadata.AddDevices(devices)
	w.report.Host, err = w.change(ctx, w.in, wheelChange{replaced: w.replaced, drop: func(m *wheel.Member) bool { return w.moved[m.Name] }}, &w.report.Warnings)
	return err
}

// writeDevice writes a device wheel.
func (w *wheelSplit) writeDevice(d *deviceWheel) (WheelFile, error) {
	report := WheelFile{Project: d.Project, Archs: d.archs, Extras: d.Extras}
	name := w.in.Name
	name.Distribution = wheel.Escape(d.Project)
	stem := name.Distribution + "-" + name.Version
	info, modified := stem+".dist-info", w.time(w.in)
	var err error
	report.File, report.Size, err = w.create(name, func(to *wheel.Writer) error {
		for _, part := range d.parts {
			full := part.rel
			if part.prefix != "" {
				full = stem + ".data/" + path.Base(part.prefix) + "/" + part.rel
			}
			if part.member != nil {
				if err := to.Copy(w.in.Wheel, part.member, full); err != nil {
					return err
				}
				continue
			}
			input, err := w.read(part.file)
			if err != nil {
				return err
			}
			if err := to.Store(full, modified, input.All()); err != nil {
				return err
			}
		}
		if err := to.Deflate(info+"/METADATA", modified, w.deviceMetadata(d).Bytes()); err != nil {
			return err
		}
		if err := to.Deflate(info+"/WHEEL", modified, w.deviceInfo().Bytes()); err != nil {
			return err
		}
		return to.Close(info, modified)
	})
	return report, err
}

// deviceMetadata returns the METADATA of a device wheel.
func (w *wheelSplit) deviceMetadata(d *deviceWheel) *wheel.Headers {
	host, h := w.in.Metadata, &wheel.Headers{}
	h.Add("Metadata-Version", wheel.WithExtras(host.Get("Metadata-Version")))
	h.Add("Name", d.Project)
	h.Add("Version", host.Get("Version"))
	h.Add("Summary", fmt.Sprintf("Device code of %s for %s", host.Get("Name"), strings.Join(d.archs, ", ")))
	h.Copy(host, "Home-page", "Project-URL", "Author", "Author-email", "License", "License-Expression", "Requires-Python")
	h.Add("Requires-Dist", wheel.Normalize(host.Get("Name"))+"=="+host.Get("Version"))
	for _, r := range w.opt.Requires {
		if !strings.Contains(r, archPlaceholder) {
			h.Add("Requires-Dist", r)
			continue
		}
		for _, gpu := range d.gpus {
			h.Add("Requires-Dist", strings.ReplaceAll(r, archPlaceholder, gpu))
		}
	}
	return h
}

// deviceInfo returns the file WHEEL of a device wheel, which has the tags of the host wheel.
func (w *wheelSplit) deviceInfo() *wheel.Headers {
	h := &wheel.Headers{}
	h.Copy(w.in.Info, "Wheel-Version")
	h.Add("Generator", "offload")
	h.Copy(w.in.Info, "Root-Is-Purelib", "Tag", "Build")
	return h
}
