package files

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTree(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need a privilege")
	}
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "x.so")
	for _, name := range []string{"t/b.so", "t/a.so.1", "t/deep/er/c.so"} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(outside, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"t/a.so": "a.so.1", "t/a": "a.so", "t/loop": ".", "t/deep/up": "..", "t/again": "deep/er", "t/nowhere": "x", "t/out1": outside, "t/out2": outside,
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	r := NewRoot(dir)
	got, isDir, err := r.Tree(context.Background(), "t")
	want := []Folder{
		{Name: "t", Files: []string{"t/a.so.1", "t/b.so", "t/out1"}, Links: []string{"t/a", "t/a.so", "t/out2"}},
		{Name: "t/deep"},
		{Name: "t/deep/er", Files: []string{"t/deep/er/c.so"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || !isDir || err != nil {
		t.Errorf("%v, %v, -want +got:\n%s", isDir, err, diff)
	}
	if _, isDir, err := r.Tree(context.Background(), "t/b.so"); isDir || err != nil {
		t.Errorf("a file: %v, %v", isDir, err)
	}
	if _, _, err := r.Tree(context.Background(), "missing"); err == nil {
		t.Error("a missing directory: no error")
	}
	r.Declare([]string{"other"})
	if _, _, err := r.Tree(context.Background(), "t"); err == nil {
		t.Error("a directory that is not declared: no error")
	}
}
