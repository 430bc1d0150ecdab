package compilers

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/root"
	"github.com/rules-offload/rules_offload/tests/internal/releases"
)

// TestDebugInformation looks up the line of an instruction of a kernel after its code is bundled,
// compressed, pruned and split.
func TestDebugInformation(t *testing.T) {
	project, err := root.Project()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	c := &clang{Release: releases.Get(t, 22), t: t, folder: folder, offload: llvm.Offload(t)}
	source := filepath.Join(project, "tests/devicecode/sources/shared.hip")
	for _, compress := range []string{"--no-offload-compress", "--offload-compress"} {
		library := filepath.Join(folder, compress+".so")
		c.run("clang", "-nogpulib", "-nogpuinc", "-O1", "-g", "-fPIC", "-shared", "-nostdlib", "-no-hip-rt", "--hip-link", "-fuse-ld=lld",
			"--offload-arch=gfx90a", "--offload-arch=gfx1100", compress, "-x", "hip", source, "-o", library)
		c.hasLines(library)
		pruned := library + ".pruned"
		c.ours("prune", "--input="+library, "--output="+pruned, "--keep=gfx90a", "--compress")
		c.hasLines(pruned)
		c.ours("kpack", "split", "--input="+library, "--output="+library+".split", "--kpack-dir="+folder, "--group=lines"+compress)
		objects := library + ".objects"
		c.ours("kpack", "extract", "--input="+filepath.Join(folder, "lines"+compress+"_gfx90a.kpack"), "--output-dir="+objects)
		images, err := filepath.Glob(filepath.Join(objects, "*"))
		if err != nil || len(images) != 1 {
			t.Fatalf("kpack extract wrote %q (%v)", images, err)
		}
		c.lines(images[0])
	}
}

// kernelAt finds the address of a kernel.
var kernelAt = regexp.MustCompile(`(?m)^ +\d+: ([0-9a-f]+) +\d+ FUNC .* transpose$`)

// lineOfKernel is the line of the kernel's first instruction.
var lineOfKernel = regexp.MustCompile(`(?m)^transpose\n.*shared\.hip:2[4-9]:`)

// hasLines fails if the code of a kernel for gfx90a in a file has no line information.
func (c *clang) hasLines(file string) {
	c.t.Helper()
	out := filepath.Join(c.t.TempDir(), "image.co")
	c.ours("extract", "--image=arch=gfx90a,file="+out, file)
	c.lines(out)
}

// lines returns the line of the first instruction of a kernel in a code object.
func (c *clang) lines(image string) {
	c.t.Helper()
	match := kernelAt.FindStringSubmatch(c.run("llvm-readelf", "--symbols", "--wide", image))
	if match == nil {
		c.t.Fatalf("%s has no kernel transpose", image)
	}
	if got := c.run("llvm-symbolizer", "--obj="+image, "0x"+match[1]); !lineOfKernel.MatchString(got) {
		c.t.Errorf("llvm-symbolizer: got %q, expected transpose in shared.hip:24 to 29", got)
	}
	if got := c.run("llvm-dwarfdump", "--debug-line", image); !strings.Contains(got, "shared.hip") {
		c.t.Errorf("llvm-dwarfdump prints no lines of shared.hip:\n%s", got)
	}
}
