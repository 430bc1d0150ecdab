package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Comparisons of releases are found in every form, except where they are allowed. Other numbers are not releases.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                     "module example.org/m\n\ngo 1.26\n",
		"engine/target/release.go":   "package target\n\ntype Release int\n\nconst LLVM23 Release = 23\n\nfunc (r Release) New() bool { return r >= LLVM23 }\n",
		"engine/target/other.go":     "package target\n\nfunc Other(r Release) bool { return r == 23 }\n",
		"internal/cmd/release/r.go":  "package release\n\nimport \"example.org/m/engine/target\"\n\nfunc Old(r target.Release) bool { return r < target.LLVM23 }\n",
		"internal/unrelated/main.go": "package unrelated\n\ntype Release int\n\nfunc Old(r Release) bool { return r < 23 }\n",
		"internal/user/user.go": `package user

import (
	"cmp"

	"example.org/m/engine/target"
)

type options struct{ Release target.Release }

func all(o *options, n int) int {
	switch {
	case o.Release > target.LLVM23:
		return 1
	case int(o.Release) >= 23:
		return 2
	case 23 == (o.Release):
		return 3
	}
	switch o.Release {
	case 23:
		return 4
	}
	if n < 23 || o.Release.New() {
		return int(max(o.Release, 22))
	}
	return cmp.Compare(o.Release, 23) + int(o.Release-23)
}
`,
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	found, err := check(dir, "example.org/m")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		at, _, _ := strings.Cut(f, ": ")
		got = append(got, at)
	}
	want := []string{"engine/target/other.go:3"}
	for _, line := range []string{"13", "15", "17", "20", "25", "27", "27"} {
		want = append(want, "internal/user/user.go:"+line)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
