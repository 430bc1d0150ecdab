package launch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// TestCases has the changes that people make between two builds, and what is compiled then.
func TestCases(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	args := with("gfx90a gfx942", "-c", "-o", "a.o", "scale.hip")
	b.expect("gfx90a miss, gfx942 miss, host miss", args...)
	b.expect("gfx90a hit, gfx942 hit, host hit", args...)
	b.expect("gfx1100 miss, gfx90a hit, gfx942 hit, host miss", append(args, "--offload-arch=gfx1100")...)
	b.expect("gfx942 hit, host miss", with("gfx942", "-c", "-o", "a.o", "scale.hip")...)
	b.expect("gfx90a hit, gfx942 hit, host hit", with("gfx90a gfx942", "-c", "-o", "another.o", "scale.hip")...)
	b.expect("gfx90a miss, gfx942 miss, host miss", append(args, "-O1")...)

	// A header with another content, and its first content again.
	b.write("scale.h", strings.Replace(scaleHeader, "3", "4", 1))
	b.expect("gfx90a miss, gfx942 miss, host miss", args...)
	b.write("scale.h", scaleHeader)
	b.expect("gfx90a hit, gfx942 hit, host hit", args...)

	// A header that is found before the one that was read.
	b.write("first/scale.h", scaleHeader+"// first\n")
	first := append([]string{"-Ifirst"}, with("gfx90a", "-c", "-o", "a.o", "-iquote", "quoted", "angled.hip")...)
	b.write("angled.hip", "#include \"hip.h\"\n#include <scale.h>\n#if __has_include(\"extra.h\")\n#include \"extra.h\"\n#endif\n__global__ void k(float *p) { *p = factor(1); }\n")
	b.expect("gfx90a miss, host miss", first...)
	b.expect("gfx90a hit, host hit", first...)
	b.write("quoted/extra.h", "\n")
	b.expect("gfx90a miss, host miss", first...)
	b.write("extra.h", "\n")
	b.expect("gfx90a miss, host miss", first...)
	if err := os.Remove(b.path("extra.h")); err != nil {
		t.Fatal(err)
	}
	b.expect("gfx90a hit, host hit", first...)
}

// TestUnits compiles a source for two outputs: without a name of the compilation unit on the command line, both objects
// can be linked into one program, as the compiler's can.
func TestUnits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("static.hip", "#include \"hip.h\"\nstatic __global__ void k(float *p) { *p = 1; }\nstatic float *p;\nstatic int started = (k<<<1, 1>>>(p), 1);\n")
	flags := func(output string, more ...string) []string {
		return append([]string{"-x", "hip", "-nogpuinc", "-nogpulib", "--offload-arch=gfx90a", "-c", "-o", output, "static.hip"}, more...)
	}
	b.expect("gfx90a miss, host miss", flags("a.o")...)
	b.expect("gfx90a miss, host miss", flags("b.o")...)
	if r := b.clang("-r", "-nostdlib", "-o", "both.o", "a.o", "b.o"); r.code != 0 {
		t.Errorf("the objects cannot be linked: %s", r.stderr)
	}
	b.expect("gfx90a hit, gfx942 miss, host miss", flags("a.o", "--offload-arch=gfx942")...)

	// OFFLOAD_SHARED_NAMES trades that for hits.
	shared := []string{"OFFLOAD_SHARED_NAMES=1"}
	b.statesWith(shared, flags("a.o")...)
	if got := b.statesWith(shared, flags("c.o")...); got != "gfx90a hit, host hit" {
		t.Errorf("with shared names: %s", got)
	}
}

// TestDirectories compiles a source in two checkouts.
func TestDirectories(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	states := func(checkout string, more ...string) string {
		t.Helper()
		for name, content := range map[string]string{"src/hip.h": hipHeader, "src/scale.h": scaleHeader, "src/a.hip": scaleSource, "build/x": ""} {
			b.write(filepath.Join(checkout, name), content)
		}
		in := &bench{t: t, dir: b.path(filepath.Join(checkout, "build")), env: b.env}
		source := b.path(filepath.Join(checkout, "src"))
		args := append([]string{"-x", "hip", "-nogpuinc", "-nogpulib", "--offload-arch=gfx90a", "-I" + source, "-MD", "-MF", "a.d", "-c", "-o", "a.o", filepath.Join(source, "a.hip")}, more...)
		return in.statesWith([]string{"OFFLOAD_BASE_DIR=" + b.path(checkout)}, args...)
	}
	states("one")
	if got := states("two"); got != "gfx90a hit, host hit" {
		t.Errorf("the second checkout: %s", got)
	}
	// Debug information names the directory.
	states("one", "-g")
	if got := states("two", "-g"); got != "gfx90a miss, host miss" {
		t.Errorf("the second checkout, with -g: %s", got)
	}
}

