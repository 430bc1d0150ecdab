package launch

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// opened matches a file that a process reads or runs, in the output of strace.
var opened = regexp.MustCompile(`(?m)^\d+ +(?:openat\(AT_FDCWD, |open\(|execve\()"([^"]+)", ([^)]*)\) += \d`)

// TestKeyIsComplete traces a compilation, and changes each file that it opens, each argument and each variable that it
// reads: every change is a miss of the steps that it concerns.
func TestKeyIsComplete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("forced.h", "#pragma once\n")
	b.write("macros.h", "#define MACRO 1\n")
	b.write("data.txt", "1, 2")
	b.write("system/sys.h", "#pragma once\n")
	b.write("deep/inner.h", "#pragma once\n#include \"beside.h\"\n")
	b.write("deep/beside.h", "#pragma once\n")
	b.write("ignore.txt", "[undefined]\nsrc:nothing\n")
	b.write("lib.c", "__attribute__((const)) int from_library(int x) { return x; }\n")
	if r := b.clang("-x", "c", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib", "-emit-llvm", "-c", "-o", "lib.bc", "lib.c"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	b.write("all.hip", `#include "hip.h"
#include "scale.h"
#include <sys.h>
#include "deep/inner.h"
const char data[] = {
#embed "data.txt"
};
__global__ void k(float *p) { *p = factor(MACRO); }
`)
	args := with("gfx90a", "-c", "-o", "a.o", "-O1", "-include", "forced.h", "-imacros", "macros.h", "-isystem", "system", "-Wno-c23-extensions",
		"-fsanitize-ignorelist=ignore.txt", "-fsanitize=undefined", "all.hip")
	if got := b.states(args...); got != "gfx90a miss, host miss" {
		t.Fatal(got)
	}
	b.expect("gfx90a hit, host hit", args...)

	trace := b.path("../trace")
	if r := b.command(nil, append([]string{"/usr/bin/strace", "-f", "-qq", "-s", "4096", "-e", "trace=open,openat,execve", "-o", trace, llvm.Dir + "/clang++"}, args...)...); r.code != 0 {
		t.Fatal(r.stderr)
	}
	work, err := filepath.EvalSymlinks(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for _, m := range opened.FindAllSubmatch(b.read(trace), -1) {
		name := string(m[1])
		if !filepath.IsAbs(name) {
			name = filepath.Join(work, name)
		}
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() || bytes.Contains(m[2], []byte("O_CREAT")) {
			continue
		}
		if strings.HasPrefix(name, work+"/") && filepath.Base(name) != "a.o" && !slices.Contains(own, name) {
			own = append(own, name)
		}
	}
	for _, name := range []string{"all.hip", "hip.h", "scale.h", "forced.h", "macros.h", "data.txt", "system/sys.h", "deep/inner.h", "deep/beside.h", "ignore.txt"} {
		if !slices.Contains(own, filepath.Join(work, name)) {
			t.Errorf("the trace is without %s: %q", name, own)
		}
	}
	for _, name := range own {
		before := b.read(name)
		b.write(name, string(before)+"\n")
		if got := b.states(args...); !strings.Contains(got, "miss") && got != "passed" {
			t.Errorf("%s changed: %s", name, got)
		}
		b.write(name, string(before))
		if got := b.states(args...); strings.Contains(got, "miss") {
			t.Errorf("%s is as it was: %s", name, got)
		}
	}
	for _, more := range []string{"-DX=1", "-O3", "-g", "-fno-exceptions", "-mcode-object-version=5", "-Xarch_device=-O0", "-ffast-math", "-Wextra", "-mllvm=-amdgpu-early-inline-all=true", "-fPIC", "-funroll-loops"} {
		extra := []string{more}
		if option, value, ok := strings.Cut(more, "="); ok && (option == "-mllvm" || option == "-Xarch_device") {
			extra = []string{option, value}
		}
		if got := b.states(append(slices.Clone(args), extra...)...); !strings.Contains(got, "miss") && got != "passed" {
			t.Errorf("with %s: %s", more, got)
		}
	}
	for _, variable := range []string{"CPATH=" + b.path("deep"), "CPLUS_INCLUDE_PATH=" + b.path("deep"), "SOURCE_DATE_EPOCH=5", "LLVM_X=1", "CLANG_X=1"} {
		if got := b.statesWith([]string{variable}, args...); !strings.Contains(got, "miss") && got != "passed" {
			t.Errorf("with %s: %s", variable, got)
		}
	}
	b.expect("gfx90a hit, host hit", args...)

	// Bitcode that is linked into a compilation.
	b.write("call.c", "int from_library(int x);\nint call(int x) { return from_library(x); }\n")
	linked := []string{"-x", "c", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib", "-c", "-o", "call.o", "-Xclang", "-mlink-builtin-bitcode", "-Xclang", "lib.bc", "call.c"}
	b.expect("host miss", linked...)
	b.expect("host hit", linked...)
	b.write("lib.bc", string(b.read("lib.bc"))+"\x00\x00\x00\x00")
	b.expect("host miss", linked...)
}

// TestCompilerReplaced replaces the compiler in place, with the same size and time.
func TestCompilerReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	real, err := filepath.EvalSymlinks(llvm.Dir + "/clang")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	compiler := b.path("bin/clang++")
	copied := func(data []byte) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(compiler), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(compiler, data, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(compiler, old, old); err != nil {
			t.Fatal(err)
		}
	}
	launch := func() string {
		t.Helper()
		r := b.command([]string{"LD_LIBRARY_PATH=/usr/lib/llvm-22/lib"}, llvm.Offload(t), "launch", "--show-key", compiler, "-c", "-x", "c", "-resource-dir", "/usr/lib/llvm-22/lib/clang/22", "-o", "a.o", "plain.c")
		if r.code != 0 {
			t.Fatal(r.stderr)
		}
		return r.stdout
	}
	b.write("plain.c", "int f(void) { return 1; }\n")
	copied(data)
	first := launch()
	if second := launch(); !strings.Contains(first, "\tmiss\t") || !strings.Contains(second, "\thit\t") {
		t.Fatalf("%s%s", first, second)
	}
	// A byte of a message, which does not change what the compiler does here.
	i := bytes.LastIndex(data, []byte("CLANG_"))
	if i < 0 {
		t.Fatal("the compiler has no text to change")
	}
	data[i]++
	copied(data)
	if third := launch(); !strings.Contains(third, "\tmiss\t") || third == first {
		t.Errorf("another compiler: %s", third)
	}
}
