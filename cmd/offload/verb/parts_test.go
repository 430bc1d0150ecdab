package verb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A bundle that is put together from parts has what one made in one step has.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	contents := map[string]string{"one": strings.Repeat("first", 1000), "two": strings.Repeat("second", 500), "three": strings.Repeat("third", 10), "none": ""}
	for name, content := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"compress-part --align 4096 --output p1 none one", 0, ""},
		{"compress-part --align 4096 --output p2 two three", 0, ""},
		{"compress-part --align 4096 --output stale three three", 0, ""},
		{"compress-plan --align 4096 --output plan --entry host-x86_64-unknown-linux-gnu= --entry gfx942=one --entry gfx1030=two --entry gfx1100=three", 0, ""},
		{"assemble --plan plan --output x p1 p2", 0, ""},
		{"assemble --plan plan --format-version 2 --output y p1 p2", 0, ""},
		{"unbundle --type bc --input x --entry gfx942=x.one --entry gfx1030=x.two --entry gfx1100=x.three", 0, ""},
		{"unbundle --type bc --input y --entry gfx942=y.one --entry gfx1030=y.two --entry gfx1100=y.three", 0, ""},
		{"assemble --plan plan --output z p1 stale", 1, "offload: part 2 of 2: 50 bytes at 0x3000 with XXH64 "},
		{"assemble --plan plan --output z p1", 1, "offload: no part has the 3000 bytes at 0x3000 of the plan\n"},
		{"assemble --plan p1 --output z p1 p2", 1, "offload: p1: byte 0x0: no plan of a compressed bundle"},
		{"assemble --plan plan --output z plan p2", 1, "offload: plan: byte 0x0: no zstd frame begins here"},
		{"assemble --output z p1 p2", 2, "offload assemble: --plan is missing"},
		{"compress-part --output z", 2, "offload compress-part: no files"},
		{"compress-plan --output z", 2, "offload compress-plan: no --entry"},
	} {
		code, stdout, stderr := runIn(dir, strings.Fields(test.args)...)
		if code != test.code || stdout != "" || !strings.HasPrefix(stderr, test.stderr) || test.stderr == "" && stderr != "" {
			t.Errorf("%s: exit code %d, want %d: %s%s", test.args, code, test.code, stdout, stderr)
		}
	}
	for _, name := range []string{"x.one", "x.two", "x.three", "y.one", "y.two", "y.three"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != contents[name[2:]] {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "z")); err == nil {
		t.Error("a failure left a file")
	}
}
