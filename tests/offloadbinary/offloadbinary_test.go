// Package offloadbinary compares llvm-offload-binary with LLVM 22's, case by
// case and byte by byte, and with what LLVM 23's did. With another release of LLVM:
//
//	tools/offline/run go test ./tests/offloadbinary -args -llvm 24
package offloadbinary

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/releases"
)

func TestMain(m *testing.M) { llvm.Main(m) }

var number = flag.Int("llvm", 22, "the release of LLVM to compare with: 22, 23 or 24")

var environment sync.Once

// programs returns LLVM's tool and our program under its name, which follows that release.
func programs(t *testing.T) (theirs, ours string) {
	t.Helper()
	release := releases.Get(t, *number)
	environment.Do(func() { os.Setenv("OFFLOAD_LLVM_VERSION", strconv.Itoa(*number)) }) // tests are parallel
	return filepath.Join(release.Bin(), "llvm-offload-binary"), llvm.DropIn(t, "llvm-offload-binary")
}

// cases is the number of generated command lines in each test.
func cases() int {
	if testing.Short() {
		return 50
	}
	return 500
}

// result is the result of a call.
type result struct {
	Code           int
	Stdout, Stderr string
	Files          map[string]string
}

// run runs a program in a new directory and returns its results. Messages begin with TOOL.
func run(t *testing.T, program string, args ...string) result {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if _, ok := err.(*exec.ExitError); !ok {
			t.Fatal(err)
		}
	}
	r := result{cmd.ProcessState.ExitCode(), stdout.String(), strings.ReplaceAll(stderr.String(), program, "TOOL"), map[string]string{}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		r.Files[entry.Name()] = string(data)
	}
	return r
}

// do runs a program that must succeed.
func do(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
}

// generator makes command lines, the same in every run.
type generator struct {
	*rand.Rand
	images []string
}

func newGenerator(t *testing.T, seed uint64) *generator {
	t.Helper()
	dir := t.TempDir()
	return newGeneratorIn(t, seed, dir, dir)
}

// newGeneratorIn writes the images to dir, whose name in command lines is call.
func newGeneratorIn(t *testing.T, seed uint64, dir, name string) *generator {
	t.Helper()
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 22))}
	magics := []string{"", "", "\x7fELF", "BC\xc0\xde", "\xde\xc0\x17\x0b", "\x10\xff\x10\xad", "text"}
	for i, ext := range []string{".o", ".bc", ".cubin", ".fatbin", ".s", ".so", ".spv", ".ptx", ".tar.o", ".O", ".", ""} {
		content := []byte(pick(g, magics))
		for range pick(g, []int{0, 1, 7, 8, 9, 100, 5000}) {
			content = append(content, byte(g.IntN(256)))
		}
		base := fmt.Sprint("image", i, ext)
		if err := os.WriteFile(filepath.Join(dir, base), content, 0o666); err != nil {
			t.Fatal(err)
		}
		g.images = append(g.images, name+"/"+base)
	}
	return g
}

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

var (
	keys   = []string{"arch", "triple", "kind", "feature", "symbols", "version", "x", "", "longer-key", strings.Repeat("k", 33), strings.Repeat("l", 64), strings.Repeat("m", 130)}
	values = []string{"amdgcn-amd-amdhsa", "nvptx64-nvidia-cuda", "gfx90a", "gfx942:xnack+", "sm_70", "", "generic", "hip", "openmp", "cuda", "sycl", "none", "HIP", "a=b", "chain", "ain", "in", "arch", strings.Repeat("v", 50)}
)

// property makes KEY=VALUE.
func (g *generator) property() string {
	key := pick(g, keys)
	if g.IntN(3) == 0 {
		key = ""
		for range 1 + g.IntN(100) {
			key += string(rune('a' + g.IntN(26)))
		}
	}
	if g.IntN(20) == 0 {
		return key
	}
	return key + "=" + pick(g, values)
}

// image makes the value of an --image for packing.
func (g *generator) image() string {
	n := g.IntN(8)
	if g.IntN(20) == 0 {
		n = g.IntN(200) // the table of keys grows
	}
	parts := make([]string, n)
	for i := range parts {
		parts[i] = g.property()
	}
	if *number == 23 { // writes freed memory for a key that occurs twice
		seen := map[string]bool{"file": true}
		parts = slices.DeleteFunc(parts, func(p string) bool {
			key, _, _ := strings.Cut(p, "=")
			defer func() { seen[key] = true }()
			return seen[key]
		})
	}
	for range 1 + g.IntN(4)/3 {
		parts = slices.Insert(parts, g.IntN(len(parts)+1), "file="+pick(g, g.images))
	}
	return strings.Join(parts, ",")
}

// packs makes the arguments for packing.
func (g *generator) packs() []string {
	args := []string{"-o", "out"}
	for range g.IntN(5) {
		args = append(args, "--image="+g.image())
	}
	return args
}

