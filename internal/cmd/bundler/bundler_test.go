package bundler

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

const (
	hostTarget = "host-x86_64-unknown-linux-gnu"
	amd        = "amdgcn-amd-amdhsa--"
	hip        = "hip-" + amd
)

// bench is a directory in which the tool is called.
type bench struct {
	testing.TB
	dir   string
	stdin string
	env   map[string]string
}

func newBench(t testing.TB) *bench { return &bench{TB: t, dir: t.TempDir()} }

// call runs a command line.
func (b *bench) call(args ...string) (code int, stdout, stderr string) {
	b.Helper()
	var out, errs bytes.Buffer
	code = Run(context.Background(), &command.Call{
		Name: "bundler", Args: args, Stdout: &out, Stderr: &errs,
		Session:   engine.New(engine.Config{Dir: b.dir, Stdin: strings.NewReader(b.stdin), Stdout: &out, Budget: budget.New(2, 64<<20)}),
		LookupEnv: func(name string) (string, bool) { value, ok := b.env[name]; return value, ok },
	})
	if code != 0 && code != 1 || strings.Contains(errs.String(), "panic") {
		b.Errorf("%q: exit code %d\n%s", args, code, errs.String())
	}
	return code, out.String(), errs.String()
}

// must runs a command line that must succeed, and returns its output.
func (b *bench) must(args ...string) string {
	b.Helper()
	code, stdout, stderr := b.call(args...)
	if code != 0 || stderr != "" {
		b.Errorf("%q: exit code %d\n%s", args, code, stderr)
	}
	return stdout
}

// fails runs a command line that must fail with one line that contains all words, and must not
// leave a file.
func (b *bench) fails(words []string, args ...string) {
	b.Helper()
	before := b.names()
	code, _, stderr := b.call(args...)
	if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "bundler: error: ") {
		b.Errorf("%q: exit code %d, want 1 and one line\n%s", args, code, stderr)
	}
	for _, word := range words {
		if !strings.Contains(stderr, word) {
			b.Errorf("%q: the message does not have %q\n%s", args, word, stderr)
		}
	}
	if after := b.names(); !slices.Equal(before, after) {
		b.Errorf("%q: left %q, there was %q", args, after, before)
	}
}

// write makes files of names and contents, which alternate.
func (b *bench) write(pairs ...string) {
	b.Helper()
	for pair := range slices.Chunk(pairs, 2) {
		if err := os.WriteFile(filepath.Join(b.dir, pair[0]), []byte(pair[1]), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) read(name string) string {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.Fatal(err)
	}
	return string(data)
}

// want compares files with contents; names and contents alternate.
func (b *bench) want(pairs ...string) {
	b.Helper()
	for pair := range slices.Chunk(pairs, 2) {
		if got := b.read(pair[0]); got != pair[1] {
			b.Errorf("%s is %.200q, want %.200q", pair[0], got, pair[1])
		}
	}
}

// names returns the names of all files.
func (b *bench) names() []string {
	b.Helper()
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		b.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// bundle makes a bundle of targets and contents, which alternate.
func (b *bench) bundle(fileType, output string, pairs ...string) {
	b.Helper()
	b.must(b.bundleArgs(fileType, output, pairs...)...)
}

// bundleArgs writes contents to files and returns the command line that bundles
// them.
func (b *bench) bundleArgs(fileType, output string, pairs ...string) []string {
	b.Helper()
	args := []string{"-type=" + fileType, "-output=" + output}
	for i := 0; i < len(pairs); i += 2 {
		input := fmt.Sprintf("%s.in%d", output, i/2)
		b.write(input, pairs[i+1])
		args = append(args, "-targets="+pairs[i], "-input="+input)
	}
	return args
}

// unbundleArgs returns the command line that unbundles targets to out0, out1 ….
func unbundleArgs(fileType, input string, targets ...string) []string {
	args := []string{"-unbundle", "-type=" + fileType, "-input=" + input}
	for i, t := range targets {
		args = append(args, "-targets="+t, fmt.Sprintf("-output=out%d", i))
	}
	return args
}

// hostObject returns an ELF object.
func hostObject(t testing.TB) string {
	t.Helper()
	return string(fixture.HostObject(t, "\xc3 some code"))
}

// archive returns an archive of names and contents, which alternate.
func archive(t testing.TB, pairs ...string) string {
	t.Helper()
	var members []ar.NewMember
	for pair := range slices.Chunk(pairs, 2) {
		members = append(members, ar.NewMember{Name: pair[0], Data: content.Memory([]byte(pair[1]))})
	}
	var out content.Buffer
	if err := ar.Write(context.Background(), &out, members); err != nil {
		t.Fatal(err)
	}
	return string(out.Bytes())
}

// plainBundle returns a binary bundle of entry IDs and contents, which alternate.
func plainBundle(t testing.TB, pairs ...string) string {
	t.Helper()
	var items []bundle.Item
	for pair := range slices.Chunk(pairs, 2) {
		items = append(items, bundle.Item{ID: pair[0], Content: content.Memory([]byte(pair[1]))})
	}
	return string(fixture.BundleOf(t, bundle.Options{Align: 8}, items...))
}

// lines returns the lines of a listing.
func lines(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }

// compressedObject returns any data compressed as LLVM compresses bundles.
func compressedObject(t testing.TB, data string) string {
	t.Helper()
	var out content.Buffer
	_, err := ccob.Encode(context.Background(), &out, []content.Part{{Content: content.Memory([]byte(data))}}, ccob.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return string(out.Bytes())
}
