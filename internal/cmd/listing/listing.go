// Package listing prints device images and kernels, as tables and as JSON.
// Text that comes from files is printed without control characters.
package listing

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// Image is a device image as `offload inspect --json` prints it. Sizes and
// offsets are in bytes.
type Image struct {
	File       string            `json:"file,omitempty"` // where several files are listed
	Members    []string          `json:"members"`        // of archives, the outermost first
	Section    string            `json:"section"`
	Stored     string            `json:"stored"`
	Container  int64             `json:"container"` // where the container starts
	Size       int64             `json:"size"`
	Kind       string            `json:"kind"`
	Triple     string            `json:"triple"`
	Arch       string            `json:"arch"`
	ID         string            `json:"id"`
	Format     string            `json:"format"`
	Properties map[string]string `json:"properties"`
}

// NewImage returns an image as it is printed in JSON.
func NewImage(e *images.DeviceImage) Image {
	properties := make(map[string]string, len(e.Properties))
	for _, p := range e.Properties {
		properties[p.Key] = p.Value
	}
	return Image{
		Members: append([]string{}, e.Members...), Section: e.Section, Stored: string(e.Form),
		Container: e.Container, Size: e.Size, Kind: e.Offload, Triple: e.Triple, Arch: e.Arch,
		ID: e.ID, Format: format(e), Properties: properties,
	}
}

// Options are how the contents of files are listed.
type Options struct {
	JSON    bool // one JSON array instead of a table
	Named   bool // with the name of the file of each item
	Mangled bool // tables with mangled names of kernels
}

// JSON prints v as JSON with an indentation of two spaces, and control characters escaped.
func JSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(printable.JSON(w))
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// table writes rows of cells, in columns as wide as their longest cell.
func table(w io.Writer, fn func(row func(cells ...string))) error {
	buffer := bufio.NewWriter(w) // a tabwriter writes every cell separately
	tabs := tabwriter.NewWriter(buffer, 0, 0, 2, ' ', 0)
	fn(func(cells ...string) {
		io.WriteString(tabs, strings.Join(cells, "\t")) // errors are those of Flush
		io.WriteString(tabs, "\n")
	})
	if err := tabs.Flush(); err != nil {
		return err
	}
	return buffer.Flush()
}

// Images lists the images of files.
func Images(w io.Writer, files []*engine.DeviceFile, o Options) error {
	if o.JSON {
		all := []Image{}
		for _, f := range files {
			for _, e := range f.Found {
				img := NewImage(e)
				if o.Named {
					img.File = f.Name
				}
				all = append(all, img)
			}
		}
		return JSON(w, all)
	}
	if !slices.ContainsFunc(files, func(f *engine.DeviceFile) bool { return len(f.Found) > 0 }) {
		return nil
	}
	return table(w, func(row func(...string)) {
		row("KIND", "TRIPLE", "ARCH", "FORMAT", "SIZE", "STORED AS", "IN")
		for _, f := range files {
			for _, e := range f.Found {
				where := append(slices.Clone(e.Members), e.Section)
				if o.Named {
					where = slices.Insert(where, 0, f.Name)
				}
				row(orDash(e.Offload), orDash(e.Triple), orDash(e.Arch), format(e), printable.Size(e.Size),
					fmt.Sprintf("%s at 0x%x", e.Form, e.Container), orDash(strings.TrimSpace(strings.Join(where, " "))))
			}
		}
	})
}

// Total is the number and size of the images of an architecture.
type Total struct {
	Arch   string `json:"arch"`
	Images int    `json:"images"`
	Size   int64  `json:"size"` // bytes
}

// totals returns the totals of files by architecture, in the order of names.
// Empty entries of bundles for the host are not counted.
func totals(files []*engine.DeviceFile) []Total {
	byArch := make(map[string]*Total)
	list := []Total{}
	for _, f := range files {
		for _, e := range f.Found {
			if e.Offload == "host" && e.Size == 0 {
				continue
			}
			name := cmp.Or(e.Arch, e.Triple)
			t := byArch[name]
			if t == nil {
				t = &Total{Arch: name}
				byArch[name] = t
			}
			t.Images++
			t.Size += e.Size
		}
	}
	for _, t := range byArch {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Total) int { return cmp.Compare(a.Arch, b.Arch) })
	return list
}

