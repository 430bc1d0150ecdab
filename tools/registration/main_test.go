package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

func TestMain(m *testing.M) { llvm.Main(m) }

// The checked-in code is that of the sources.
func TestGenerated(t *testing.T) {
	root := filepath.Join("..", "..")
	want, err := generate(llvm.Tool(t, "llvm-mc"), filepath.Join(root, filepath.FromSlash(sources)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(output)))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from the code that LLVM 22 assembles from %s: run `tools/offline/run go run ./tools/registration` (%v)", output, sources, err)
	}
}
