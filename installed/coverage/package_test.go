package coverage

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/installed/installation"
	"github.com/rules-offload/rules_offload/installed/wheel"
)

// faults describes the faults of packages in lines.
func faults(t testing.TB, dir string, gpus []GPU, inputs ...string) []string {
	t.Helper()
	report, err := CheckPackage(t.Context(), newSession(), Options{Inputs: inputs, GPUs: gpus})
	ensure(t, err)
	list := []string{}
	for _, f := range report.Faults {
		line := f.File + ": " + string(f.Kind) + ": " + f.Text
		if f.Warning {
			line = "warning " + line
		}
		if f.Fix == "" {
			t.Errorf("%s: nothing says what to do", line)
		}
		list = append(list, strings.ReplaceAll(line, dir+"/", ""))
	}
	return list
}

// splitTree writes libraries to dir/out, split.
func splitTree(t testing.TB, dir string, libraries map[string][][]string) string {
	t.Helper()
	for name, sources := range libraries {
		putFile(t, filepath.Join(dir, "in", name), loadableLibrary(t, sources...))
	}
	out := filepath.Join(dir, "out")
	_, err := installation.SplitTree(t.Context(), newSession(), engine.KpackSplitOptions{Input: filepath.Join(dir, "in"), Output: out, Dir: ".kpack", Group: "g"})
	ensure(t, err)
	return out
}

