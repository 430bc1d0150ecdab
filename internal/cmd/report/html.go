package report

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

var (
	//go:embed page.html
	page string
	//go:embed page.css
	style string
	//go:embed page.js
	script string
)

// The hashes of style and script for the page's content security policy. A test prints the
// expected values. They are constants, because packages that compute them would slow down every
// start of the program.
const (
	styleHash  = "sha256-5/S691DNPnklw9+pYMbOCa3rl0N/ph6DLR1zDuX22hA="
	scriptHash = "sha256-08gY0mO/IV6DiXS7kgNN3+5mg77In7hpQ/yBUa+uFaU="
)

// WriteHTML writes the report as a page: one file that loads nothing.
func (r *Report) WriteHTML(w io.Writer) error {
	var data strings.Builder
	if err := json.NewEncoder(printable.JSON(&data)).Encode(r.pageData()); err != nil { // escapes <, > and & in strings
		return err
	}
	title := r.title()
	values := map[string]string{
		"STYLE_HASH": styleHash, "SCRIPT_HASH": scriptHash, "STYLE": style, "SCRIPT": script,
		"TITLE": html.EscapeString("Device code: " + title), "HEADING": html.EscapeString(title),
		"FIGURES": r.heads(), "ARCHS": r.archRows(), "REDUNDANT": r.instrumentedTable() + r.redundantTable(), "DIFF": r.diffSection() + r.limitsSection(), "DATA": strings.TrimSuffix(data.String(), "\n"),
	}
	rest := page
	for {
		before, after, found := strings.Cut(rest, "{{")
		if _, err := io.WriteString(w, before); err != nil || !found {
			return err
		}
		var name string
		name, rest, _ = strings.Cut(after, "}}")
		if _, err := io.WriteString(w, values[name]); err != nil {
			return err
		}
	}
}

// title returns the names of the files, or their number.
func (r *Report) title() string {
	names := fileNames(r.Files)
	if len(names) > 3 {
		return printable.Count(len(names), "file")
	}
	return printable.Name(strings.Join(names, ", "))
}

// heads returns the figures at the head of the page.
func (r *Report) heads() string {
	var all total
	size := int64(0)
	totals := r.totals()
	for _, t := range totals {
		all.images += t.images
		all.size += t.size
		all.kernels += t.kernels
		all.sgprs += t.sgprs
		all.memory += t.memory
		if t.worst != nil && worse(t.worst.Occupancy, all.worst) {
			all.worst = t.worst
		}
	}
	for _, f := range r.Files {
		size += f.Size
	}
	var b strings.Builder
	for _, figure := range [][3]string{
		{printable.Size(size), noun(len(r.Files), "file")},
		{printable.Size(all.size), noun(all.images, "image")},
		{printable.Grouped(int64(len(totals))), printable.Noun(len(totals), "architecture")},
		{printable.Grouped(int64(all.kernels)), printable.Noun(all.kernels, "kernel")},
		{printable.Grouped(int64(all.memory)), printable.Noun(all.memory, "kernel") + " with VGPR spills or scratch", bad(all.memory)},
		{printable.Grouped(int64(all.sgprs)), printable.Noun(all.sgprs, "kernel") + " with SGPR spills"},
		{all.waves(), "waves in the worst case"},
	} {
		fmt.Fprintf(&b, "<li><b%s>%s</b>%s</li>\n", figure[2], html.EscapeString(figure[0]), html.EscapeString(figure[1]))
	}
	return b.String()
}

// bad returns the attribute of a number of kernels that access memory for lack of registers.
func bad(n int) string {
	if n == 0 {
		return ""
	}
	return ` class="low"`
}

// attribute returns a text as the value of an attribute. What printable.Name escapes is written as a reference
// to the character, so that the script reads the exact text.
func attribute(s string) string {
	var b strings.Builder
	for _, r := range s {
		if c := string(r); printable.Name(c) == c {
			b.WriteString(html.EscapeString(c))
		} else {
			fmt.Fprintf(&b, "&#x%x;", r)
		}
	}
	return b.String()
}

// noun returns the noun for what a size measures.
func noun(n int, s string) string { return "in " + printable.Count(n, s) }

