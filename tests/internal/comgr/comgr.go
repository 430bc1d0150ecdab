// Package comgr unbundles with ROCm's code object manager, as the HIP runtime does. It needs no
// GPU.
package comgr

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Header is a file that exists if the code object manager is installed.
const Header = "/usr/include/amd_comgr/amd_comgr.h"

//go:embed program/unbundle.c
var source []byte

// Unbundler is a program that unbundles bundles with the code object manager.
type Unbundler struct {
	t       testing.TB
	program string
}

// New compiles the program. If that is impossible, the test fails.
func New(t testing.TB) *Unbundler {
	t.Helper()
	if _, err := os.Stat(Header); err != nil {
		t.Fatalf("ROCm's code object manager is needed (Debian: libamd-comgr-dev, in forky): %v", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "unbundle.c")
	if err := os.WriteFile(file, source, 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "unbundle")
	if out, err := exec.Command("cc", "-Wall", "-Werror", "-o", program, file, "-lamd_comgr").CombinedOutput(); err != nil {
		t.Fatalf("compiling unbundle.c: %v\n%s", err, out)
	}
	return &Unbundler{t, program}
}

// Unbundle returns the contents of the entries of a bundle, in the order of
// their IDs.
func (u *Unbundler) Unbundle(bundle string, entryIDs ...string) [][]byte {
	u.t.Helper()
	dir := u.t.TempDir()
	args := []string{bundle}
	output := func(i int) string { return filepath.Join(dir, fmt.Sprint(i)) }
	for i, id := range entryIDs {
		args = append(args, id, output(i))
	}
	cmd := exec.Command(u.program, args...)
	cmd.Env = append(os.Environ(), "AMD_COMGR_CACHE=0") // its cache confuses bundles with the same entry IDs
	if out, err := cmd.CombinedOutput(); err != nil {
		u.t.Fatalf("code object manager: %s: %v\n%s", bundle, err, out)
	}
	contents := make([][]byte, len(entryIDs))
	for i := range contents {
		content, err := os.ReadFile(output(i))
		if err != nil {
			u.t.Fatal(err)
		}
		contents[i] = content
	}
	return contents
}
