// Package coverage compares the entry of a bundle that the engine selects for a GPU with the
// one that ROCm's code object manager passes to the HIP runtime.
package coverage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/installed/coverage"
	"github.com/rules-offload/rules_offload/internal/elf/codeobject"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
	"github.com/rules-offload/rules_offload/tests/internal/comgr"
)

func TestMain(m *testing.M) { llvm.Main(m, comgr.Header, "cc") }

// pool has target IDs of entries, and the ELF flags of their code.
var pool = []struct {
	id    string
	flags uint32
}{
	{"gfx906", 0x2f | 1<<8 | 1<<10}, {"gfx906:xnack-", 0x2f | 2<<8 | 1<<10}, {"gfx906:sramecc+:xnack-", 0x2f | 2<<8 | 3<<10},
	{"gfx90a", 0x3f | 1<<8 | 1<<10}, {"gfx90a:xnack+", 0x3f | 3<<8 | 1<<10}, {"gfx90a:xnack-", 0x3f | 2<<8 | 1<<10},
	{"gfx90a:sramecc+", 0x3f | 1<<8 | 3<<10}, {"gfx942", 0x4c | 1<<8 | 1<<10}, {"gfx942:sramecc+:xnack-", 0x4c | 2<<8 | 3<<10},
	{"gfx9-generic", 0x51 | 1<<8 | 1<<24}, {"gfx9-generic:xnack+", 0x51 | 3<<8 | 1<<24}, {"gfx9-4-generic", 0x5f | 1<<8 | 1<<10 | 1<<24},
	{"gfx9-4-generic:xnack-", 0x5f | 2<<8 | 1<<10 | 1<<24}, {"gfx900", 0x2c | 1<<8}, {"gfx900:xnack-", 0x2c | 2<<8},
	{"gfx1010:xnack+", 0x33 | 3<<8}, {"gfx10-1-generic", 0x52 | 1<<8 | 1<<24}, {"gfx1030", 0x36}, {"gfx10-3-generic", 0x53 | 1<<24},
	{"gfx1100", 0x41}, {"gfx11-generic", 0x54 | 1<<24}, {"gfx1201", 0x4e}, {"gfx12-generic", 0x59 | 1<<24},
}

var gpus = []string{"gfx900", "gfx906", "gfx90a", "gfx942", "gfx1010", "gfx1030", "gfx1100", "gfx1201", "gfx908", "gfx1102"}

// Names that the runtime searches for, in its order.
func asked(m coverage.Mode) []string {
	features := strings.TrimPrefix(m.String(), m.Processor)
	ids := []string{"hipv4-amdgcn-amd-amdhsa--" + m.String()}
	if g, ok := map[string]string{
		"gfx900": "gfx9-generic", "gfx906": "gfx9-generic", "gfx942": "gfx9-4-generic", "gfx1010": "gfx10-1-generic",
		"gfx1030": "gfx10-3-generic", "gfx1100": "gfx11-generic", "gfx1102": "gfx11-generic", "gfx1201": "gfx12-generic",
	}[m.Processor]; ok {
		ids = append(ids, "hipv4-amdgcn-amd-amdhsa--"+g+features)
	}
	return append(ids, "hip-spirv64-amd-amdhsa--amdgcnspirv", "hip-spirv64-amd-amdhsa-unknown-amdgcnspirv")
}

func TestCodeObjectManager(t *testing.T) {
	manager := comgr.New(t)
	random := rand.New(rand.NewPCG(1, 2)) // the same bundles each time
	for n := range 6 {                    // each question is a process
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			items := []bundle.Item{{ID: "host-x86_64-unknown-linux-gnu-"}}
			images := []coverage.Image{{ID: "host-x86_64-unknown-linux-gnu-"}}
			add := func(id string, data []byte, code *target.CodeObject) {
				items = append(items, bundle.Item{ID: id, Content: content.Memory(data)})
				images = append(images, coverage.Image{ID: id, Size: int64(len(data)), Code: code})
			}
			named := make(map[string]bool)
			for _, i := range random.Perm(len(pool))[:1+random.IntN(6)] {
				processor, _, _ := strings.Cut(pool[i].id, ":")
				if named[processor] {
					continue // one entry for each processor, as in valid bundles
				}
				named[processor] = true
				kind := []string{"hip", "hipv4"}[random.IntN(2)]
				if random.IntN(8) == 0 {
					add(kind+"-amdgcn-amd-amdhsa--"+pool[i].id, nil, nil)
					continue
				}
				data := testelf.CodeObject{ABI: 4, Flags: pool[i].flags, Kernels: []testelf.Kernel{{Name: "k" + pool[i].id}}}.Build()
				code, err := codeobject.ParseTarget(data)
				if err != nil {
					t.Fatal(err)
				}
				add(kind+"-amdgcn-amd-amdhsa--"+pool[i].id, data, &code)
			}
			if random.IntN(4) == 0 {
				add("hip-spirv64-amd-amdhsa--amdgcnspirv", []byte("\x03\x02\x23\x07 of course not"), nil)
			}
			file := filepath.Join(t.TempDir(), "bundle")
			if err := os.WriteFile(file, fixture.BundleOf(t, bundle.Options{Align: 4096}, items...), 0o666); err != nil {
				t.Fatal(err)
			}
			given := make(map[string]string) // entry by the requested name
			for _, name := range gpus {
				gpu, err := coverage.ParseGPU(name)
				if err != nil {
					t.Fatal(err)
				}
				report := coverage.Ask("bundle", []coverage.Bundle{{Images: images}}, []coverage.GPU{gpu})
				for i, mode := range gpu.Modes {
					want := ""
					for _, id := range asked(mode) {
						entry, known := given[id]
						if !known {
							entry = entryOf(items, manager.Unbundle(file, id)[0])
							given[id] = entry
						}
						if want = entry; want != "" {
							break
						}
					}
					got := ""
					if e := report.GPUs[0].Modes[i].Entry; e != nil {
						got = *e
					}
					if got != want {
						t.Errorf("%s finds %q, the code object manager gives %q", mode, got, want)
					}
				}
			}
		})
	}
}

// entryOf returns the ID of the entry with that content, "" for no content.
func entryOf(items []bundle.Item, body []byte) string {
	for _, item := range items {
		if len(body) > 0 && bytes.Equal(item.Content.Mapped(guard.Inside), body) {
			return item.ID
		}
	}
	return ""
}
