package verb

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A bundle that is assembled from parts equals the one from a single step.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	contents := map[string]string{"one": strings.Repeat("first", 1000), "two": strings.Repeat("second", 500), "three": strings.Repeat("third", 10), "none": ""}
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const entries = " --align 4096 --entry host-x86_64-unknown-linux-gnu= --entry gfx942=one --entry gfx1030=two --entry gfx1100=three"
	for _, test := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"compress-part --align 4096 --output p1 none one", 0, ""},
		{"compress-part --align 4096 --output p2 two three", 0, ""},
		{"compress-part --align 4096 --output stale three three", 0, ""},
		{"compress-part --align 4096 --output e1 --level 9 --pad one", 0, ""},
		{"compress-part --align 4096 --output e2 --level 9 --pad two", 0, ""},
		{"compress-part --align 4096 --output e3 --level 9 three", 0, ""},
		{"compress-plan --output plan" + entries, 0, ""},
		{"compress-plan --output fine --level 9 --frames entry" + entries, 0, ""},
		{"assemble --plan plan --output x p1 p2", 0, ""},
		{"bundle --type bc --compress --output x.whole" + entries, 0, ""},
		{"assemble --plan plan --format-version 2 --output y p1 p2", 0, ""},
		{"bundle --type bc --compress --format-version 2 --output y.whole" + entries, 0, ""},
		{"assemble --plan fine --output v e1 e2 e3", 0, ""},
		{"bundle --type bc --compress --level 9 --frames entry --output v.whole" + entries, 0, ""},
		{"assemble --plan plan --output z p1 stale", 1, "offload: part 2 of 2: 50 bytes at 0x3000 with XXH64 "},
		{"assemble --plan plan --output z p1", 1, "offload: the 3000 bytes at 0x3000 of the plan are in no part\n"},
		{"assemble --plan p1 --output z p1 p2", 1, "offload: p1: byte 0x0: not a plan of a compressed bundle"},
		{"assemble --plan plan --output z plan p2", 1, "offload: plan: byte 0x0: found 5f 5f 43 4c, expected a zstd frame"},
		{"assemble --output z p1 p2", 2, "offload assemble: --plan is missing"},
		{"compress-part --output z", 2, "offload compress-part: the inputs are missing"},
		{"compress-plan --output z --frames two" + entries, 2, "offload compress-plan: --frames: found \"two\", expected auto, entry or one"},
		{"compress-plan --output z", 2, "offload compress-plan: no --entry"},
	} {
		code, stdout, stderr := runIn(dir, strings.Fields(test.args)...)
		if code != test.code || stdout != "" || !strings.HasPrefix(stderr, test.stderr) || test.stderr == "" && stderr != "" {
			t.Errorf("%s: exit code %d, want %d: %s%s", test.args, code, test.code, stdout, stderr)
		}
	}
	for _, name := range []string{"x", "y", "v"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		want, werr := os.ReadFile(filepath.Join(dir, name+".whole"))
		if err := errors.Join(err, werr); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, in one step %d (%v)", name, len(got), len(want), err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "z")); err == nil {
		t.Error("a failure left a file")
	}
}
