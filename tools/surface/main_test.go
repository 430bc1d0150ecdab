package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Types of internal packages are found in fields, parameters and elements; unexported ones do not count.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":               "module example.org/m\n\ngo 1.26\n",
		"internal/hidden/h.go": "package hidden\n\ntype T struct{}\n\ntype Named int\n",
		"good/good.go":         "// Package good is sealed.\npackage good\n\nimport \"example.org/m/internal/hidden\"\n\ntype S struct{ t hidden.T }\n\nfunc F(s *S) []S { return nil }\n",
		"good/example_test.go": "package good_test\n\nfunc Example() {\n\t// Output:\n}\n\nfunc ExampleOther() {\n\tprintln()\n\t// Output: x\n}\n",
		"bad/bad_test.go":      "package bad\n\nfunc Example() {}\n",
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
	if want := []string{"bad:", "bad:", "bad.Alias", "bad.Field", "bad.M.Call", "bad.Result"}; !slices.Equal(names, want) {
		t.Errorf("faults at %q, want %q:\n%s", names, want, strings.Join(faults, "\n"))
	}
	if len(counts) != 2 {
		t.Errorf("packages %q, want two", counts)
	}
}
