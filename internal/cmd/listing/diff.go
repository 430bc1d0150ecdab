package listing

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// Diff prints a difference: a table of architectures, one of kernels, and how
// many kernels differ.
func Diff(w io.Writer, d *kernels.Diff) error {
	if err := table(w, func(row func(...string)) {
		row("ARCH", "OLD", "NEW", "CHANGE")
		total := kernels.ChangedArch{Arch: "total", Change: kernels.Changed}
		for _, a := range d.Archs {
			row(archRow(a)...)
			total.OldSize += a.OldSize
			total.NewSize += a.NewSize
		}
		if len(d.Archs) > 1 {
			row(archRow(total)...)
		}
	}); err != nil {
		return err
	}
	if len(d.Kernels) > 0 {
		fmt.Fprintln(w)
		if err := table(w, func(row func(...string)) {
			row("CHANGE", "ARCH", "CODE", "WHAT", "KERNEL")
			for i := range d.Kernels {
				row(diffRow(&d.Kernels[i])...)
			}
		}); err != nil {
			return err
		}
	}
	count := make(map[kernels.Change]int)
	for _, k := range d.Kernels {
		count[k.Change]++
	}
	if _, err := fmt.Fprintf(w, "\nkernels: %d changed, %d added, %d removed, %d equal\n",
		count[kernels.Changed], count[kernels.Added], count[kernels.Removed], d.Equal); err != nil {
		return err
	}
	remarks(w, d)
	return suggestions(w, d)
}

// remarks prints what compilers report about kernels that got worse.
func remarks(w io.Writer, d *kernels.Diff) {
	for i := range d.Kernels {
		k := &d.Kernels[i]
		lines := RemarkLines(k)
		if len(lines) > 0 {
			fmt.Fprintf(w, "\n%s %s:\n", orDash(k.Arch), printable.Name(k.Demangled))
		}
		for _, line := range lines {
			fmt.Fprintf(w, "  %s\n", printable.Name(line))
		}
	}
}

// RemarkLines returns the first remarks of the compilers about a kernel that got
// worse, one line for each.
func RemarkLines(k *kernels.ChangedKernel) (lines []string) {
	const most = 12 // of each build
	for _, side := range []struct {
		name string
		list []kernels.Remark
	}{{"old", k.OldRemarks}, {"new", k.NewRemarks}} {
		for i, r := range side.list {
			if i == most {
				lines = append(lines, fmt.Sprintf("%s: and %d more", side.name, len(side.list)-most))
				break
			}
			where := ""
			if r.File != "" {
				where = fmt.Sprintf("%s:%d: ", r.File, r.Line)
			}
			lines = append(lines, fmt.Sprintf("%s: %s%s [%s]", side.name, where, r.Text, r.Pass))
		}
	}
	return lines
}

// Advice is the advice about a failure of a kernel with large workgroups.
const Advice = "the kernel permits workgroups of 1024: if launches use fewer work-items, __launch_bounds__ in the source gives it more registers"

// Removers returns the names and flags of suggestions.
func Removers(list []kernels.Suggestion) string {
	var all []string
	for _, s := range list {
		all = append(all, fmt.Sprintf("%s (%s)", s.Name, strings.Join(s.Flags, " ")))
	}
	return orDash(strings.Join(all, ", "))
}

// suggestions prints which flags remove the failures, and what each build with
// additional flags does.
func suggestions(w io.Writer, d *kernels.Diff) error {
	if len(d.Suggestions) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	if err := table(w, func(row func(...string)) {
		row("TRIED", "REMOVES", "HARMS", "FLAGS")
		for _, s := range d.Suggestions {
			row(s.Name, fmt.Sprintf("%d of %d", len(s.Removes), len(d.Failures)), fmt.Sprint(len(s.Harms)), strings.Join(s.Flags, " "))
		}
	}); err != nil {
		return err
	}
	fmt.Fprintln(w)
	advice := false
	if err := table(w, func(row func(...string)) {
		row("LIMIT", "ARCH", "REMOVED WITHOUT HARM BY", "KERNEL")
		for _, f := range d.Failures {
			if f.Kernel != nil {
				row(string(f.Rule), orDash(f.Arch), Removers(d.RemovedBy(f)), kernels.Demangle(*f.Kernel))
				advice = advice || d.LaunchBounds(f)
			}
		}
	}); err != nil || !advice {
		return err
	}
	for _, f := range d.Failures {
		if d.LaunchBounds(f) {
			fmt.Fprintf(w, "advice: %s: %s\n", printable.Name(kernels.Demangle(*f.Kernel)), Advice)
		}
	}
	return nil
}

