package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/cmd/listing"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

const (
	// maxMarkdown is the maximum size of the Markdown report, in bytes. Comments on code hosts
	// can have 65,536 characters.
	maxMarkdown = 60_000
	// maxMarkdownName is the maximum length of a name in Markdown, in characters.
	maxMarkdownName = 120
	// maxMarkdownRows is the maximum number of rows in a table.
	maxMarkdownRows = 100
)

// WriteMarkdown writes a Markdown summary of less than 65,536 characters.
func (r *Report) WriteMarkdown(w io.Writer) error {
	m := markdown{}
	names := fileNames(r.Files)
	m.line("### Device code")
	m.line("")
	kernels, size := 0, int64(0)
	totals := r.totals()
	for _, t := range totals {
		kernels += t.kernels
		size += t.size
	}
	m.line(fmt.Sprintf("%s: %s of images for %s, %s", filesOf(names), printable.Size(size), printable.Count(len(totals), "architecture"), printable.Count(kernels, "kernel")))
	m.line("")
	const head = "| Architecture | Images | Size | Kernels | Worst occupancy | VGPR spills or scratch |"
	m.table(head, "| --- | ---: | ---: | ---: | --- | ---: |", len(totals), maxMarkdownRows, func(i int) string {
		t := &totals[i]
		worst := t.waves()
		if t.worst != nil {
			worst += ": " + markdownName(t.worst.Demangled)
		}
		return fmt.Sprintf("| %s | %d | %s | %s | %s | %s |", markdownName(dash(t.arch)), t.images, printable.Size(t.size), printable.Grouped(int64(t.kernels)), worst, printable.Grouped(int64(t.memory)))
	})
	m.sources(r)
	m.instrumented(r.instrumented())
	m.redundant(r.Redundant)
	if r.Diff != nil {
		m.diff(r.Diff)
		m.limits(r.Diff)
	}
	_, err := io.WriteString(w, m.String())
	return err
}

// sources writes the source files with the most code, if the files have line tables.
func (m *markdown) sources(r *Report) {
	const most = 10
	files := r.sourceFiles()
	if len(files) == 0 {
		return
	}
	totals, code := r.sourceTotals()
	m.heading("Code by source file")
	display := map[string]string{"": "no source"}
	for i, name := range displayNames(files) {
		display[files[i]] = name
	}
	m.table("| Source file | Code | Share | Largest line |", "| --- | ---: | ---: | --- |", len(totals), most, func(i int) string {
		s, largest := &totals[i], "–"
		if len(s.Lines) > 0 {
			l := slices.MaxFunc(s.Lines, func(a, b kernels.SourceLine) int { return cmp.Compare(a.Bytes, b.Bytes) })
			largest = fmt.Sprintf("%d: %s", l.Line, printable.Size(l.Bytes))
		}
		return fmt.Sprintf("| %s | %s | %.1f %% | %s |", markdownName(display[s.File]), printable.Size(s.Bytes), 100*float64(s.Bytes)/float64(code), largest)
	})
}

// table writes a table of at most most rows, of which row returns each. If there are more than that, the last one
// has their number.
func (m *markdown) table(head, alignment string, rows, most int, row func(i int) string) {
	m.line(head)
	m.line(alignment)
	for i := range min(rows, most) {
		m.line(row(i))
	}
	if rows > most {
		m.line(fmt.Sprintf("| and %d more |%s", rows-most, strings.Repeat(" |", strings.Count(head, "|")-2)))
	}
}

// instrumented writes the architectures whose images have counters.
func (m *markdown) instrumented(list []Instrumented) {
	if len(list) == 0 {
		return
	}
	m.heading("Counters for profiles and coverage")
	m.table("| Architecture | Images | Counters | All sections | Sections |", "| --- | ---: | ---: | ---: | --- |", len(list), maxMarkdownRows, func(i int) string {
		t := &list[i]
		return fmt.Sprintf("| %s | %d | %s | %s | %s |", markdownName(dash(t.Arch)), t.Images, printable.Size(t.Counters), printable.Size(t.Bytes), markdownName(t.names()))
	})
}

