package readers

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/tests/releases"
	"github.com/rules-offload/rules_offload/tests/root"
)

// The data file of processors says what LLVM does: its names, their numbers in the flags of code objects, and the features
// that can be set.
func TestProcessors(t *testing.T) {
	project, err := root.Project()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(project, "engine/target/processors.json"))
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		AMDGCN []struct {
			Name, Mach, ISA string
			Aliases         []string
			Features        []string
			Since           int
		}
	}
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatal(err)
	}
	for _, number := range []int{22, 24} {
		r := releases.Get(t, number)
		help, err := r.Command(t, "llc", "-mtriple=amdgcn-amd-amdhsa", "-mcpu=help", os.DevNull).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, help)
		}
		known := map[string]bool{}
		for line := range strings.Lines(string(help)) {
			if name, _, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.Contains(line, " - Select the ") {
				known[name] = true
			}
		}
		compile := func(cpu, triple string) uint32 {
			cmd := r.Command(t, "llc", "-mtriple="+triple, "-mcpu="+cpu, "-filetype=obj", "-o", "-")
			cmd.Stdin = strings.NewReader("define amdgpu_kernel void @f() {\n  ret void\n}\n")
			out, err := cmd.Output()
			if err != nil || len(out) < 64 {
				t.Errorf("LLVM %d: %s: %v", number, cpu, err)
				return 0
			}
			return binary.LittleEndian.Uint32(out[48:])
		}
		for _, p := range data.AMDGCN {
			for _, name := range append(p.Aliases, p.Name) {
				if known[name] != (p.Since <= number) {
					t.Errorf("LLVM %d: %s is known: %v", number, name, known[name])
				}
				delete(known, name)
			}
			if p.Since > number {
				continue
			}
			flags := compile(p.Name, "amdgcn-amd-amdhsa")
			if mach, _ := strconv.ParseUint(p.Mach, 0, 8); uint32(mach) != flags&0xff {
				t.Errorf("LLVM %d: %s has the number 0x%x, not %s", number, p.Name, flags&0xff, p.Mach)
			}
			if newer := strings.HasPrefix(p.Name, "gfx125") || strings.HasPrefix(p.Name, "gfx12-5"); newer {
				continue // features of it are not those of all releases, and not all of them can be set
			}
			for feature, bits := range map[string]uint32{"xnack": 3 << 8, "sramecc": 3 << 10} {
				if got := flags&bits != 0; got != slices.Contains(p.Features, feature) {
					t.Errorf("LLVM %d: %s has %s: %v", number, p.Name, feature, got)
				}
			}
			if number >= 24 {
				if own := compile(p.Name, "amdgpu"+p.ISA+"-amd-amdhsa"); own != flags {
					t.Errorf("LLVM %d: %s has flags 0x%x for amdgpu%s, 0x%x for amdgcn", number, p.Name, own, p.ISA, flags)
				}
			}
		}
		for name := range known {
			if strings.HasPrefix(name, "gfx") && name != "gfx940" && name != "gfx941" {
				t.Errorf("LLVM %d knows %s", number, name)
			}
		}
	}
}
