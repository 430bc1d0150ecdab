// Package wild runs the program on wheels that projects publish. It needs a package index; run it by
//
//	tools/offline/run go test ./tests/wild
//
// With -all, it also reads the wheels that are larger than 20 MB.
package wild

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/root"
	"github.com/rules-offload/rules_offload/tests/internal/packagers"
)

var all = flag.Bool("all", false, "also read large wheels")

// wheel is a wheel of the package index.
type wheel struct {
	project, version, python string
	large                    bool
	// faults are parts of the lines that check --package prints; each line has one.
	faults []string
	// keep is a GPU for which the wheel has code; "" if none of its files has code for AMD GPUs.
	keep string
	// devices are the GPUs in the device images of its files; nil if they are not compared.
	devices []string
}

var wheels = []wheel{
	{project: "jax-rocm7-plugin", version: "0.12.0", python: "3.12", keep: "gfx942"},
	{project: "jax-rocm10-plugin", version: "0.12.0", python: "3.12", keep: "gfx942"},
	{
		project: "amd-mori", version: "1.2.4", python: "3.12", keep: "gfx942", devices: []string{"gfx942", "gfx950"},
		// A tool of its build changed WHEEL after RECORD was written.
		faults: []string{"amd_mori-1.2.4.dist-info/WHEEL: found 113 bytes, RECORD says 104"},
	},
	{project: "nvidia-cuda-cuobjdump", version: "13.5.37", python: "3.12"},
	{project: "cyllama-rocm", version: "0.2.18", python: "3.11", large: true, keep: "gfx942"},
	{project: "hipengine", version: "0.8.3", python: "3.12", large: true},
	{project: "cupy-rocm-7-0", version: "14.2.0", python: "3.12", large: true, keep: "gfx942"},
	{project: "dpnp", version: "0.20.0", python: "3.12", large: true},
	{project: "nvidia-nccl-cu13", version: "2.32.3", python: "3.12", large: true},
}

// platforms are the tags of platforms that pip is asked for, because it runs with an older C library or Python.
var platforms = []string{"manylinux_2_39_x86_64", "manylinux_2_35_x86_64", "manylinux_2_34_x86_64", "manylinux_2_31_x86_64", "manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64", "any"}

// file returns the wheel, from the cache or the package index.
func (w *wheel) file(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "rules_offload", "wheels", w.project+"-"+w.version)
	found, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
			t.Fatal(err)
		}
		temp, err := os.MkdirTemp(filepath.Dir(dir), "download-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(temp)
		args := []string{"download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", temp, "--python-version", w.python}
		for _, p := range platforms {
			args = append(args, "--platform", p)
		}
		packagers.Pip(t, temp, append(args, w.project+"=="+w.version)...)
		if err := os.Rename(temp, dir); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		found, err = filepath.Glob(filepath.Join(dir, "*.whl"))
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d wheels, want 1", dir, len(found))
	}
	return found[0]
}

// program is the program under test.
var program string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if err := root.Enter("python3"); err != nil {
			println(err.Error())
			return 1
		}
		dir, err := os.MkdirTemp("", "wild")
		if err != nil {
			println(err.Error())
			return 1
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "offload")
		build := exec.Command("go", "build", "-o", program, "github.com/rules-offload/rules_offload/cmd/offload")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			println(err.Error())
			return 1
		}
		return m.Run()
	}())
}

