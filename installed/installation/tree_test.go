package installation

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf/elfcheck"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// tree makes a directory with libraries, links and other files.
func tree(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	for _, d := range []string{"lib/deep", "empty"} {
		if err := os.MkdirAll(filepath.Join(in, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put := func(name string, data []byte, mode fs.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(in, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(in, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("lib/liba.so.1", fixture.HIPLibrary(t, []string{"gfx90a", "gfx942"}, []string{"gfx942", "gfx1100"}), 0o775)
	put("lib/deep/libb.so", fixture.HIPLibrary(t, []string{"gfx942", "gfx90a"}), 0o644)
	put("readme", []byte("text"), 0o600)
	put("other", []byte("\x7fELF\x01\x01 32 bits "+strings.Repeat("x", 100)), 0o644)
	for _, link := range [][2]string{{"liba.so.1", "lib/liba.so"}, {"nowhere", "dangling"}} {
		if err := os.Symlink(link[0], filepath.Join(in, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(in, "readme"), filepath.Join(in, "same")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(in, "empty"), 0o500); err != nil {
		t.Fatal(err)
	}
	return dir
}

// shape describes a directory: types, modes, links, and the contents of small files.
func shape(t testing.TB, dir string) (lines []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		line := fmt.Sprintf("%s %v", rel, fi.Mode())
		if link, err := os.Readlink(path); err == nil {
			line += " " + link
		}
		if data, err := os.ReadFile(path); err == nil && len(data) < 200 {
			line += " " + string(data)
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func treeSession() *engine.Session {
	return engine.New(engine.Config{Budget: budget.New(4, 1<<30)})
}

func TestPruneTree(t *testing.T) {
	dir := tree(t)
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	opt := PruneOptions{PruneOptions: engine.PruneOptions{Input: in, Output: out, Keep: []string{"gfx942"}, Verify: true}}
	report, err := PruneTree(t.Context(), treeSession(), opt)
	if err != nil {
		t.Fatal(err)
	}
	want := shape(t, in)
	if diff := cmp.Diff(want, shape(t, out)); diff != "" {
		t.Error(diff)
	}
	if report.Count != 4 || report.Links != 3 || len(report.Files) != 2 || len(report.Warnings) != 1 || report.SizeAfter >= report.SizeBefore {
		t.Errorf("report: %+v", report)
	}
	a, _ := os.Stat(filepath.Join(out, "readme"))
	b, _ := os.Stat(filepath.Join(out, "same"))
	if !os.SameFile(a, b) {
		t.Error("the hard link is another file")
	}
	for _, name := range []string{"lib/liba.so.1", "lib/deep/libb.so"} {
		data, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("gfx90a")) || !bytes.Contains(data, []byte("gfx942")) {
			t.Errorf("%s has the wrong code", name)
		}
		for _, f := range elfcheck.Check(data) {
			t.Errorf("%s: %v", name, f)
		}
	}
	t.Run("failures", func(t *testing.T) {
		bad := filepath.Join(dir, "bad")
		for name, test := range map[string]struct {
			opt  PruneOptions
			want string
		}{
			"there":   {PruneOptions{PruneOptions: engine.PruneOptions{Input: in, Output: out, Keep: []string{"gfx942"}}}, "already exists"},
			"inside":  {PruneOptions{PruneOptions: engine.PruneOptions{Input: in, Output: filepath.Join(in, "new"), Keep: []string{"gfx942"}}}, "is inside the input"},
			"missing": {PruneOptions{PruneOptions: engine.PruneOptions{Input: in, Output: bad, Keep: []string{"gfx906"}}}, "in: no code for gfx906: found gfx1100, gfx90a, gfx942"},
			"no file": {PruneOptions{PruneOptions: engine.PruneOptions{Input: filepath.Join(dir, "none"), Output: bad, Keep: []string{"gfx942"}}}, "No such file or directory"},
		} {
			if _, err := PruneTree(t.Context(), treeSession(), test.opt); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: error %v, expected %q", name, err, test.want)
			}
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 2 {
			t.Errorf("left: %v, %v", left, err)
		}
		if diff := cmp.Diff(want, shape(t, in)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("dry run", func(t *testing.T) {
		opt.Output, opt.DryRun = filepath.Join(dir, "dry"), true
		dry, err := PruneTree(t.Context(), treeSession(), opt)
		if err != nil || dry.SizeAfter != report.SizeAfter {
			t.Errorf("%d bytes, expected %d: %v", dry.SizeAfter, report.SizeAfter, err)
		}
		if _, err := os.Stat(opt.Output); err == nil {
			t.Error("a directory was written")
		}
	})
}

func TestKpackSplitTree(t *testing.T) {
	dir := tree(t)
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for _, scheme := range []kpack.Scheme{kpack.None, kpack.Zstd} {
		t.Run(string(scheme), func(t *testing.T) {
			out := out + string(scheme)
			report, err := SplitTree(t.Context(), treeSession(), engine.KpackSplitOptions{Input: in, Output: out, Dir: ".kpack", Group: "g", SplitSettings: engine.SplitSettings{Uncompressed: scheme == kpack.None, Verify: true}})
			if err != nil {
				t.Fatal(err)
			}
			if report.Count != 4 || len(report.Files) != 2 || len(report.Archives) != 3 || report.Files[0].SearchPath != "../../.kpack/g_@GFXARCH@.kpack" {
				t.Errorf("report: %+v", report)
			}
			names := []string{filepath.Join(out, "lib/liba.so.1"), filepath.Join(out, "lib/deep/libb.so")}
			for _, a := range report.Archives {
				names = append(names, a.File)
			}
			for _, f := range append(report.Files, engine.KpackSplitReport{Archives: report.Archives}) {
				for _, a := range f.Archives {
					if info, err := os.Stat(a.File); err != nil || info.Size() != a.Size || a.Size == 0 {
						t.Errorf("%s: %s has %d bytes, expected %v, %v", f.Input, a.File, a.Size, info, err)
					}
				}
			}
			if problems, err := treeSession().KpackVerify(t.Context(), names); err != nil {
				t.Errorf("%v, %v", err, problems)
			}
			var keys []string
			for _, name := range names[2:] {
				data, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				a, err := kpack.Parse(content.Memory(data))
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range a.Entries {
					c, _, err := e.Content(t.Context(), nil, scheme)
					if err != nil {
						t.Fatal(err)
					}
					keys = append(keys, fmt.Sprintf("%s %s %.20q", e.Key, e.Arch, c.Mapped(guard.Inside)))
				}
			}
			want := []string{
				`lib/deep/libb.so#0 gfx942 "\x7fELF source 0 for gf"`, `lib/liba.so.1#0 gfx942 "\x7fELF source 0 for gf"`, `lib/liba.so.1#1 gfx942 "\x7fELF source 1 for gf"`,
				`lib/deep/libb.so#0 gfx90a "\x7fELF source 0 for gf"`, `lib/liba.so.1#0 gfx90a "\x7fELF source 0 for gf"`,
				`lib/liba.so.1#1 gfx1100 "\x7fELF source 1 for gf"`,
			}
			if diff := cmp.Diff(want, keys); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("failures", func(t *testing.T) {
		before, _ := os.ReadDir(dir)
		for name, test := range map[string]struct {
			opt  engine.KpackSplitOptions
			want string
		}{
			"archs":  {engine.KpackSplitOptions{Dir: ".kpack", Group: "g", SplitSettings: engine.SplitSettings{Archs: []string{"gfx906"}}}, "no file has code for the targets"},
			"group":  {engine.KpackSplitOptions{Dir: ".kpack", Group: "a/b"}, "expected a name without slashes"},
			"folder": {engine.KpackSplitOptions{Dir: "../out", Group: "g"}, "expected a path inside"},
		} {
			test.opt.Input, test.opt.Output, test.opt.Uncompressed = in, filepath.Join(dir, "bad"), true
			if _, err := SplitTree(t.Context(), treeSession(), test.opt); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: error %v, expected %q", name, err, test.want)
			}
		}
		if after, _ := os.ReadDir(dir); len(after) != len(before) {
			t.Errorf("left: %v", after)
		}
	})
}
