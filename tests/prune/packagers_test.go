package prune

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/internal/elf/elfcheck"
	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/packagers"
)

var orders = flag.Int("orders", 10, "number of random orders of the tools of packagers")

// changed is a library after several steps.
type changed struct {
	*built
	path     string
	archives []string // of the library if it is split
	want     string   // its output before the split
	steps    []string
	rules    []elfcheck.Rule // errors of the library before the step
	pruned   bool            // and not split since
}

// next returns the path of the output of a step.
func (c *changed) next(step string) string {
	c.steps = append(c.steps, step)
	return filepath.Join(c.dir, fmt.Sprintf("%02d-%s", len(c.steps), filepath.Base(step)))
}

// tool copies the library and changes the copy with a tool of packagers.
func (c *changed) tool(t *testing.T, name string, args ...string) {
	t.Helper()
	out := c.next(name)
	if err := os.WriteFile(out, read(t, c.path), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := packagers.Command(t, c.dir, name, append(args, out)...)
	if printed, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.steps, err, printed)
	}
	c.path = out
	// Errors that the tool itself causes are not ours.
	for _, f := range elfcheck.Check(read(t, out)) {
		c.rules = append(c.rules, f.Rule)
	}
}

// ours changes the library with one of our operations, twice.
func (c *changed) ours(t *testing.T, step string, run func(out string) error) {
	t.Helper()
	out := c.next(step)
	if err := run(out); err != nil {
		t.Fatalf("%v: %v", c.steps, err)
	}
	first := read(t, out)
	if err := run(out); err != nil || !bytes.Equal(first, read(t, out)) {
		t.Fatalf("%v: the same call writes other bytes: %v", c.steps, err)
	}
	for _, f := range elfcheck.Check(first) {
		if !slices.Contains(c.rules, f.Rule) {
			t.Errorf("%v: %v", c.steps, f)
		}
	}
	c.path = out
}

func (c *changed) split(t *testing.T) {
	dir := filepath.Join(c.dir, fmt.Sprintf("kpack-%d", len(c.steps)))
	c.ours(t, "split", func(out string) error {
		report, err := session().KpackSplit(context.Background(), engine.KpackSplitOptions{Input: c.path, Output: out, Dir: dir, Group: "g", Name: "lib", SplitSettings: engine.SplitSettings{Level: 3}})
		c.archives, c.pruned = nil, false
		for _, a := range report.Archives {
			c.archives = append(c.archives, a.File)
		}
		return err
	})
}

// merge merges all archives, or some.
func (c *changed) merge(t *testing.T, archives []string) {
	c.ours(t, "merge", func(out string) error {
		return session().KpackMerge(context.Background(), engine.KpackMergeOptions{Input: c.path, Output: out, Archives: archives})
	})
	kept := func(line string) bool {
		return slices.ContainsFunc(archives, func(a string) bool {
			_, arch, _ := strings.Cut(strings.TrimSuffix(filepath.Base(a), ".kpack"), "_")
			return strings.Contains(line, "--"+arch+" ")
		})
	}
	c.want, c.archives = filter(c.want, kept), nil
}

func (c *changed) prune(t *testing.T, keep string) {
	c.ours(t, "prune", func(out string) error {
		_, err := session().Prune(context.Background(), engine.PruneOptions{Input: c.path, Output: out, Keep: []string{keep}})
		return err
	})
	c.want, c.pruned = filter(c.want, func(line string) bool { return strings.Contains(line, "--"+keep+" ") }), true
}

// check loads the library.
func (c *changed) check(t *testing.T) {
	t.Helper()
	got := c.run(t, c.path)
	if c.archives == nil {
		if got != c.want {
			t.Fatalf("%v: printed\n%sexpected\n%s", c.steps, got, c.want)
		}
		return
	}
	if strings.Count(got, " marker 82 index ") != strings.Count(c.want, "bundle index") || !strings.Contains(got, "intact") {
		t.Fatalf("%v: printed\n%s", c.steps, got)
	}
	if problems, err := session().KpackVerify(context.Background(), append([]string{c.path}, c.archives...)); err != nil {
		t.Fatalf("%v: %v, %v", c.steps, err, problems)
	}
}

// step changes the library once, by a random number.
func (c *changed) step(t *testing.T, random *rand.Rand) {
	t.Helper()
	long := strings.Repeat("/a/long/directory", 1+random.IntN(20))
	action := random.IntN(12)
	if c.pruned && 3 <= action && action <= 5 {
		return // docs/howto/prune.md: patchelf first, then prune
	}
	switch action {
	case 0:
		c.tool(t, "/usr/bin/strip")
	case 1:
		c.tool(t, llvm.Tool(t, "llvm-strip"))
	case 2:
		c.tool(t, "eu-strip")
	case 3:
		c.tool(t, "patchelf", "--set-rpath", "$ORIGIN"+long+":"+runtimeDir(t))
	case 4:
		c.tool(t, "patchelf", "--set-soname", "lib"+strings.ReplaceAll(long, "/", "_")+".so")
	case 5:
		c.tool(t, "patchelf", "--add-needed", "libm.so.6")
	case 6:
		c.tool(t, "chrpath", "-r", runtimeDir(t))
	case 7: // the debug file is of no use here, but a packager makes both
		debug := filepath.Join(c.dir, "debug")
		command(t, c.dir, "objcopy", "--only-keep-debug", c.path, debug)
		c.tool(t, "/usr/bin/objcopy", "--strip-debug", "--add-gnu-debuglink="+debug)
	case 8:
		if keep := []string{"gfx942", "gfx1100"}[random.IntN(2)]; c.archives == nil && strings.Contains(c.want, "--"+keep+" ") {
			c.prune(t, keep)
		}
	case 9:
		if len(c.archives) > 1 {
			c.merge(t, c.archives[:1+random.IntN(len(c.archives)-1)])
		}
	default:
		if c.archives == nil {
			c.split(t)
		} else {
			c.merge(t, c.archives)
		}
	}
}

// TestPackagers changes libraries with the tools of packagers and our own in random orders, and loads the result of each step.
func TestPackagers(t *testing.T) {
	t.Parallel()
	if _, err := packagers.Dir(); err != nil {
		t.Fatal(err)
	}
	// 157 and 193 split, merge, split and merge, which once left content that no segment loads.
	seeds := []int{157, 193}
	for n := range *orders {
		seeds = append(seeds, n)
	}
	for _, n := range seeds {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(uint64(n), 4))
			linker := []string{"lld", "bfd"}[n%2]
			b := build(t, layout{linker: linker, kind: "so", bundles: 1 + random.IntN(3), shape: []string{"plain", "shared", "swapped"}[random.IntN(3)], flags: flagSets[random.IntN(len(flagSets))]})
			c := &changed{built: b, path: b.path}
			c.want = c.run(t, c.path)
			defer func() {
				if t.Failed() {
					t.Logf("%v of %v", c.steps, b.layout)
				}
			}()
			for range 7 {
				c.step(t, random)
				c.check(t)
			}
		})
	}
}
