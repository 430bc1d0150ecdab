package listing

import (
	"io"

	"github.com/rules-offload/rules_offload/engine/coverage"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// CoverageJSON prints the verdicts of a coverage check as a JSON object.
func CoverageJSON(w io.Writer, r *coverage.Report) error { return writeJSON(w, r) }

// Coverage prints the verdicts of a coverage check as a table with a row for each file and mode
// of a GPU.
func Coverage(w io.Writer, r *coverage.Report) error {
	return table(w, func(row func(...string)) {
		row("FILE", "GPU", "VERDICT", "FOUND", "ENTRY")
		for _, f := range r.Files {
			for _, g := range f.GPUs {
				if len(g.Modes) == 0 {
					row(printable.Name(f.File), g.GPU, string(g.Verdict), "-", "-")
				}
				for _, m := range g.Modes {
					how, entry := "-", "-"
					if m.How != nil {
						how = string(*m.How)
					}
					if m.Entry != nil {
						entry = orDash(*m.Entry)
					}
					row(printable.Name(f.File), m.Mode, string(m.Verdict), how, entry)
				}
			}
		}
	})
}
