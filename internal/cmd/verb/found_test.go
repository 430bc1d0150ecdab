package verb

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

// fatBundle returns a bundle with code for GPUs, which has a kernel for each.
func fatBundle(t *testing.T, codes ...testelf.CodeObject) []byte {
	t.Helper()
	items := []bundle.Item{{ID: "host-x86_64-unknown-linux-gnu-"}}
	for _, code := range codes {
		id := map[uint32]string{gfx900: "gfx900", gfx90a: "gfx90a", gfx1100: "gfx1100", gfx11Generic: "gfx11-generic"}[code.Flags]
		if code.ABI = 3; code.Flags == gfx11Generic {
			code.ABI = 4
		}
		items = append(items, bundle.Item{ID: "hipv4-amdgcn-amd-amdhsa--" + id, Content: content.Memory(code.Build())})
	}
	return fixture.BundleOf(t, bundle.Options{Align: 4096}, items...)
}

const gfx11Generic = 0x54 | 1<<24

// for1 returns code for a GPU with kernels.
func for1(flags uint32, kernels ...string) (code testelf.CodeObject) {
	code.Flags = flags
	for _, name := range kernels {
		code.Kernels = append(code.Kernels, testelf.Kernel{Name: name, CodeSize: 64})
	}
	return code
}

// TestVerbsAgree finds the same device code with every verb, whatever the sections of the file are called and contain.
func TestVerbsAgree(t *testing.T) {
	bundles := [][]byte{fatBundle(t, for1(gfx90a, "one"), for1(gfx1100, "one")), fatBundle(t, for1(gfx900, "two"), for1(gfx90a, "two"))}
	want := []string{"hipv4-amdgcn-amd-amdhsa--gfx1100", "hipv4-amdgcn-amd-amdhsa--gfx900", "hipv4-amdgcn-amd-amdhsa--gfx90a", "hipv4-amdgcn-amd-amdhsa--gfx90a"}
	libraries := map[string]testelf.Library{
		"x86-64":       {},
		"AArch64":      {Machine: elf.EM_AARCH64},
		"RELR":         {Relr: true},
		"symbols":      {Symbol: true},
		"program":      {Exec: true},
		"shared":       {Wrappers: []int{1, 0, 1}},
		"with kernels": {Kernels: []string{"one", "two"}},
	}
	for form, change := range map[string]func([]byte) []byte{
		"plain":    func(data []byte) []byte { return data },
		"stripped": testelf.StripSections,
		"renamed": func(data []byte) []byte {
			return testelf.RenameSection(testelf.RenameSection(data, ".hip_fatbin", ".foo"), ".hipFatBinSegment", ".bar")
		},
		"merged": func(data []byte) []byte {
			return testelf.MergeSections(testelf.MergeSections(data, ".rodata", ".hip_fatbin"), ".dynamic", ".hipFatBinSegment")
		},
		"merged wrappers": func(data []byte) []byte { return testelf.MergeSections(data, ".dynamic", ".hipFatBinSegment") },
		"a wrapper's section renamed": func(data []byte) []byte {
			return testelf.RenameSection(data, ".hipFatBinSegment", ".data.rel.ro")
		},
	} {
		for name, library := range libraries {
			t.Run(form+" "+name, func(t *testing.T) {
				library.Bundles = bundles
				if library.Wrappers == nil {
					library.Wrappers = []int{0, 1}
				}
				dir := writeAll(t, map[string][]byte{"lib/a.so": change(library.Build()), "lib/text": []byte("text")})
				for verb, got := range everywhere(t, dir) {
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", verb, diff)
					}
				}
				// A smaller file has the code that is left, for all of them.
				must(t, dir, "prune", "--drop=gfx1100", "--input=lib/a.so", "--output=lib/a.so.new")
				if err := os.Rename(filepath.Join(dir, "lib/a.so.new"), filepath.Join(dir, "lib/a.so")); err != nil {
					t.Fatal(err)
				}
				for verb, got := range everywhere(t, dir) {
					if diff := cmp.Diff(want[1:], got); diff != "" {
						t.Errorf("%s after pruning (-want +got):\n%s", verb, diff)
					}
				}
			})
		}
	}
}