// archRows returns the rows of the table of architectures.
func (r *Report) archRows() string {
	var b strings.Builder
	for _, t := range r.totals() {
		fmt.Fprintf(&b, "<tr data-arch=\"%s\"><td>%s</td><td data-field=\"images\">%d</td><td>%s</td><td data-field=\"size\">%d</td><td data-field=\"kernels\">%d</td><td data-field=\"worst\">%s</td><td data-field=\"sgpr_spills\">%d</td><td data-field=\"vgpr_spills\"%s>%d</td><td data-field=\"scratch\"%s>%d</td></tr>\n",
			attribute(t.arch), html.EscapeString(printable.Name(dash(t.arch))), t.images, printable.Size(t.size), t.size, t.kernels, t.waves(), t.sgprs, bad(t.vgprs), t.vgprs, bad(t.scratch), t.scratch)
	}
	return b.String()
}

// instrumentedTable returns the table of the architectures whose images have counters.
func (r *Report) instrumentedTable() string {
	list := r.instrumented()
	if len(list) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("<div class=\"scroll\"><table id=\"profile\">\n<thead><tr><th scope=\"col\">With counters for profiles and coverage</th><th scope=\"col\">Images</th><th scope=\"col\">Counters</th><th scope=\"col\">All sections</th><th scope=\"col\" class=\"t\">Sections</th></tr></thead>\n<tbody>\n")
	for _, t := range list {
		fmt.Fprintf(&b, "<tr><td>%s</td><td>%d</td><td>%s</td><td>%s</td><td class=\"t\">%s</td></tr>\n",
			html.EscapeString(printable.Name(dash(t.Arch))), t.Images, printable.Size(t.Counters), printable.Size(t.Bytes), html.EscapeString(printable.Name(t.names())))
	}
	b.WriteString("</tbody>\n</table></div>\n")
	return b.String()
}

// redundantTable returns the table of the architectures that generic targets can replace.
func (r *Report) redundantTable() string {
	if r.Redundant == nil {
		return ""
	}
	if len(r.Redundant) == 0 {
		return "<p class=\"soft\">No images of two architectures have equal instructions.</p>\n"
	}
	var b strings.Builder
	b.WriteString("<div class=\"scroll\"><table id=\"redundant\">\n<thead><tr><th scope=\"col\">Equal instructions</th><th scope=\"col\" class=\"t\">Generic target</th><th scope=\"col\">Images</th><th scope=\"col\">Saves</th></tr></thead>\n<tbody>\n")
	for _, g := range r.Redundant {
		fmt.Fprintf(&b, "<tr><td>%s</td><td class=\"t\">%s</td><td>%d</td><td>%s</td></tr>\n",
			html.EscapeString(printable.Name(strings.Join(g.Archs, ", "))), html.EscapeString(printable.Name(g.Generic)), g.Images, printable.Size(g.Saved))
	}
	b.WriteString("</tbody>\n</table></div>\n")
	return b.String()
}

// diffSection returns the section of differences to an older build, whose kernels the
// script adds.
func (r *Report) diffSection() string {
	if r.Diff == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("<section id=\"diff\" aria-labelledby=\"diff-title\">\n<h2 id=\"diff-title\">What changed</h2>\n" +
		"<div class=\"scroll\"><table id=\"diff-archs\">\n<thead><tr><th scope=\"col\">Architecture</th><th scope=\"col\" class=\"t\">Change</th><th scope=\"col\">Old</th><th scope=\"col\">New</th><th scope=\"col\">Difference</th></tr></thead>\n<tbody>\n")
	for _, a := range r.Diff.Archs {
		class := ""
		switch {
		case a.NewSize > a.OldSize:
			class = " class=\"up\""
		case a.NewSize < a.OldSize:
			class = " class=\"down\""
		}
		fmt.Fprintf(&b, "<tr data-arch=\"%s\" data-change=\"%s\"><td>%s</td><td class=\"t\">%s</td><td data-field=\"old_size\" title=\"%d\">%s</td><td data-field=\"new_size\" title=\"%d\">%s</td><td%s>%s</td></tr>\n",
			attribute(a.Arch), a.Change, html.EscapeString(printable.Name(dash(a.Arch))), a.Change, a.OldSize, printable.Size(a.OldSize), a.NewSize, printable.Size(a.NewSize), class, growth(a))
	}
	b.WriteString("</tbody>\n</table></div>\n")
	if len(r.Diff.Kernels) == 0 {
		fmt.Fprintf(&b, "<p>No kernel differs, of %s.</p>\n</section>\n", printable.Grouped(int64(r.Diff.Equal)))
		return b.String()
	}
	fmt.Fprintf(&b, "<p>%s differ, %s equal. Those that got worse come first.</p>\n<div class=\"scroll\" id=\"diff-rows\"><table id=\"diff-kernels\">\n<thead><tr><th scope=\"col\">Kernel</th><th scope=\"col\" class=\"t\">Architecture</th><th scope=\"col\" class=\"t\">Change</th>",
		printable.Count(len(r.Diff.Kernels), "kernel"), printable.Grouped(int64(r.Diff.Equal)))
	for _, f := range figures {
		if !slices.ContainsFunc(r.Diff.Kernels, func(k kernels.ChangedKernel) bool { return len(pageFigures(&k)[f.name]) > 0 }) {
			continue
		}
		fmt.Fprintf(&b, "<th scope=\"col\" data-figure=\"%s\">%s</th>", f.name, strings.ToUpper(f.label[:1])+f.label[1:])
	}
	b.WriteString("</tr></thead>\n<tbody></tbody>\n</table></div>\n<p><button type=\"button\" id=\"diff-more\" hidden>Show more</button></p>\n</section>\n")
	return b.String()
}

