package coverage

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf/codeobject"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

// TestFixedFeatures reads the flags that releases of clang give to code for gfx1250, whose hardware always has XNACK:
// LLVM 22 and 23 any, with sramecc any or on, the snapshot of LLVM 24 any, on or off, later compilers on.
func TestFixedFeatures(t *testing.T) {
	for _, test := range []struct {
		flags   uint32
		id      string
		verdict Verdict
	}{
		{0x549, "gfx1250", Yes}, {0xd49, "gfx1250", Yes}, {0x149, "gfx1250", Yes}, {0x349, "gfx1250", Yes}, {0x49, "gfx1250", Yes},
		{0x249, "gfx1250:xnack-", No},
		{0x3eb, "gfx1250-strict", Yes}, {0x35a, "gfx1251", Yes},
		{0x33f, "gfx90a:xnack+", Partly}, // can be switched
	} {
		data := testelf.CodeObject{ABI: 4, Flags: test.flags, Kernels: []testelf.Kernel{{Name: kernelName, CodeSize: 8}}}.Build()
		code := must(codeobject.ParseTarget(data))
		if code.ID() != test.id {
			t.Errorf("flags 0x%x: ID %s, want %s", test.flags, code.ID(), test.id)
		}
		processor, _, _ := strings.Cut(test.id, ":")
		gpu := must(ParseGPU(processor))
		images := []Image{{ID: "hipv4-amdgcn-amd-amdhsa--" + processor, Size: 1, Code: &code}}
		for _, bare := range []bool{false, true} {
			if got := Ask("a", []Bundle{{Images: images, Bare: bare}}, []GPU{gpu}).GPUs[0].Verdict; got != test.verdict {
				t.Errorf("flags 0x%x, bare %t: verdict %s, want %s", test.flags, bare, got, test.verdict)
			}
		}
	}
	if _, err := ParseGPU("gfx1250:xnack+"); err == nil || !strings.Contains(err.Error(), "always has xnack; name it gfx1250") {
		t.Errorf("gfx1250:xnack+: error %v, want advice to name gfx1250", err)
	}
}

// TestFixedFeatureInID reports entries that name a feature which the hardware always has, with advice that compilers
// accept.
func TestFixedFeatureInID(t *testing.T) {
	dir := t.TempDir()
	code := testelf.CodeObject{ABI: 4, Flags: 0x349, Kernels: []testelf.Kernel{{Name: kernelName, CodeSize: 8}}}.Build()
	for id, want := range map[string][]string{
		"gfx1250": {},
		"gfx1250:xnack+": {"a.hipfb: target: the entry hipv4-amdgcn-amd-amdhsa--gfx1250:xnack+ is not found: gfx1250 always has xnack, " +
			"so that the runtime searches for gfx1250"},
	} {
		name := filepath.Join(dir, "a.hipfb")
		putFile(t, name, fixture.BundleOf(t, bundle.Options{Align: 4096}, bundle.Item{ID: "hipv4-amdgcn-amd-amdhsa--" + id, Content: content.Memory(code)}))
		if diff := cmp.Diff(want, faults(t, dir, nil, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}