// TestCheckPackage breaks sets of files as packages were broken in releases of ROCm.
func TestCheckPackage(t *testing.T) {
	two := [][]string{{"gfx90a", "gfx1100"}, {"gfx90a", "gfx1100"}}
	variants := [][]string{{"gfx90a:xnack+", "gfx90a:xnack-"}, {"gfx90a:xnack+", "gfx90a:xnack-"}}
	other := t.TempDir()
	splitTree(t, filepath.Join(other, "short"), map[string][][]string{"lib/a.so": two[:1]})
	splitTree(t, filepath.Join(other, "long"), map[string][][]string{"lib/a.so": {two[0], two[0], two[0]}})
	splitTree(t, filepath.Join(other, "b"), map[string][][]string{"lib/b.so": two})
	splitTree(t, filepath.Join(other, "half"), map[string][][]string{"lib/a.so": {{"gfx90a:xnack+", "gfx90a:xnack-"}, {"gfx90a:xnack+"}}})
	splitTree(t, filepath.Join(other, "empty"), map[string][][]string{"lib/a.so": {{"gfx90a:xnack-!", "gfx90a"}, {"gfx90a"}}})
	kernelName = "other"
	splitTree(t, filepath.Join(other, "renamed"), map[string][][]string{"lib/a.so": two})
	kernelName = "k"
	from := func(build, target string) string { return filepath.Join(other, build, "out/.kpack/g_"+target+".kpack") }
	for name, test := range map[string]struct {
		libraries map[string][][]string
		change    func(out string) error
		want      []string
	}{
		"nothing":     {nil, func(string) error { return nil }, nil},
		"no archives": {nil, func(out string) error { return os.RemoveAll(filepath.Join(out, ".kpack")) }, []string{"lib/a.so: missing: its code is in archives that do not exist: out/.kpack/g_@GFXARCH@.kpack"}},
		"0 bytes":     {nil, func(out string) error { return os.WriteFile(out+"/.kpack/g_gfx1100.kpack", nil, 0o644) }, []string{".kpack/g_gfx1100.kpack: empty: the file has 0 bytes"}},
		"cut":         {nil, func(out string) error { return os.Truncate(out+"/.kpack/g_gfx1100.kpack", 100) }, []string{".kpack/g_gfx1100.kpack: damaged: kpack archive: the table of contents at byte"}},
		"another GPU": {nil, func(out string) error {
			return os.Rename(out+"/.kpack/g_gfx90a.kpack", out+"/.kpack/g_gfx1100.kpack")
		}, []string{".kpack/g_gfx1100.kpack: target: the runtime opens the file for gfx1100, and it has code for gfx90a"}},
		"another build": {nil, func(out string) error { return os.Rename(from("long", "gfx1100"), out+"/.kpack/g_gfx1100.kpack") },
			[]string{".kpack/g_gfx1100.kpack: build: it has lib/a.so#2, which out/lib/a.so does not ask for: they are of two builds"}},
		"an older build": {nil, func(out string) error {
			ensure(t, os.Remove(out+"/.kpack/g_gfx90a.kpack"))
			return os.Rename(from("short", "gfx1100"), out+"/.kpack/g_gfx1100.kpack")
		}, []string{"lib/a.so: build: no archive has lib/a.so#1, and out/.kpack/g_gfx1100.kpack has other code of the library: they are of two builds"}},
		"code of another library": {nil, func(out string) error { return os.Rename(from("b", "gfx1100"), out+"/.kpack/g_gfx1100.kpack") },
			[]string{
				".kpack/g_gfx1100.kpack: unreachable: it has code for lib/b.so, and no library of the package asks for it",
			}},
		"code of another source": {nil, func(out string) error {
			return os.Rename(from("renamed", "gfx1100"), out+"/.kpack/g_gfx1100.kpack")
		}, []string{".kpack/g_gfx90a.kpack: build: lib/a.so#0 for gfx90a and for gfx1100 (in out/.kpack/g_gfx1100.kpack) have no kernel in common", ".kpack/g_gfx90a.kpack: build: lib/a.so#1 for gfx90a and for gfx1100"}},
		"an archive elsewhere": {nil, func(out string) error {
			ensure(t, os.Mkdir(out+"/other", 0o755))
			return os.Rename(out+"/.kpack/g_gfx1100.kpack", out+"/other/g_gfx1100.kpack")
		}, []string{"other/g_gfx1100.kpack: unreachable: no library of the package searches this archive"}},
		"a lost variant": {map[string][][]string{"lib/a.so": variants}, func(out string) error {
			return os.Rename(from("half", "gfx90a:xnack-"), out+"/.kpack/g_gfx90a:xnack-.kpack")
		},
			[]string{"lib/a.so: variant: lib/a.so#1 has code for gfx90a:xnack+ and none for gfx90a:xnack-, which other code of the library has"}},
		"a variant of other libraries": {map[string][][]string{"lib/a.so": variants}, func(out string) error {
			ensure(t, os.Remove(out+"/.kpack/g_gfx90a:xnack-.kpack"))
			return os.WriteFile(out+"/lib/fat.so", loadableLibrary(t, variants...), 0o644)
		}, []string{
			"lib/a.so: variant: lib/a.so#0 has code for gfx90a:xnack+ and none for gfx90a:xnack-, which out/lib/fat.so has",
			"lib/a.so: variant: lib/a.so#1 has code for gfx90a:xnack+ and none for gfx90a:xnack-, which out/lib/fat.so has",
		}},
		"near-empty": {map[string][][]string{"lib/a.so": {{"gfx90a:xnack-", "gfx90a"}, {"gfx90a"}}}, func(out string) error {
			return os.Rename(from("empty", "gfx90a:xnack-"), out+"/.kpack/g_gfx90a:xnack-.kpack")
		}, []string{
			".kpack/g_gfx90a:xnack-.kpack: empty: lib/a.so#0 for gfx90a:xnack- is empty and hides the code for gfx90a in out/.kpack/g_gfx90a.kpack",
			"warning .kpack/g_gfx90a:xnack-.kpack: empty: no code object in the archive has kernels or variables",
		}},
		"Tensile": {nil, func(out string) error {
			_, code := codeFor(t, "gfx1100")
			putFile(t, out+"/lib/rocblas/library/Kernels_gfx1101.co", code)
			putFile(t, out+"/lib/rocblas/library/Tensile_gfx90a.dat", []byte("x"))
			return nil
		}, []string{
			"lib/rocblas/library: missing: catalogues name gfx90a, and no code file is for it",
			"lib/rocblas/library: unreachable: no catalogue names gfx1101: its 1 code files are not used",
			"lib/rocblas/library/Kernels_gfx1101.co: target: the name says gfx1101, and the file has code for gfx1100",
		}},
		"data": {nil, func(out string) error {
			putFile(t, out+"/share/miopen/db/gfx942.kdb", []byte("version https://git-lfs.github.com/spec/v1\n"))
			putFile(t, out+"/lib/aotriton.images/amd-gfx942/a.aks2", []byte("AKS2\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
			return nil
		}, []string{
			"lib/aotriton.images/amd-gfx942/a.aks2: empty: it has no kernels",
			"share/miopen/db/gfx942.kdb: damaged: not an SQLite database",
			"share/miopen/db/gfx942.kdb: damaged: the file is a Git LFS pointer",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if test.libraries == nil {
				test.libraries = map[string][][]string{"lib/a.so": two}
			}
			out := splitTree(t, dir, test.libraries)
			before := faults(t, dir, nil, out)
			for _, line := range before {
				if !strings.HasPrefix(line, "warning ") {
					t.Errorf("before: %s", line)
				}
			}
			ensure(t, test.change(out))
			for _, form := range []string{"tree", "package"} {
				input, cut := out, "out/"
				if form == "package" {
					input = filepath.Join(dir, "p.tar")
					putFile(t, input, tarOf(t, out))
					cut = "p.tar!"
				}
				got := faults(t, dir, nil, input)
				if len(got) != len(test.want) {
					t.Fatalf("%s: found %s\nexpected %s", form, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
				}
				for i, want := range test.want {
					want = strings.ReplaceAll(want, "out/", cut)
					warning := ""
					if rest, ok := strings.CutPrefix(want, "warning "); ok {
						warning, want = "warning ", rest
					}
					if !strings.HasPrefix(got[i], warning+cut+want) {
						t.Errorf("%s: found\n%s\nexpected\n%s", form, got[i], warning+cut+want)
					}
				}
			}
		})
	}
}

// TestCheckWheel compares wheels with their RECORD.
func TestCheckWheel(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	rows := []wheel.Row{
		{Path: "a/lib.so", Hash: wheel.Hash([32]byte{1}), Size: 4},
		{Path: "a/same.py", Hash: wheel.Hash(sha256.Sum256([]byte("new"))), Size: 3},
		{Path: "a/size.py", Hash: "sha256=x", Size: 9},
		{Path: "a/missing.py", Hash: "sha256=x", Size: 9},
		{Path: "a-1.dist-info/RECORD", Size: -1},
	}
	putFile(t, filepath.Join(tree, "a/lib.so"), []byte("code"))
	putFile(t, filepath.Join(tree, "a/same.py"), []byte("new"))
	putFile(t, filepath.Join(tree, "a/size.py"), []byte("new"))
	putFile(t, filepath.Join(tree, "a/more.py"), []byte("new"))
	putFile(t, filepath.Join(tree, "a-1.dist-info/RECORD"), wheel.FormatRecord(rows))
	packZip(t, filepath.Join(dir, "a-1-py3-none-any.whl"), tree)
	want := []string{
		"",
		"a-1-py3-none-any.whl!a/missing.py: record: RECORD lists the file, and the wheel does not have it",
		"a-1-py3-none-any.whl!a/more.py: record: RECORD does not list the file",
		"a-1-py3-none-any.whl!a/size.py: record: found 3 bytes, RECORD says 9",
	}
	got := faults(t, dir, nil, filepath.Join(dir, "a-1-py3-none-any.whl"))
	want[0] = "a-1-py3-none-any.whl!a/lib.so: record: found the hash " + wheel.Hash(sha256.Sum256([]byte("code"))) + ", RECORD says " + rows[0].Hash
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = faults(t, dir, nil, tree)
	want = []string{"tree/a/lib.so: record: found the hash", "tree/a/missing.py: record: RECORD lists the file, and it does not exist", "tree/a/size.py: record: found 3 bytes"}
	for i := range got {
		got[i] = got[i][:min(len(got[i]), len(want[i]))]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestInstalledRecord checks installed files whose RECORD has absolute paths, or is too large.
func TestInstalledRecord(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside.py")
	putFile(t, outside, []byte("new"))
	record := filepath.Join(dir, "tree/a-1.dist-info/RECORD")
	putFile(t, record, wheel.FormatRecord([]wheel.Row{{Path: outside, Hash: wheel.Hash(sha256.Sum256([]byte("new"))), Size: 3}}))
	if got := faults(t, dir, nil, filepath.Join(dir, "tree")); len(got) > 0 {
		t.Errorf("absolute path: got %q, want no fault", got)
	}
	if err := os.Truncate(record, wheel.MaxText+1); err != nil {
		t.Fatal(err)
	}
	want := []string{"tree/a-1.dist-info/RECORD: damaged: found 67108865 bytes, expected at most 67108864"}
	if diff := cmp.Diff(want, faults(t, dir, nil, filepath.Join(dir, "tree"))); diff != "" {
		t.Errorf("large RECORD (-want +got):\n%s", diff)
	}
	if _, err := CheckPackage(t.Context(), newSession(), Options{}); err == nil {
		t.Error("no inputs of CheckPackage: got no error")
	}
	if _, err := Check(t.Context(), newSession(), Options{}); err == nil {
		t.Error("no inputs of Check: got no error")
	}
}
