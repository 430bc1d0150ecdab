package runtimes

import (
	"testing"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
)

// Every kind has a runtime, in the order of the kinds.
func TestTable(t *testing.T) {
	for bit := range 16 {
		kind := offloadbinary.OffloadKind(1) << bit
		_, named := offloadbinary.ParseOffloadKind(kind.String())
		if r := Of(kind); (r != nil) != named || named && r != &Table[bit] {
			t.Errorf("%s: its runtime is %v", kind, r)
		}
	}
	for _, r := range Table {
		if fat := r.Form == FatBinary; fat != (r.Magic != 0) || fat != (r.Sections.Image != "") || fat != (r.MachO.Wrapper != "") {
			t.Errorf("%s: a fat binary has sections and a magic, other forms have none", r.Title)
		}
	}
}
