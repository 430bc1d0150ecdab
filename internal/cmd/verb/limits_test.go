package verb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Bundles at the size limits. Their files have holes, which use no space.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	// Their content is zeros, so that no check reads further than the magic.
	const linked = 2<<30 - 64<<20
	for name, size := range map[string]int64{"fits": linked, "large": linked + 1, "image": 4 << 30} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		args   string
		stderr string // its beginning
	}{
		{"check --linked --input fits", "offload: fits: not a bundle: found "},
		{"check --input large", "offload: large: not a bundle: found "},
		{"check --linked --input large", "offload: large: found 2080374785 bytes, expected at most 2080374784, because a program can address 2 GiB of data: compress the bundle, or remove architectures\n"},
		{"check --max-size 2080374784 --input large", "offload: large: found 2080374785 bytes, expected at most 2080374784, the size budget: compress the bundle, remove architectures, or raise the budget\n"},
		{"bundle --compress --format-version 2 --entry gfx942=image --output none", "offload: bundle of 4294967383 bytes: version 2 can store less than 4 GiB; write version 3, or remove targets\n"},
	} {
		code, _, stderr := runIn(dir, strings.Fields(test.args)...)
		if code != 1 || !strings.HasPrefix(stderr, test.stderr) {
			t.Errorf("%s: exit code %d: %s", test.args, code, stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a failure left a file")
	}
}
