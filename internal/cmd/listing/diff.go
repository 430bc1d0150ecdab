package listing

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/kerneldiff"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// DiffJSON prints a difference as a JSON object.
func DiffJSON(w io.Writer, d *kerneldiff.Diff) error { return writeJSON(w, d) }

// Diff prints a difference: a table of architectures, one of kernels, and how
// many kernels differ.
func Diff(w io.Writer, d *kerneldiff.Diff) error {
	if len(d.Archs) == 0 {
		_, err := fmt.Fprintln(w, "no device images in either file")
		return err
	}
	if err := table(w, func(row func(...string)) {
		row("ARCH", "OLD", "NEW", "CHANGE")
		total := kerneldiff.Arch{Arch: "total", Change: kerneldiff.Changed}
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
	count := make(map[kerneldiff.Change]int)
	for _, k := range d.Kernels {
		count[k.Change]++
	}
	_, err := fmt.Fprintf(w, "\nkernels: %d changed, %d added, %d removed, %d equal\n",
		count[kerneldiff.Changed], count[kerneldiff.Added], count[kerneldiff.Removed], d.Equal)
	return err
}

// archRow returns the cells of an architecture.
func archRow(a kerneldiff.Arch) []string {
	old, new, change := printable.Size(a.OldSize), printable.Size(a.NewSize), string(a.Change)
	switch {
	case a.Change == kerneldiff.Added:
		old = "-"
	case a.Change == kerneldiff.Removed:
		new = "-"
	case a.NewSize != a.OldSize:
		change = signedSize(a.NewSize - a.OldSize)
		if a.OldSize > 0 {
			change += fmt.Sprintf(" (%+.1f%%)", float64(a.NewSize-a.OldSize)*100/float64(a.OldSize))
		}
	case a.Change == kerneldiff.Changed:
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

// figureNames are the names of figures in the order in which they are printed.
var figureNames = []string{"occupancy", "sgpr_spills", "vgpr_spills", "scratch", "vgprs", "agprs", "sgprs", "lds", "kernarg", "max_workgroup_size"}

// diffRow returns the cells of a kernel that differs.
func diffRow(k *kerneldiff.Kernel) []string {
	var what []string
	code := "-"
	if n, ok := k.Deltas["code_size"]; ok {
		code = fmt.Sprintf("%+d", n)
	}
	for _, name := range figureNames {
		if n, ok := k.Deltas[name]; ok {
			what = append(what, fmt.Sprintf("%s %s (%+d)", strings.ReplaceAll(name, "_", " "), fromTo(k, name), n))
		}
	}
	switch k.Change {
	case kerneldiff.Added:
		code = number(k.New.CodeSize)
	case kerneldiff.Removed:
		code = number(k.Old.CodeSize)
	case kerneldiff.Changed:
		if len(what) == 0 && code == "-" {
			what = append(what, "attributes")
		}
	}
	return []string{string(k.Change), orDash(k.Arch), code, orDash(strings.Join(what, ", ")), orDash(k.Demangled)}
}

// fromTo prints the old and the new figure.
func fromTo(k *kerneldiff.Kernel, name string) string {
	figure := func(k *kernels.Kernel) string {
		n := kerneldiff.Figure(k, name)
		return number(n)
	}
	return figure(k.Old) + " to " + figure(k.New)
}

// Failures returns one line that lists the exceeded limits.
func Failures(d *kerneldiff.Diff) string {
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
			if rule == kerneldiff.MaxGrowth {
				at := slices.IndexFunc(d.Archs, func(a kerneldiff.Arch) bool { return a.Arch == f.Arch })
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
