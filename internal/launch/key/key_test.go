package key

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/launch/plan"
)

func TestNormalize(t *testing.T) {
	normal := func(args string) []string {
		t.Helper()
		f, err := Normalize(strings.Fields(args), []string{"/tmp/a-1.hipfb"})
		if err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		return f.Words
	}
	same := func(equal bool, a, b string) {
		t.Helper()
		if got := slices.Equal(normal(a), normal(b)); got != equal {
			t.Errorf("the same normal form: got %v, want %v\n%s\n%s", got, equal, a, b)
		}
	}
	const cc1 = "clang -cc1 -triple x86_64 -O2 "
	same(true, cc1+"-o /tmp/x1.o -x c a.c", cc1+"-o /tmp/x2.o -x c a.c")
	same(true, cc1+"-fdebug-compilation-dir=/a -x c a.c", cc1+"-fdebug-compilation-dir=/b -x c a.c")
	same(false, cc1+"-debug-info-kind=constructor -fdebug-compilation-dir=/a -x c a.c", cc1+"-debug-info-kind=constructor -fdebug-compilation-dir=/b -x c a.c")
	same(true, cc1+"-dependency-file a.d -MT a.o -x c a.c", cc1+"-dependency-file b.d -MT b.o -x c a.c")
	same(false, cc1+"-dependency-file a.d -MT a.o -x c a.c", cc1+"-x c a.c")
	same(false, cc1+"-D A=/x -x c a.c", cc1+"-D A=/y -x c a.c")
	same(false, cc1+"-x c a.c", cc1+"-x c b.c")
	same(false, cc1+"-fcuda-include-gpubinary /tmp/a-1.hipfb -x hip a.hip", cc1+"-x hip a.hip")

	for _, args := range []string{
		"-fplugin=x.so -x c a.c", "-load x.so -x c a.c", "-include-pch a.pch -x c a.c", "-fmodules -x c a.c", "-unknown=/a/b -x c a.c", "-unknown /a/b -x c a.c", "-mllvm -x=/a -x c a.c",
		"-split-dwarf-file a.dwo -x c a.c", "-x objective-c a.m", "-ivfsoverlay a.yaml -x c a.c", "-fprofile-instrument-use-path=a.profdata -x c a.c", "-MQ a -x c a.c", "-I " + os.Args[0] + " -x c a.c",
	} {
		var reason plan.Reason
		if f, err := Normalize(strings.Fields(cc1+args), nil); !errors.As(err, &reason) {
			t.Errorf("%s: got %+v, %v, want a reason", args, f, err)
		}
	}
}

func TestScan(t *testing.T) {
	f := Scan([]byte(`#include "a.h"
 # include <b/c.h>
#include_next <d.h> // and more
#if __has_include(<e.h>) && __has_include_next ( "f.h" )
#embed "g.bin" limit(3)
#include MACRO
#define __has_include(x) 0
#if defined(__has_include)
`))
	want := Facts{Quoted: []string{"a.h", "g.bin", "f.h"}, Angled: []string{"b/c.h", "d.h", "e.h"}}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]Facts{
		"int x = __TIME__;":                {Time: true},
		"__TIMESTAMP__":                    {Timestamp: true},
		"asm(\".incbin \\\"x\\\"\");":      {Unknown: ".incbin"},
		"#if __has_include(MACRO)":         {Unknown: "a macro in __has_include"},
		"#define HAVE(x) __has_include(x)": {Unknown: "a macro in __has_include"},
		"#include \"cut":                   {},
		"#":                                {},
		"__has_include(":                   {Unknown: "a macro in __has_include"},
		"int __has_includes; // my_has_include(x)\n": {},
	} {
		if diff := cmp.Diff(want, Scan([]byte(text))); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte("#include \"a.h\"\n__has_include(<b>)"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, name := range append(Scan(text).Quoted, Scan(text).Angled...) {
			if name == "" || strings.ContainsAny(name, "\n\r") {
				t.Errorf("name %q", name)
			}
		}
	})
}

// TestVariant has the changes between two compilations.
func TestVariant(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("src/a.c", "#include \"a.h\"\n#include <b.h>\n#include MACRO\n")
	write("src/a.h", "#if __has_include(<extra/c.h>)\n#endif\n")
	write("two/b.h", "")
	write("two/macro.h", "")
	form := &Form{Search: []string{dir + "/one", dir + "/two"}}
	o := Observation{Names: []string{dir + "/src/a.c", dir + "/src/a.h", dir + "/two/b.h", dir + "/two/macro.h"}, Form: form, Started: time.Now().Add(time.Second)}
	v, err := o.Variant(NewFiles())
	if err != nil {
		t.Fatal(err)
	}
	m, err := ParseManifest(Manifest{}.Add(*v).Marshal())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Manifest{*v}, m); diff != "" {
		t.Error(diff)
	}
	found := func() bool {
		v, _ := m.Find(NewFiles(), form.Search)
		return v != nil
	}
	if !found() {
		t.Error("nothing changed, but the variant is not found")
	}
	for _, name := range []string{"one/b.h", "one/extra/c.h", "one/macro.h", "src/b.h", "src/extra/c.h", "two/a.h"} {
		write(name, "")
		if name == "src/b.h" || name == "src/extra/c.h" { // angled names are not searched beside a file
			if !found() {
				t.Errorf("%s was added: not found", name)
			}
		} else if found() {
			t.Errorf("%s was added: found", name)
		}
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("src/a.h", "changed")
	if found() {
		t.Error("a header changed: found")
	}

	// A file that is as new as the compilation may not be the one that it read.
	o.Started = time.Now()
	write("two/b.h", "")
	if _, err := o.Variant(NewFiles()); !errors.Is(err, ErrNew) {
		t.Errorf("a new file: got %v, want ErrNew", err)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(manifestHead + "\nv 0000000000000000000000000000000000000000000000000000000000000000\nn a\nd .\nq b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest(data)
		if err != nil {
			return
		}
		again, err := ParseManifest(m.Marshal())
		if err != nil || !cmp.Equal(m, again) {
			t.Errorf("%v: %s", err, cmp.Diff(m, again))
		}
	})
}

func TestDepfile(t *testing.T) {
	long := strings.Repeat("x", 60) + ".h"
	got := string(Depfile([]string{"a.o"}, []string{"a.c", "with space#$.h", long}, true))
	want := "a.o: a.c with\\ space\\#$$.h \\\n  " + long + "\nwith\\ space\\#$$.h:\n" + long + ":\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