func TestPack(t *testing.T) {
	t.Parallel()
	theirs, ours := programs(t)
	g := newGenerator(t, 1)
	for range cases() {
		args := g.packs()
		if g.IntN(4) == 0 {
			args = g.response(t, args)
		}
		if diff := cmp.Diff(run(t, theirs, args...), run(t, ours, args...)); diff != "" {
			t.Fatalf("%q (-LLVM +ours):\n%s", args, diff)
		}
	}
}

// response writes arguments to a response file.
func (g *generator) response(t *testing.T, args []string) []string {
	t.Helper()
	var text strings.Builder
	for _, arg := range args {
		quoted := strings.ReplaceAll(arg, `\`, `\\`)
		switch g.IntN(3) {
		case 0:
			text.WriteString("'" + strings.ReplaceAll(quoted, "'", `\'`) + "'")
		case 1:
			text.WriteString(`"` + strings.ReplaceAll(quoted, `"`, `\"`) + `"`)
		default:
			text.WriteString(strings.NewReplacer("'", `\'`, `"`, `\"`, " ", `\ `).Replace(quoted))
		}
		text.WriteString(pick(g, []string{" ", "\n", "\t \r\n"}))
	}
	name := filepath.Join(t.TempDir(), "arguments")
	if err := os.WriteFile(name, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return []string{"@" + name}
}

// TestKeyOrders packs with keys in every order, and images of many sizes.
func TestKeyOrders(t *testing.T) {
	t.Parallel()
	theirs, ours := programs(t)
	dir := t.TempDir()
	var calls [][]string
	properties := func(length int) []string {
		name := filepath.Join(dir, fmt.Sprint(length, ".o"))
		if err := os.WriteFile(name, bytes.Repeat([]byte{'i'}, length), 0o666); err != nil {
			t.Fatal(err)
		}
		return []string{"file=" + name, "triple=amdgcn-amd-amdhsa", "arch=" + strings.Repeat("a", length%8), "kind=hip", "feature=+" + fmt.Sprint(length)}
	}
	all := permutations(properties(3))
	for _, order := range all {
		calls = append(calls, []string{"-o", "out", "--image=" + strings.Join(order, ",")})
	}
	args := []string{"-o", "out"}
	for length := range 130 {
		args = append(args, "--image="+strings.Join(properties(length), ","))
		if length%16 == 15 {
			calls = append(calls, slices.Clone(args), append([]string{"-o", "out"}, args[len(args)-1]))
		}
	}
	for _, args := range calls {
		if diff := cmp.Diff(run(t, theirs, args...), run(t, ours, args...)); diff != "" {
			t.Errorf("%q (-LLVM +ours):\n%s", args, diff)
		}
	}
}

// permutations returns all orders of a list.
func permutations(list []string) [][]string {
	if len(list) == 0 {
		return [][]string{nil}
	}
	var all [][]string
	for i, first := range list {
		rest := slices.Delete(slices.Clone(list), i, i+1)
		for _, order := range permutations(rest) {
			all = append(all, append([]string{first}, order...))
		}
	}
	return all
}

// filter makes an --image for extraction from images packed with args. It always names a file
// unless all images have an arch: LLVM 22 and 23 differ in the names of images without one.
func (g *generator) filter(args []string, file string) string {
	var parts []string
	if from := pick(g, args); strings.HasPrefix(from, "--image=") {
		for _, part := range strings.Split(strings.TrimPrefix(from, "--image="), ",") {
			if !strings.HasPrefix(part, "file=") && g.IntN(3) == 0 {
				parts = append(parts, part)
			}
		}
	}
	if g.IntN(5) == 0 {
		parts = append(parts, pick(g, []string{"nope=", "kind=hip", "kind=none", "kind=unknown", "arch=gfx90a", "nope=x"}))
	}
	return "--image=" + strings.Join(append(parts, "file="+file), ",")
}

// Files, warnings and exit codes of extractions to named files and archives.
func TestExtract(t *testing.T) {
	t.Parallel()
	theirs, ours := programs(t)
	g := newGenerator(t, 2)
	dir := t.TempDir()
	for i := range cases() {
		packing := g.packs()
		packing[1] = filepath.Join(dir, fmt.Sprint("in", i))
		do(t, dir, theirs, packing...)
		args := []string{packing[1]}
		for j := range 1 + g.IntN(3) {
			args = append(args, g.filter(packing, fmt.Sprint("out", j)))
		}
		if g.IntN(3) == 0 {
			args = append(args, "--archive")
		}
		want, got := run(t, theirs, args...), run(t, ours, args...)
		if *number == 23 && len(packing) == 2 {
			continue // 23 rejects its own packages without images
		}
		// The reason why bitcode is unreadable has other words.
		if strings.Contains(want.Stderr, "warning: '") && strings.Contains(got.Stderr, "warning: '") {
			want.Stderr, got.Stderr = "", ""
		}
		if want.Code != 0 {
			want.Files = map[string]string{} // LLVM keeps the files written before
			if cut, _, ok := strings.Cut(want.Stderr, ": error: "); ok && strings.HasPrefix(got.Stderr, cut+": error: ") {
				want.Stderr, got.Stderr = "", ""
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-LLVM +ours):\n%s", args, diff)
		}
	}
}

// Default names of images with an arch, which are equal in LLVM 22 and 23.
func TestDefaultNames(t *testing.T) {
	t.Parallel()
	theirs, ours := programs(t)
	g := newGenerator(t, 3)
	dir := t.TempDir()
	for i := range cases() / 10 {
		packed := filepath.Join(dir, fmt.Sprint("in", i, pick(g, []string{"", ".bin", ".tar.gz", "."})))
		packing := []string{"-o", packed}
		for range 1 + g.IntN(5) {
			packing = append(packing, "--image=file="+pick(g, g.images)+",arch="+pick(g, []string{"gfx90a", "sm_70:x"})+",triple="+pick(g, values[:6])+",kind="+pick(g, values))
		}
		do(t, dir, theirs, packing...)
		args := []string{packed, "--image=" + pick(g, []string{"kind=hip", "nope=", "arch=gfx90a", ""})}
		want, got := run(t, theirs, args...), run(t, ours, args...)
		nested := slices.ContainsFunc(slices.Collect(maps.Values(want.Files)), func(s string) bool { return strings.HasPrefix(s, "\x10\xff\x10\xad") })
		if nested {
			continue // 22 does not look into them
		}
		for line := range strings.Lines(got.Stdout) {
			name := strings.TrimSuffix(strings.TrimPrefix(line, "Extracted: "), "\n")
			if _, ok := got.Files[name]; !ok {
				t.Errorf("%q printed for %q, which is not there", line, name)
			}
		}
		if *number == 22 {
			got.Stdout = "" // it prints nothing
		}
		got.Stderr = words.ReplaceAllString(got.Stderr, "error: $1")
		if want.Code != 0 {
			want.Stdout, want.Files = "", map[string]string{} // LLVM keeps the files written before
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-LLVM +ours):\n%s", args, diff)
		}
	}
}

