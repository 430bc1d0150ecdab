package coverage

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/installed/installation"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

// machines are the values of e_flags for processors; generic ones have generic version 1.
var machines = map[string]uint32{
	"gfx906": 0x2f, "gfx90a": 0x3f, "gfx942": 0x4c, "gfx1100": 0x41, "gfx1101": 0x46,
	"gfx9-generic": 0x51 | 1<<24, "gfx11-generic": 0x54 | 1<<24, "gfx9-4-generic": 0x5f | 1<<24,
}

// kernelName is the name of the kernel of codeFor.
var kernelName = "k"

// codeFor returns a code object for a target ID, with features "any" unless the ID has them.
// "ID!" is an ID of an empty code object, "ID=OTHER" one with code for another target ID.
func codeFor(t testing.TB, spec string) (id string, code []byte) {
	t.Helper()
	id, is, other := strings.Cut(strings.TrimSuffix(spec, "!"), "=")
	if !other {
		is = id
	}
	parts := strings.Split(is, ":")
	flags, ok := machines[parts[0]]
	if !ok {
		t.Fatalf("no machine for %s", is)
	}
	for f, shift := range map[string]int{"xnack": 8, "sramecc": 10} {
		switch {
		case slices.Contains(parts, f+"+"):
			flags |= 3 << shift
		case slices.Contains(parts, f+"-"):
			flags |= 2 << shift
		case strings.HasPrefix(parts[0], "gfx9") && (f == "xnack" || parts[0] != "gfx9-generic"):
			flags |= 1 << shift
		}
	}
	o := testelf.CodeObject{ABI: 4, Flags: flags}
	if !strings.HasSuffix(spec, "!") {
		o.Kernels = []testelf.Kernel{{Name: kernelName, CodeSize: 64, Keys: map[string]any{".vgpr_count": 4}}}
	}
	return id, o.Build()
}

// loadableLibrary is hipLibrary with code objects that load, see codeFor.
func loadableLibrary(t testing.TB, sources ...[]string) []byte {
	t.Helper()
	var l testelf.Library
	for i, specs := range sources {
		items := []bundle.Item{{ID: "host-x86_64-unknown-linux-gnu-"}}
		for _, spec := range specs {
			id, code := codeFor(t, spec)
			items = append(items, bundle.Item{ID: "hipv4-amdgcn-amd-amdhsa--" + id, Content: content.Memory(code)})
		}
		l.Bundles, l.Wrappers = append(l.Bundles, fixture.BundleOf(t, bundle.Options{Align: 4096}, items...)), append(l.Wrappers, i)
	}
	return l.Build()
}

// coveredGPUs are the GPUs of the tests.
var coveredGPUs = []string{
	"gfx906", "gfx90a", "gfx90a:xnack+", "gfx90a:xnack-", "gfx90a:sramecc+:xnack-", "gfx942", "gfx942:sramecc-:xnack+",
	"gfx1100", "gfx1101", "gfx1201",
}

func covers(t testing.TB, input string, gpus ...string) *Report {
	t.Helper()
	opt := Options{Inputs: []string{input}}
	for _, name := range gpus {
		gpu, err := ParseGPU(name)
		if err != nil {
			t.Fatal(err)
		}
		opt.GPUs = append(opt.GPUs, gpu)
	}
	report, err := Check(context.Background(), newSession(), opt)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// verdicts describes a report in lines, without the places of code.
func verdicts(r *Report, dir string) (lines []string) {
	text := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	for _, f := range r.Files {
		for _, g := range f.GPUs {
			for _, m := range g.Modes {
				lines = append(lines, fmt.Sprintf("%s %s %s: %s %s %s", strings.TrimPrefix(f.File, dir), g.GPU, m.Mode, m.Verdict, text((*string)(m.How)), text(m.Entry)))
			}
			lines = append(lines, fmt.Sprintf("%s %s: %s", strings.TrimPrefix(f.File, dir), g.GPU, g.Verdict))
		}
	}
	return lines
}

func putFile(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// splitSources are libraries whose verdict must not depend on a split.
var splitSources = map[string][][]string{
	"one source":           {{"gfx90a", "gfx1100"}},
	"different GPUs":       {{"gfx90a", "gfx942"}, {"gfx942", "gfx1100"}},
	"variants":             {{"gfx90a:xnack+", "gfx90a:xnack-", "gfx942"}},
	"one variant":          {{"gfx90a:xnack-", "gfx942:sramecc+"}},
	"two features":         {{"gfx942:sramecc+:xnack-", "gfx942:sramecc-:xnack+"}},
	"variants and bare":    {{"gfx90a:xnack-", "gfx90a:xnack+"}, {"gfx90a"}},
	"generic":              {{"gfx11-generic", "gfx9-4-generic"}},
	"generic beside":       {{"gfx1100", "gfx11-generic"}, {"gfx11-generic", "gfx942"}},
	"generic variants":     {{"gfx9-4-generic:xnack-", "gfx9-4-generic:xnack+"}},
	"generic without ECC":  {{"gfx9-generic", "gfx1100"}},
	"wrong code":           {{"gfx1100=gfx1101", "gfx90a"}},
	"wrong variant":        {{"gfx90a:xnack+=gfx90a:xnack-", "gfx90a:xnack-"}},
	"empty":                {{"gfx1100!", "gfx11-generic", "gfx90a"}},
	"empty source":         {{"gfx1100!", "gfx90a!"}, {"gfx90a"}},
	"everything empty":     {{"gfx1100!"}, {"gfx90a!"}},
	"source for one alone": {{"gfx90a"}, {"gfx1100"}, {"gfx942"}},
}

func TestCoversSplit(t *testing.T) {
	for name, sources := range splitSources {
		for _, complete := range []bool{false, true} {
			for _, plain := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/complete=%t/plain=%t", name, complete, plain), func(t *testing.T) {
					whole, split := t.TempDir(), t.TempDir()
					input := filepath.Join(whole, "lib", "a.so")
					putFile(t, input, loadableLibrary(t, sources...))
					if err := os.Mkdir(filepath.Join(split, "lib"), 0o755); err != nil {
						t.Fatal(err)
					}
					output := filepath.Join(split, "lib", "a.so")
					if _, err := newSession().KpackSplit(t.Context(), engine.KpackSplitOptions{
						Input: input, Output: output, Dir: filepath.Join(split, ".kpack"), Group: "g", SplitSettings: engine.SplitSettings{Complete: complete, Uncompressed: plain},
					}); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(verdicts(covers(t, input, coveredGPUs...), whole), verdicts(covers(t, output, coveredGPUs...), split)); diff != "" {
						t.Errorf("-whole +split:\n%s", diff)
					}
				})
			}
		}
	}
}

