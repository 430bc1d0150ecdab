package coverage

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/installed/installation"
)

// packs write a directory to a package, by the extension of the package.
var packs = map[string]func(t testing.TB, name, dir string){
	".whl": packZip,
	".tar": func(t testing.TB, name, dir string) { putFile(t, name, tarOf(t, dir)) },
	".tar.zst": func(t testing.TB, name, dir string) {
		w, err := zstd.NewWriter(nil)
		ensure(t, err)
		putFile(t, name, w.EncodeAll(tarOf(t, dir), nil))
	},
	".deb": func(t testing.TB, name, dir string) {
		out := []byte("!<arch>\n")
		data := tarOf(t, dir)
		for _, m := range []struct{ name, text string }{{"debian-binary", "2.0\n"}, {"control.tar", "none"}, {"data.tar", string(data)}} {
			out = fmt.Appendf(out, "%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", m.name, 0, 0, 0, "100644", len(m.text), m.text)
		}
		putFile(t, name, out)
	},
}

func packZip(t testing.TB, name, dir string) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	r := tar.NewReader(bytes.NewReader(tarOf(t, dir)))
	for h, err := r.Next(); err == nil; h, err = r.Next() {
		header := &zip.FileHeader{Name: strings.TrimPrefix(h.Name, "./"), Method: zip.Deflate}
		header.SetMode(h.FileInfo().Mode())
		f := must(w.CreateHeader(header))
		if h.Linkname != "" {
			_, err = f.Write([]byte(h.Linkname))
		} else {
			_, err = io.Copy(f, r)
		}
		ensure(t, err)
	}
	ensure(t, w.Close())
	putFile(t, name, out.Bytes())
}

// tarOf returns a directory as a tar file, with links.
func tarOf(t testing.TB, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	ensure(t, filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		ensure(t, err)
		link, _ := os.Readlink(name)
		h, err := tar.FileInfoHeader(info, link)
		ensure(t, err)
		rel, err := filepath.Rel(dir, name)
		ensure(t, err)
		h.Name = "./" + rel
		ensure(t, w.WriteHeader(h))
		if link == "" {
			data, err := os.ReadFile(name)
			ensure(t, err)
			_, err = w.Write(data)
			ensure(t, err)
		}
		return nil
	}))
	ensure(t, w.Close())
	return out.Bytes()
}

// release writes a tree with split libraries, a fat library, data of libraries, links and other files.
func release(t testing.TB, dir string) {
	t.Helper()
	in := filepath.Join(dir, "in")
	for name, sources := range splitSources {
		putFile(t, filepath.Join(in, "lib", strings.ReplaceAll(name, " ", "-"), "lib.so"), loadableLibrary(t, sources...))
	}
	if _, err := installation.SplitTree(t.Context(), newSession(), engine.KpackSplitOptions{Input: in, Output: filepath.Join(dir, "out"), Dir: ".kpack", Group: "g"}); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	putFile(t, filepath.Join(out, "lib/fat.so"), loadableLibrary(t, []string{"gfx90a", "gfx1100"}))
	for _, gpu := range []string{"gfx90a", "gfx1100"} {
		_, code := codeFor(t, gpu)
		putFile(t, filepath.Join(out, "lib/rocblas/library/TensileLibrary_"+gpu+".co"), code)
		putFile(t, filepath.Join(out, "lib/rocblas/library/TensileLibrary_lazy_"+gpu+".dat"), []byte("msgpack"))
		putFile(t, filepath.Join(out, "lib/hipsparselt/library", gpu, "TensileLibrary_"+gpu+".co"), code)
		putFile(t, filepath.Join(out, "lib/hipsparselt/library", gpu, "TensileLibrary_"+gpu+".dat"), []byte("msgpack"))
	}
	database := []byte("SQLite format 3\x00" + strings.Repeat("\x00", 100))
	putFile(t, filepath.Join(out, "share/miopen/db/gfx90a6e.kdb"), database)
	putFile(t, filepath.Join(out, "share/miopen/db/gfx942130.HIP.fdb.txt"), []byte("x=y"))
	putFile(t, filepath.Join(out, "share/miopen/db/gfx1100_48.kdb"), []byte("version https://git-lfs.github.com/spec/v1\n"))
	aks2 := []byte("AKS2\x00\x10\x00\x00\x02\x00\x00\x00\x40\x00\x00\x00\xfd7zXZ")
	putFile(t, filepath.Join(out, "lib/aotriton.images/amd-gfx11xx/flash/attn_fwd/a.aks2"), aks2)
	putFile(t, filepath.Join(out, "lib/aotriton.images/amd-gfx90a/flash/attn_fwd/a.aks2"), append(aks2[:8:8], 0, 0, 0, 0, 0, 0, 0, 0))
	putFile(t, filepath.Join(out, "share/doc/readme"), []byte("text"))
	ensure(t, os.Symlink("fat.so", filepath.Join(out, "lib/fat.so.1")))
}

