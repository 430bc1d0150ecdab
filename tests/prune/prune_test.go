// Package prune has the tests of offload prune and offload kpack on what linkers
// write: the files are loaded afterwards, stripped, and loaded again.
package prune

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf/elfcheck"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

var (
	//go:embed program/runtime.c
	runtimeSource string
	//go:embed program/load.c
	loadSource string
	//go:embed program/host.c
	hostSource string

	long = flag.Bool("layouts", false, "try every layout; otherwise a sample")
)

func TestMain(m *testing.M) { llvm.Main(m, "/usr/bin/gcc", "/usr/bin/readelf", "/usr/bin/strip") }

// layout is a way to link.
type layout struct {
	linker  string // bfd, lld, gold, mold
	kind    string // so, pie, exec
	flags   []string
	strip   bool
	bundles int
	shape   string // how device code is laid out: plain, shared, swapped, gaps, symbol
}

func (l layout) String() string {
	name := fmt.Sprintf("%s-%s-%s-%d", l.linker, l.kind, l.shape, l.bundles)
	for _, f := range l.flags {
		name += "-" + strings.NewReplacer("-Wl,-z,", "", "-Wl,", "", "=", "_").Replace(f)
	}
	if l.strip {
		name += "-stripped"
	}
	return name
}

var flagSets = [][]string{
	nil,
	{"-Wl,-z,separate-code"},
	{"-Wl,-z,noseparate-code"},
	{"-Wl,-z,pack-relative-relocs"},
	{"-Wl,-z,max-page-size=0x200000"},
	{"-Wl,-z,max-page-size=0x10000", "-Wl,-z,now"},
	{"-Wl,--build-id=sha1", "-Wl,--hash-style=both"},
	{"-Wl,--emit-relocs"},
	{"-Wl,-Bsymbolic"},
}

// layouts returns all layouts of the linkers at hand, or a sample that has every
// linker, kind, set of flags and shape.
func layouts(t *testing.T) []layout {
	var all []layout
	for _, linker := range []string{"bfd", "lld", "gold", "mold"} {
		if !haveLinker(linker) {
			continue
		}
		for _, kind := range []string{"so", "pie", "exec"} {
			for _, flags := range flagSets {
				for i, shape := range []string{"plain", "shared", "swapped", "gaps", "symbol"} {
					all = append(all, layout{linker, kind, flags, i%2 == 1, 1 + i, shape})
				}
			}
		}
	}
	if *long {
		return all
	}
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var sample []layout
	seen := make(map[string]bool)
	for _, l := range all {
		traits := []string{l.linker + l.kind, l.linker + strings.Join(l.flags, ""), l.linker + l.shape}
		if slices.ContainsFunc(traits, func(s string) bool { return !seen[s] }) {
			sample = append(sample, l)
			for _, s := range traits {
				seen[s] = true
			}
		}
	}
	return sample
}

// haveLinker reports whether gcc, or clang for lld, finds a linker. GNU ld and lld must
// be there.
func haveLinker(name string) bool {
	if name == "bfd" || name == "lld" {
		return true
	}
	for _, program := range []string{"ld." + name, name} {
		if _, err := exec.LookPath(program); err == nil {
			return true
		}
	}
	return false
}

// built is a linked file with the images that it registers.
type built struct {
	path, dir string
	layout    layout
}

var archs = []string{"gfx90a", "gfx90a:xnack+", "gfx942", "gfx1100"}

// objectFor returns the code object of a bundle for an architecture: bytes that look
// like a real one to whom looks at its header.
func objectFor(number int, arch string) []byte {
	random := rand.New(rand.NewPCG(uint64(number), uint64(len(arch))*7919+uint64(arch[3])))
	b := make([]byte, 3000+random.IntN(20000))
	for i := range b {
		b[i] = byte(random.IntN(40))
	}
	copy(b, "\x7fELF\x02\x01\x01\x40")
	b[16], b[18] = 3, 224
	return b
}