// TestCoversSplitTree compares a tree of libraries with its split form.
func TestCoversSplitTree(t *testing.T) {
	dir := t.TempDir()
	whole, split := filepath.Join(dir, "whole"), filepath.Join(dir, "split")
	for name, sources := range splitSources {
		putFile(t, filepath.Join(whole, "lib", strings.ReplaceAll(name, " ", "-"), "lib.so"), loadableLibrary(t, sources...))
	}
	putFile(t, filepath.Join(whole, "readme"), []byte("text"))
	if _, err := installation.SplitTree(t.Context(), newSession(), engine.KpackSplitOptions{Input: whole, Output: split, Dir: ".kpack", Group: "g"}); err != nil {
		t.Fatal(err)
	}
	report := covers(t, split, coveredGPUs...)
	if len(report.Files) != len(splitSources) {
		t.Errorf("%d files, expected %d", len(report.Files), len(splitSources))
	}
	if diff := cmp.Diff(verdicts(covers(t, whole, coveredGPUs...), whole), verdicts(report, split)); diff != "" {
		t.Errorf("-whole +split:\n%s", diff)
	}
}

// TestCoversOlderRuntimes finds code that older runtimes do not find, unless archives are complete.
func TestCoversOlderRuntimes(t *testing.T) {
	for _, complete := range []bool{false, true} {
		dir := t.TempDir()
		input := filepath.Join(dir, "a.so")
		putFile(t, input, loadableLibrary(t, []string{"gfx90a:xnack-", "gfx90a:xnack+"}, []string{"gfx90a"}))
		output := filepath.Join(dir, "out.so")
		if _, err := newSession().KpackSplit(t.Context(), engine.KpackSplitOptions{Input: input, Output: output, Dir: filepath.Join(dir, "k"), Group: "g", SplitSettings: engine.SplitSettings{Complete: complete}}); err != nil {
			t.Fatal(err)
		}
		m := covers(t, output, "gfx90a:sramecc+:xnack-").Files[0].GPUs[0].Modes[0]
		want := Verdict("")
		code := []Place{
			{Key: "out.so#0", Archive: filepath.Join(dir, "k/g_gfx90a:xnack-.kpack"), Target: "gfx90a:xnack-"},
			{Key: "out.so#1", Archive: filepath.Join(dir, "k/g_gfx90a:xnack-.kpack"), Target: "gfx90a:xnack-"},
		}
		if !complete {
			want = Partly
			code[1].Archive, code[1].Target = filepath.Join(dir, "k/g_gfx90a.kpack"), "gfx90a"
		}
		if m.Verdict != Yes || m.Older != want {
			t.Errorf("complete %t: verdict %s, with older runtimes %q, expected yes, %q", complete, m.Verdict, m.Older, want)
		}
		if diff := cmp.Diff(code, m.Code); diff != "" {
			t.Error(diff)
		}
	}
}