// archRow returns the cells of an architecture.
func archRow(a kernels.ChangedArch) []string {
	old, new, change := printable.Size(a.OldSize), printable.Size(a.NewSize), string(a.Change)
	switch {
	case a.Change == kernels.Added:
		old = "-"
	case a.Change == kernels.Removed:
		new = "-"
	case a.NewSize != a.OldSize:
		change = signedSize(a.NewSize - a.OldSize)
		if a.OldSize > 0 {
			change += fmt.Sprintf(" (%+.1f%%)", float64(a.NewSize-a.OldSize)*100/float64(a.OldSize))
		}
	case a.Change == kernels.Changed:
		change = "same size"
	}
	return []string{orDash(a.Arch), old, new, change}
}

func signedSize(n int64) string {
	if n > 0 {
		return "+" + printable.Size(n)
	}
	return printable.Size(n)
}

// valueNames are the names of the values of a kernel, in the order in which they are printed.
var valueNames = []string{"occupancy", "sgpr_spills", "vgpr_spills", "scratch", "vgprs", "agprs", "sgprs", "lds", "kernarg", "max_workgroup_size"}

// diffRow returns the cells of a kernel that differs.
func diffRow(k *kernels.ChangedKernel) []string {
	var what []string
	code := "-"
	if n, ok := k.Deltas["code_size"]; ok {
		code = fmt.Sprintf("%+d", n)
	}
	for _, name := range valueNames {
		if n, ok := k.Deltas[name]; ok {
			what = append(what, fmt.Sprintf("%s %s (%+d)", strings.ReplaceAll(name, "_", " "), fromTo(k, name), n))
		}
	}
	switch k.Change {
	case kernels.Added:
		code = number(k.New.CodeSize)
	case kernels.Removed:
		code = number(k.Old.CodeSize)
	case kernels.Changed:
		if len(what) == 0 && code == "-" {
			what = append(what, "attributes")
		}
	}
	return []string{string(k.Change), orDash(k.Arch), code, orDash(strings.Join(what, ", ")), orDash(k.Demangled)}
}

// fromTo returns the old and the new value.
func fromTo(k *kernels.ChangedKernel, name string) string {
	return number(kernels.Figure(k.Old, name)) + " to " + number(kernels.Figure(k.New, name))
}

// Failures returns one line that lists the exceeded limits.
func Failures(d *kernels.Diff) string {
	const most = 3 // kernels that are named for each rule
	var parts []string
	for i := 0; i < len(d.Failures); {
		rule := d.Failures[i].Rule
		n := i
		for n < len(d.Failures) && d.Failures[n].Rule == rule {
			n++
		}
		var names []string
		for _, f := range d.Failures[i:min(n, i+most)] {
			name := f.Arch
			if f.Kernel != nil {
				name += " " + kernels.Demangle(*f.Kernel)
			}
			if rule == kernels.MaxGrowth {
				at := slices.IndexFunc(d.Archs, func(a kernels.ChangedArch) bool { return a.Arch == f.Arch })
				name += " by " + printable.Size(d.Archs[at].NewSize-d.Archs[at].OldSize)
			}
			names = append(names, name)
		}
		if n-i > most {
			names = append(names, fmt.Sprintf("and %d more", n-i-most))
		}
		parts = append(parts, fmt.Sprintf("%s: %s", rule, strings.Join(names, ", ")))
		i = n
	}
	return "limits exceeded: " + strings.Join(parts, "; ")
}
