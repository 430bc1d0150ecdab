package verb

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

// codeObject writes a code object for gfx90a with kernels that use so many VGPRs.
func codeObject(t *testing.T, path string, vgprs ...int) {
	t.Helper()
	object := testelf.CodeObject{ABI: 3, Flags: 0x3f}
	for i, n := range vgprs {
		object.Kernels = append(object.Kernels, testelf.Kernel{
			Name: fmt.Sprintf("_Z7kernel%dv", i), CodeSize: 256, Rsrc1: uint32((n - 1) / 8),
			Keys: map[string]any{
				".kernarg_segment_size": 8, ".kernarg_segment_align": 8, ".group_segment_fixed_size": 0, ".private_segment_fixed_size": 0,
				".wavefront_size": 64, ".sgpr_count": 10, ".vgpr_count": n, ".max_flat_workgroup_size": 256, ".vgpr_spill_count": n / 200, ".sgpr_spill_count": 0,
			},
		})
	}
	write(t, path, object.Build())
}

// What offload report writes, and when it fails.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	codeObject(t, filepath.Join(dir, "old.co"), 32, 32, 32)
	codeObject(t, filepath.Join(dir, "new.co"), 32, 240, 40)
	for _, test := range []struct {
		args   string
		code   int
		stderr string // its beginning
		made   string // files that are there after it
	}{
		{"report --html=h --markdown=m --json=j old.co", 0, "", "h m j"},
		{"report --json=j --base=old.co new.co", 0, "", "j"},
		{"report --json=j --base=old.co --fail-on=removed-kernels new.co", 0, "", "j"},
		{"report --json=j --html=h --base=old.co --fail-on=spills,occupancy new.co", 1, "offload: new.co: ", "j h"},
		{"report --json=j --base=old.co --fail-on=spills old.co", 0, "", "j"},
		{"report --json=j --base=old.co --max-growth=0 old.co", 0, "", "j"},
		{"report old.co", 2, "offload report: the output is missing: expected --html, --markdown or --json. Try: offload report --help\n", ""},
		{"report --json=j", 2, "offload report: the input is missing: expected at least one FILE. Try: offload report --help\n", ""},
		{"report --json=j --fail-on=spills old.co", 2, "offload report: --fail-on, --tolerance and --max-growth compare with an older file: --base is missing. Try: offload report --help\n", ""},
		{"report --json=j --base=old.co --fail-on=luck old.co", 2, `offload report: --fail-on: found "luck", expected spills`, ""},
		{"report --html=h --json=none/j old.co", 1, "offload: ", ""},
		{"report --json=old.co old.co", 1, "offload: ", "old.co"},
		{"report --json=j nosuch", 1, "offload: nosuch: no such file or directory\n", ""},
		{"check --covers=gfx90a --output=o old.co", 0, "", "o"},
		{"check --covers=gfx942 --output=o old.co", 1, "offload: ", ""},
	} {
		t.Run(test.args, func(t *testing.T) {
			for _, name := range []string{"h", "m", "j", "o"} {
				os.Remove(filepath.Join(dir, name))
			}
			code, stdout, stderr := runIn(dir, strings.Fields(test.args)...)
			if code != test.code || stdout != "" || !strings.HasPrefix(stderr, test.stderr) || test.stderr == "" && stderr != "" || strings.Count(stderr, "\n") > 1 {
				t.Errorf("exit code %d, want %d: %q %q", code, test.code, stdout, stderr)
			}
			for _, name := range []string{"h", "m", "j", "o"} {
				_, err := os.Stat(filepath.Join(dir, name))
				if made := err == nil; made != strings.Contains(" "+test.made+" ", " "+name+" ") {
					t.Errorf("%s is there: %v", name, made)
				}
			}
		})
	}
}

// The difference in a report is that of offload diff.
func TestReportDiff(t *testing.T) {
	dir := t.TempDir()
	codeObject(t, filepath.Join(dir, "old.co"), 32, 32, 32)
	codeObject(t, filepath.Join(dir, "new.co"), 32, 240)
	_, stdout, _ := runIn(dir, "diff", "--json", "old.co", "new.co")
	if code, _, stderr := runIn(dir, "report", "--json=-", "--base=old.co", "new.co"); code != 0 {
		t.Fatal(stderr)
	}
	_, report, _ := runIn(dir, "report", "--json=-", "--base=old.co", "new.co")
	var want, got any
	if err := json.Unmarshal([]byte(stdout), &want); err != nil {
		t.Fatal(err)
	}
	var whole struct{ Diff any }
	if err := json.Unmarshal([]byte(report), &whole); err != nil {
		t.Fatal(err)
	}
	got = whole.Diff
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("report has %v, diff %v", got, want)
	}
}