// redundant writes the architectures that generic targets can replace, nil if they were not searched.
func (m *markdown) redundant(list []Redundant) {
	if list == nil {
		return
	}
	m.heading("Redundant architectures")
	if len(list) == 0 {
		m.line("No images of two architectures have equal instructions.")
		return
	}
	m.table("| Architectures with equal instructions | Generic target | Images | Saves |", "| --- | --- | ---: | ---: |", len(list), maxMarkdownRows, func(i int) string {
		g := &list[i]
		return fmt.Sprintf("| %s | %s | %d | %s |", markdownName(strings.Join(g.Archs, ", ")), markdownName(g.Generic), g.Images, printable.Size(g.Saved))
	})
}

// worstChanges is the number of changed kernels in the summary.
const worstChanges = 10

// diff writes the differences from an older build: the architectures, and the worst changes of
// kernels.
func (m *markdown) diff(d *kernels.Diff) {
	m.heading("Changes")
	same := 0
	var changed []kernels.ChangedArch
	for _, a := range d.Archs {
		if a.Change == kernels.Same {
			same++
		} else {
			changed = append(changed, a)
		}
	}
	if len(changed) == 0 && len(d.Kernels) == 0 {
		m.line("No device code differs.")
		return
	}
	m.table("| Architecture | | Old | New | Difference |", "| --- | --- | ---: | ---: | ---: |", len(changed), maxMarkdownRows, func(i int) string {
		a := changed[i]
		return fmt.Sprintf("| %s | %s | %s | %s | %s |", markdownName(dash(a.Arch)), a.Change, printable.Size(a.OldSize), printable.Size(a.NewSize), growth(a))
	})
	if same > 0 {
		m.line(fmt.Sprintf("| %s | same | | | |", printable.Count(same, "more architecture")))
	}
	m.line("")
	if len(d.Kernels) == 0 {
		m.line(fmt.Sprintf("No kernel differs, of %s.", printable.Grouped(int64(d.Equal))))
		return
	}
	m.line("| Kernel | Architecture | | Difference |")
	m.line("| --- | --- | --- | --- |")
	for i := range d.Kernels[:min(worstChanges, len(d.Kernels))] {
		k := &d.Kernels[i]
		m.line(fmt.Sprintf("| %s | %s | %s | %s |", markdownName(k.Demangled), markdownName(dash(k.Arch)), k.Change, changes(k)))
	}
	m.line("")
	if rest := len(d.Kernels) - worstChanges; rest > 0 {
		m.line(fmt.Sprintf("And %s that differ; %s equal.", printable.Count(rest, "more kernel"), printable.Grouped(int64(d.Equal))))
	} else {
		m.line(fmt.Sprintf("%s differ, %s equal.", printable.Count(len(d.Kernels), "kernel"), printable.Grouped(int64(d.Equal))))
	}
}

// limits writes the exceeded limits, the flags that remove them, and what the
// compilers report about kernels that got worse.
func (m *markdown) limits(d *kernels.Diff) {
	if len(d.Failures) > 0 {
		m.heading("Exceeded limits")
		m.line("| Limit | Architecture | Kernel | Change | Flags that remove it without harm |")
		m.line("| --- | --- | --- | ---: | --- |")
		for _, f := range d.Failures {
			m.line(fmt.Sprintf("| %s | %s | %s | %s | %s |", f.Rule, markdownName(dash(f.Arch)), markdownName(kernelOf(f)), changeOf(f), markdownName(remedy(d, f))))
		}
	}
	if notes := notesOf(d); len(notes) > 0 {
		m.line("")
		for _, note := range notes {
			m.line("- " + markdownName(note))
		}
	}
	for i := range d.Kernels {
		k := &d.Kernels[i]
		lines := listing.RemarkLines(k)
		if len(lines) > 0 {
			m.line("")
			m.line(fmt.Sprintf("Remarks on %s of %s:", markdownName(k.Demangled), markdownName(dash(k.Arch))))
			m.line("")
		}
		for _, line := range lines {
			m.line("- " + markdownName(line))
		}
	}
}

