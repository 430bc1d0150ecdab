package dialect

import (
	"testing"

	"github.com/rules-offload/rules_offload/engine/target"
)

// Every release has a dialect: older ones that of the oldest in the table, newer ones that of the newest.
func TestOf(t *testing.T) {
	for r := range target.Release(40) {
		d := Of(r)
		if want := r >= 23; d.SYCLBinaries != want {
			t.Errorf("LLVM %d: SYCLBinaries is %t", r, d.SYCLBinaries)
		}
		if want := r >= 24; d.IR.DataLayout != want {
			t.Errorf("LLVM %d: DataLayout is %t", r, d.IR.DataLayout)
		}
	}
}
