package report

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/chromium"
)

// The map has the source files of a kernel after zooming in on an architecture, and their lines after zooming in on the kernel.
func TestSources(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "inlined.h"), []byte("__attribute__((device)) inline float inlined(float x) {\n  return x * x / 3;\n}\n"))
	write(t, filepath.Join(dir, "k.hip"), []byte("#include \"inlined.h\"\n"+
		"extern \"C\" __attribute__((global)) void scale(float *a, int n) {\n  for (int i = 0; i < n; i++)\n    a[i] = inlined(a[i]) + i;\n}\n"+
		"extern \"C\" __attribute__((global)) void one(float *a) {\n  *a = 1;\n}\n"))
	compile := exec.Command(llvm.Tool(t, "clang++"), "-x", "hip", "-nogpuinc", "-nogpulib", "--offload-device-only", "--no-gpu-bundle-output", "--offload-arch=gfx90a", "-O2", "-g", "k.hip", "-o", "k.co")
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	url, _ := report(t, dir, "k.co")
	p := chromium.Start(t, 1280, 900)
	p.Open(url)
	p.Settle()
	sum := func(kind string) (size int64, n int) {
		for _, x := range parts(p) {
			if x.Kind == kind {
				size += x.Size
				n++
			}
		}
		return size, n
	}
	click := func(selector string) {
		p.Evaluate(`document.querySelector('#treemap `+selector+`').click()`, nil)
		p.Settle()
	}
	if _, n := sum("source"); n != 0 {
		t.Errorf("%d source files before zooming in", n)
	}
	click("[data-kind=arch]")
	kernels, _ := sum("kernel")
	sources, n := sum("source")
	if _, lines := sum("line"); n < 3 || sources <= kernels/2 || lines != 0 {
		t.Errorf("%d source files with %d bytes in kernels of %d bytes, %d lines", n, sources, kernels, lines)
	}
	click("[data-kind=kernel][data-name=scale]")
	sources, n = sum("source")
	lines, count := sum("line")
	none, _ := sum("other")
	var size int64
	for _, x := range parts(p) {
		if x.Kind == "kernel" {
			size = x.Size
		}
	}
	if n != 2 || count < 3 || sources != lines || sources+none != size {
		t.Errorf("%d source files with %d bytes, %d lines with %d, %d without a source, of %d bytes", n, sources, count, lines, none, size)
	}
	var fragment string
	p.Evaluate(`location.hash`, &fragment)
	p.Open(url + fragment) // the same view in another browser
	p.Settle()
	if again, _ := sum("line"); again != lines || lines == 0 {
		t.Errorf("%s shows lines with %d bytes, not %d", fragment, again, lines)
	}
	// The kernel that fills the map opens its details.
	click("[data-kind=kernel]")
	var open bool
	if p.Evaluate(`document.getElementById('detail').open`, &open); !open {
		t.Error("no details")
	}
	quiet(t, p, url)
}