// TestCoversBrokenSets checks sets of files that are not those of one split.
func TestCoversBrokenSets(t *testing.T) {
	sources := [][]string{{"gfx90a", "gfx1100"}, {"gfx90a", "gfx1100"}}
	other := t.TempDir()
	split := func(dir, name string, sources [][]string) {
		t.Helper()
		putFile(t, filepath.Join(dir, "in", name), loadableLibrary(t, sources...))
		if _, err := installation.SplitTree(t.Context(), newSession(), engine.KpackSplitOptions{Input: filepath.Join(dir, "in"), Output: filepath.Join(dir, "out"), Dir: ".kpack", Group: "g"}); err != nil {
			t.Fatal(err)
		}
	}
	split(other, "b.so", sources)
	short := t.TempDir()
	split(short, "a.so", sources[:1])
	for name, test := range map[string]struct {
		change  func(archive string) error
		verdict Verdict
		reason  string
	}{
		"deleted": {os.Remove, No, "no archive OUT/.kpack/g_@GFXARCH@.kpack exists for gfx1100"},
		"of 0 bytes": {func(a string) error { return os.WriteFile(a, nil, 0o644) }, No,
			"ARCHIVE: not a kpack archive: found 0 bytes without the magic KPAK"},
		"cut":         {func(a string) error { return os.Truncate(a, 100) }, No, "ARCHIVE: kpack archive: the table of contents"},
		"a directory": {func(a string) error { _ = os.Remove(a); return os.Mkdir(a, 0o755) }, No, "ARCHIVE: Not a regular file"},
		"of another library": {func(a string) error {
			return os.Rename(filepath.Join(other, "out/.kpack/g_gfx1100.kpack"), a)
		}, No, "ARCHIVE has no code for a.so#0"},
		"of another build": {func(a string) error {
			return os.Rename(filepath.Join(short, "out/.kpack/g_gfx1100.kpack"), a)
		}, Partly, "ARCHIVE has no code for a.so#1"},
		"of another GPU": {func(a string) error {
			return os.Rename(filepath.Join(filepath.Dir(a), "g_gfx90a.kpack"), a)
		}, No, "ARCHIVE has code for gfx90a, not for gfx1100"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			split(dir, "a.so", sources)
			archive := filepath.Join(dir, "out/.kpack/g_gfx1100.kpack")
			if got := covers(t, filepath.Join(dir, "out/a.so"), "gfx1100"); !got.Covered() {
				t.Fatalf("before: %s", got.Missing())
			}
			if err := test.change(archive); err != nil {
				t.Fatal(err)
			}
			report := covers(t, filepath.Join(dir, "out"), "gfx1100")
			got := report.Files[0].GPUs[0]
			reason := strings.NewReplacer("ARCHIVE", archive, "OUT", filepath.Join(dir, "out")).Replace(test.reason)
			if got.Verdict != test.verdict || !strings.Contains(report.Missing(), reason) {
				t.Errorf("%s, %s; expected %s, %s", got.Verdict, report.Missing(), test.verdict, reason)
			}
			if !slices.ContainsFunc(got.Modes[0].Code, func(p Place) bool { return strings.Contains(p.Reason, reason) }) {
				t.Errorf("the report has %+v, expected a reason %s", got.Modes[0].Code, reason)
			}
		})
	}
}

// TestCoversDamagedCode finds a code object whose compressed data is damaged.
func TestCoversDamagedCode(t *testing.T) {
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "a.so"), loadableLibrary(t, []string{"gfx1100"}))
	if _, err := newSession().KpackSplit(t.Context(), engine.KpackSplitOptions{Input: filepath.Join(dir, "a.so"), Output: filepath.Join(dir, "out.so"), Dir: dir, Group: "g"}); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "g_gfx1100.kpack")
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	for i := 96; i < 140; i++ {
		data[i] = 0xff
	}
	putFile(t, archive, data)
	report := covers(t, filepath.Join(dir, "out.so"), "gfx1100")
	if got := report.Missing(); report.Files[0].GPUs[0].Verdict != No || !strings.Contains(got, archive+": out.so#0 for gfx1100: ") {
		t.Errorf("found %q", got)
	}
}

// TestCoversLinkedFolder follows a link before "..", as the runtime does.
func TestCoversLinkedFolder(t *testing.T) {
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "in/lib/a.so"), loadableLibrary(t, []string{"gfx1100"}))
	if _, err := installation.SplitTree(t.Context(), newSession(), engine.KpackSplitOptions{Input: filepath.Join(dir, "in"), Output: filepath.Join(dir, "deep/out"), Dir: ".kpack", Group: "g"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("deep/out/lib", filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	if got := covers(t, filepath.Join(dir, "linked/a.so"), "gfx1100"); !got.Covered() {
		t.Error(got.Missing())
	}
	if err := os.Symlink("out/lib/a.so", filepath.Join(dir, "deep/a.so")); err != nil {
		t.Fatal(err)
	}
	if got := covers(t, filepath.Join(dir, "deep/a.so"), "gfx1100"); got.Covered() {
		t.Error("a link to the library finds archives that are not beside the link")
	}
}