// everywhere returns the sorted entry IDs that verbs find in lib/a.so.
func everywhere(t *testing.T, dir string) map[string][]string {
	t.Helper()
	decode := func(into any, args ...string) {
		t.Helper()
		if err := json.Unmarshal([]byte(must(t, dir, args...)), into); err != nil {
			t.Fatal(err)
		}
	}
	lists := make(map[string][]string)
	add := func(verb, id string) {
		if strings.HasPrefix(id, "hip") {
			lists[verb] = append(lists[verb], id)
		}
	}
	var images []struct{ ID string }
	decode(&images, "inspect", "--json", "lib/a.so")
	for _, i := range images {
		add("inspect", i.ID)
	}
	out := t.TempDir()
	for line := range strings.Lines(must(t, dir, "extract", "--output-dir="+out, "lib/a.so")) {
		for _, gpu := range []string{"gfx1100", "gfx900", "gfx90a"} {
			if strings.Contains(line, gpu) {
				add("extract", "hipv4-amdgcn-amd-amdhsa--"+gpu)
			}
		}
	}
	var pruned struct{ Bundles []struct{ Kept []string } }
	decode(&pruned, "prune", "--dry-run", "--keep=gfx90a,gfx900,gfx1100", "--ignore-missing", "--json", "--input=lib/a.so", "--output=b.so")
	seen := make(map[string]bool)
	for _, b := range pruned.Bundles {
		if key := fmt.Sprint(b.Kept); !seen[key] { // a bundle is listed for each of its wrappers
			seen[key] = true
			for _, id := range b.Kept {
				add("prune", id)
			}
		}
	}
	var report struct {
		Files []struct{ Images []struct{ ID string } }
	}
	must(t, dir, "report", "--json=report.json", "lib")
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Files {
		for _, i := range f.Images {
			add("report", i.ID)
		}
	}
	for _, list := range lists {
		slices.Sort(list)
	}
	var covered struct {
		Files []struct {
			File string
			GPUs []struct{ Verdict string }
		}
	}
	decode(&covered, "check", "--covers=gfx90a:xnack+:sramecc+", "--json", "lib")
	if len(covered.Files) != 1 || covered.Files[0].File != "lib/a.so" || covered.Files[0].GPUs[0].Verdict != "yes" {
		t.Errorf("check: %+v, want that lib/a.so has code for gfx90a", covered)
	}
	if got := must(t, dir, "check", "--package", "lib"); got != "" {
		t.Errorf("check --package: %s, want no fault", got)
	}
	return lists
}

