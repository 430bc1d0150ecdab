package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"file", "-"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	root := NewRoot(dir)
	for name, want := range map[string]string{
		"file": "", "-": "", "none": "No such file or directory", ".": "Not a regular file", "/dev/zero": "Not a regular file",
	} {
		in, err := root.OpenRegular(name)
		if want != "" {
			if err == nil || !strings.HasSuffix(err.Error(), "': "+want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
			continue
		}
		if err != nil || string(in.Mapped(guard.Inside)) != name {
			t.Errorf("%s: %v", name, err)
		}
		in.Close()
	}
}