// TestCoversPackages compares the verdicts of a tree with those of packages of it.
func TestCoversPackages(t *testing.T) {
	dir := t.TempDir()
	release(t, dir)
	tree := filepath.Join(dir, "out")
	want := verdicts(covers(t, tree, coveredGPUs...), tree+"/")
	for extension, pack := range packs {
		name := filepath.Join(dir, "release"+extension)
		pack(t, name, tree)
		if diff := cmp.Diff(want, verdicts(covers(t, name, coveredGPUs...), name+"!")); diff != "" {
			t.Errorf("%s: -tree +package:\n%s", extension, diff)
		}
	}
	// A file with the package, and a directory with it.
	outer := filepath.Join(dir, "outer.tar.zst")
	putFile(t, filepath.Join(dir, "dist/a/release.whl"), must(os.ReadFile(filepath.Join(dir, "release.whl"))))
	packs[".tar.zst"](t, outer, filepath.Join(dir, "dist"))
	if diff := cmp.Diff(want, verdicts(covers(t, outer, coveredGPUs...), outer+"!a/release.whl!")); diff != "" {
		t.Errorf("-tree +package in a package:\n%s", diff)
	}
	if diff := cmp.Diff(want, verdicts(covers(t, filepath.Join(dir, "dist"), coveredGPUs...), filepath.Join(dir, "dist/a/release.whl!"))); diff != "" {
		t.Errorf("-tree +directory with a package:\n%s", diff)
	}
}

func newSession() *engine.Session {
	return engine.New(engine.Config{Budget: budget.New(4, 1<<30)})
}

// A small package can have many files, which take more memory than its bytes.
func TestPackageFilesAreReserved(t *testing.T) {
	name := filepath.Join(t.TempDir(), "many.tar")
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i := range 5000 {
		ensure(t, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("usr/%0200d", i), Typeflag: tar.TypeReg, Mode: 0o644}))
	}
	ensure(t, w.Close())
	putFile(t, name, out.Bytes())
	const memory = 4 << 20
	b := budget.New(1, memory)
	s := engine.New(engine.Config{Budget: b})
	_, err := CheckPackage(t.Context(), s, Options{Inputs: []string{name}})
	if limit, ok := errors.AsType[*budget.LimitError](err); !ok || limit.Limit != memory || !strings.HasPrefix(err.Error(), name+": found more than ") {
		t.Errorf("CheckPackage: %v; want a limit of %d bytes, and the package", err, memory)
	}
	_, err = Check(t.Context(), s, Options{Inputs: []string{name}, GPUs: []GPU{must(ParseGPU("gfx906"))}})
	if _, ok := errors.AsType[*budget.LimitError](err); !ok {
		t.Errorf("Covers: %v; want a limit", err)
	}
	all, err := b.Reserve(t.Context(), memory)
	if err != nil {
		t.Errorf("memory is still reserved: %v", err)
	}
	all.Release()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestCoversDataFolders has verdicts of directories with data of libraries.
