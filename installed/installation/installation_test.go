package installation

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/installed/wheel"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// The numbers of processors in code objects.
const machGFX90A, machGFX942 = 0x3f, 0x4c

// codeObject returns the header of a code object.
func codeObject(mach byte) string {
	b := make([]byte, 64)
	copy(b, elf.Magic+"\x02\x01\x01\x40\x04")
	binary.LittleEndian.PutUint16(b[16:], 3)
	binary.LittleEndian.PutUint16(b[18:], elf.MachineAMDGPU)
	b[48] = mach
	return string(b)
}

// device returns a bundle without a host entry.
func device(t testing.TB, archs ...string) []byte {
	t.Helper()
	var items []bundle.Item
	for _, arch := range archs {
		items = append(items, bundle.Item{ID: "hipv4-amdgcn-amd-amdhsa--" + arch, Content: content.Memory([]byte("code for " + arch + strings.Repeat(".", 5000)))})
	}
	return fixture.BundleOf(t, bundle.Options{Align: 4096}, items...)
}

// archive returns a kpack archive of a group with an entry for each target.
func archive(t testing.TB, group, key string, archs ...string) []byte {
	t.Helper()
	a := &kpack.Archive{Group: group, Family: archs[0], Archs: archs, Scheme: kpack.None}
	for i, arch := range archs {
		text := []byte("code of " + key + " for " + arch)
		a.Entries = append(a.Entries, kpack.Entry{Key: key, Arch: arch, Type: "hsaco", Ordinal: i, Size: int64(len(text)), Stored: content.Memory(text), Metadata: map[string]any{"target": "hipv4-amdgcn-amd-amdhsa--" + arch}})
	}
	return fixture.Bytes(t, func(s content.Sink) error { return kpack.Write(s, a) })
}

// rocm returns the files of an installation by path.
func rocm(t testing.TB) map[string]string {
	t.Helper()
	lib := string(fixture.HIPLibrary(t, []string{"gfx90a", "gfx942"}))
	all := map[string]string{
		"lib/libmath.so":            lib,
		"lib/libold.so":             string(fixture.HIPLibrary(t, []string{"gfx942"})),
		"lib/libMIOpenCK_gfx942.so": string(fixture.HIPLibrary(t, []string{"gfx942"})),
		"lib/rocblas/library/TensileLibrary_lazy_gfx90a.dat": "index 90a",
		"lib/rocblas/library/TensileLibrary_lazy_gfx942.dat": "index 942",
		"lib/rocblas/library/TensileLibrary_DD_fallback.dat": "index",
		"lib/rocblas/library/TensileLibrary_DD_gfx90a.co":    string(device(t, "gfx90a:xnack+", "gfx90a:xnack-")),
		"lib/rocblas/library/TensileLibrary_DD_gfx942.co":    string(device(t, "gfx942")),
		"lib/rocblas/library/Kernels.so-000-gfx90a.hsaco":    codeObject(machGFX90A),
		"lib/rocblas/library/Kernels.so-000-gfx942.hsaco":    codeObject(machGFX942),
		"lib/rocblas/library/TensileManifest.txt":            "TensileLibrary_lazy_gfx90a.dat\nTensileLibrary_lazy_gfx942.dat\n",
		"lib/hipblaslt/library/gfx942/TensileManifest.txt":   "all\n",
		"lib/aotriton.images/amd-gfx942/flash/a.aks2":        "AKS2",
		"lib/aotriton.images/amd-gfx11xx/flash/a.aks2":       "AKS2",
		"share/miopen/db/gfx942130.kdb":                      "SQLite",
		"share/miopen/db/gfx90a68.kdb":                       "SQLite",
		"share/kernels/plain.co":                             string(device(t, "gfx942")),
		"share/kernels/packed.co":                            string(fixture.Compressed(t, device(t, "gfx942"))),
		"share/kernels/object":                               codeObject(machGFX942),
		"share/kernels/damaged.co":                           string(device(t, "gfx942")[:60]),
		".kpack/one_gfx942.kpack":                            string(archive(t, "one", "lib.so#0", "gfx942")),
		".kpack/family.kpack":                                string(archive(t, "family", "lib.so#0", "gfx90a", "gfx942")),
		"readme":                                             "text",
	}
	var rows []wheel.Row
	for _, name := range slices.Sorted(maps.Keys(all)) {
		rows = append(rows, wheel.Row{Path: name, Hash: wheel.Hash(sha256.Sum256([]byte(all[name]))), Size: int64(len(all[name]))})
	}
	all["rocm-1.0.dist-info/RECORD"] = string(wheel.FormatRecord(append(rows, wheel.Row{Path: "rocm-1.0.dist-info/RECORD", Size: -1})))
	return all
}

