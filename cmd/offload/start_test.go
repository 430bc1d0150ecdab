package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// initialised are the packages outside of the standard library that may allocate more than 2 KiB before
// main, each with the reason. Everything else initialises what a call uses when it uses it: most calls
// take a few milliseconds, and the initialisation of all packages was a third of that.
var initialised = map[string]string{
	"github.com/ianlancetaylor/demangle":             "a library: maps of operators",
	"github.com/klauspost/compress/flate":            "a library: tables of Huffman codes",
	"github.com/klauspost/compress/internal/snapref": "a library: a table of CRCs",
	"go.yaml.in/yaml/v3":                             "a library: expressions and maps",
	"golang.org/x/sys/cpu":                           "a library: the features of the processor",
	module + "engine/coverage":                       "a map of generic processors",
	module + "internal/check":                        "shares no table with package target",
	module + "internal/linkcache":                    "a map of linkers",
	module + "internal/register":                     "maps of hosts",
	module + "internal/registerir":                   "maps of layouts",
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
		// Only tests import these, see TestImports in tests/pages for protobuf.
		testOnly := m[1] == module+"internal/workerproto" || slices.ContainsFunc([]string{"pgregory.net/", "github.com/google/go-cmp", "go.uber.org/", "google.golang.org/protobuf", "github.com/bazelbuild/rules_go/"}, func(prefix string) bool {
			return strings.HasPrefix(m[1], prefix)
		})
		if size <= most || !strings.Contains(first, ".") || testOnly {
			continue
		}
		seen = append(seen, m[1])
		if _, ok := initialised[m[1]]; !ok {
			t.Errorf("%s allocates %d bytes before main: initialise what it needs at its first use", m[1], size)
		}
	}
	// The trace itself works.
	if !slices.Contains(seen, "go.yaml.in/yaml/v3") {
		t.Errorf("the trace is without a package that allocates:\n%s", trace.String())
	}
}
