package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Types of internal packages are found in fields, parameters and elements, and in the documentation of exported
// names; unexported ones do not count.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                      "module example.org/m\n\ngo 1.26\n",
		"internal/hidden/h.go":        "package hidden\n\ntype T struct{}\n\ntype Named int\n",
		"good/good.go":                "// Package good is sealed.\npackage good\n\nimport \"example.org/m/internal/hidden\"\n\ntype S struct{ t hidden.T }\n\nfunc F(s *S) []S { return nil }\n",
		"good/example_test.go":        "package good_test\n\nfunc Example() {\n\t// Output:\n}\n\nfunc ExampleOther() {\n\tprintln()\n\t// Output: x\n}\n",
		"bad/bad_test.go":             "package bad\n\nfunc Example() {}\n",
		"internal/storage/guard/g.go": "package guard\n\ntype Token struct{}\n",
		"good/sealed.go": "package good\n\nimport (\n\t\"sort\"\n\n\t\"example.org/m/internal/storage/guard\"\n)\n\n// Raw is sealed.\nfunc (S) Raw(guard.Token) []byte { return nil }\n\n" +
			"// own calls hidden.T.\nfunc own() { sort.Strings(nil) }\n\n// Sorted is [sort.Strings], good.S and package sort, hidden but not hidden.\nfunc Sorted() {\n\t// hidden.T\n}\n",
		"internal/sort/s.go": "package sort\n",
		"docs/docs.go": "// Package docs is below hidden.T.\npackage docs\n\n// S is as package hidden.\ntype S struct {\n\t// F is [hidden.T].\n\tF int // see internal/hidden\n\n\t// g is hidden.T.\n\tg int\n}\n\n" +
			"// M is *hidden.Named.\nfunc (S) M() {}\n\n// Limits of hidden.T.\nconst (\n\t// A is hidden.T.\n\tA = 1\n)\n",
		"docs/example_test.go": "package docs_test\n\nfunc Example() {\n\tprintln()\n\t// Output: x\n}\n",
		"bad/bad.go": "package bad\n\nimport \"example.org/m/internal/hidden\"\n\ntype Field struct{ T hidden.T }\n\ntype Alias = hidden.Named\n\n" +
			"func Result() map[string]*hidden.T { return nil }\n\ntype M struct{}\n\nfunc (M) Call(func(hidden.T)) {}\n\nfunc (M) own(hidden.T) {}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-mod=mod")
	all, err := packages("./...")
	if err != nil {
		t.Fatal(err)
	}
	faults, counts, err := check(all, "example.org/m")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range faults {
		name, _, _ := strings.Cut(strings.TrimPrefix(f, "example.org/m/"), " ")
		names = append(names, name)
	}
	if want := []string{"bad:", "bad:", "bad.Alias", "bad.Field", "bad.M.Call", "bad.Result",
		"docs:", "docs:", "docs:", "docs:", "docs:", "docs:", "docs:"}; !slices.Equal(names, want) {
		t.Errorf("faults at %q, want %q:\n%s", names, want, strings.Join(faults, "\n"))
	}
	for _, line := range []string{"1", "4", "6", "7", "13", "16", "18"} {
		if at := "docs/docs.go:" + line; !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, " docs.go:"+line+": the documentation refers to ") }) {
			t.Errorf("no fault at %s:\n%s", at, strings.Join(faults, "\n"))
		}
	}
	if len(counts) != 3 {
		t.Errorf("packages %q, want three", counts)
	}
}
