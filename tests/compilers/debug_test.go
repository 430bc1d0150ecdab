package compilers

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	c.checkSplit(source)
}

// checkSplit compares split code objects with those of llvm-objcopy, and asks for lines with the other file in the same
// directory.
func (c *clang) checkSplit(source string) {
	c.t.Helper()
	whole, split, debug := filepath.Join(c.folder, "whole.co"), filepath.Join(c.folder, "split.co"), filepath.Join(c.folder, "split.debug")
	for _, flags := range [][]string{{"-g"}, {"-g", "-gz"}, {"-gline-tables-only"}, {}} {
		c.run("clang", slices.Concat([]string{"-nogpulib", "-nogpuinc", "-O2", "--offload-arch=gfx90a", "--offload-device-only", "--no-gpu-bundle-output"}, flags, []string{"-x", "hip", source, "-o", whole})...)
		c.ours("split-debug", "--input="+whole, "--output="+split, "--debug-info="+debug)
		theirs := whole
		if len(flags) > 0 {
			theirs = filepath.Join(c.folder, "theirs.co")
			c.run("llvm-objcopy", "--strip-debug", "--add-gnu-debuglink="+debug, whole, theirs)
			c.lines(split)
			c.lines(debug)
			if got := c.run("llvm-dwarfdump", "--verify", debug); !strings.Contains(got, "No errors.") {
				c.t.Errorf("%q: llvm-dwarfdump: %s", flags, got)
			}
			if err := os.Remove(debug); err != nil {
				c.t.Fatal(err)
			}
			if got := c.symbolize(split); strings.Contains(got, "shared.hip") {
				c.t.Errorf("%q: the code object has lines without the other file: %s", flags, got)
			}
		}
		c.equal("split.co", theirs, split)
	}
}

// debugBuild has libraries with debug information, in programs, pruned and split into kpack archives.
const debugBuild = `load("@rules_cc//cc:defs.bzl", "cc_binary")
load("@rules_offload//rules:defs.bzl", "hip_library", "offload_kpack", "offload_prune")

[
    [
        hip_library(
            name = name,
            srcs = ["shared.hip"],
            hdrs = ["device.h"],
            alwayslink = True,
            rdc = name.startswith("rdc"),
            split_debug_info = name.endswith("split"),
        ),
        cc_binary(
            name = name + "_program",
            srcs = ["main.cc"],
            deps = [name],
        ),
        offload_prune(
            name = name + "_pruned",
            src = name + "_program",
            compress = "zstd",
            offload_archs = ["gfx90a"],
        ),
        offload_kpack(
            name = name + "_kpack",
            src = name + "_program",
            group = name,
            offload_archs = ["gfx90a", "gfx1100"],
        ),
    ]
    for name in ["alone", "alone_split", "rdc", "rdc_split"]
]
`

// checkDebug builds programs with debug information, with -c dbg and with --copt=-g, and asks for lines of what the rules make.
func (c *clang) checkDebug(build func(archs []string, args ...string)) {
	c.t.Helper()
	tools := &clang{Release: releases.Get(c.t, 22), t: c.t, folder: c.folder, offload: c.offload}
	for _, flag := range []string{"--compilation_mode=dbg", "--copt=-g"} {
		build([]string{"gfx90a", "gfx1100"}, "//debug/...", flag, "--output_groups=+debug_info")
		for _, name := range []string{"alone", "alone_split", "rdc", "rdc_split"} {
			folder := c.t.TempDir()
			found, err := filepath.Glob(c.bin("debug/" + name + "/*/*.debug"))
			if more, _ := filepath.Glob(c.bin("debug/" + name + "/*.debug")); err == nil {
				found = append(found, more...)
			}
			if strings.HasSuffix(name, "split") != (len(found) == 2) {
				c.t.Fatalf("%s, %s: files with debug information: %q (%v)", flag, name, found, err)
			}
			for _, file := range found {
				content, err := os.ReadFile(file)
				if err == nil {
					err = os.WriteFile(filepath.Join(folder, filepath.Base(file)), content, 0o666)
				}
				if err != nil {
					c.t.Fatal(err)
				}
			}
			archive := c.bin("debug/" + name + "_kpack/.kpack/" + name + "_gfx90a.kpack")
			for i, file := range []string{c.bin("debug/" + name + "_program"), c.bin("debug/" + name + "_pruned/" + name + "_program"), archive} {
				image := filepath.Join(folder, strconv.Itoa(i)+".co")
				if file == archive {
					objects := filepath.Join(folder, "objects")
					c.ours("kpack", "extract", "--input="+file, "--output-dir="+objects)
					if images, err := filepath.Glob(filepath.Join(objects, "*")); err != nil || len(images) != 1 || os.Rename(images[0], image) != nil {
						c.t.Fatalf("%s: kpack extract wrote %q (%v)", file, images, err)
					}
				} else {
					c.ours("extract", "--image=arch=gfx90a,file="+image, file)
				}
				if content, err := os.ReadFile(image); err != nil || bytes.Contains(content, []byte(".debug_line")) == strings.HasSuffix(name, "split") {
					c.t.Errorf("%s, %s: a section .debug_line is in the file: %v (%v)", flag, file, !strings.HasSuffix(name, "split"), err)
				}
				tools.lines(image)
			}
		}
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
	if got := c.symbolize(image); !lineOfKernel.MatchString(got) {
		c.t.Errorf("%s: llvm-symbolizer: got %q, expected transpose in shared.hip:24 to 29", image, got)
	}
	if content, err := os.ReadFile(image); err != nil || bytes.Contains(content, []byte(".gnu_debuglink")) {
		return // llvm-dwarfdump reads only the file itself
	}
	if got := c.run("llvm-dwarfdump", "--debug-line", image); !strings.Contains(got, "shared.hip") {
		c.t.Errorf("%s: llvm-dwarfdump prints no lines of shared.hip:\n%s", image, got)
	}
}

// symbolize returns what llvm-symbolizer prints for the first instruction of a kernel in a code object.
func (c *clang) symbolize(image string) string {
	c.t.Helper()
	match := kernelAt.FindStringSubmatch(c.run("llvm-readelf", "--symbols", "--wide", image))
	if match == nil {
		c.t.Fatalf("%s has no kernel transpose", image)
	}
	return c.run("llvm-symbolizer", "--obj="+image, "0x"+match[1])
}