// kernelOf returns the demangled name of the kernel of a failure.
func kernelOf(f kernels.Failure) string {
	if f.Kernel == nil {
		return "–"
	}
	return kernels.Demangle(*f.Kernel)
}

// changeOf returns the change of the value of a failure.
func changeOf(f kernels.Failure) string {
	if f.Delta == 0 {
		return "–"
	}
	return signed(f.Delta)
}

// remedy returns the flags that remove a failure, or advice.
func remedy(d *kernels.Diff, f kernels.Failure) string {
	switch removers := d.RemovedBy(f); {
	case len(removers) > 0:
		return listing.Removers(removers)
	case len(d.Suggestions) > 0 && d.LaunchBounds(f):
		return "none; " + listing.Advice
	case len(d.Suggestions) > 0:
		return "none"
	}
	return "not tried"
}

// notesOf returns the number of accepted differences, and the stale lines.
func notesOf(d *kernels.Diff) (notes []string) {
	if n := len(d.Accepted); n > 0 {
		notes = append(notes, printable.Count(n, "accepted difference"))
	}
	for _, s := range d.Stale {
		notes = append(notes, fmt.Sprintf("stale: line %d of the accepted differences: %s", s.Line, s.Text))
	}
	for _, s := range d.Suggestions {
		notes = append(notes, fmt.Sprintf("tried %s (%s): removes %d of %d, makes %s worse", s.Name, strings.Join(s.Flags, " "), len(s.Removes), len(d.Failures), printable.Count(len(s.Harms), "value")))
	}
	return notes
}

// growth returns the difference in size of an architecture, also in percent.
func growth(a kernels.ChangedArch) string {
	d := a.NewSize - a.OldSize
	s := printable.Size(max(d, -d))
	switch {
	case d == 0:
		return "0"
	case d > 0:
		s = "+" + s
	default:
		s = "-" + s
	}
	if a.OldSize > 0 && a.NewSize > 0 {
		s += fmt.Sprintf(" (%+.1f %%)", 100*float64(d)/float64(a.OldSize))
	}
	return s
}

// filesOf names the first files.
func filesOf(names []string) string {
	const most = 5
	var list []string
	for i, name := range names {
		if i == most {
			list = append(list, fmt.Sprintf("%d more", len(names)-i))
			break
		}
		list = append(list, markdownName(name))
	}
	return strings.Join(list, ", ")
}

// markdown collects lines up to a limit.
type markdown struct {
	strings.Builder
	full bool
}

// heading begins a section.
func (m *markdown) heading(s string) {
	m.line("")
	m.line("#### " + s)
	m.line("")
}

func (m *markdown) line(s string) {
	if m.full || m.Len()+len(s) > maxMarkdown {
		if !m.full {
			m.WriteString("\nMore is in the page and in the JSON report.\n")
		}
		m.full = true
		return
	}
	m.WriteString(s + "\n")
}

// markdownName returns a name from a file as text of Markdown, cut if it is long.
func markdownName(s string) string {
	s = printable.Name(s)
	if utf8.RuneCountInString(s) > maxMarkdownName {
		s = string([]rune(s)[:maxMarkdownName-1]) + "…"
	}
	return markdownEscaper().Replace(s)
}

// markdownEscaper escapes characters that Markdown, HTML and code hosts interpret as markup or
// mentions.
func markdownEscaper() *strings.Replacer {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "`", "\\`", `\`, `\\`, "*", `\*`, "_", `\_`,
		"[", `\[`, "]", `\]`, "~", `\~`, "#", "&#35;", "@", "&#64;", "://", "&#58;//")
}

// dash makes an empty name visible.
func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
