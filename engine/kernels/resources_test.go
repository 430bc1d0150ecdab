package kernels

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTakeResources(t *testing.T) {
	for name, messages := range map[string]string{
		"clang": `a.hip:4:1: remark: Function Name: k [-Rpass-analysis=kernel-resource-usage]
    4 | extern "C" __global__ void k(float *p) {
      | ^
a.hip:4:1: remark:     ScratchSize [bytes/lane]: 16 [-Rpass-analysis=kernel-resource-usage]
a.hip:4:1: remark:     Dynamic Stack: False [-Rpass-analysis=kernel-resource-usage]
a.hip:9:1: warning: unused
    9 | int x;
      | ^
a.hip:9:1: remark: loop not vectorized [-Rpass-missed=loop]
`,
		"lld": `a.hip:4:0: Function Name: k
a.hip:4:0:     ScratchSize [bytes/lane]: 16
a.hip:4:0:     Dynamic Stack: False
a.hip:9:1: warning: unused
    9 | int x;
      | ^
a.hip:9:1: remark: loop not vectorized [-Rpass-missed=loop]
`,
	} {
		rest, record := TakeResources(messages)
		if want := "a.hip:9:1: warning: unused\n    9 | int x;\n      | ^\na.hip:9:1: remark: loop not vectorized [-Rpass-missed=loop]\n"; rest != want {
			t.Errorf("%s: the other messages are %q", name, rest)
		}
		var r Remarks
		if err := r.Add("gfx90a", record); err != nil {
			t.Fatal(err)
		}
		want := []Remark{
			{"analysis", "kernel-resource-usage", "ScratchSize [bytes/lane]", "a.hip", 4, "ScratchSize [bytes/lane]: 16", "k"},
			{"analysis", "kernel-resource-usage", "Dynamic Stack", "a.hip", 4, "Dynamic Stack: False", "k"},
		}
		if diff := cmp.Diff(want, r.byFunction[[2]string{"gfx90a", "k"}], cmp.AllowUnexported(Remark{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if rest, record := TakeResources("ld.lld: error: undefined symbol: f\n>>> referenced by a.hip:4\n"); record != "" || rest == "" {
		t.Errorf("%q, %q", rest, record)
	}
}
