package verb

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Bundling, listing and unbundling with short and whole target IDs, and the same with archives.
func TestBundleListUnbundle(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"one": "first", "two": "second", "e": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const amd = "hipv4-amdgcn-amd-amdhsa--"
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"bundle --type bc --output x --align 64 --entry host-x86_64-unknown-linux-gnu= --entry gfx942=one --entry gfx90a:xnack+=two", 0, "", ""},
		{"list x", 0, amd + "gfx942\n" + amd + "gfx90a:xnack+\nhost-x86_64-unknown-linux-gnu-\n", ""},
		{"unbundle --type bc --input x --entry gfx942=o1 --entry gfx90a:xnack+=o2", 0, "", ""},
		{"unbundle --type bc --input x --entry gfx90a:xnack-=o3", 1, "", "offload: x: no entry serves " + amd + "gfx90a:xnack-; the bundle has " + amd + "gfx942, " + amd + "gfx90a:xnack+, host-x86_64-unknown-linux-gnu-\n"},
		{"unbundle --type bc --input x --entry gfx90a:xnack-=o3 --allow-missing", 0, "", ""},
		{"unbundle --type bc --input x --bundle 2 --entry gfx942=none", 1, "", "offload: x: no bundle 2: the file has 1\n"},
		{"bundle --type bc --output z --compress --format-version 2 --level 9 --frames entry --entry hip-amdgcn-amd-amdhsa-gfx906=one --entry hip-amdgcn-amd-amdhsa--gfx906:xnack+=two", 2, "", "offload bundle: --entry: hip-amdgcn-amd-amdhsa--gfx906 and hip-amdgcn-amd-amdhsa--gfx906:xnack+ cannot be in one bundle: either all entries for gfx906 set xnack, or none. Try: offload bundle --help\n"},
		{"bundle --type bc --output z --compress --format-version 2 --level 9 --frames entry --kind hip --entry hip-amdgcn-amd-amdhsa-gfx906=one --entry gfx908:xnack-:sramecc+=two", 0, "", ""},
		{"list z", 0, "hip-amdgcn-amd-amdhsa--gfx906\nhip-amdgcn-amd-amdhsa--gfx908:sramecc+:xnack-\n", ""},
		{"list --json z", 0, `[
  {
    "id": "hip-amdgcn-amd-amdhsa--gfx906",
    "bundle": 1,
    "offset": 154,
    "size": 5,
    "compressed": true
  },
  {
    "id": "hip-amdgcn-amd-amdhsa--gfx908:sramecc+:xnack-",
    "bundle": 1,
    "offset": 159,
    "size": 6,
    "compressed": true
  }
]
`, ""},
		{"unbundle --type bc --verify --input z --kind hip --entry gfx908:sramecc+:xnack-=o4 --explain", 0, "", `Incompatible: Processor mismatch ` + "\t[CodeObject: hip-amdgcn-amd-amdhsa--gfx906]\t:\t[Target: hip-amdgcn-amd-amdhsa--gfx908:sramecc+:xnack-]\n" +
			"Compatible: Exact match: \t[CodeObject: hip-amdgcn-amd-amdhsa--gfx908:sramecc+:xnack-]\t:\t[Target: hip-amdgcn-amd-amdhsa--gfx908:sramecc+:xnack-]\n"},
		{"bundle --type ll --output t --entry host-x86_64-unknown-linux-gnu=one --entry openmp-amdgcn-amd-amdhsa--gfx942=two", 0, "", ""},
		{"list --type ll t", 0, "host-x86_64-unknown-linux-gnu-\nopenmp-amdgcn-amd-amdhsa--gfx942\n", ""},
		{"archive --output l.a --check x z", 0, "", ""},
		{"list l.a", 0, amd + "gfx942\n" + amd + "gfx90a:xnack+\nhost-x86_64-unknown-linux-gnu-\nhip-amdgcn-amd-amdhsa--gfx906\nhip-amdgcn-amd-amdhsa--gfx908:sramecc+:xnack-\n", ""},
		{"unbundle-archive --input l.a --entry gfx942=o5.a --entry gfx906:xnack+=o6.a", 0, "", ""},
		{"unbundle-archive --input l.a --entry gfx1030=none.a", 1, "", "offload: l.a: no entry serves " + amd + "gfx1030; the archive has hip-amdgcn-amd-amdhsa--gfx906, hip-amdgcn-amd-amdhsa--gfx908:sramecc+:xnack-, " + amd + "gfx90a:xnack+, " + amd + "gfx942, host-x86_64-unknown-linux-gnu-; choose another target, or add --allow-missing (allow_missing = True in rules)\n"},
		{"unbundle-archive --input l.a --entry gfx1030=o7.a --allow-missing", 0, "", ""},
		{"list --json o7.a", 0, "[]\n", ""},
		{"list nosuch", 1, "", "offload: nosuch: no such file or directory\n"},
		{"list", 2, "", "offload list: the input is missing: expected FILE or --input FILE. Try: offload list --help\n"},
		{"bundle --output x", 2, "", "offload bundle: no --entry: name at least one target, e.g. --entry gfx942=kernels.co. Try: offload bundle --help\n"},
		{"bundle --type a --output x --entry gfx942=one", 2, "", "offload bundle: --type a: for archives, run offload archive. Try: offload bundle --help\n"},
		{"unbundle --type a --input l.a --entry gfx942=one", 2, "", "offload unbundle: --type a: for archives, run offload unbundle-archive. Try: offload unbundle --help\n"},
		{"bundle --type zz --output x", 2, "", "offload bundle: --type: found \"zz\", expected i, ii, cui, hipi, d, ll, bc, s, o, a, gch or ast. Try: offload bundle --help\n"},
		{"bundle --format-version 1", 2, "", "offload bundle: --format-version: found \"1\", expected 2 or 3. Try: offload bundle --help\n"},
		{"archive --output x", 2, "", "offload archive: the input is missing: expected the bundles and objects to put into the archive. Try: offload archive --help\n"},
	} {
		code, stdout, stderr := runIn(dir, strings.Fields(test.args)...)
		if code != test.code || stdout != test.stdout || stderr != test.stderr {
			t.Errorf("%s: exit code %d, want %d\n%s", test.args, code, test.code, cmp.Diff(test.stdout+test.stderr, stdout+stderr))
		}
	}
	for name, want := range map[string]string{"o1": "first", "o2": "second", "o3": "", "o4": "second", "o7.a": "!<arch>\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"o5.a": "x-hipv4-amdgcn-amd-amdhsa--gfx942x.bc/", "o6.a": "z-hip-amdgcn-amd-amdhsa--gfx906z.bc/"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s is %q (%v), want a member %s", name, got, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a failure left a file")
	}
}