// install writes files to a directory.
func install(t testing.TB, dir string, all map[string]string) {
	t.Helper()
	for name, text := range all {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// contents returns the files and links of a directory by path.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		data, err := os.ReadFile(path)
		all[rel] = string(data)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPruneInstallation prunes an installation with data, bundles, code objects, archives and lists.
func TestPruneInstallation(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	before := rocm(t)
	install(t, in, before)
	for name, to := range map[string]string{"lib/gone": "rocblas/library/Kernels.so-000-gfx942.hsaco", "lib/gone2": "gone", "lib/there": "libmath.so"} {
		if err := os.Symlink(to, filepath.Join(in, name)); err != nil {
			t.Fatal(err)
		}
	}
	report, err := PruneTree(t.Context(), treeSession(), PruneOptions{PruneOptions: engine.PruneOptions{Input: in, Output: out, Keep: []string{"gfx90a"}, Verify: true}})
	if err != nil {
		t.Fatal(err)
	}
	after := contents(t, out)
	var gone []string
	for name := range before {
		if _, ok := after[name]; !ok {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	if diff := cmp.Diff([]string{
		".kpack/one_gfx942.kpack", "lib/aotriton.images/amd-gfx11xx/flash/a.aks2", "lib/aotriton.images/amd-gfx942/flash/a.aks2",
		"lib/hipblaslt/library/gfx942/TensileManifest.txt", "lib/libMIOpenCK_gfx942.so",
		"lib/rocblas/library/Kernels.so-000-gfx942.hsaco", "lib/rocblas/library/TensileLibrary_DD_gfx942.co", "lib/rocblas/library/TensileLibrary_lazy_gfx942.dat",
		"share/kernels/object", "share/kernels/packed.co", "share/kernels/plain.co", "share/miopen/db/gfx942130.kdb",
	}, gone); diff != "" {
		t.Error(diff)
	}
	if len(report.Removed) != len(gone) || report.Unread != 1 || !strings.Contains(report.Warnings[0], "damaged.co: copied: ") || len(report.Empty) != 1 || !strings.HasSuffix(report.Empty[0], "libold.so") {
		t.Errorf("%d removed, %d unread, empty %v, warnings %v", len(report.Removed), report.Unread, report.Empty, report.Warnings)
	}
	for name, text := range after {
		if strings.Contains(text, "code for gfx942") || strings.Contains(text, "code of lib.so#0 for gfx942") {
			if name != "share/kernels/damaged.co" {
				t.Errorf("%s has code for gfx942", name)
			}
		}
	}
	for _, name := range []string{"lib/gone", "lib/gone2", "lib/aotriton.images", "lib/hipblaslt"} {
		if _, err := os.Lstat(filepath.Join(out, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	if _, err := os.Stat(filepath.Join(out, "lib/there")); err != nil {
		t.Error(err)
	}
	if got := after["lib/rocblas/library/TensileManifest.txt"]; got != "TensileLibrary_lazy_gfx90a.dat\n" {
		t.Errorf("manifest: %q", got)
	}
	a, err := kpack.Parse(content.Memory([]byte(after[".kpack/family.kpack"])))
	if err != nil || !slices.Equal(a.Archs, []string{"gfx90a"}) || len(a.Entries) != 1 || a.Family != "gfx90a" {
		t.Errorf("archive: %+v, %v", a, err)
	}
	rows, err := wheel.ParseRecord([]byte(after["rocm-1.0.dist-info/RECORD"]))
	if err != nil || len(rows) != len(before)-len(gone) {
		t.Errorf("%d rows in RECORD, %v", len(rows), err)
	}
	for _, row := range rows {
		if text := after[row.Path]; row.Hash != "" && (row.Hash != wheel.Hash(sha256.Sum256([]byte(text))) || row.Size != int64(len(text))) {
			t.Errorf("RECORD: %+v", row)
		}
	}

	t.Run("again", func(t *testing.T) {
		again := filepath.Join(dir, "again")
		if _, err := PruneTree(t.Context(), treeSession(), PruneOptions{PruneOptions: engine.PruneOptions{Input: out, Output: again, Keep: []string{"gfx90a"}}}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(after, contents(t, again)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("drop", func(t *testing.T) {
		drop := filepath.Join(dir, "drop")
		if _, err := PruneTree(t.Context(), treeSession(), PruneOptions{PruneOptions: engine.PruneOptions{Input: in, Output: drop, Drop: []string{"gfx942"}}}); err != nil {
			t.Fatal(err)
		}
		got := contents(t, drop)
		if _, ok := got["lib/aotriton.images/amd-gfx11xx/flash/a.aks2"]; !ok || len(got) != len(after)+1 {
			t.Errorf("%d files, expected those of --keep gfx90a and of gfx11xx: %d", len(got), len(after)+1)
		}
	})
	t.Run("variant", func(t *testing.T) {
		variant := filepath.Join(dir, "variant")
		if _, err := PruneTree(t.Context(), treeSession(), PruneOptions{PruneOptions: engine.PruneOptions{Input: in, Output: variant, Keep: []string{"gfx90a:xnack+"}}}); err != nil {
			t.Fatal(err)
		}
		got := contents(t, variant)
		if code := got["lib/rocblas/library/TensileLibrary_DD_gfx90a.co"]; !strings.Contains(code, "code for gfx90a:xnack+") || strings.Contains(code, "code for gfx90a:xnack-") || got["lib/rocblas/library/TensileLibrary_lazy_gfx90a.dat"] == "" {
			t.Errorf("%d files; %.50q", len(got), code)
		}
	})
	t.Run("strict", func(t *testing.T) {
		strict := filepath.Join(dir, "strict")
		_, err := PruneTree(t.Context(), treeSession(), PruneOptions{PruneOptions: engine.PruneOptions{Input: in, Output: strict, Keep: []string{"gfx90a"}}, Strict: true})
		if err == nil {
			t.Error("no error")
		}
		if _, err := os.Stat(strict); err == nil {
			t.Error("a directory was written")
		}
	})
}

// TestSplitTreeAgain splits trees without code, that are split, and to which a library is added.
func TestSplitTreeAgain(t *testing.T) {
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) }
	split := func(in, out string) (SplitTreeReport, error) {
		return SplitTree(t.Context(), treeSession(), engine.KpackSplitOptions{Input: name(in), Output: name(out), Dir: ".kpack", Group: "g", SplitSettings: engine.SplitSettings{Uncompressed: true, Verify: true}})
	}
	install(t, name("plain"), map[string]string{"a": "text"})
	if report, err := split("plain", "plain2"); err != nil || report.Count != 1 {
		t.Errorf("without code: %+v, %v", report, err)
	}
	install(t, name("fat"), map[string]string{"liba.so": string(fixture.HIPLibrary(t, []string{"gfx90a", "gfx942"}))})
	if _, err := split("fat", "once"); err != nil {
		t.Fatal(err)
	}
	report, err := split("once", "twice")
	once := contents(t, name("once"))
	if diff := cmp.Diff(once, contents(t, name("twice"))); diff != "" || err != nil || report.SizeAfter != report.SizeBefore {
		t.Errorf("split again: %+v, %v\n%s", report, err, diff)
	}
	// A library is added: its code is added to the archives.
	install(t, name("once"), map[string]string{"libb.so": string(fixture.HIPLibrary(t, []string{"gfx942"}))})
	if _, err := split("once", "more"); err != nil {
		t.Fatal(err)
	}
	more := contents(t, name("more"))
	if more[".kpack/g_gfx90a.kpack"] != once[".kpack/g_gfx90a.kpack"] {
		t.Error("the archive of gfx90a changed")
	}
	a, err := kpack.Parse(content.Memory([]byte(more[".kpack/g_gfx942.kpack"])))
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, e := range a.Entries {
		keys = append(keys, e.Key)
	}
	if diff := cmp.Diff([]string{"liba.so#0", "libb.so#0"}, keys); diff != "" {
		t.Error(diff)
	}
	if problems, err := treeSession().KpackVerify(t.Context(), []string{name("more/liba.so"), name("more/libb.so"), name("more/.kpack/g_gfx90a.kpack"), name("more/.kpack/g_gfx942.kpack")}); err != nil {
		t.Errorf("%v, %v", problems, err)
	}
	// Code that is there is never replaced.
	for text, files := range map[string]map[string]string{
		"other code for liba.so#0": {"liba.so": string(fixture.HIPLibrary(t, []string{"gfx906", "gfx942"})), ".kpack/g_gfx942.kpack": string(archive(t, "g", "liba.so#0", "gfx942"))},
		"archive of group other":   {"liba.so": string(fixture.HIPLibrary(t, []string{"gfx942"})), ".kpack/g_gfx942.kpack": string(archive(t, "other", "liba.so#0", "gfx942"))},
		"not a kpack archive":      {"liba.so": string(fixture.HIPLibrary(t, []string{"gfx942"})), ".kpack/g_gfx942.kpack": "text"},
	} {
		install(t, name(text), files)
		if _, err := split(text, "bad"); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("found %v, expected %s", err, text)
		}
		if _, err := os.Stat(name("bad")); err == nil {
			t.Error("a directory was written")
		}
	}
}

// TestSplitWheelData splits a wheel with data for GPUs and families, merges it, and prunes the parts.
func TestSplitWheelData(t *testing.T) {
	dir := t.TempDir()
	data := map[string]string{
		"demo_pkg/lib/rocblas/library/TensileLibrary_lazy_gfx942.dat":     "index 942",
		"demo_pkg/lib/rocblas/library/TensileLibrary_DD_gfx90a-xnack+.co": string(device(t, "gfx90a:xnack+")),
		"demo_pkg/lib/rocblas/library/TensileLibrary_DD_fallback.dat":     "index",
		"demo_pkg/lib/aotriton.images/amd-gfx11xx/a.aks2":                 "AKS2",
		"demo_pkg/share/miopen/db/gfx1201_32.kdb":                         "SQLite",
	}
	var more []fixture.WheelFile
	for _, name := range slices.Sorted(maps.Keys(data)) {
		more = append(more, fixture.WheelFile{Name: name, Text: data[name]})
	}
	input := demoWheel(t, dir, more...)
	report, err := SplitWheel(t.Context(), wheelSession(), SplitWheelOptions{
		Input: input, OutputDir: filepath.Join(dir, "dist"), Requires: []string{"math-device-@GFXARCH@==7.2", "other"}, SplitSettings: engine.SplitSettings{Uncompressed: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, host := readWheel(t, report.Host.File)
	where := make(map[string]string)
	for name := range data {
		if _, ok := host[name]; ok {
			where[name] = "host"
		}
	}
	extras := make(map[string]string)
	for _, d := range report.Devices {
		w, files := readWheel(t, d.File)
		for name, text := range data {
			if got, ok := files[name]; ok && got != nil {
				if string(got) != text {
					t.Errorf("%s: other bytes", name)
				}
				where[name] += d.Project
			}
		}
		extras[d.Project] = fmt.Sprint(d.Extras)
		if requires := w.Metadata.All("Requires-Dist"); d.Project == "demo-pkg-device-gfx942" && !slices.Equal(requires, []string{"demo-pkg==1.0", "math-device-gfx942==7.2", "other"}) {
			t.Errorf("%s requires %v", d.Project, requires)
		}
	}
	if diff := cmp.Diff(map[string]string{
		"demo_pkg/lib/rocblas/library/TensileLibrary_lazy_gfx942.dat":     "demo-pkg-device-gfx942",
		"demo_pkg/lib/rocblas/library/TensileLibrary_DD_gfx90a-xnack+.co": "demo-pkg-device-gfx90a",
		"demo_pkg/lib/rocblas/library/TensileLibrary_DD_fallback.dat":     "host",
		"demo_pkg/lib/aotriton.images/amd-gfx11xx/a.aks2":                 "demo-pkg-device-gfx11xx",
		"demo_pkg/share/miopen/db/gfx1201_32.kdb":                         "demo-pkg-device-gfx1201",
	}, where); diff != "" {
		t.Error(diff)
	}
	// The code for gfx1100 is in the wheel, so that its extra installs the data of the family, too.
	if got, want := extras["demo-pkg-device-gfx11xx"], "[gfx11xx device-gfx11xx gfx1100 device-gfx1100]"; got != want {
		t.Errorf("extras of the family: %s, want %s", got, want)
	}

	all := append(paths(report.Devices), report.Host.File)
	merged, err := MergeWheels(t.Context(), wheelSession(), MergeWheelOptions{Inputs: all, OutputDir: filepath.Join(dir, "merged")})
	if err != nil {
		t.Fatal(err)
	}
	_, before := readWheel(t, input)
	_, after := readWheel(t, merged.Wheel.File)
	sameFiles(t, after, before)

	for _, inputs := range [][]string{all, {input}} {
		pruned, err := PruneWheels(t.Context(), wheelSession(), PruneWheelOptions{Inputs: inputs, OutputDir: filepath.Join(dir, fmt.Sprint("pruned", len(inputs))), Keep: []string{"gfx1100"}})
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[string]bool)
		for _, f := range pruned.Wheels {
			_, files := readWheel(t, f.File)
			for name := range files {
				found[name] = true
			}
		}
		for name := range data {
			if want := strings.HasSuffix(name, "fallback.dat") || strings.Contains(name, "gfx11xx"); found[name] != want {
				t.Errorf("%d wheels: %s is left: %t", len(inputs), name, found[name])
			}
		}
		if len(inputs) > 1 && len(pruned.Dropped) != 3 {
			t.Errorf("dropped: %v", pruned.Dropped)
		}
	}
}

func TestSelection(t *testing.T) {
	for _, test := range []struct {
		keep, drop string
		gpu        string
		want       bool
	}{
		{"gfx942", "", "gfx942", true},
		{"gfx942", "", "gfx90a", false},
		{"gfx1100", "", "gfx11xx", true},
		{"gfx1201", "", "gfx11xx", false},
		{"gfx90a:xnack+", "", "gfx90a", true},
		{"gfx90a:xnack+", "", "gfx90a:xnack+", true},
		{"gfx90a:xnack+", "", "gfx90a:xnack-", false},
		{"gfx90a", "", "gfx90a:xnack-", true},
		{"hipv4-amdgcn-amd-amdhsa--gfx90a", "", "gfx90a", true},
		{"", "gfx942", "gfx942", false},
		{"", "gfx90a:xnack+", "gfx90a", true},
		{"", "gfx90a:xnack+", "gfx90a:xnack+", false},
		{"", "gfx1100", "gfx11xx", true},
		{"", "", "gfx942", true},
	} {
		var s Selection
		if test.keep != "" {
			s.Keep = []string{test.keep}
		}
		if test.drop != "" {
			s.Drop = []string{test.drop}
		}
		if got := s.Data(test.gpu); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}
