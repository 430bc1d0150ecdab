// Package compressed reads every form of compressed bundle of ours with LLVM's tool and ROCm's code
// object manager, and LLVM's bundles with our program.
package compressed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/comgr"
)

func TestMain(m *testing.M) {
	llvm.Main(m, comgr.Header, "cc")
}

// processors are of three families, so that large bundles are divided into parts.
var processors = []string{"gfx803", "gfx90a", "gfx942", "gfx1030", "gfx1031", "gfx1100", "gfx1201"}

func entryID(processor string) string { return "hipv4-amdgcn-amd-amdhsa--" + processor }

// code returns n bytes that resemble machine code: from a small vocabulary, and similar for every
// seed.
func code(seed uint64, n int) []byte {
	words := rand.New(rand.NewPCG(1, 1))
	var dict [512]uint64
	for i := range dict {
		dict[i] = words.Uint64() & 0x07ff00ff3f0001ff
	}
	own := rand.New(rand.NewPCG(seed, 2))
	b := make([]byte, 0, n+8)
	for len(b) < n {
		w := dict[words.IntN(len(dict))]
		if own.IntN(64) == 0 {
			w ^= uint64(own.Uint32())
		}
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b[:n]
}

// bench is a directory with an image for each processor.
type bench struct {
	t        *testing.T
	dir      string
	offload  string
	contents [][]byte
}

func newBench(t *testing.T, size int) *bench {
	b := &bench{t: t, dir: t.TempDir(), offload: llvm.Offload(t)}
	for i, p := range processors {
		content := code(uint64(i), size+i*1000)
		b.contents = append(b.contents, content)
		if err := os.WriteFile(filepath.Join(b.dir, p), content, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

func (b *bench) run(program string, args ...string) string {
	b.t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = b.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// entries are the flags for all entries; file gives the file of each processor.
func entries(file func(string) string) []string {
	args := []string{"--entry", "host-x86_64-unknown-linux-gnu="}
	for _, p := range processors {
		args = append(args, "--entry", p+"="+file(p))
	}
	return args
}

func itself(p string) string { return p }

func (b *bench) offloadBundle(flags ...string) {
	b.t.Helper()
	b.run(b.offload, append(append([]string{"bundle", "--type", "bc", "--align", "4096", "--compress", "--output", "bundle"}, flags...), entries(itself)...)...)
}

// check unbundles with all three programs.
func (b *bench) check(manager *comgr.Unbundler) {
	b.t.Helper()
	ids := make([]string, len(processors))
	for i, p := range processors {
		ids[i] = entryID(p)
	}
	for i, got := range manager.Unbundle(filepath.Join(b.dir, "bundle"), ids...) {
		if !bytes.Equal(got, b.contents[i]) {
			b.t.Errorf("code object manager: %s: %d bytes of %d, or others", ids[i], len(got), len(b.contents[i]))
		}
	}

	args := []string{"-unbundle", "-type=bc", "-input=bundle", "-verbose", "-targets=" + strings.Join(ids, ",")}
	for _, p := range processors {
		args = append(args, "-output=llvm."+p)
	}
	if out := b.run(llvm.Tool(b.t, "clang-offload-bundler"), args...); !strings.Contains(out, "Hashes match: Yes") {
		b.t.Errorf("LLVM finds another hash:\n%s", out)
	}
	b.run(b.offload, append([]string{"unbundle", "--type", "bc", "--input", "bundle"}, entries(func(p string) string { return "own." + p })[2:]...)...)
	for i, p := range processors {
		for _, by := range []string{"llvm.", "own."} {
			got, err := os.ReadFile(filepath.Join(b.dir, by+p))
			if err != nil {
				b.t.Fatal(err)
			}
			if !bytes.Equal(got, b.contents[i]) {
				b.t.Errorf("%s%s: %d bytes of %d, or others", by, p, len(got), len(b.contents[i]))
			}
		}
	}
}

func TestForms(t *testing.T) {
	manager := comgr.New(t)
	for _, size := range []int{0, 1000, 100_000, 3 << 20} {
		b := newBench(t, size)
		for _, version := range []string{"2", "3"} {
			for _, frames := range []string{"auto", "entry", "one"} {
				t.Run(fmt.Sprint(size, "/v", version, "/", frames), func(t *testing.T) {
					b.t = t
					b.offloadBundle("--format-version", version, "--frames", frames)
					b.check(manager)
				})
			}
		}
	}
}

func TestLevels(t *testing.T) {
	manager := comgr.New(t)
	b := newBench(t, 300_000)
	for _, level := range []string{"1", "3", "9", "19", "22"} {
		t.Run(level, func(t *testing.T) {
			b.t = t
			b.offloadBundle("--level", level)
			b.check(manager)
		})
	}
}

// Bundles assembled from cached parts, one for each family of processors, equal those from a
// single action.
func TestParts(t *testing.T) {
	manager := comgr.New(t)
	for _, size := range []int{1000, 100_000, 3 << 20} {
		b := newBench(t, size)
		b.offloadBundle()
		whole, err := os.ReadFile(filepath.Join(b.dir, "bundle"))
		if err != nil {
			t.Fatal(err)
		}
		b.run(b.offload, append([]string{"compress-plan", "--align", "4096", "--output", "plan"}, entries(itself)...)...)
		assemble := []string{"assemble", "--plan", "plan", "--output", "bundle"}
		for i, group := range [][]string{append([]string{"--pad"}, processors[:3]...), append([]string{"--pad"}, processors[3:5]...), processors[5:]} {
			part := fmt.Sprint("part", i)
			b.run(b.offload, append([]string{"compress-part", "--align", "4096", "--output", part}, group...)...)
			assemble = append(assemble, part)
		}
		b.run(b.offload, assemble...)
		if got, err := os.ReadFile(filepath.Join(b.dir, "bundle")); err != nil || !bytes.Equal(got, whole) {
			t.Errorf("%d bytes, %d when made at once: %v", len(got), len(whole), err)
		}
		b.check(manager)
	}
}