func TestCoversDataFolders(t *testing.T) {
	dir := t.TempDir()
	release(t, dir)
	tree := filepath.Join(dir, "out")
	report := covers(t, tree, "gfx90a:xnack-", "gfx942:xnack-", "gfx1100", "gfx1101")
	var got []string
	for _, f := range report.Files {
		name := strings.TrimPrefix(f.File, tree+"/")
		if !strings.Contains(name, "library") && !strings.Contains(name, "miopen") && !strings.Contains(name, "aotriton") {
			continue
		}
		for _, g := range f.GPUs {
			line := fmt.Sprintf("%s %s: %s", name, g.GPU, g.Verdict)
			if code := g.Modes[0].Code; code != nil {
				line += fmt.Sprintf(" %s (%s)", strings.TrimPrefix(code[0].Archive, tree+"/"), strings.ReplaceAll(code[0].Reason, tree+"/", ""))
			}
			got = append(got, line)
		}
	}
	want := []string{
		"lib/aotriton.images gfx90a:xnack-: no  (lib/aotriton.images/amd-gfx90a/flash/attn_fwd/a.aks2: it has no kernels)",
		"lib/aotriton.images gfx942:xnack-: no  (lib/aotriton.images has no file for gfx942)",
		"lib/aotriton.images gfx1100: yes lib/aotriton.images/amd-gfx11xx/flash/attn_fwd/a.aks2 ()",
		"lib/aotriton.images gfx1101: yes lib/aotriton.images/amd-gfx11xx/flash/attn_fwd/a.aks2 ()",
		"lib/hipsparselt/library gfx90a:xnack-: yes",
		"lib/hipsparselt/library gfx942:xnack-: no",
		"lib/hipsparselt/library gfx1100: yes",
		"lib/hipsparselt/library gfx1101: no",
		"lib/rocblas/library gfx90a:xnack-: yes",
		"lib/rocblas/library gfx942:xnack-: no",
		"lib/rocblas/library gfx1100: yes",
		"lib/rocblas/library gfx1101: no",
		"share/miopen/db gfx90a:xnack-: yes share/miopen/db/gfx90a6e.kdb ()",
		"share/miopen/db gfx942:xnack-: yes share/miopen/db/gfx942130.HIP.fdb.txt ()",
		"share/miopen/db gfx1100: no  (share/miopen/db/gfx1100_48.kdb: not an SQLite database: found 43 bytes that begin with \"version https://\")",
		"share/miopen/db gfx1101: no  (share/miopen/db has no file for gfx1101)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestCoversSetOfPackages checks packages that are installed together: a host package and one for each GPU.
func TestCoversSetOfPackages(t *testing.T) {
	dir := t.TempDir()
	putFile(t, filepath.Join(dir, "in/torch/lib/a.so"), loadableLibrary(t, []string{"gfx90a", "gfx1100"}))
	if _, err := installation.SplitTree(t.Context(), newSession(), engine.KpackSplitOptions{Input: filepath.Join(dir, "in"), Output: filepath.Join(dir, "out"), Dir: ".kpack", Group: "g"}); err != nil {
		t.Fatal(err)
	}
	var packages []string
	for _, part := range []string{".kpack/g_gfx90a.kpack", ".kpack/g_gfx1100.kpack", "torch/lib/a.so"} {
		tree := filepath.Join(dir, filepath.Base(part))
		target := filepath.Join(tree, part)
		if strings.HasPrefix(part, ".kpack") {
			target = filepath.Join(tree, "amd_torch-1.data/platlib", part) // installed as .kpack
		}
		putFile(t, target, must(os.ReadFile(filepath.Join(dir, "out", part))))
		name := tree + ".whl"
		packZip(t, name, tree)
		packages = append(packages, name)
	}
	check := func(verdicts ...Verdict) {
		t.Helper()
		opt := Options{Inputs: packages}
		for _, name := range []string{"gfx90a:sramecc+:xnack-", "gfx1100", "gfx942:sramecc+:xnack-"} {
			opt.GPUs = append(opt.GPUs, must(ParseGPU(name)))
		}
		report, err := Check(t.Context(), newSession(), opt)
		ensure(t, err)
		if len(report.Files) != 1 || report.Files[0].File != packages[len(packages)-1]+"!torch/lib/a.so" {
			t.Fatalf("found %+v", report.Files)
		}
		for i, want := range verdicts {
			g := report.Files[0].GPUs[i]
			if g.Verdict != want {
				t.Errorf("%s: %s, expected %s", g.GPU, g.Verdict, want)
			}
			if place := g.Modes[0].Code[0]; want == Yes && !strings.Contains(place.Archive, ".whl!amd_torch-1.data/platlib/.kpack/g_gfx") {
				t.Errorf("found %+v", place)
			}
		}
	}
	check(Yes, Yes, No)
	packages = packages[1:]
	check(No, Yes, No)
}

// TestCoversDamagedPackage has errors that name the package.
func TestCoversDamagedPackage(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	putFile(t, filepath.Join(tree, "lib/a.so"), loadableLibrary(t, []string{"gfx90a", "gfx1100"}))
	for extension, pack := range packs {
		name := filepath.Join(dir, "a"+extension)
		pack(t, name, tree)
		ensure(t, os.Truncate(name, must(os.Stat(name)).Size()*3/4))
		_, err := Check(t.Context(), newSession(), Options{Inputs: []string{name}, GPUs: []GPU{must(ParseGPU("gfx1100"))}})
		if err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: found %v, expected an error about the package", extension, err)
		}
	}
}

func ensure(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