// Every kind of file that can contain offload binaries, made by LLVM's own tools.
func TestContainers(t *testing.T) {
	t.Parallel()
	theirs, ours := programs(t)
	clang, ar, objcopy := llvm.Tool(t, "clang"), llvm.Tool(t, "llvm-ar"), llvm.Tool(t, "llvm-objcopy")
	dir := t.TempDir()
	source := filepath.Join(dir, "host.c")
	if err := os.WriteFile(source, []byte("int used; static int own = 3; int f(void) { return used + own; }\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	do(t, dir, clang, "-c", "host.c", "-o", "device.o")
	do(t, dir, clang, "-c", "-emit-llvm", "host.c", "-o", "device.bc")
	do(t, dir, theirs, "-o", "packed", "--image=file=device.o,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=hip", "--image=file=device.bc,triple=nvptx64-nvidia-cuda,arch=sm_70,kind=openmp")
	inputs := []string{"packed", "host.c", "device.o"}
	for _, triple := range []string{"x86_64-linux-gnu", "i386-linux-gnu", "aarch64-linux-gnu", "powerpc64-linux-gnu", "mips-linux-gnu", "x86_64-pc-windows-msvc", "i686-pc-windows-gnu"} {
		for _, form := range []string{"-g0", "-emit-llvm"} {
			name := triple + form
			do(t, dir, clang, "-target", triple, "-c", form, "-Xclang", "-fembed-offload-object=packed", "-Xclang", "-fembed-offload-object=packed", "host.c", "-o", name)
			inputs = append(inputs, name)
		}
	}
	do(t, dir, objcopy, "--add-section", ".any=packed", "--set-section-type", ".any=0x6fff4c0b", "device.o", "any.o")
	inputs = append(inputs, "any.o")
	members := slices.Clone(inputs)
	for name, form := range map[string]string{"gnu.a": "gnu", "bsd.a": "bsd", "darwin.a": "darwin"} {
		do(t, dir, ar, append([]string{"--format=" + form, "-rcs", name}, members...)...)
		inputs = append(inputs, name)
	}
	do(t, dir, ar, append([]string{"--thin", "-rcs", "thin.a"}, members...)...)
	do(t, dir, ar, "-rcs", "nested.a", "gnu.a", "packed", "host.c")
	inputs = append(inputs, "thin.a", "nested.a")
	slices.Sort(inputs)
	for _, input := range inputs {
		for _, args := range [][]string{
			{"--image=file=out"}, {"--image=arch=gfx90a,file=out"}, {"--image=kind=openmp,file=out", "--image=kind=hip,file=second"},
			{"--archive", "--image=file=out.a"}, {"--archive", "--image=kind=openmp,file=out.a"},
		} {
			args = append([]string{filepath.Join(dir, input)}, args...)
			if diff := cmp.Diff(run(t, theirs, args...), run(t, ours, args...)); diff != "" {
				t.Errorf("%q (-LLVM +ours):\n%s", args, diff)
			}
		}
	}
}