// Summary lists the totals of files for each architecture, and in a table of all.
func Summary(w io.Writer, files []*engine.DeviceFile, o Options) error {
	list := totals(files)
	switch {
	case o.JSON:
		return JSON(w, list)
	case len(list) == 0:
		return nil
	}
	return table(w, func(row func(...string)) {
		row("ARCH", "IMAGES", "SIZE")
		all := Total{Arch: "total"}
		for _, t := range list {
			row(orDash(t.Arch), strconv.Itoa(t.Images), printable.Size(t.Size))
			all.Images += t.Images
			all.Size += t.Size
		}
		row(all.Arch, strconv.Itoa(all.Images), printable.Size(all.Size))
	})
}

// kernelsJSON prints kernels as a JSON array, each on a line of its own. The name of its file is first.
func kernelsJSON(w io.Writer, files []*engine.DeviceFile, named bool) error {
	const flush = 1 << 16 // bytes
	out := make([]byte, 0, 2*flush)
	before := "[\n  "
	for _, f := range files {
		file := append(kernels.AppendString([]byte(`"file":`), f.Name), ',')
		for i := range f.Images {
			for k := range f.Images[i].Kernels {
				out = append(out, before...)
				start := len(out)
				out = f.Images[i].Kernels[k].AppendJSON(out)
				if named {
					out = slices.Insert(out, start+1, file...)
				}
				before = ",\n  "
				if len(out) >= flush {
					if _, err := w.Write(out); err != nil {
						return err
					}
					out = out[:0]
				}
			}
		}
	}
	if before[0] == '[' {
		out = append(out, "[]\n"...)
	} else {
		out = append(out, "\n]\n"...)
	}
	_, err := w.Write(out)
	return err
}

// HasKernels reports whether a file has a kernel.
func HasKernels(file *engine.DeviceFile) bool {
	return slices.ContainsFunc(file.Images, func(img kernels.Image) bool { return len(img.Kernels) > 0 })
}

// Kernels lists the kernels of files, in a table with the names last.
func Kernels(w io.Writer, files []*engine.DeviceFile, o Options) error {
	switch {
	case o.JSON:
		return kernelsJSON(w, files, o.Named)
	case !slices.ContainsFunc(files, HasKernels):
		return nil
	}
	return table(w, func(row func(...string)) {
		row(withFile(o.Named, "FILE", "IMAGE", "ARCH", "CODE", "SGPRS", "VGPRS", "AGPRS", "SGPR SPILLS", "VGPR SPILLS", "SCRATCH", "LDS", "KERNARG", "WORKGROUP", "WAVE", "WAVES/SIMD", "LIMITED BY", "KERNEL")...)
		for _, f := range files {
			for i := range f.Images {
				for k := range f.Images[i].Kernels {
					row(withFile(o.Named, printable.Name(f.Name), kernelRow(&f.Images[i].Kernels[k], o.Mangled)...)...)
				}
			}
		}
	})
}

// reportsOf returns the reports of the images of files, without nil. If named, name gives each the name of its file.
func reportsOf[T any](files []*engine.DeviceFile, named bool, report func(*kernels.Image) *T, name func(r *T, file string)) []*T {
	list := []*T{}
	for _, f := range files {
		for i := range f.Images {
			r := report(&f.Images[i])
			if r == nil {
				continue
			}
			if named {
				name(r, f.Name)
			}
			list = append(list, r)
		}
	}
	return list
}

// withFile returns cells with the name of a file before the last one if named.
func withFile(named bool, file string, cells ...string) []string {
	if named {
		return slices.Insert(cells, len(cells)-1, file)
	}
	return cells
}

