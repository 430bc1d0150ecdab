package link

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/images"
)

// newSession returns a session in a new directory with files.
func newSession(t testing.TB, inputs map[string][]byte) (*engine.Session, string) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range inputs {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return engine.New(engine.Config{Dir: dir, Budget: budget.New(2, 1<<30)}), dir
}

// inspected describes the images in a file.
func inspected(t testing.TB, data []byte) (found []string) {
	t.Helper()
	s, _ := newSession(t, map[string][]byte{"in": data})
	f, err := s.Open(context.Background(), "in", images.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %d: %s 0x%x in  %s", e.Offload, e.Triple, e.Arch, e.Format, e.Size, e.Form, e.Container, e.Section)))
	}
	return found
}

const linux = "x86_64-unknown-linux-gnu"