func writeBundle(t *testing.T, name string, number int) {
	items := []bundle.Item{{ID: "host-x86_64-unknown-linux-gnu-"}}
	for _, arch := range archs {
		items = append(items, bundle.Item{ID: "hipv4-amdgcn-amd-amdhsa--" + arch, Content: content.Memory(objectFor(number, arch))})
	}
	if err := os.WriteFile(name, fixture.BundleOf(t, bundle.Options{Align: 4096}, items...), 0o644); err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	var out []byte
	var err error
	for range 100 {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		// Another test may have forked while the program was written.
		if out, err = cmd.CombinedOutput(); !errors.Is(err, syscall.ETXTBSY) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

var shared struct {
	sync.Once
	dir string
	err error
}

// runtimeDir returns a directory with the stand-in for the runtime and the loader.
func runtimeDir(t *testing.T) string {
	shared.Do(func() {
		if shared.dir, shared.err = llvm.Scratch(); shared.err != nil {
			return
		}
		for name, text := range map[string]string{"runtime.c": runtimeSource, "load.c": loadSource, "host.c": hostSource} {
			if shared.err = os.WriteFile(filepath.Join(shared.dir, name), []byte(text), 0o644); shared.err != nil {
				return
			}
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	if _, err := os.Stat(filepath.Join(shared.dir, "load")); err != nil {
		command(t, shared.dir, "gcc", "-shared", "-fPIC", "-o", "libruntime.so", "runtime.c")
		command(t, shared.dir, "gcc", "-o", "load", "load.c", "-L.", "-Wl,--no-as-needed", "-lruntime", "-ldl", "-Wl,-rpath,"+shared.dir)
	}
	return shared.dir
}

// build links a file.
func build(t *testing.T, l layout) *built {
	t.Helper()
	dir, rt := t.TempDir(), runtimeDir(t)
	var asm strings.Builder
	asm.WriteString(".section .hip_fatbin,\"a\",@progbits\n")
	for i := range l.bundles {
		writeBundle(t, filepath.Join(dir, fmt.Sprintf("bundle%d", i)), i)
		align := 12
		if l.shape == "gaps" && i > 0 {
			align = 4
			asm.WriteString(".zero 24\n")
		}
		global := ""
		if l.shape == "symbol" {
			global = fmt.Sprintf(".globl bundle%d\n.hidden bundle%d\n.type bundle%d,@object\n", i, i, i)
		}
		fmt.Fprintf(&asm, ".p2align %d\n%sbundle%d:\n.incbin \"bundle%d\"\nend%d:\n.size bundle%d,end%d-bundle%d\n", align, global, i, i, i, i, i, i)
	}
	asm.WriteString(".section .hipFatBinSegment,\"aw\",@progbits\n.p2align 3\n.globl wrappers\n.hidden wrappers\nwrappers:\n")
	stride, count := 24, l.bundles
	if l.shape == "gaps" {
		stride = 64
	}
	if l.shape == "shared" {
		count++
	}
	for i := range count {
		target := i
		switch l.shape {
		case "swapped":
			target = l.bundles - 1 - i
		case "shared":
			target = i % l.bundles
		}
		fmt.Fprintf(&asm, ".long 0x48495046,1\n.quad bundle%d\n.quad 0\n.zero %d\n", target, stride-24)
	}
	asm.WriteString(".section .note.GNU-stack,\"\",@progbits\n")
	if err := os.WriteFile(filepath.Join(dir, "device.S"), []byte(asm.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"-O1", "-g0", fmt.Sprintf("-DCOUNT=%d", count), fmt.Sprintf("-DSTRIDE=%d", stride), filepath.Join(rt, "host.c"), "device.S", "-o", "linked", "-L" + rt, "-lruntime", "-Wl,-rpath," + rt}
	args = append(args, map[string][]string{
		"so":   {"-shared", "-fPIC"},
		"pie":  {"-fPIE", "-pie", "-DPROGRAM"},
		"exec": {"-fno-pie", "-no-pie", "-DPROGRAM"},
	}[l.kind]...)
	for _, f := range l.flags {
		if l.linker == "gold" && (strings.Contains(f, "pack-relative") || strings.Contains(f, "separate-code")) {
			continue
		}
		args = append(args, f)
	}
	switch l.linker {
	case "lld":
		command(t, dir, llvm.Tool(t, "clang"), append(args, "--ld-path="+llvm.Tool(t, "ld.lld"))...)
	default:
		command(t, dir, "gcc", append(args, "-fuse-ld="+l.linker)...)
	}
	b := &built{path: filepath.Join(dir, "linked"), dir: dir, layout: l}
	if l.strip {
		command(t, dir, "strip", "linked")
	}
	return b
}

// run loads a file and returns what it prints.
func (b *built) run(t *testing.T, path string) string {
	t.Helper()
	if b.layout.kind == "so" {
		return command(t, b.dir, filepath.Join(runtimeDir(t), "load"), path)
	}
	return command(t, b.dir, path)
}

func session() *engine.Session {
	return engine.New(engine.Config{Budget: budget.New(2, 1<<30)})
}

// prune prunes a file into another in the same directory.
func (b *built) prune(t *testing.T, in, out string, opt engine.PruneOptions) {
	t.Helper()
	opt.Input, opt.Output, opt.Verify = filepath.Join(b.dir, in), filepath.Join(b.dir, out), true
	if _, err := session().Prune(context.Background(), opt); err != nil {
		t.Fatal(err)
	}
}

// filter returns the lines of entries that are kept.
func filter(registered string, keep func(line string) bool) string {
	var lines []string
	for line := range strings.Lines(registered) {
		if !strings.HasPrefix(line, "  hip") || keep(line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// warnings returns what readers of ELF files complain about.
func warnings(t *testing.T, path string) string {
	var all []string
	for _, tool := range []string{"readelf", llvm.Tool(t, "llvm-readelf")} {
		cmd := exec.Command(tool, "-aW", path)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			all = append(all, err.Error())
		}
		for line := range strings.Lines(stderr.String()) {
			all = append(all, strings.ReplaceAll(line, path, "FILE"))
		}
	}
	if lint, err := exec.LookPath("eu-elflint"); err == nil {
		out, _ := exec.Command(lint, "--gnu-ld", path).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			// The parts of an executable segment with data stay executable, as the data was.
			if !strings.Contains(line, "is executable but contains no executable sections") && line != "No errors\n" {
				all = append(all, "elflint: "+headerNumber.ReplaceAllString(line, "header"))
			}
		}
	}
	return strings.Join(all, "")
}

// headerNumber is the number of a program header: one before may be new.
var headerNumber = regexp.MustCompile(`program header entry \d+|phdr\[\d+\]|segment \[\d+\]`)

// survives checks that strip in three variants leaves a file that works.
func (b *built) survives(t *testing.T, name, want string) {
	t.Helper()
	for _, tool := range []string{"strip", llvm.Tool(t, "llvm-strip"), "eu-strip"} {
		if _, err := exec.LookPath(tool); err != nil {
			continue // elfutils are not part of the tests' root
		}
		if tool == "eu-strip" && slices.Contains(b.layout.flags, "-Wl,--emit-relocs") {
			continue // it fails on such files after GNU strip, as linked
		}
		stripped := name + "-" + filepath.Base(tool)
		command(t, b.dir, tool, "-o", stripped, name)
		if got := b.run(t, filepath.Join(b.dir, stripped)); got != want {
			t.Errorf("%s after %s: printed\n%sexpected\n%s", name, tool, got, want)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// check compares a changed file with the one it was made of.
func (b *built) check(t *testing.T, in, out, want string) {
	t.Helper()
	before, after := read(t, filepath.Join(b.dir, in)), read(t, filepath.Join(b.dir, out))
	for _, f := range elfcheck.Check(after) {
		if !slices.ContainsFunc(elfcheck.Check(before), func(o elfcheck.Finding) bool { return o.Rule == f.Rule }) {
			t.Errorf("%s: %v", out, f)
		}
	}
	for _, f := range elfcheck.Compare(before, after, ".hip_fatbin") {
		t.Errorf("%s: %v", out, f)
	}
	if got, was := warnings(t, filepath.Join(b.dir, out)), warnings(t, filepath.Join(b.dir, in)); got != was {
		t.Errorf("%s: readers complain\n%s\nbefore\n%s", out, got, was)
	}
	if got := b.run(t, filepath.Join(b.dir, out)); got != want {
		t.Errorf("%s: printed\n%sexpected\n%s", out, got, want)
	}
	b.survives(t, out, want)
}

// TestPrune prunes, compresses, decompresses and replaces in files of many layouts.
func TestPrune(t *testing.T) {
	t.Parallel()
	for _, l := range layouts(t) {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			b := build(t, l)
			all := b.run(t, b.path)
			if !strings.Contains(all, "intact") || strings.Count(all, "gfx942") < l.bundles {
				t.Fatalf("the file as linked prints\n%s", all)
			}
			kept := filter(all, func(line string) bool { return strings.Contains(line, "gfx1100") })
			b.prune(t, "linked", "kept", engine.PruneOptions{Keep: []string{"gfx1100"}})
			b.check(t, "linked", "kept", kept)
			b.prune(t, "kept", "again", engine.PruneOptions{Keep: []string{"gfx1100"}})
			if !bytes.Equal(read(t, filepath.Join(b.dir, "kept")), read(t, filepath.Join(b.dir, "again"))) {
				t.Error("pruning again changes the file")
			}
			b.prune(t, "kept-strip", "twice", engine.PruneOptions{Replace: []engine.PruneReplacement{{Name: "gfx1100", File: filepath.Join(b.dir, "bundle0")}}})
			grown := b.run(t, filepath.Join(b.dir, "twice"))
			if strings.Count(grown, "bundle index") != strings.Count(all, "bundle index") || !strings.Contains(grown, "intact") {
				t.Errorf("after strip and growth: printed\n%s", grown)
			}
			b.check(t, "kept-strip", "twice", grown)
			b.prune(t, "linked", "compressed", engine.PruneOptions{Compress: true, Level: 3})
			packed := b.run(t, filepath.Join(b.dir, "compressed"))
			if strings.Count(packed, "compressed") != strings.Count(all, "bundle index") {
				t.Errorf("compressed: printed\n%s", packed)
			}
			b.check(t, "linked", "compressed", packed)
			b.prune(t, "compressed", "plain", engine.PruneOptions{Decompress: true})
			b.check(t, "compressed", "plain", all)
			b.size(t, l)
		})
	}
}

// size checks that the file loses what the device code loses, but for a page.
func (b *built) size(t *testing.T, l layout) {
	before, after := read(t, filepath.Join(b.dir, "linked")), read(t, filepath.Join(b.dir, "kept"))
	page := 4096
	for _, f := range l.flags {
		switch {
		case strings.Contains(f, "0x200000"):
			page = 0x200000
		case strings.Contains(f, "0x10000"):
			page = 0x10000
		}
	}
	lost := sectionSize(t, before) - sectionSize(t, after)
	if len(after) > len(before)-lost+page+8192 {
		t.Errorf("the file has %d bytes, before %d, with 0x%x bytes less of device code", len(after), len(before), lost)
	}
}
