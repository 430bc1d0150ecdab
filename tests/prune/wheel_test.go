package prune

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/installed/installation"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/tests/internal/packagers"
)

// installed checks each file of the installed projects with the hash in its RECORD, and prints their names.
const installed = `
import base64, hashlib, importlib.metadata, sys
for d in sorted(importlib.metadata.distributions(path=[sys.argv[1]]), key=lambda d: d.name):
    print(d.name, d.version)
    for f in d.files:
        data = f.read_binary()
        if f.hash:
            digest = base64.urlsafe_b64encode(hashlib.new(f.hash.mode, data).digest()).decode().rstrip("=")
            assert digest == f.hash.value and len(data) == f.size, f
        if f.suffix in (".kpack", ".so"):
            print(" ", f)
`

// TestWheelInstall installs a wheel that was split with pip from a directory, and loads its library.
func TestWheelInstall(t *testing.T) {
	b := build(t, layout{linker: "lld", kind: "so", bundles: 2, shape: "plain"})
	all := b.run(t, b.path)
	const tag = "py3-none-any"
	name := filepath.Join(b.dir, "demo_pkg-1.0-"+tag+".whl")
	if err := os.WriteFile(name, fixture.Wheel(t, "demo_pkg", "1.0", tag, "", fixture.WheelFile{Name: "demo/__init__.py"},
		fixture.WheelFile{Name: "demo/lib/libdemo.so", Text: string(read(t, b.path)), Mode: 0o755}), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	dist := filepath.Join(b.dir, "dist")
	report, err := installation.SplitWheel(ctx, session(), installation.SplitWheelOptions{Input: name, OutputDir: dist, SplitSettings: engine.SplitSettings{Level: 3, Verify: true}})
	if err != nil {
		t.Fatal(err)
	}
	site := filepath.Join(b.dir, "site")
	packagers.Pip(t, b.dir, "install", "--isolated", "--no-index", "--find-links", dist, "--target", site, "demo.pkg[gfx942,device-gfx90a]")
	want := "demo-pkg-device-gfx90a 1.0\n  demo/.kpack/demo_pkg_gfx90a.kpack\n  demo/.kpack/demo_pkg_gfx90a:xnack+.kpack\n" +
		"demo-pkg-device-gfx942 1.0\n  demo/.kpack/demo_pkg_gfx942.kpack\ndemo_pkg 1.0\n  demo/lib/libdemo.so\n"
	if got := command(t, b.dir, "python3", "-c", installed, site); got != want {
		t.Errorf("installed:\n%sexpected:\n%s", got, want)
	}
	lib := filepath.Join(site, "demo/lib/libdemo.so")
	if got := b.run(t, lib); !strings.Contains(got, "marker 82 index 1") || !strings.Contains(got, "intact") {
		t.Errorf("the installed library prints\n%s", got)
	}
	archives, err := filepath.Glob(filepath.Join(site, "demo/.kpack/*"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session().KpackVerify(ctx, append([]string{lib}, archives...)); err != nil {
		t.Error(err)
	}

	merged, err := installation.MergeWheels(ctx, session(), installation.MergeWheelOptions{Inputs: wheelFiles(&report), OutputDir: filepath.Join(b.dir, "merged"), MergeSettings: engine.MergeSettings{Verify: true}})
	if err != nil {
		t.Fatal(err)
	}
	pruned, err := installation.PruneWheels(ctx, session(), installation.PruneWheelOptions{Inputs: []string{merged.Wheel.File}, OutputDir: filepath.Join(b.dir, "pruned"), Keep: []string{"gfx1100"}, Verify: true})
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		merged.Wheel.File:     all,
		pruned.Wheels[0].File: filter(all, func(line string) bool { return strings.Contains(line, "gfx1100") }),
	} {
		site := filepath.Join(b.dir, "site-"+filepath.Base(filepath.Dir(file)))
		packagers.Pip(t, b.dir, "install", "--isolated", "--no-index", "--target", site, file)
		if got := b.run(t, filepath.Join(site, "demo/lib/libdemo.so")); got != want {
			t.Errorf("%s: the installed library prints\n%sexpected\n%s", file, got, want)
		}
	}
}

// wheelFiles returns the wheels of a report.
func wheelFiles(r *installation.SplitWheelReport) []string {
	all := []string{r.Host.File}
	for _, d := range r.Devices {
		all = append(all, d.File)
	}
	return all
}