// TestFailures compares messages and exit codes of compilations that fail, and of commands that are not
// compilations.
func TestFailures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("wrong.hip", "#include \"hip.h\"\n__global__ void k(float *p) { *q = 1; }\n")
	b.write("device.hip", "#include \"hip.h\"\n__global__ void k(float *p) {\n#ifdef __HIP_DEVICE_COMPILE__\n#error for the device\n#endif\n}\n")
	for _, args := range [][]string{
		with("gfx90a gfx942", "-c", "-o", "x.o", "wrong.hip"), with("gfx90a gfx942", "-c", "-o", "x.o", "device.hip"), with("gfx90a", "-c", "-o", "x.o", "missing.hip"),
		with("gfx90a", "-c", "-o", "missing/x.o", "scale.hip"), with("nothing", "-c", "-o", "x.o", "scale.hip"), {"-c"}, {"--version"}, {}, {"-E", "scale.h", "-o", "-"}, with("gfx90a", "-fsyntax-only", "scale.hip"),
		{"-unknown-option", "-c", "scale.hip"},
	} {
		want, got := b.clang(args...), b.launch(args...)
		if got != want {
			t.Errorf("%q: got %+v, want %+v", args, got, want)
		}
	}
	if _, err := os.Stat(b.path("x.o")); err == nil {
		t.Error("a compilation that failed left an output")
	}
	missing := b.command(nil, llvm.Offload(t), "launch", "no-compiler", "-c", "a.c")
	if missing.code != 1 || !strings.Contains(missing.stderr, "no-compiler") {
		t.Errorf("a compiler that does not exist: %+v", missing)
	}
}

// TestPassed has commands that run as they are, with the reasons.
func TestPassed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("date.hip", "#include \"hip.h\"\nconst char *when = __DATE__;\n__global__ void k(float *p) { *p = 1; }\n")
	b.write("inc.c", "__asm__(\".incbin \\\"scale.h\\\"\");\n")
	for reason, args := range map[string][]string{
		"it does more than compile (no -c)":         with("gfx90a", "-o", "x", "scale.hip"),
		"it keeps temporary files":                  with("gfx90a", "-c", "-save-temps", "-o", "x.o", "scale.hip"),
		"it writes a compilation database (-MJ)":    with("gfx90a", "-c", "-MJ", "x.json", "-o", "x.o", "scale.hip"),
		"it writes split debug information":         with("gfx90a", "-c", "-g", "-gsplit-dwarf", "-o", "x.o", "scale.hip"),
		"it writes a trace":                         with("gfx90a", "-c", "-ftime-trace", "-o", "x.o", "scale.hip"),
		"it uses modules":                           {"-c", "-fmodules", "-o", "x.o", "-x", "c++", "scale.h"},
		"it reads standard input":                   {"-c", "-x", "c", "-o", "x.o", "-"},
		"it has several inputs":                     with("gfx90a", "-c", "scale.hip", "scale.hip"),
		"option -mllvm -debug-only=x may name a f":  with("gfx90a", "-c", "-mllvm", "-debug-only=x", "-o", "x.o", "scale.hip"),
		"date.hip has __DATE__ or __TIME__":         with("gfx90a", "-c", "-o", "x.o", "date.hip"),
		"lld may read a file: --version-script=scr": with("gfx90a", "-c", "-Xoffload-linker", "--version-script=script.txt", "-o", "x.o", "scale.hip"),
		"inc.c has .incbin":                         {"-x", "c", "-c", "-o", "x.o", "inc.c"},
		"option -fsanitize-coverage-allowlist=list": with("gfx90a", "-c", "-fsanitize-coverage=func", "-fsanitize-coverage-allowlist=list", "-o", "x.o", "scale.hip"),
	} {
		switch {
		case strings.Contains(reason, "allowlist"):
			b.write("list", "fun:*\n")
		case strings.Contains(reason, "lld may read"):
			b.write("script.txt", "{ global: *; };\n")
		}
		cmd := append([]string{llvm.Offload(t), "launch", "--explain", llvm.Dir + "/clang++"}, args...)
		for range 2 {
			if r := b.command(nil, cmd...); !strings.Contains(r.stderr, reason) {
				t.Errorf("%q: got %s, want %s", args, r.stderr, reason)
			}
		}
	}
	// SOURCE_DATE_EPOCH sets the date.
	date := with("gfx90a", "-c", "-o", "x.o", "date.hip")
	for _, run := range []struct{ epoch, want string }{{"1", "gfx90a miss, host miss"}, {"1", "gfx90a hit, host hit"}, {"100000000", "gfx90a miss, host miss"}} {
		if got := b.statesWith([]string{"SOURCE_DATE_EPOCH=" + run.epoch}, date...); got != run.want {
			t.Errorf("with SOURCE_DATE_EPOCH=%s: got %s, want %s", run.epoch, got, run.want)
		}
	}
	if got := b.statesWith([]string{"CC_PRINT_OPTIONS=1", "CC_PRINT_OPTIONS_FILE=/dev/null"}, with("gfx90a", "-c", "-o", "x.o", "scale.hip")...); got != "passed" {
		t.Errorf("with CC_PRINT_OPTIONS: %s", got)
	}
}
