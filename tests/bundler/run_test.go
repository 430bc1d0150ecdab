// Package bundler_test compares the program, called clang-offload-bundler, with
// the tool of that name in LLVM 22: the same command lines must give the same
// files, the same output and the same exit status. With another release of LLVM:
//
//	tools/offline/run go test ./tests/bundler -args -llvm 24
//
// With -short, it runs every eighth of the cases. -cases N sets the number of those of TestRandom.
package bundler_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/releases"
)

func TestMain(m *testing.M) { llvm.Main(m) }

var number = flag.Int("llvm", 22, "the release of LLVM to compare with: 22, 23 or 24")

const tool = "clang-offload-bundler"

// call is one command line.
type call struct {
	args  []string
	env   []string
	stdin string
}

func (c call) String() string {
	return strings.Join(append(append([]string{}, c.env...), c.args...), " ")
}

// outcome is the result of a call.
type outcome struct {
	failed         bool
	stdout, stderr string
	files          map[string]string // written in the working directory
}

// bench runs calls of both tools side by side.
type bench struct {
	inputs       string // directory with the inputs, "in" for the calls
	theirs, ours string // programs
	env          []string
}

var shared struct {
	once  sync.Once
	bench bench
	err   error
}

// newBench returns the bench, whose inputs are made once.
func newBench(t *testing.T) *bench {
	t.Helper()
	clang, ours, release := llvm.Tool(t, "clang"), llvm.Offload(t), releases.Get(t, *number)
	shared.once.Do(func() {
		dir, err := llvm.Scratch()
		if err == nil {
			err = makeInputs(dir, filepath.Dir(clang))
		}
		// LLVM's tool searches for llvm-objcopy on PATH.
		env := []string{"PATH=" + release.Bin(), "TMPDIR=/tmp", fmt.Sprint("OFFLOAD_LLVM_VERSION=", *number)}
		shared.bench, shared.err = bench{dir, filepath.Join(release.Bin(), tool), ours, env}, err
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return &shared.bench
}

// run runs one tool in a new directory under the name of LLVM's.
func (b *bench) run(t *testing.T, program string, c call) (outcome, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(b.inputs, filepath.Join(dir, "in")); err != nil {
		t.Fatal(err)
	}
	return b.runIn(t, dir, program, c), dir
}

// runIn runs one tool in a directory that has the inputs.
func (b *bench) runIn(t *testing.T, dir, program string, c call) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(program)
	cmd.Args = append([]string{tool}, c.args...)
	cmd.Dir = dir
	cmd.Env = slices.Concat(b.env, c.env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil && exit.ExitCode() != 1 {
		t.Errorf("%s: %v: %v\n%s", program, c, err, stderr.String())
	}
	return outcome{err != nil, stdout.String(), normal(strings.ReplaceAll(stderr.String(), dir, "")), written(t, dir)}
}

// written returns the files in a directory that a call wrote.
func written(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "in" || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		info, _ := d.Info()
		found[filepath.Base(path)] = fmt.Sprintf("%v %s", info.Mode(), data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var (
	temporary = regexp.MustCompile(`/clang-offload-bundler-[0-9a-f]{6}\.tmp`)
	revision  = regexp.MustCompile(`\(1[+~][0-9a-z]+\)`) // of Debian's package
	speeds    = regexp.MustCompile(`(?m)speed: .* MB/s$`)
	timers    = regexp.MustCompile(`(?ms)^===-+===\n +Timer group for offload bundler\n.*?\n\n.*?\n\n`) // of LLVM 23 and later
	// Warnings of ours for cases in which LLVM's tool prints nothing (docs/differences.md).
	warnings = regexp.MustCompile(`(?m)^clang-offload-bundler: warning: (-list does not read|.*: archive member at byte|target '.*': the triple has three fields|-compress has no effect:|.*: entry \d+: ).*\n`)
)

// normal removes the parts of messages that differ between calls.
func normal(s string) string {
	s = temporary.ReplaceAllString(s, "/clang-offload-bundler-000000.tmp")
	return speeds.ReplaceAllString(timers.ReplaceAllString(s, ""), "speed: … MB/s")
}

// compare runs a call with both tools and reports every difference. It returns whether LLVM's failed.
func (b *bench) compare(t *testing.T, c call) bool {
	t.Helper()
	theirs, _ := b.run(t, b.theirs, c)
	ours, _ := b.run(t, b.ours, c)
	ours.stderr = warnings.ReplaceAllString(ours.stderr, "")
	if theirs.failed {
		// The files after a failed call are a documented difference.
		theirs.files = nil
		if len(ours.files) > 0 {
			t.Errorf("%v: failed and left %d files", c, len(ours.files))
		}
		ours.files = nil
	}
	if *number > 22 && slices.Contains(c.args, "-type=a") && slices.Contains(c.args, "-list") {
		// LLVM lists the entries of earlier bundles again with each bundle, and lists neither a
		// compressed bundle after a plain one nor the members of a thin archive.
		for line := range strings.Lines(theirs.stdout) {
			if !strings.Contains(ours.stdout, line) {
				t.Errorf("%v: %q is not listed", c, line)
			}
		}
		theirs.stdout = ours.stdout
	}
	diff(t, c.String(), theirs, ours)
	return theirs.failed
}

func diff(t *testing.T, name string, theirs, ours outcome) {
	t.Helper()
	if theirs.failed != ours.failed {
		t.Errorf("%s: LLVM failed: %v (%s), ours: %v (%s)", name, theirs.failed, theirs.stderr, ours.failed, ours.stderr)
		return
	}
	theirs.stdout, ours.stdout = revision.ReplaceAllString(theirs.stdout, ""), revision.ReplaceAllString(ours.stdout, "")
	if theirs.stdout != ours.stdout {
		t.Errorf("%s: standard output\nLLVM: %q\nours: %q", name, theirs.stdout, ours.stdout)
	}
	if theirs.stderr != ours.stderr {
		t.Errorf("%s: standard error\nLLVM: %s\nours: %s", name, theirs.stderr, ours.stderr)
	}
	for file, data := range theirs.files {
		mine, ok := ours.files[file]
		switch {
		case !ok:
			t.Errorf("%s: %s is not written", name, file)
		case mine != data:
			t.Errorf("%s: %s differs: LLVM's has %d bytes, ours %d\n%.300q\n%.300q", name, file, len(data), len(mine), data, mine)
		}
	}
	for file := range ours.files {
		if _, ok := theirs.files[file]; !ok {
			t.Errorf("%s: %s is written, but not by LLVM's", name, file)
		}
	}
}

// compareAll compares calls, every eighth of them with -short.
func (b *bench) compareAll(t *testing.T, calls []call) {
	t.Helper()
	if testing.Short() {
		var some []call
		for i := 0; i < len(calls); i += 8 {
			some = append(some, calls[i])
		}
		calls = some
	}
	b.compareEach(t, calls)
}

// compareEach compares calls in parallel and logs their number.
func (b *bench) compareEach(t *testing.T, calls []call) {
	t.Helper()
	limit := make(chan struct{}, 4)
	var wg sync.WaitGroup
	var failures atomic.Int32
	for _, c := range calls {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			if b.compare(t, c) {
				failures.Add(1)
			}
		})
	}
	wg.Wait()
	t.Logf("%d cases, %d of which LLVM rejects", len(calls), failures.Load())
}

// random returns a random source with the same sequence in every run.
func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 22)) }

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// after runs one more call in a copy of a directory.
func (b *bench) after(t *testing.T, dir, program string, c call) outcome {
	t.Helper()
	next := t.TempDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	before := make(map[string]bool)
	for _, e := range entries {
		if e.Name() != "in" {
			before[e.Name()] = true
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err == nil {
				err = os.WriteFile(filepath.Join(next, e.Name()), data, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Symlink(b.inputs, filepath.Join(next, "in")); err != nil {
		t.Fatal(err)
	}
	out := b.runIn(t, next, program, c)
	for name := range before {
		delete(out.files, name)
	}
	return out
}
