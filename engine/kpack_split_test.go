package engine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

func kpackSession() *Session { return New(Config{Budget: budget.New(4, 1<<30)}) }

// TestKpackComplete puts code for a processor into the archives of its variants.
func TestKpackComplete(t *testing.T) {
	dir := t.TempDir()
	input := filepath.Join(dir, "lib.so")
	if err := os.WriteFile(input, fixture.HIPLibrary(t, []string{"gfx90a:xnack-", "gfx90a:xnack+"}, []string{"gfx90a"}), 0o644); err != nil {
		t.Fatal(err)
	}
	report, err := kpackSession().KpackSplit(context.Background(), KpackSplitOptions{
		Input: input, Output: filepath.Join(dir, "out.so"), Dir: filepath.Join(dir, "k"), Group: "g", SplitSettings: SplitSettings{Uncompressed: true, Complete: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, a := range report.Archives {
		counts[filepath.Base(a.File)] = a.Entries
	}
	if diff := cmp.Diff(map[string]int{"g_gfx90a:xnack-.kpack": 2, "g_gfx90a:xnack+.kpack": 2, "g_gfx90a.kpack": 1}, counts); diff != "" {
		t.Error(diff)
	}
}

// TestKpackSPIRV rejects code that no runtime loads from archives.
func TestKpackSPIRV(t *testing.T) {
	dir := t.TempDir()
	input := filepath.Join(dir, "lib.so")
	if err := os.WriteFile(input, fixture.HIPLibrary(t, []string{"gfx90a", "amdgcnspirv"}), 0o644); err != nil {
		t.Fatal(err)
	}
	opt := KpackSplitOptions{Input: input, Output: filepath.Join(dir, "out.so"), Dir: filepath.Join(dir, "k"), Group: "g", SplitSettings: SplitSettings{Uncompressed: true}}
	if _, err := kpackSession().KpackSplit(context.Background(), opt); err == nil || !strings.Contains(err.Error(), "do not load amdgcnspirv") {
		t.Errorf("error %v", err)
	}
	opt.Archs = []string{"gfx90a"}
	report, err := kpackSession().KpackSplit(context.Background(), opt)
	if err != nil || len(report.Archives) != 1 || report.Dropped[0] != "amdgcnspirv" {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestPacked calls operations with a library that UPX has packed.
func TestPacked(t *testing.T) {
	dir := t.TempDir()
	data := fixture.HIPLibrary(t, []string{"gfx90a"})
	headers := 64 + 56*int(data[56])
	copy(data[headers+4:], "UPX!")
	name := filepath.Join(dir, "packed.so")
	if err := os.WriteFile(name, data, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, s := context.Background(), New(Config{})
	_, pruned := s.Prune(ctx, PruneOptions{Input: name, Output: filepath.Join(dir, "pruned"), Keep: []string{"gfx90a"}})
	_, split := s.KpackSplit(ctx, KpackSplitOptions{Input: name, Output: filepath.Join(dir, "host"), Dir: filepath.Join(dir, "k"), Group: "g"})
	for _, err := range []error{pruned, split} {
		if err == nil || !strings.Contains(err.Error(), "packed.so: packed by UPX") {
			t.Errorf("%v", err)
		}
	}
}