// limitsSection returns the section of exceeded limits, the flags that remove them,
// and what the compilers report about kernels that got worse.
func (r *Report) limitsSection() string {
	if r.Diff == nil {
		return ""
	}
	escaped := func(s string) string { return html.EscapeString(printable.Name(s)) }
	var b strings.Builder
	if len(r.Diff.Failures) > 0 {
		b.WriteString("<div class=\"scroll\"><table id=\"limits\">\n<thead><tr><th scope=\"col\" class=\"t\">Limit</th><th scope=\"col\" class=\"t\">Architecture</th><th scope=\"col\" class=\"t\">Kernel</th><th scope=\"col\">Change</th><th scope=\"col\" class=\"t\">Flags that remove it without harm</th></tr></thead>\n<tbody>\n")
		for _, f := range r.Diff.Failures {
			fmt.Fprintf(&b, "<tr><td class=\"t\">%s</td><td class=\"t\">%s</td><td class=\"t\">%s</td><td class=\"up\">%s</td><td class=\"t\">%s</td></tr>\n",
				f.Rule, escaped(dash(f.Arch)), escaped(kernelOf(f)), changeOf(f), escaped(remedy(r.Diff, f)))
		}
		b.WriteString("</tbody>\n</table></div>\n")
	}
	list := func(lines []string) {
		if len(lines) == 0 {
			return
		}
		b.WriteString("<ul>\n")
		for _, line := range lines {
			fmt.Fprintf(&b, "<li>%s</li>\n", escaped(line))
		}
		b.WriteString("</ul>\n")
	}
	list(notesOf(r.Diff))
	for i := range r.Diff.Kernels {
		k := &r.Diff.Kernels[i]
		if lines := listing.RemarkLines(k); len(lines) > 0 {
			fmt.Fprintf(&b, "<h3>%s, %s</h3>\n", escaped(k.Demangled), escaped(dash(k.Arch)))
			list(lines)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return "<section id=\"limits-section\" aria-labelledby=\"limits-title\">\n<h2 id=\"limits-title\">Limits and remarks</h2>\n" + b.String() + "</section>\n"
}

// pageData is what the script of the page reads. Every string is written once; all
// others are indexes into Strings.
type pageData struct {
	Strings []string   `json:"strings"`
	Files   []pageFile `json:"files"`
	Kernels columns    `json:"kernels"`
	Diff    []pageDiff `json:"diff,omitempty"`

	index   map[string]int
	sources map[string]int // indexes of the display names of source files
}

type pageFile struct {
	Name    int          `json:"name"`
	Size    int64        `json:"size"`
	Bundles []pageBundle `json:"bundles"`
}

type pageBundle struct {
	Name  int        `json:"name"`
	Size  int64      `json:"size"`
	Archs []pageArch `json:"archs"`
}

type pageArch struct {
	Arch     int        `json:"arch"`
	Size     int64      `json:"size"`
	Sections [][2]int64 `json:"sections"` // name and size
	First    int        `json:"first"`    // kernel
	Count    int        `json:"count"`
	Sources  [][]int64  `json:"sources,omitempty"` // of code outside of kernels: file and bytes
}

// pageDiff is a kernel that differs.
type pageDiff struct {
	Arch      int                 `json:"arch"`
	Name      int                 `json:"name"`
	Demangled int                 `json:"demangled"`
	Change    int                 `json:"change"`
	Figures   map[string][]*int64 `json:"figures"` // old and new, where they differ
}

// pageFigures returns the old and new figures of a kernel that differs: those that changed, or,
// for a kernel in only one build, all that are not 0.
func pageFigures(k *kernels.ChangedKernel) map[string][]*int64 {
	all := map[string][]*int64{}
	for _, f := range figures {
		switch _, changed := k.Deltas[f.name]; {
		case k.Old == nil:
			if n := kernels.Figure(k.New, f.name); n != nil && *n != 0 {
				all[f.name] = []*int64{nil, n}
			}
		case k.New == nil:
			if n := kernels.Figure(k.Old, f.name); n != nil && *n != 0 {
				all[f.name] = []*int64{n, nil}
			}
		case changed:
			all[f.name] = []*int64{kernels.Figure(k.Old, f.name), kernels.Figure(k.New, f.name)}
		}
	}
	return all
}

// columns are the kernels, a slice for each field.
type columns struct {
	Name             []int    `json:"name"`
	Demangled        []int    `json:"demangled"`
	Arch             []int    `json:"arch"`
	Place            [][]int  `json:"place"` // file, bundle, entry ID
	CodeSize         []*int64 `json:"code_size"`
	SGPRs            []*int64 `json:"sgprs"`
	VGPRs            []*int64 `json:"vgprs"`
	AGPRs            []*int64 `json:"agprs"`
	SGPRSpills       []*int64 `json:"sgpr_spills"`
	VGPRSpills       []*int64 `json:"vgpr_spills"`
	Scratch          []*int64 `json:"scratch"`
	LDS              []*int64 `json:"lds"`
	Kernarg          []*int64 `json:"kernarg"`
	MaxWorkgroupSize []*int64 `json:"max_workgroup_size"`
	WavefrontSize    []*int64 `json:"wavefront_size"`
	OMPMode          []int    `json:"omp_mode"`
	Occupancy        []*int   `json:"occupancy"`
	OccupancyMax     []*int   `json:"occupancy_max"`
	Limits           []int    `json:"limits"`
	Bounds           [][]int  `json:"bounds"`
	// Sources of a kernel are lists of a file, its bytes, and then of lines with their bytes.
	Sources [][][]int64 `json:"sources,omitempty"`
}

// pageData returns the data of the page.
func (r *Report) pageData() *pageData {
	d := &pageData{Strings: []string{}, Files: []pageFile{}, index: map[string]int{}}
	d.Kernels = columns{
		Name: []int{}, Demangled: []int{}, Arch: []int{}, Place: [][]int{}, CodeSize: []*int64{}, SGPRs: []*int64{}, VGPRs: []*int64{}, AGPRs: []*int64{},
		SGPRSpills: []*int64{}, VGPRSpills: []*int64{}, Scratch: []*int64{}, LDS: []*int64{}, Kernarg: []*int64{}, MaxWorkgroupSize: []*int64{},
		WavefrontSize: []*int64{}, OMPMode: []int{}, Occupancy: []*int{}, OccupancyMax: []*int{}, Limits: []int{}, Bounds: [][]int{},
	}
	d.names(r.sourceFiles())
	withLines := r.withLines()
	for i, name := range fileNames(r.Files) {
		f := pageFile{Name: d.string(name), Size: r.Files[i].Size, Bundles: []pageBundle{}}
		for _, b := range bundles(r.Files[i]) {
			pb := pageBundle{Name: d.string(b.name), Size: b.size, Archs: []pageArch{}}
			for _, a := range b.archs {
				pa := pageArch{Arch: d.string(a.name), Size: a.size, Sections: [][2]int64{}, First: len(d.Kernels.Name), Count: len(a.kernels)}
				for _, s := range a.sections {
					pa.Sections = append(pa.Sections, [2]int64{int64(d.string(s.Name)), s.Size})
				}
				for _, k := range a.kernels {
					d.kernel(k, f.Name, pb.Name)
					if len(d.sources) > 0 {
						d.Kernels.Sources = append(d.Kernels.Sources, d.sourcesOf(k.Sources, withLines[k]))
					}
				}
				pa.Sources = d.sourcesOf(otherSources(a), false)
				pb.Archs = append(pb.Archs, pa)
			}
			f.Bundles = append(f.Bundles, pb)
		}
		d.Files = append(d.Files, f)
	}
	if r.Diff != nil {
		for i := range r.Diff.Kernels {
			d.diff(&r.Diff.Kernels[i])
		}
	}
	return d
}

// maxPageLines is the maximum number of lines of source files in a page. The largest kernels have
// lines; others have source files only.
const maxPageLines = 200_000

// withLines returns the kernels that have lines in a page.
func (r *Report) withLines() map[*kernels.Kernel]bool {
	var all []*kernels.Kernel
	for _, img := range r.images() {
		for k := range img.Kernels {
			if kernel := &img.Kernels[k]; len(kernel.Sources) > 0 {
				all = append(all, kernel)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *kernels.Kernel) int { return cmp.Compare(*b.CodeSize, *a.CodeSize) })
	with, left := make(map[*kernels.Kernel]bool), maxPageLines
	for _, k := range all {
		for _, s := range k.Sources {
			left -= len(s.Lines)
		}
		if left < 0 {
			break
		}
		with[k] = true
	}
	return with
}

// names adds the names of source files.
func (d *pageData) names(files []string) {
	d.sources = make(map[string]int)
	for i, name := range displayNames(files) {
		d.sources[files[i]] = d.string(name)
	}
	if len(files) > 0 {
		d.sources[""] = d.string("")
	}
}

// sourcesOf returns sources as the page reads them.
func (d *pageData) sourcesOf(list []kernels.Source, lines bool) [][]int64 {
	var all [][]int64
	for _, s := range list {
		one := []int64{int64(d.sources[s.File]), s.Bytes}
		for _, l := range s.Lines {
			if lines {
				one = append(one, l.Line, l.Bytes)
			}
		}
		all = append(all, one)
	}
	return all
}

// diff adds a kernel that differs.
func (d *pageData) diff(k *kernels.ChangedKernel) {
	p := pageDiff{Arch: d.string(k.Arch), Name: d.string(k.Name), Demangled: d.string(k.Demangled), Change: d.string(string(k.Change)), Figures: pageFigures(k)}
	d.Diff = append(d.Diff, p)
}

// kernel adds a kernel.
func (d *pageData) kernel(k *kernels.Kernel, file, bundle int) {
	c := &d.Kernels
	c.Name = append(c.Name, d.string(k.Name))
	c.Demangled = append(c.Demangled, d.string(k.Demangled))
	c.Arch = append(c.Arch, d.string(k.Arch))
	c.Place = append(c.Place, []int{file, bundle, d.string(k.ID)})
	c.CodeSize = append(c.CodeSize, k.CodeSize)
	c.SGPRs = append(c.SGPRs, k.SGPRs)
	c.VGPRs = append(c.VGPRs, k.VGPRs)
	c.AGPRs = append(c.AGPRs, k.AGPRs)
	c.SGPRSpills = append(c.SGPRSpills, k.SGPRSpills)
	c.VGPRSpills = append(c.VGPRSpills, k.VGPRSpills)
	c.Scratch = append(c.Scratch, k.Scratch)
	c.LDS = append(c.LDS, k.LDS)
	c.Kernarg = append(c.Kernarg, k.Kernarg)
	c.MaxWorkgroupSize = append(c.MaxWorkgroupSize, k.MaxWorkgroupSize)
	c.WavefrontSize = append(c.WavefrontSize, k.WavefrontSize)
	mode, limits := "", ""
	var waves, most *int
	var bounds []int
	if k.OMPMode != nil {
		mode = *k.OMPMode
	}
	if o := k.Occupancy; o != nil {
		waves, most, limits = &o.WavesPerSIMD, &o.Max, strings.Join(o.Limits, ", ")
		bounds = []int{o.Bounds.VGPRs, o.Bounds.SGPRs, o.Bounds.Workgroup, o.Bounds.LDS}
	}
	c.OMPMode = append(c.OMPMode, d.string(mode))
	c.Occupancy = append(c.Occupancy, waves)
	c.OccupancyMax = append(c.OccupancyMax, most)
	c.Limits = append(c.Limits, d.string(limits))
	c.Bounds = append(c.Bounds, bounds)
}

// string returns the index of a string.
func (d *pageData) string(s string) int {
	i, ok := d.index[s]
	if !ok {
		i = len(d.Strings)
		d.index[s] = i
		d.Strings = append(d.Strings, s)
	}
	return i
}
