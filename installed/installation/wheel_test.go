package installation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/installed/wheel"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/prune"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

const demoTag = "cp312-cp312-linux_x86_64"

// demoWheel writes a wheel with two libraries and returns its path.
func demoWheel(t testing.TB, dir string, more ...fixture.WheelFile) string {
	t.Helper()
	name := filepath.Join(dir, "demo_pkg-1.0-"+demoTag+".whl")
	lines := "Requires-Python: >=3.9\nLicense: MIT\nRequires-Dist: numpy; extra == \"test\"\nProvides-Extra: test\n\nA demo.\n"
	data := fixture.Wheel(t, "demo_pkg", "1.0", demoTag, lines, append([]fixture.WheelFile{
		{Name: "demo_pkg/__init__.py", Text: "x = 1\n"},
		{Name: "demo_pkg/lib/liba.so", Text: string(fixture.HIPLibrary(t, []string{"gfx90a", "gfx942"}, []string{"gfx942", "gfx1100"})), Mode: 0o755},
		{Name: "demo_pkg/_b.so", Text: string(fixture.HIPLibrary(t, []string{"gfx90a", "gfx90a:xnack-", "gfx942"})), Mode: 0o755, Stored: true},
		{Name: "demo_pkg/plain.so", Text: "\x7fELF no library", Mode: 0o755},
	}, more...)...)
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func wheelSession() *engine.Session { return engine.New(engine.Config{Budget: budget.New(2, 1<<30)}) }

// readWheel reads a wheel, checks RECORD, and returns the contents of its files.
func readWheel(t testing.TB, name string) (*wheel.Wheel, map[string][]byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := wheel.Read(filepath.Base(name), content.Memory(data))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]byte)
	for _, m := range w.Members {
		var b bytes.Buffer
		if err := w.Check(m, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := m.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		all[m.Name] = b.Bytes()
	}
	if u := w.Unlisted(); len(u) > 0 {
		t.Errorf("%s: %s is not in RECORD", name, u[0].Name)
	}
	return w, all
}

// paths returns the files of a report.
func paths(all []WheelFile) (names []string) {
	for _, f := range all {
		names = append(names, f.File)
	}
	return names
}

// empty checks that a directory has no files but some wheels.
func onlyWheels(t testing.TB, dir string, count int) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil || len(all) != count {
		t.Errorf("%s has %v, %v; expected %d files", dir, all, err, count)
	}
}

