package prune

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
)

// TestMemoryOfUnits opens archives of many small bundles: their units take memory of the budget until
// Close, and an archive for which it is too small is an error.
func TestMemoryOfUnits(t *testing.T) {
	const members = 1000
	for _, compress := range []bool{false, true} {
		one := code(t, compress, "gfx90a", "gfx942")
		var archive bytes.Buffer
		archive.WriteString("!<arch>\n")
		for i := range members {
			fmt.Fprintf(&archive, "%-16s%-12d%-6d%-6d%-8o%-10d`\n%s", fmt.Sprintf("m%d.o/", i), 0, 0, 0, 0o644, len(one), one)
			archive.Write(make([]byte, len(one)%2))
		}
		whole := budget.New(1, 16<<20)
		open := func(b *budget.Budget) (*Work, error) {
			return Open(t.Context(), content.Memory(archive.Bytes()), Options{Keep: []string{"gfx90a"}, DryRun: true, Budget: b})
		}
		for range 3 {
			w, err := open(whole)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Layout(t.Context()); err != nil {
				t.Error(err)
			}
			expired, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := whole.Reserve(expired, whole.Memory()-members*unitMemory); err == nil {
				t.Error("the units hold no memory")
			}
			w.Close()
			all, err := whole.Reserve(t.Context(), whole.Memory())
			if err != nil {
				t.Fatal(err)
			}
			all.Release()
		}
		little := budget.New(1, 2<<20)
		if _, err := open(little); !isLimit(err) {
			t.Errorf("found %v, expected a limit of memory", err)
		}
		all, err := little.Reserve(t.Context(), little.Memory())
		if err != nil {
			t.Fatal(err)
		}
		all.Release()
	}
}

func isLimit(err error) bool {
	_, ok := errors.AsType[*budget.LimitError](err)
	return ok
}
