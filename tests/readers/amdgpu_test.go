package readers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/tests/internal/releases"
)

// Entries and requests match as in LLVM 23 and later, with the triples of those releases.
func TestAMDGPUTriples(t *testing.T) {
	archs := []string{"amdgcn", "amdgpu", "amdgpu9.0a", "amdgpu9.00", "amdgpu9.06", "amdgpu9.08", "amdgpu9", "amdgpu9.4", "amdgpu9.5", "amdgpu9.42",
		"amdgpu9.99", "amdgpu9.0A", "amdgpu90a", "amdgpu8", "amdgpu8.10", "amdgpu10", "amdgpu10.1", "amdgpu10.11", "amdgpu10.3", "amdgpu11.7", "amdgpu11.70",
		"amdgpu12.5", "amdgpu12.51", "amdgpu13", "amdgpu13.10"}
	ids := []string{}
	for i, arch := range archs {
		ids = append(ids, "hip-"+arch+"-amd-amdhsa--"+[]string{"gfx90a", "gfx90a:xnack+", "gfx90a"}[i%3])
	}
	ids = append(ids, "hip-amdgpu-amd-amdhsa--", "hip-amdgpu9.0a-amd-amdhsa--")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in"), []byte("code"), 0o666); err != nil {
		t.Fatal(err)
	}
	r := releases.Get(t, 24)
	run := func(args ...string) bool {
		cmd := r.Command(t, "clang-offload-bundler", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "Can't find bundles for") {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return err == nil
	}
	served := 0
	for i, entry := range ids {
		run("-type=bc", "-targets="+entry, "-input=in", "-output=bundle")
		list := r.Command(t, "clang-offload-bundler", "-type=bc", "-list", "-input=bundle")
		list.Dir = dir
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		stored := strings.TrimSpace(string(out))
		if own, err := target.ParseLLVM(entry); err != nil || own.String() != stored {
			t.Errorf("%s is stored as %s, %v; by LLVM 24 as %s", entry, own, err, stored)
		}
		// Not all pairs, because each needs a process.
		for _, request := range []string{ids[i], ids[0], ids[2], ids[6], ids[len(ids)-1], ids[(i+1)%len(ids)], ids[(i+len(ids)-1)%len(ids)]} {
			want := run("-type=bc", "-unbundle", "-targets="+request, "-input=bundle", "-output=out")
			e, err1 := target.ParseLLVM(stored)
			q, err2 := target.ParseLLVM(request)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if got := (target.Rules{}).Match(e, q); got.Compatible() != want {
				t.Errorf("%s serves %s: %v, in LLVM 24 %v", entry, request, got.Verdict, want)
			}
			if want {
				served++
			}
		}
	}
	if served < len(ids) {
		t.Errorf("only %d of the requests are served", served)
	}
}