func TestWheelSplitMerge(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	input := demoWheel(t, dir)
	opt := SplitWheelOptions{Input: input, OutputDir: filepath.Join(dir, "dist"), SplitSettings: engine.SplitSettings{Level: 3, Verify: true}}
	report, err := SplitWheel(ctx, wheelSession(), opt)
	if err != nil {
		t.Fatal(err)
	}
	onlyWheels(t, opt.OutputDir, 4)
	var bases []string
	for _, name := range append(paths(report.Devices), report.Host.File) {
		bases = append(bases, filepath.Base(name))
	}
	if want := []string{
		"demo_pkg_device_gfx90a-1.0-" + demoTag + ".whl", "demo_pkg_device_gfx942-1.0-" + demoTag + ".whl",
		"demo_pkg_device_gfx1100-1.0-" + demoTag + ".whl", "demo_pkg-1.0-" + demoTag + ".whl",
	}; !cmp.Equal(bases, want) {
		t.Error(cmp.Diff(want, bases))
	}
	host, files := readWheel(t, report.Host.File)
	original, before := readWheel(t, input)
	for name, want := range before {
		changed := slices.Contains(report.Libraries, name) || strings.HasSuffix(name, "/METADATA") || strings.HasSuffix(name, "/RECORD")
		if same := bytes.Equal(files[name], want); same == changed {
			t.Errorf("%s: unchanged is %v", name, same)
		}
	}
	got := string(files["demo_pkg-1.0.dist-info/METADATA"])
	for _, want := range []string{
		"Provides-Extra: gfx942\n", "Requires-Dist: demo-pkg-device-gfx942==1.0; extra == \"gfx942\"\n", "Requires-Dist: demo-pkg-device-gfx90a==1.0; extra == \"device-all\"\n",
		"Requires-Dist: numpy; extra == \"test\"\nProvides-Extra: test\n", "\n\nA demo.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("METADATA is without %q:\n%s", want, got)
		}
	}
	if strings.Count(got, "Provides-Extra: device-all") != 1 {
		t.Errorf("METADATA:\n%s", got)
	}
	device, parts := readWheel(t, report.Devices[0].File)
	if !device.Metadata.Requires("demo_pkg", "1.0") || device.Metadata.Get("License") != "MIT" || device.Info.Get("Tag") != demoTag {
		t.Errorf("METADATA:\n%s\nWHEEL:\n%s", device.Metadata.Bytes(), device.Info.Bytes())
	}
	for _, name := range []string{"demo_pkg/.kpack/demo_pkg_gfx90a.kpack", "demo_pkg/.kpack/demo_pkg_gfx90a:xnack-.kpack"} {
		if _, err := kpack.Parse(content.Memory(parts[name])); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m := host.Member("demo_pkg/_b.so"); m == nil || m.Modified() != original.Member("demo_pkg/_b.so").Modified() {
		t.Error("a library has another time")
	}
	// The same call writes the same bytes.
	saved := make(map[string][]byte)
	all := append(paths(report.Devices), report.Host.File)
	for _, name := range all {
		saved[name] = readFile(t, name)
	}
	if _, err := SplitWheel(ctx, wheelSession(), opt); err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if !bytes.Equal(saved[name], readFile(t, name)) {
			t.Errorf("%s has other bytes after the same call", name)
		}
	}

	// All of it together is the original, whatever the order of the arguments.
	slices.Reverse(all)
	merge := MergeWheelOptions{Inputs: all, OutputDir: filepath.Join(dir, "merged"), MergeSettings: engine.MergeSettings{Verify: true}}
	merged, err := MergeWheels(ctx, wheelSession(), merge)
	if err != nil {
		t.Fatal(err)
	}
	_, after := readWheel(t, merged.Wheel.File)
	sameFiles(t, after, before)

	// A part of it is a wheel for fewer GPUs.
	merge.Inputs, merge.OutputDir = []string{report.Host.File, report.Devices[2].File}, filepath.Join(dir, "part")
	part, err := MergeWheels(ctx, wheelSession(), merge)
	if err != nil || !cmp.Equal(part.Wheel.Archs, []string{"gfx1100"}) || len(part.Warnings) != 1 || !strings.Contains(part.Warnings[0], "_b.so has no device code") {
		t.Errorf("%+v, %v", part, err)
	}
	if _, err := SplitWheel(ctx, wheelSession(), SplitWheelOptions{Input: report.Host.File, OutputDir: filepath.Join(dir, "again")}); err == nil || !strings.Contains(err.Error(), "already split") {
		t.Errorf("splitting again: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "again")); err == nil {
		t.Error("a failed call leaves its directory")
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestWheelFamilies(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	lib := fixture.WheelFile{Name: "demo_pkg-1.0.data/platlib/other/c.so", Text: string(fixture.HIPLibrary(t, []string{"gfx942"})), Mode: 0o755}
	script := fixture.WheelFile{Name: "demo_pkg-1.0.data/scripts/run", Text: string(fixture.HIPLibrary(t, []string{"gfx942"})), Mode: 0o755}
	input := demoWheel(t, dir, lib, script, fixture.WheelFile{Name: "top.so", Text: string(fixture.HIPLibrary(t, []string{"gfx1100"}))})
	opt := SplitWheelOptions{
		Input: input, OutputDir: filepath.Join(dir, "dist"), DeviceName: "Demo.ROCm-device",
		Families: []WheelFamily{{"cdna", []string{"gfx90a", "gfx942"}}}, Modified: time.Date(2025, 5, 5, 5, 5, 6, 0, time.UTC), SplitSettings: engine.SplitSettings{Uncompressed: true},
	}
	report, err := SplitWheel(ctx, wheelSession(), opt)
	if err != nil {
		t.Fatal(err)
	}
	want := []WheelFile{
		{File: "demo_rocm_device_cdna-1.0-" + demoTag + ".whl", Project: "demo-rocm-device-cdna", Archs: []string{"gfx90a", "gfx90a:xnack-", "gfx942"}, Extras: []string{"gfx90a", "device-gfx90a", "cdna", "device-cdna", "gfx942", "device-gfx942"}},
		{File: "demo_rocm_device_gfx1100-1.0-" + demoTag + ".whl", Project: "demo-rocm-device-gfx1100", Archs: []string{"gfx1100"}, Extras: []string{"gfx1100", "device-gfx1100"}},
	}
	got := slices.Clone(report.Devices)
	for i := range got {
		got[i].File, got[i].Size = filepath.Base(got[i].File), 0
	}
	slices.SortFunc(got, func(a, b WheelFile) int { return strings.Compare(a.Project, b.Project) })
	for i := range got {
		slices.Sort(got[i].Archs)
		slices.Sort(got[i].Extras)
		slices.Sort(want[i].Extras)
	}
	slices.SortFunc(want, func(a, b WheelFile) int { return strings.Compare(a.Project, b.Project) })
	if !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0], "scripts/run is copied") {
		t.Errorf("warnings: %v", report.Warnings)
	}
	for _, d := range report.Devices {
		if w, files := readWheel(t, d.File); strings.HasSuffix(d.Project, "cdna") {
			// Libraries of several directories share an archive at the top.
			for _, name := range []string{".kpack/demo_pkg_gfx942.kpack", "demo_rocm_device_cdna-1.0.data/platlib/other/.kpack/demo_pkg_gfx942.kpack"} {
				if m := w.Member(name); m == nil || !m.Modified().Equal(opt.Modified) {
					t.Errorf("%s is not in %v", name, files)
				}
			}
		}
	}
	merged, err := MergeWheels(ctx, wheelSession(), MergeWheelOptions{Inputs: append(paths(report.Devices), report.Host.File), OutputDir: filepath.Join(dir, "merged")})
	if err != nil {
		t.Fatal(err)
	}
	_, before := readWheel(t, input)
	_, after := readWheel(t, merged.Wheel.File)
	sameFiles(t, after, before)
}

