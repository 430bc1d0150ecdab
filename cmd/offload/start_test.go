package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// initialised are the libraries that may allocate more than 2 KiB before main, each with what it
// makes.
var initialised = map[string]string{
	"github.com/ianlancetaylor/demangle":             "maps of operators",
	"github.com/klauspost/compress/flate":            "tables of Huffman codes",
	"github.com/klauspost/compress/internal/snapref": "a table of CRCs",
}

// ownInitialised are the packages of this module that have code to run before main, which touches at
// least one more page of the program.
var ownInitialised = map[string]string{
	"engine":             "an error of another package",
	"internal/cmd/stack": "the stack of the main goroutine",
}

const module = "github.com/rules-offload/rules_offload/"

// TestInitialisers counts what packages allocate at the start of a process.
func TestInitialisers(t *testing.T) {
	cmd := program(t, t.TempDir(), "offload", "--version")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	const most = 2 << 10
	var seen []string
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) @.*, (\d+) bytes`).FindAllStringSubmatch(trace.String(), -1) {
		var size int
		fmt.Sscan(m[2], &size)
		first, _, _ := strings.Cut(m[1], "/")
		// Only tests import these, see TestImports in tests/pages for protobuf. Tests of cmd/offload have
		// flags.
		testOnly := strings.HasPrefix(m[1], module+"internal/testing/") || m[1] == module+"cmd/offload" || slices.ContainsFunc([]string{"pgregory.net/", "github.com/google/go-cmp", "go.uber.org/", "google.golang.org/protobuf", "github.com/bazelbuild/rules_go/"}, func(prefix string) bool {
			return strings.HasPrefix(m[1], prefix)
		})
		name, own := strings.CutPrefix(m[1], module)
		switch {
		case testOnly:
		case own:
			seen = append(seen, name)
			if _, ok := ownInitialised[name]; !ok {
				t.Errorf("%s: got code before main, want none: initialise what it needs at its first use", m[1])
			}
		case size > most && strings.Contains(first, "."):
			seen = append(seen, m[1])
			if _, ok := initialised[m[1]]; !ok {
				t.Errorf("%s: got %d bytes allocated before main, want at most %d: initialise what it needs at its first use", m[1], size, most)
			}
		}
	}
	for _, list := range []map[string]string{initialised, ownInitialised} {
		for name := range list {
			if !slices.Contains(seen, name) {
				t.Errorf("%s: got no initialisation, want one: delete its line from the list", name)
			}
		}
	}
}
