// Package report writes reports of the device code in files: a self-contained page, a Markdown
// summary for comments, and JSON. The bytes of a report depend only on the files.
package report

import (
	"cmp"
	"fmt"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// Report is the data of a report.
type Report struct {
	Files []*engine.DeviceFile
	// Diff is the difference to an older build, nil without one.
	Diff *kernels.Diff
	// Redundant are the architectures that generic targets can replace, those that save the most
	// first; nil if FindRedundant was not called.
	Redundant []Redundant
}

// Compare sets Diff to the difference between older files and those of the report.
func (r *Report) Compare(old []*engine.DeviceFile) {
	r.Diff = kernels.Compare(engine.ImagesOf(old), engine.ImagesOf(r.Files))
}

// fileNames returns the display names of files.
func fileNames(files []*engine.DeviceFile) []string {
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	return displayNames(names)
}

// displayNames returns the display names of files: relative paths unchanged, outputs of Bazel
// without the directory of their configuration, and absolute paths without their common directories.
func displayNames(names []string) []string {
	all := make([]string, len(names))
	var common []string // directories
	first := true
	for i, name := range names {
		all[i] = path.Clean(name)
		if !path.IsAbs(all[i]) {
			all[i] = withoutConfiguration(all[i])
			continue
		}
		dirs := strings.Split(path.Dir(all[i]), "/")
		if first {
			common, first = dirs, false
			continue
		}
		n := 0
		for n < len(common) && n < len(dirs) && common[n] == dirs[n] {
			n++
		}
		common = common[:n]
	}
	prefix := strings.TrimSuffix(strings.Join(common, "/"), "/") + "/"
	for i, name := range all {
		if path.IsAbs(name) {
			all[i] = strings.TrimPrefix(name, prefix)
		}
	}
	return all
}

// withoutConfiguration returns a path without bazel-out/CONFIGURATION/bin/.
func withoutConfiguration(name string) string {
	if parts := strings.SplitN(name, "/", 4); len(parts) == 4 && parts[0] == "bazel-out" && parts[2] == "bin" {
		return parts[3]
	}
	return name
}

// A bundle is a container of images: a bundle, an offload binary, or a single image.
type bundle struct {
	name  string
	size  int64 // of the images, in bytes
	archs []arch
}

// An arch is the images of a bundle for one architecture.
type arch struct {
	name     string
	size     int64 // of the images, in bytes
	images   int
	sections []kernels.Section // by name, in the order of the images
	kernels  []*kernels.Kernel
	sources  []kernels.Source // of all code, for each image
}

// bundles returns the containers in a file, in the order of the images.
func bundles(f *engine.DeviceFile) []bundle {
	type key struct {
		members, section string
		container        int64
	}
	var list []bundle
	index := map[key]int{}
	for i, e := range f.Found {
		if hostEntry(e) {
			continue
		}
		k := key{strings.Join(e.Members, "\x00"), e.Section, e.Container}
		at, ok := index[k]
		if !ok {
			at = len(list)
			index[k] = at
			list = append(list, bundle{name: bundleName(e)})
		}
		list[at].add(e, &f.Images[i])
	}
	return list
}

// hostEntry reports whether an image is the empty host entry.
func hostEntry(e *images.DeviceImage) bool { return e.Offload == "host" && e.Size == 0 }

// bundleName returns the display name of a container: its form and its place.
func bundleName(e *images.DeviceImage) string {
	where := append(slices.Clone(e.Members), e.Section)
	where = slices.DeleteFunc(where, func(s string) bool { return s == "" })
	return strings.Join(append(where, string(e.Form)+" at 0x"+strconv.FormatInt(e.Container, 16)), " ")
}

// add adds an image to the bundle.
func (b *bundle) add(e *images.DeviceImage, img *kernels.Image) {
	name := archOf(e, img)
	i := slices.IndexFunc(b.archs, func(a arch) bool { return a.name == name })
	if i < 0 {
		i = len(b.archs)
		b.archs = append(b.archs, arch{name: name})
	}
	a := &b.archs[i]
	b.size += e.Size
	a.size += e.Size
	a.images++
	a.sections = addSections(a.sections, img.Sections)
	a.sources = append(a.sources, img.Sources...)
	for k := range img.Kernels {
		a.kernels = append(a.kernels, &img.Kernels[k])
	}
}

// addSections adds the sizes of sections to those of the same names.
func addSections(to, sections []kernels.Section) []kernels.Section {
	for _, s := range sections {
		if k := slices.IndexFunc(to, func(t kernels.Section) bool { return t.Name == s.Name }); k >= 0 {
			to[k].Size += s.Size
		} else {
			to = append(to, s)
		}
	}
	return to
}

// archOf returns the architecture of an image, or else its triple.
func archOf(e *images.DeviceImage, img *kernels.Image) string {
	return cmp.Or(img.Arch, e.Arch, e.Triple)
}

// images returns the images of all files, except empty host entries.
func (r *Report) images() iter.Seq2[*images.DeviceImage, *kernels.Image] {
	return func(yield func(*images.DeviceImage, *kernels.Image) bool) {
		for _, f := range r.Files {
			for i, e := range f.Found {
				if !hostEntry(e) && !yield(e, &f.Images[i]) {
					return
				}
			}
		}
	}
}

// total is the sum for all images of an architecture.
type total struct {
	arch    string
	images  int
	size    int64 // bytes
	kernels int
	worst   *kernels.Kernel // the lowest occupancy, nil if none is known
	sgprs   int             // kernels that spill SGPRs, usually to VGPRs
	vgprs   int             // kernels that spill VGPRs, to scratch memory
	scratch int             // kernels with scratch memory
	memory  int             // kernels with either of the latter
}

// totals returns the totals of all files, by architecture.
func (r *Report) totals() []total {
	var list []total
	index := map[string]int{}
	for e, img := range r.images() {
		name := archOf(e, img)
		at, ok := index[name]
		if !ok {
			at = len(list)
			index[name] = at
			list = append(list, total{arch: name})
		}
		t := &list[at]
		t.images++
		t.size += e.Size
		for k := range img.Kernels {
			t.add(&img.Kernels[k])
		}
	}
	slices.SortFunc(list, func(a, b total) int { return cmp.Compare(a.arch, b.arch) })
	return list
}

// Instrumented are the images of an architecture with counters for profiles or coverage.
type Instrumented struct {
	Arch   string `json:"arch"`
	Images int    `json:"images"`
	// Counters is the size of the counters in bytes, and Bytes that of all sections for profiles and coverage.
	Counters int64             `json:"counters"`
	Bytes    int64             `json:"bytes"`
	Sections []kernels.Section `json:"sections"` // by name
}

// instrumented returns the images with counters, by architecture.
func (r *Report) instrumented() []Instrumented {
	var list []Instrumented
	for e, img := range r.images() {
		found := slices.DeleteFunc(slices.Clone(img.Sections), func(s kernels.Section) bool { return s.Kind() != kernels.ProfileSection })
		if len(found) == 0 {
			continue
		}
		name := archOf(e, img)
		at := slices.IndexFunc(list, func(t Instrumented) bool { return t.Arch == name })
		if at < 0 {
			at = len(list)
			list = append(list, Instrumented{Arch: name})
		}
		list[at].add(found)
	}
	slices.SortFunc(list, func(a, b Instrumented) int { return cmp.Compare(a.Arch, b.Arch) })
	return list
}

// add adds the sections of an image.
func (t *Instrumented) add(sections []kernels.Section) {
	t.Images++
	t.Sections = addSections(t.Sections, sections)
	slices.SortFunc(t.Sections, func(a, b kernels.Section) int { return cmp.Compare(a.Name, b.Name) })
	for _, s := range sections {
		t.Bytes += s.Size
		if s.Name == "__llvm_prf_cnts" || s.Name == "__llvm_prf_bits" {
			t.Counters += s.Size
		}
	}
}

// names returns the names of the sections.
func (t *Instrumented) names() string {
	var names []string
	for _, s := range t.Sections {
		names = append(names, printable.Name(s.Name))
	}
	return strings.Join(names, ", ")
}

// add counts a kernel.
func (t *total) add(k *kernels.Kernel) {
	t.kernels++
	count := func(n *int, condition bool) {
		if condition {
			*n++
		}
	}
	count(&t.sgprs, positive(k.SGPRSpills))
	count(&t.vgprs, positive(k.VGPRSpills))
	count(&t.scratch, positive(k.Scratch))
	count(&t.memory, positive(k.VGPRSpills) || positive(k.Scratch))
	if worse(k.Occupancy, t.worst) {
		t.worst = k
	}
}

func positive(n *int64) bool { return n != nil && *n > 0 }

// waves returns the occupancy of the worst kernel as text.
func (t *total) waves() string {
	if t.worst == nil {
		return "–"
	}
	return fmt.Sprintf("%d of %d", t.worst.Occupancy.WavesPerSIMD, t.worst.Occupancy.Max)
}

// worse reports whether an occupancy is lower than that of a kernel.
func worse(o *kernels.Occupancy, than *kernels.Kernel) bool {
	if o == nil || than == nil {
		return o != nil
	}
	t := than.Occupancy
	return o.WavesPerSIMD*t.Max < t.WavesPerSIMD*o.Max
}

// figures are the figures of a kernel that a difference shows, in this order.
var figures = []struct{ name, label string }{
	{"code_size", "code"}, {"vgprs", "VGPRs"}, {"agprs", "AGPRs"}, {"sgprs", "SGPRs"}, {"vgpr_spills", "VGPR spills"}, {"sgpr_spills", "SGPR spills"},
	{"scratch", "scratch"}, {"lds", "LDS"}, {"kernarg", "kernarg"}, {"max_workgroup_size", "workgroup"}, {"occupancy", "occupancy"},
}

// changes returns the differences of the figures of a kernel.
func changes(k *kernels.ChangedKernel) string {
	var list []string
	for _, f := range figures {
		if d, ok := k.Deltas[f.name]; ok {
			list = append(list, f.label+" "+signed(d))
		}
	}
	return strings.Join(list, ", ")
}

// signed returns a number with its sign.
func signed(n int64) string {
	if n > 0 {
		return "+" + printable.Grouped(n)
	}
	return printable.Grouped(n)
}
