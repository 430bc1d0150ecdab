package compilation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPortable(t *testing.T) {
	lines := func(lines ...string) string {
		if len(lines) == 0 {
			return ""
		}
		return strings.Join(lines, "\n") + "\n"
	}
	const (
		on  = "#if 1 /* evaluated by -frewrite-includes */"
		end = "#endif /* expanded by -frewrite-includes */"
	)
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"plain", "int a;\n", "int a;\n"},
		{"no newline at the end", "int a;", "int a;\n"},
		{"markers", lines(`# 1 "/usr/include/a.h" 1 3`, `# 1 "pkg/a.c"`, `# 1 "<built-in>"`, `# 1 ""`, "# 1 x"),
			lines(`# 1 "//system/usr/include/a.h" 1 3`, `# 1 "//pkg/a.c"`, `# 1 "<built-in>"`, `# 1 ""`, "# 1 x")},
		{"condition", lines(disabled, "#if A \\", "  || B", "#endif", disabledUntil, on, "int a;"), lines("#if A \\", "  || B", "int a;")},
		{"alternative", lines(disabled, "#if 0", " # elif A", "#endif", disabledUntil, "#elif 1 /* evaluated by -frewrite-includes */"), lines(" # elif A")},
		{"condition that is 0", lines(disabled, "#if 0", "#endif", disabledUntil, "#if 0 /* evaluated by -frewrite-includes */"), lines("#if 0")},
		{"condition without an end", lines(disabled, "#if A", "#endif"), lines(disabled, "#if A", "#endif")},
		{"condition without a result", lines(disabled, "#if A", "#endif", disabledUntil), lines(disabled, "#if A", "#endif", disabledUntil)},
		{"no condition", lines(disabled, "x", disabledUntil, on), lines(disabled, "x", disabledUntil, on)},
		{"included", lines(expanded, `#include "below/a.h"`, end, `# 1 "pkg/below/a.h" 1`, "int a;"), lines(expanded, `#include "below/a.h"`, end, `# 1 "//pkg/below/a.h" 1`, "int a;")},
		{"not included", lines(expanded, "#include <device.h>", end, "int a;"), lines("#include <device.h>", "int a;")},
		{"not included, beside the file", lines(`# 1 "pkg/a.c"`, expanded, ` # include "device.h" // why`, end, "int a;"),
			lines(`# 1 "//pkg/a.c"`, `#if __has_include("pkg/device.h")`, `#include "pkg/device.h"`, "#else", ` # include "device.h" // why`, "#endif", "int a;")},
		{"not included, without a folder", lines(`# 1 "a.c"`, expanded, `#include "device.h"`, end), lines(`# 1 "//a.c"`, `#include "device.h"`)},
		{"not included, absolute", lines(`# 1 "pkg/a.c"`, expanded, `#include "/abs.h"`, end), lines(`# 1 "//pkg/a.c"`, `#include "/abs.h"`)},
		{"included by a macro", lines(expanded, "#include HEADER", end), lines(expanded, "#include HEADER", end)},
		{"cut short", lines(expanded), lines(expanded)},
	} {
		if diff := cmp.Diff(test.want, string(portable([]byte(test.text), 0))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	if got := string(portable([]byte("a\n"), 3)); got != "\n\n\na\n" {
		t.Errorf("with empty lines: %q", got)
	}
}

// script writes a compiler of a shell.
func script(t *testing.T, dir, text string) string {
	t.Helper()
	name := filepath.Join(dir, "clang")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestInputsAndOutputs(t *testing.T) {
	dir := t.TempDir()
	name := func(base string) string { return filepath.Join(dir, base) }
	write(t, dir, map[string]string{"in": "# 1 \"a.c\"\nint a;\n", "clang.d/include/openmp_wrappers/" + functions: ""})
	clang := script(t, dir, `for word; do
  case $word in -print-resource-dir) echo `+name("clang.d")+`; exit;; esac
done
echo "$@" > `+name("words")+`
cat
`)
	run := func(opt Options) {
		t.Helper()
		if err := Run(opt); err != nil {
			t.Fatal(err)
		}
	}
	check := func(base, want string) {
		t.Helper()
		got, err := os.ReadFile(name(base))
		if err != nil || string(got) != want {
			t.Errorf("%s has %q, want %q: %v", base, got, want, err)
		}
	}
	headers := name("clang.d") + "/include/"
	run(Options{Command: []string{clang, "-E", "-"}, Stdin: name("in"), Source: name("out"), EmptyLines: 2, DeviceHeaders: true, Done: name("done")})
	check("out", "\n\n# 1 \"//a.c\"\nint a;\n")
	check("done", "")
	check("words", "-E - -isystem "+headers+"openmp_wrappers -isystem "+headers+"llvm_libc_wrappers\n")
	run(Options{Command: []string{clang}, Stdin: name("in"), Source: name("out"), DeviceFunctions: true})
	check("words", "-isystem "+headers+"openmp_wrappers -isystem "+headers+"llvm_libc_wrappers -include "+functions+"\n")
	if err := os.Remove(name("clang.d/include/openmp_wrappers/" + functions)); err != nil {
		t.Fatal(err)
	}
	run(Options{Command: []string{clang}, Stdin: name("in"), Source: name("out"), DeviceFunctions: true})
	check("words", "-isystem "+headers+"openmp_wrappers -isystem "+headers+"llvm_libc_wrappers\n")

	clang = script(t, dir, "echo printed\nexit 3\n")
	var exit *ExitError
	for _, opt := range []Options{{Source: name("none")}, {Source: name("out2"), Done: name("none")}, {DeviceHeaders: true, Done: name("none")}, {Stdin: name("missing"), Done: name("none")}} {
		opt.Command = []string{clang}
		err := Run(opt)
		if err == nil || opt.Stdin == "" && !opt.DeviceHeaders && !errors.As(err, &exit) {
			t.Errorf("%+v: %v", opt, err)
		}
		if _, err := os.Stat(name("none")); err == nil {
			t.Errorf("%+v: an output of a failed compilation", opt)
		}
	}
}