// offload runs the program and returns what it prints. It fails the test if the program ends in another way than it
// documents.
func offload(t *testing.T, args ...string) (stdout, stderr string, ok bool) {
	t.Helper()
	cmd := exec.Command(program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	const failure = 1
	if code := cmd.ProcessState.ExitCode(); code != 0 && code != failure || strings.Contains(errs.String(), "goroutine ") {
		t.Fatalf("offload %s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return out.String(), errs.String(), err == nil
}

// image is what inspect --json prints about a device image.
type image struct {
	Arch string `json:"arch"`
}

// TestWheels runs the verbs for files and for wheels on published wheels.
func TestWheels(t *testing.T) {
	for _, w := range wheels {
		if w.large && !*all {
			continue
		}
		t.Run(w.project, func(t *testing.T) {
			name := w.file(t)
			t.Run("package", func(t *testing.T) { w.testPackage(t, name) })
			t.Run("files", func(t *testing.T) { w.testFiles(t, name) })
			if w.keep != "" && len(w.faults) == 0 {
				t.Run("prune", func(t *testing.T) { w.testPrune(t, name) })
				t.Run("split", func(t *testing.T) { w.testSplit(t, name) })
			}
		})
	}
}

// testPackage checks the wheel.
func (w *wheel) testPackage(t *testing.T, name string) {
	out, errs, ok := offload(t, "check", "--package", name)
	lines := slices.DeleteFunc(strings.Split(out+errs, "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "offload: "+name)
	})
	if ok != (len(w.faults) == 0) || len(lines) != len(w.faults) {
		t.Fatalf("check --package reports %d faults, want %d:\n%s%s", len(lines), len(w.faults), out, errs)
	}
	for i, fault := range w.faults {
		if !strings.Contains(lines[i], fault) {
			t.Errorf("got fault %q, want %q", lines[i], fault)
		}
	}
}

// testFiles looks for device code in each file, also by the magic numbers that a file contains.
func (w *wheel) testFiles(t *testing.T, name string) {
	dir := t.TempDir()
	found := map[string]bool{}
	files := 0
	for _, f := range members(t, name) {
		data := content(t, f)
		path := filepath.Join(dir, filepath.Base(f.Name))
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		out, errs, ok := offload(t, "inspect", "--json", path)
		var images []image
		if ok {
			if err := json.Unmarshal([]byte(out), &images); err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
		}
		switch signs := signs(data); {
		case len(images) > 0:
			files++
			for _, img := range images {
				found[img.Arch] = true
			}
			if _, errs, ok := offload(t, "inspect", "--kernels", "--json", path); !ok {
				t.Errorf("%s: inspect --kernels fails: %s", f.Name, errs)
			}
		case signs != nil:
			t.Errorf("%s contains %v, and inspect finds no device images: %s", f.Name, signs, errs)
		case !ok && !strings.Contains(errs, "no device images"):
			t.Errorf("%s: %s", f.Name, errs)
		}
		os.Remove(path)
	}
	delete(found, "")
	got := slices.Sorted(maps.Keys(found))
	t.Logf("%d files with device code for %v", files, got)
	if w.keep != "" && !slices.Contains(got, w.keep) {
		t.Errorf("no file has code for %s", w.keep)
	}
	if w.devices != nil && !slices.Equal(got, w.devices) {
		t.Errorf("got code for %v, want %v", got, w.devices)
	}
}

// testPrune keeps the code for one GPU.
func (w *wheel) testPrune(t *testing.T, name string) {
	dir := t.TempDir()
	if _, errs, ok := offload(t, "wheel", "prune", "--keep", w.keep, "--verify", "--output-dir", dir, name); !ok {
		t.Fatal(errs)
	}
	pruned := only(t, dir)
	if got, want := archs(t, pruned), []string{w.keep}; !slices.Equal(got, want) {
		t.Errorf("the pruned wheel has code for %v, want %v", got, want)
	}
	if out, errs, ok := offload(t, "check", "--package", pruned); !ok {
		t.Errorf("the pruned wheel is at fault: %s%s", out, errs)
	}
	if before, after := size(t, name), size(t, pruned); after >= before {
		t.Errorf("the pruned wheel has %d bytes, the wheel %d", after, before)
	}
}

// testSplit splits the wheel and merges the parts again.
func (w *wheel) testSplit(t *testing.T, name string) {
	parts, merged := t.TempDir(), t.TempDir()
	if _, errs, ok := offload(t, "wheel", "split", "--verify", "--output-dir", parts, name); !ok {
		t.Fatal(errs)
	}
	split, err := filepath.Glob(filepath.Join(parts, "*.whl"))
	if err != nil || len(split) < 2 {
		t.Fatalf("%d wheels after the split, %v", len(split), err)
	}
	if out, errs, ok := offload(t, append([]string{"check", "--package"}, split...)...); !ok {
		t.Errorf("the parts are at fault: %s%s", out, errs)
	}
	if _, errs, ok := offload(t, append([]string{"wheel", "merge", "--output-dir", merged}, split...)...); !ok {
		t.Fatal(errs)
	}
	whole := only(t, merged)
	if got, want := names(t, whole), names(t, name); !slices.Equal(got, want) {
		t.Errorf("the merged wheel has other files:\n%v\nwant\n%v", got, want)
	}
	if got, want := archs(t, whole), archs(t, name); !slices.Equal(got, want) {
		t.Errorf("the merged wheel has code for %v, want %v", got, want)
	}
}

// members returns the files of a wheel.
func members(t *testing.T, name string) []*zip.File {
	t.Helper()
	r, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return slices.DeleteFunc(r.File, func(f *zip.File) bool { return strings.HasSuffix(f.Name, "/") })
}

func content(t *testing.T, f *zip.File) []byte {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func names(t *testing.T, wheel string) []string {
	t.Helper()
	var list []string
	for _, f := range members(t, wheel) {
		list = append(list, f.Name)
	}
	slices.Sort(list)
	return list
}

// archs returns the processors of AMD GPUs for which files of a wheel have code.
func archs(t *testing.T, wheel string) []string {
	t.Helper()
	dir := t.TempDir()
	found := map[string]bool{}
	for _, f := range members(t, wheel) {
		if data := content(t, f); signs(data) != nil {
			path := filepath.Join(dir, "file")
			if err := os.WriteFile(path, data, 0o666); err != nil {
				t.Fatal(err)
			}
			out, errs, ok := offload(t, "inspect", "--json", path)
			if !ok {
				t.Fatalf("%s: %s", f.Name, errs)
			}
			var images []image
			if err := json.Unmarshal([]byte(out), &images); err != nil {
				t.Fatal(err)
			}
			for _, img := range images {
				if processor, _, _ := strings.Cut(img.Arch, ":"); strings.HasPrefix(processor, "gfx") {
					found[processor] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// signs returns what of a file is device code by its magic number: a bundle, compressed or not, an offload binary, a
// fat binary of CUDA at an aligned address, a code object.
func signs(data []byte) []string {
	var found []string
	for _, m := range []struct {
		name, magic string
		align       int
		valid       func(rest []byte) bool
	}{
		{"a bundle", "__CLANG_OFFLOAD_BUNDLE__", 8, func(b []byte) bool {
			const header, most = 32, 1 << 10
			return len(b) >= header && binary.LittleEndian.Uint64(b[24:])-1 < most
		}},
		{"a compressed bundle", "CCOB", 8, func(b []byte) bool {
			return len(b) >= 8 && b[4]-1 < 3 && b[5] == 0 && b[6] < 2 && b[7] == 0
		}},
		{"an offload binary", "\x10\xff\x10\xad", 8, func(b []byte) bool { return len(b) >= 8 && b[4]-1 < 3 && b[5] == 0 }},
		{"a fat binary", "\x50\xed\x55\xba\x01\x00\x10\x00", 8, func(b []byte) bool { return len(b) >= 16 }},
	} {
		for at := 0; ; at++ {
			i := bytes.Index(data[at:], []byte(m.magic))
			if i < 0 {
				break
			}
			if at += i; at%m.align == 0 && m.valid(data[at:]) {
				found = append(found, m.name)
				break
			}
		}
	}
	const machineOffset, amdgpu = 18, 224
	if bytes.HasPrefix(data, []byte("\x7fELF")) && len(data) > machineOffset+2 && binary.LittleEndian.Uint16(data[machineOffset:]) == amdgpu {
		found = append(found, "a code object")
	}
	return found
}

func only(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d wheels in %s, %v; want 1", len(found), dir, err)
	}
	return found[0]
}

func size(t *testing.T, name string) int64 {
	t.Helper()
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return fi.Size()
}
