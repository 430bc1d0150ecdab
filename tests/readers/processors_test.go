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

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/testing/root"
	"github.com/rules-offload/rules_offload/tests/internal/releases"
)

// The data file of processors agrees with LLVM: names, numbers in the flags of code objects, and
// features.
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
		Features []struct {
			Name  string
			Shift uint
		}
		AMDGCN []struct {
			Name, Mach, ISA string
			Aliases         []string
			Features        []string
			Since           int
			Earlier         []struct {
				Until    int
				Features []string
			}
		}
	}
	if err := json.Unmarshal(text, &data); err != nil {
		t.Fatal(err)
	}
	for _, number := range releases.Followed {
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
		var processors []string
		for _, p := range data.AMDGCN {
			if p.Since <= number {
				processors = append(processors, p.Name)
			}
		}
		served := serves(t, r, processors)
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
			features := p.Features
			for _, e := range slices.Backward(p.Earlier) {
				if number <= e.Until {
					features = e.Features
				}
			}
			for _, feature := range data.Features {
				if got := served[p.Name+":"+feature.Name+"+"]; got != slices.Contains(features, feature.Name) {
					t.Errorf("LLVM %d: clang-offload-bundler has code for %s serve %s:%s+: %v", number, p.Name, p.Name, feature.Name, got)
				}
			}
			if newer := strings.HasPrefix(p.Name, "gfx125") || strings.HasPrefix(p.Name, "gfx12-5"); newer {
				continue // the flags have more features than can be set
			}
			for _, feature := range data.Features {
				if got := flags>>feature.Shift&3 != 0; got != slices.Contains(p.Features, feature.Name) {
					t.Errorf("LLVM %d: %s has %s: %v", number, p.Name, feature.Name, got)
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

// serves returns the target IDs with a feature that match entries with any setting of it, such as
// gfx90a:xnack+.
func serves(t *testing.T, r releases.Release, processors []string) map[string]bool {
	t.Helper()
	const id = "hip-amdgcn-amd-amdhsa--"
	dir, found := t.TempDir(), map[string]bool{}
	run := func(args ...string) {
		t.Helper()
		if out, err := r.Command(t, "clang-offload-bundler", append(args, "-type=o")...).CombinedOutput(); err != nil {
			t.Fatalf("LLVM %d: %v\n%s", r.Number, err, out)
		}
	}
	code, bundle := filepath.Join(dir, "code"), filepath.Join(dir, "bundle")
	if err := os.WriteFile(code, []byte("code"), 0o666); err != nil {
		t.Fatal(err)
	}
	targets, args := "-targets=host-x86_64-unknown-linux-gnu-", []string{"-output=" + bundle, "-input=" + os.DevNull}
	for _, processor := range processors {
		targets += "," + id + processor
		args = append(args, "-input="+code)
	}
	run(append(args, targets)...)
	for _, name := range target.FeatureNames() {
		feature := ":" + name + "+"
		targets, args := []string{}, []string{"-unbundle", "-allow-missing-bundles", "-input=" + bundle}
		for _, processor := range processors {
			targets = append(targets, id+processor+feature)
			args = append(args, "-output="+filepath.Join(dir, processor+feature))
		}
		run(append(args, "-targets="+strings.Join(targets, ","))...)
		for _, processor := range processors {
			out, err := os.ReadFile(filepath.Join(dir, processor+feature))
			if err != nil {
				t.Fatal(err)
			}
			found[processor+feature] = string(out) == "code"
		}
	}
	return found
}