// TestUnreadable names files that register code which cannot be read, in each verb. A directory check lists them with
// the reason.
func TestUnreadable(t *testing.T) {
	good := testelf.Library{Bundles: [][]byte{fatBundle(t, for1(gfx90a, "one")), fatBundle(t, for1(gfx90a, "two"))}, Wrappers: []int{0, 1}}
	broken := good.Build()
	at := strings.LastIndex(string(broken), bundle.Magic)
	copy(broken[at:], make([]byte, len(bundle.Magic))) // the second bundle
	dir := writeAll(t, map[string][]byte{"lib/a.so": good.Build(), "lib/b.so": broken, "lib/c.so": []byte("\x7fELF"), "lib/text": []byte("text")})
	const want = "lib/b.so: wrapper 1: points to address 0x"
	for _, args := range [][]string{
		{"inspect", "lib/b.so"}, {"extract", "--output-dir=lib", "lib/b.so"}, {"prune", "--keep=gfx90a", "--input=lib/b.so", "--output=c.so"},
		{"report", "--json=r.json", "lib/b.so"}, {"check", "--covers=gfx90a", "lib/b.so"},
	} {
		code, _, stderr := runIn(dir, args...)
		if code != exitFailure || !strings.Contains(stderr, want) || !strings.Contains(stderr, "where no bundle begins") {
			t.Errorf("%s: exit code %d, %s, want %s", args[0], code, stderr, want)
		}
	}
	code, stdout, stderr := runIn(dir, "check", "--covers=gfx90a:sramecc+:xnack-", "--json", "lib")
	var report struct {
		Files []struct {
			File   string
			Reason string `json:"cannot_read"`
			GPUs   []struct{ Verdict string }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range report.Files {
		got = append(got, fmt.Sprintf("%s %s %.20s", f.File, f.GPUs[0].Verdict, f.Reason))
	}
	if diff := cmp.Diff([]string{"lib/a.so yes ", "lib/b.so no wrapper 1: points to"}, got); diff != "" {
		t.Errorf("check of a directory (-want +got):\n%s", diff)
	}
	if code != exitFailure || !strings.Contains(stderr, "lib/b.so: gfx90a:sramecc+:xnack-: no code for it (cannot read: wrapper 1: points to address 0x") {
		t.Errorf("check of a directory: exit code %d, %s", code, stderr)
	}
	code, stdout, _ = runIn(dir, "check", "--package", "lib")
	if code != exitFailure || !strings.Contains(stdout, want) {
		t.Errorf("check --package: exit code %d, %s, want %s", code, stdout, want)
	}
}

// TestMissingKernels reports kernels that are registered and not in the image that a GPU selects: one source was
// compiled for gfx11-generic, another one for gfx1100, too.
func TestMissingKernels(t *testing.T) {
	library := func(kernels []string, codes ...testelf.CodeObject) testelf.Library {
		return testelf.Library{Bundles: [][]byte{fatBundle(t, codes...)}, Wrappers: []int{0}, Kernels: kernels}
	}
	both := []string{"one", "two"}
	for name, test := range map[string]struct {
		library testelf.Library
		covers  string // of gfx1100, gfx1101 and gfx90a:sramecc+:xnack-
		fault   string
	}{
		"hidden": {library(both, for1(gfx11Generic, "one", "two"), for1(gfx1100, "two")), "partly yes no",
			"on gfx1100: the image hipv4-amdgcn-amd-amdhsa--gfx1100 that it selects does not have the registered kernels one, which are in hipv4-amdgcn-amd-amdhsa--gfx11-generic"},
		"all":            {library(both, for1(gfx11Generic, "one", "two"), for1(gfx1100, "two", "one")), "yes yes no", ""},
		"not registered": {library([]string{"two"}, for1(gfx11Generic, "one", "two"), for1(gfx1100, "two")), "yes yes no", ""},
		"other GPU": {library(both, for1(gfx90a, "one"), for1(gfx1100, "one", "two")), "yes no partly",
			"on gfx90a: the image hipv4-amdgcn-amd-amdhsa--gfx90a that it selects does not have the registered kernels two, which are in hipv4-amdgcn-amd-amdhsa--gfx1100"},
		"nowhere": {library(append(both, "three"), for1(gfx11Generic, "one", "two")), "partly partly no", "it registers kernels that no image has: three"},
	} {
		t.Run(name, func(t *testing.T) {
			data := test.library.Build()
			dir := writeAll(t, map[string][]byte{"lib/a.so": data, "stripped/a.so": testelf.StripSections(data), "split/k/text": nil})
			for _, in := range []string{"lib/a.so", "lib", "stripped"} {
				_, stdout, _ := runIn(dir, "check", "--covers=gfx1100,gfx1101,gfx90a:sramecc+:xnack-", "--json", in)
				var report struct {
					Files []struct {
						GPUs []struct {
							Verdict string
							Modes   []struct {
								Missing []struct{ Kernels []string } `json:"missing_kernels"`
							}
						}
					}
				}
				if err := json.Unmarshal([]byte(stdout), &report); err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, g := range report.Files[0].GPUs {
					got = append(got, g.Verdict)
					if g.Verdict == "partly" && len(g.Modes[0].Missing) == 0 {
						t.Errorf("%s: a verdict partly without missing kernels", in)
					}
				}
				if strings.Join(got, " ") != test.covers {
					t.Errorf("%s: verdicts %v, want %s", in, got, test.covers)
				}
				code, stdout, _ := runIn(dir, "check", "--package", in)
				if !strings.Contains(stdout, test.fault) || (test.fault == "") != (code == exitOK) {
					t.Errorf("%s: exit code %d, %s, want %q", in, code, stdout, test.fault)
				}
			}
			// The same library with its code in archives.
			must(t, dir, "kpack", "split", "--group=g", "--input=lib/a.so", "--output=split/a.so", "--kpack-dir=split/k")
			code, stdout, _ := runIn(dir, "check", "--package", "split")
			fault := strings.ReplaceAll(test.fault, "hipv4-amdgcn-amd-amdhsa--gfx11-generic", "gfx11-generic")
			if before, _, ok := strings.Cut(fault, ", which are in"); ok {
				fault = before
			}
			if !strings.Contains(stdout, fault) || (fault == "") != (code == exitOK) {
				t.Errorf("split: exit code %d, %s, want %q", code, stdout, fault)
			}
		})
	}
}

// TestSplitRenamed splits and merges a library whose section of bundles has another name, and rejects one whose bundles
// are among other data.
func TestSplitRenamed(t *testing.T) {
	data := testelf.Library{Bundles: [][]byte{fatBundle(t, for1(gfx90a, "one")), fatBundle(t, for1(gfx90a, "two"))}, Wrappers: []int{0, 1}}.Build()
	dir := writeAll(t, map[string][]byte{
		"a.so": testelf.RenameSection(data, ".hip_fatbin", ".foo"), "b.so": testelf.MergeSections(data, ".rodata", ".hip_fatbin"), "k/text": nil,
	})
	must(t, dir, "kpack", "split", "--group=g", "--input=a.so", "--output=host.so", "--kpack-dir=k")
	must(t, dir, "kpack", "merge", "--input=host.so", "--output=fat.so", "k/g_gfx90a.kpack")
	before, after := must(t, dir, "inspect", "--kernels", "a.so"), must(t, dir, "inspect", "--kernels", "fat.so")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the merged library has other kernels (-want +got):\n%s", diff)
	}
	code, _, stderr := runIn(dir, "kpack", "split", "--group=g", "--input=b.so", "--output=c.so", "--kpack-dir=k")
	if want := "b.so: section .rodata: found bundles among other data"; code != exitFailure || !strings.Contains(stderr, want) {
		t.Errorf("merged sections: exit code %d, %s, want %s", code, stderr, want)
	}
}