// Sources lists the bytes of code from each line of source, the largest of each image first.
func Sources(w io.Writer, files []*engine.DeviceFile, o Options) error {
	reports := reportsOf(files, o.Named, (*kernels.Image).SourceReport, func(r *kernels.SourceReport, file string) { r.File = file })
	if o.JSON {
		return JSON(w, reports)
	}
	reports = slices.DeleteFunc(reports, func(r *kernels.SourceReport) bool { return r.Code == 0 })
	if len(reports) == 0 {
		return nil
	}
	return table(w, func(row func(cells ...string)) {
		row(withFile(o.Named, "FILE", "IMAGE", "ARCH", "BYTES", "SHARE", "SOURCE")...)
		for _, r := range reports {
			for _, l := range sourceLines(r) {
				row(withFile(o.Named, printable.Name(r.File), strconv.Itoa(r.Image), orDash(r.Arch), strconv.FormatInt(l.bytes, 10), fmt.Sprintf("%.1f%%", 100*float64(l.bytes)/float64(r.Code)), printable.Name(l.name))...)
			}
		}
	})
}

// Sections lists the sections of images, in the order of the images.
func Sections(w io.Writer, files []*engine.DeviceFile, o Options) error {
	reports := reportsOf(files, o.Named, (*kernels.Image).SectionReport, func(r *kernels.SectionReport, file string) { r.File = file })
	switch {
	case o.JSON:
		return JSON(w, reports)
	case len(reports) == 0:
		return nil
	}
	return table(w, func(row func(cells ...string)) {
		row(withFile(o.Named, "FILE", "IMAGE", "ARCH", "BYTES", "KIND", "SECTION")...)
		for _, r := range reports {
			for _, s := range r.Sections {
				row(withFile(o.Named, printable.Name(r.File), strconv.Itoa(r.Image), orDash(r.Arch), strconv.FormatInt(s.Size, 10), orDash(string(s.Kind)), orDash(s.Name))...)
			}
		}
	})
}

// A sourceLine is a line of source with its name.
type sourceLine struct {
	name  string
	bytes int64
}

// sourceLines returns the lines of an image, the largest first.
func sourceLines(r *kernels.SourceReport) []sourceLine {
	var list []sourceLine
	for _, s := range r.Sources {
		if s.File == "" {
			list = append(list, sourceLine{"no source", s.Bytes})
		}
		for _, l := range s.Lines {
			list = append(list, sourceLine{fmt.Sprintf("%s:%d", s.File, l.Line), l.Bytes})
		}
	}
	slices.SortStableFunc(list, func(a, b sourceLine) int { return cmp.Compare(b.bytes, a.bytes) })
	return list
}

func kernelRow(k *kernels.Kernel, mangled bool) []string {
	waves, limits := "-", "-"
	if o := k.Occupancy; o != nil {
		waves = fmt.Sprintf("%d/%d", o.WavesPerSIMD, o.Max)
		limits = orDash(strings.Join(o.Limits, ","))
	}
	workgroup := number(k.MaxWorkgroupSize)
	if size := k.ReqdWorkgroup; size != nil {
		workgroup = fmt.Sprintf("%dx%dx%d", size[0], size[1], size[2])
	}
	scratch := number(k.Scratch)
	if k.DynamicStack != nil && *k.DynamicStack {
		scratch += "+" // plus a dynamic stack
	}
	name := k.Demangled
	if mangled {
		name = k.Name
	}
	return []string{
		strconv.Itoa(k.Image), orDash(k.Arch), number(k.CodeSize), number(k.SGPRs), number(k.VGPRs), number(k.AGPRs),
		number(k.SGPRSpills), number(k.VGPRSpills), scratch, number(k.LDS), number(k.Kernarg), workgroup,
		number(k.WavefrontSize), waves, limits, orDash(name),
	}
}

// number returns a value as text, a dash if the image does not state it.
func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}

// format returns the format of an image, - if determining it requires decoding.
func format(e *images.DeviceImage) string {
	if e.Form == images.FormCompressed && e.Format == offloadbinary.None {
		return "-"
	}
	return e.Format.String()
}

// orDash makes an empty cell visible.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return printable.Name(s)
}
