package engine

import (
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/elf/elfcheck"
	"github.com/rules-offload/rules_offload/internal/elf/elfedit"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/storage/joined"
)

// checkLayout checks the structure of a linked file to be written. It ignores faults
// that the input also has.
func checkLayout(input *files.Input, layout *elfedit.Layout) error {
	joined, err := joined.New(layout.Size, layout.Parts)
	if err != nil {
		return err
	}
	defer joined.Close()
	if err := joined.Fill(); err != nil {
		return err
	}
	before := make(map[elfcheck.Rule]int)
	for _, f := range elfcheck.Check(input.Mapped(guard.Inside)) {
		before[f.Rule]++
	}
	var findings []elfcheck.Finding
	for _, f := range elfcheck.Check(joined.Bytes()) {
		if before[f.Rule]--; before[f.Rule] < 0 {
			findings = append(findings, f)
		}
	}
	return elfcheck.Join(findings)
}