// sameFiles checks that merged wheels have the files of the original one: libraries with the same
// code objects for each wrapper, and the same bytes of all others.
func sameFiles(t testing.TB, got, want map[string][]byte) {
	t.Helper()
	for name, data := range want {
		switch {
		case strings.HasSuffix(name, "/RECORD"): // readWheel has checked it
		case strings.HasSuffix(name, ".so"):
			if diff := cmp.Diff(codeOf(t, data), codeOf(t, got[name])); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		case !bytes.Equal(got[name], data):
			t.Errorf("%s differs", name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s is new", name)
		}
	}
}

// codeOf returns the code objects of a library by wrapper and entry ID.
func codeOf(t testing.TB, data []byte) (all []string) {
	t.Helper()
	code, err := prune.ReadCode(context.Background(), content.Memory(data), nil)
	if err != nil {
		return nil // no library with code
	}
	defer code.Close()
	for w, b := range code.Of {
		for _, e := range code.Bundles[b] {
			all = append(all, fmt.Sprintf("%d %s %x", w, e.ID, sha256.Sum256(e.Content.Mapped(guard.Inside))))
		}
	}
	return all
}

func TestWheelPrune(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	input := demoWheel(t, dir)
	prune := func(out string, keep, drop []string, inputs ...string) (PruneWheelReport, error) {
		return PruneWheels(ctx, wheelSession(), PruneWheelOptions{Inputs: inputs, OutputDir: filepath.Join(dir, out), Keep: keep, Drop: drop, Verify: true})
	}
	split := func(out, name string) SplitWheelReport {
		t.Helper()
		report, err := SplitWheel(ctx, wheelSession(), SplitWheelOptions{Input: name, OutputDir: filepath.Join(dir, out), SplitSettings: engine.SplitSettings{Level: 3}})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	pruned, err := prune("pruned", []string{"gfx942"}, nil, input)
	if err != nil || len(pruned.Wheels) != 1 || !cmp.Equal(pruned.Wheels[0].Archs, []string{"gfx942"}) || len(pruned.Files) != 2 {
		t.Fatalf("%+v, %v", pruned, err)
	}
	again, err := prune("again", []string{"gfx942"}, nil, pruned.Wheels[0].File)
	if err != nil || !bytes.Equal(readFile(t, again.Wheels[0].File), readFile(t, pruned.Wheels[0].File)) {
		t.Errorf("pruning again changes the wheel: %v", err)
	}
	// Pruning the parts has the same result as pruning before the split.
	parts := split("dist", input)
	set, err := prune("set", []string{"gfx942"}, nil, append(paths(parts.Devices), parts.Host.File)...)
	if err != nil || len(set.Wheels) != 2 || len(set.Dropped) != 2 {
		t.Fatalf("%+v, %v", set, err)
	}
	other := split("dist2", pruned.Wheels[0].File)
	for _, pair := range [][2]string{{set.Wheels[0].File, other.Devices[0].File}, {set.Wheels[1].File, other.Host.File}} {
		_, a := readWheel(t, pair[0])
		_, b := readWheel(t, pair[1])
		for name := range b {
			if strings.HasSuffix(name, ".kpack") || strings.HasSuffix(name, "METADATA") {
				if !bytes.Equal(a[name], b[name]) {
					t.Errorf("%s: %s differs from that of %s", pair[0], name, pair[1])
				}
			}
		}
	}
	dropped, err := prune("dropped", nil, []string{"gfx90a"}, append(paths(parts.Devices), parts.Host.File)...)
	if err != nil || len(dropped.Wheels) != 3 || len(dropped.Dropped) != 1 {
		t.Errorf("%+v, %v", dropped, err)
	}
	for _, test := range []struct {
		keep   string
		inputs []string
		want   string
	}{
		{"gfx1201", []string{input}, "no code for gfx1201: found gfx"},
		{"gfx1201", []string{parts.Host.File}, "no code for gfx1201: found gfx"},
	} {
		if _, err := prune("failed", []string{test.keep}, nil, test.inputs...); err == nil {
			t.Errorf("%s of %v is kept", test.keep, test.inputs)
		} else if _, missing := os.Stat(filepath.Join(dir, "failed")); missing == nil {
			t.Errorf("the directory is left after %v", err)
		}
	}
}

// TestWheelFaults calls the operations with wheels that do not fit.
func TestWheelFaults(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	input := demoWheel(t, dir)
	data := readFile(t, input)
	put := func(name string, data []byte) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	lie := put("demo-1.0-py3-none-any.whl", fixture.Zip(t, fixture.WheelFile{Name: "demo-1.0.dist-info/METADATA", Text: "Name: demo\nVersion: 1.0\n"},
		fixture.WheelFile{Name: "demo-1.0.dist-info/WHEEL", Text: "Wheel-Version: 1.0\n"},
		fixture.WheelFile{Name: "demo-1.0.dist-info/RECORD", Text: "demo-1.0.dist-info/METADATA,sha256=x,24\ndemo-1.0.dist-info/WHEEL,sha256=x,19\n"}))
	unlisted := put("demo-1.0-1-py3-none-any.whl", fixture.Zip(t, fixture.WheelFile{Name: "demo-1.0.dist-info/METADATA", Text: "Name: demo\nVersion: 1.0\n"},
		fixture.WheelFile{Name: "demo-1.0.dist-info/WHEEL", Text: "Wheel-Version: 1.0\n"}, fixture.WheelFile{Name: "demo-1.0.dist-info/RECORD"}))
	plain := put("plain-1.0-py3-none-any.whl", fixture.Wheel(t, "plain", "1.0", "py3-none-any", ""))
	calls := map[string]func(name string) error{
		"split": func(name string) error {
			_, err := SplitWheel(ctx, wheelSession(), SplitWheelOptions{Input: name, OutputDir: filepath.Join(dir, "out")})
			return err
		},
		"merge": func(name string) error {
			_, err := MergeWheels(ctx, wheelSession(), MergeWheelOptions{Inputs: []string{name}, OutputDir: filepath.Join(dir, "out")})
			return err
		},
		"prune": func(name string) error {
			_, err := PruneWheels(ctx, wheelSession(), PruneWheelOptions{Inputs: []string{name}, Keep: []string{"gfx942"}, OutputDir: filepath.Join(dir, "out")})
			return err
		},
	}
	for _, test := range []struct{ call, input, want string }{
		{"split", lie, "METADATA\" has the hash"},
		{"prune", lie, "METADATA\" has the hash"},
		{"split", unlisted, "RECORD does not list"},
		{"split", plain, "no library or program in the wheel has device code"},
		{"prune", plain, "no device code in the wheel"},
		{"merge", plain, "no device wheel for it"},
		{"split", put("x.whl", data), "found 1 parts"},
		{"split", put("other-1.0-py3-none-any.whl", data), "expected that of the file"},
		{"split", put("demo_pkg-1.0-1-py3-none-any.whl", data[:len(data)/2]), "not a wheel"},
		{"split", filepath.Join(dir, "gone-1-py3-none-any.whl"), "o such file"},
	} {
		if err := calls[test.call](test.input); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), filepath.Base(test.input)) {
			t.Errorf("%s %s: %v, expected %q", test.call, test.input, err, test.want)
		}
		if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
			t.Fatalf("%s %s leaves its directory", test.call, test.input)
		}
	}
}

// A damaged member is the error, whichever members are written to temporary files at the same time.
func TestWheelDamagedMember(t *testing.T) {
	dir := t.TempDir()
	name := demoWheel(t, dir)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte("source 0 for gfx90a:xnack-")) // in the member that is not compressed
	if at < 0 {
		t.Fatal("the wheel has no stored library")
	}
	data[at] ^= 0xff
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	const want = `"demo_pkg/_b.so" is damaged`
	for range 50 {
		_, err := PruneWheels(t.Context(), wheelSession(), PruneWheelOptions{Inputs: []string{name}, OutputDir: filepath.Join(dir, "out"), Keep: []string{"gfx942"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %v, want an error with %s", err, want)
		}
	}
}
