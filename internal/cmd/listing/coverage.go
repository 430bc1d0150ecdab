package listing

import (
	"fmt"
	"io"
	"slices"

	"github.com/rules-offload/rules_offload/installed/coverage"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// Coverage prints the verdicts of a coverage check as a table with a row for each file and mode
// of a GPU. If code is in kpack archives, the table has a column for them.
func Coverage(w io.Writer, r *coverage.Report) error {
	split := slices.ContainsFunc(r.Files, func(f coverage.FileReport) bool { return f.Split() })
	return table(w, func(row func(...string)) {
		line := func(archive string, cells ...string) {
			if split {
				cells = append(cells, archive)
			}
			row(cells...)
		}
		line("ARCHIVE", "FILE", "GPU", "VERDICT", "FOUND", "ENTRY")
		for _, f := range r.Files {
			for _, g := range f.GPUs {
				if len(g.Modes) == 0 {
					line("-", printable.Name(f.File), g.GPU, string(g.Verdict), "-", "-")
				}
				for i := range g.Modes {
					m := &g.Modes[i]
					how, entry, verdict := "-", "-", string(m.Verdict)
					if m.How != nil {
						how = string(*m.How)
					}
					if m.Entry != nil {
						entry = orDash(*m.Entry)
					}
					if m.Older != "" {
						verdict += " (older runtimes: " + string(m.Older) + ")"
					}
					line(archiveOf(m), printable.Name(f.File), m.Mode, verdict, how, entry)
				}
			}
		}
	})
}

// archiveOf returns the archive in which a mode finds the code of the first source, or "-".
func archiveOf(m *coverage.ModeReport) string {
	if m.How == nil || len(m.Code) == 0 {
		return "-"
	}
	return orDash(printable.Name(m.Code[0].Archive))
}

// Package prints the faults of packages, one in each line: the file, what is wrong and what to do.
func Package(w io.Writer, r *coverage.PackageReport) error {
	for _, f := range r.Faults {
		warning := ""
		if f.Warning {
			warning = "warning: "
		}
		if _, err := fmt.Fprintf(w, "%s: %s%s; %s\n", printable.Name(f.File), warning, printable.Text(f.Text), printable.Text(f.Fix)); err != nil {
			return err
		}
	}
	return nil
}
