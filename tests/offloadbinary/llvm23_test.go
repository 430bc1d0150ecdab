package offloadbinary

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// recorded has a SHA-256 of the results of LLVM 23.1.4 in all cases of a test, because the tests
// run with LLVM 22. If the environment variable LLVM23 names an llvm-offload-binary, each case is
// compared with it, and the digest with the recorded one.
var recorded = map[string]string{
	"TestPackVersion2":    "cf6bdda20bbe7d076b019a3275ac70c3571757882ecbda09d18a266de972c7f6",
	"TestExtractVersion2": "54ed6c4f86a76281511235bddcdd53bb536ff14a179f50f3710d2f33742e5ade",
}

// oracle collects the results in the cases of a test.
type oracle struct {
	*testing.T
	bench  *bench
	theirs string // "" to compare digests
	digest []byte
	cases  int
}

func newOracle(t *testing.T) *oracle {
	if *number != 22 {
		t.Skip("compares with LLVM 23 while following 22")
	}
	return &oracle{T: t, bench: newBench(t), theirs: os.Getenv("LLVM23")}
}

// Beginnings of messages that both tools use; the rest differs.
var words = regexp.MustCompile(`(?m)error: (Invalid data was encountered while parsing the file|The end of the file was unexpectedly encountered|[A-Z][a-z ]+)(: .*)?$`)

// compare runs a case. ours are the equivalent arguments for our program.
func (o *oracle) compare(args []string, ours ...string) {
	o.Helper()
	do := func(program string, args []string) result {
		r := o.bench.call(o.T, program, args)
		r.Stderr = strings.ReplaceAll(r.Stderr, "llvm-offload-binary: ", "TOOL: ")
		r.Stderr = words.ReplaceAllString(r.Stderr, "error: $1")
		lines := slices.DeleteFunc(strings.SplitAfter(r.Stderr, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "warning: '") // why bitcode has no symbols
		})
		r.Stderr = strings.Join(lines, "")
		if r.Code != 0 { // LLVM keeps the files written before
			r.Stdout, r.Files = "", nil
		}
		return r
	}
	got := do(o.bench.ours, append(ours, args...))
	if o.theirs != "" {
		want := do(o.theirs, args)
		if diff := cmp.Diff(want, got); diff != "" {
			o.Errorf("%q (-LLVM +ours):\n%s", args, diff)
		}
		got = want
	}
	hash := sha256.New()
	hash.Write(o.digest)
	fmt.Fprintf(hash, "%q %d %q %q", args, got.Code, got.Stdout, got.Stderr)
	for _, name := range slices.Sorted(maps.Keys(got.Files)) {
		fmt.Fprintf(hash, "%q %q", name, got.Files[name])
	}
	o.digest = hash.Sum(nil)
	o.cases++
}

func (o *oracle) done() {
	o.Helper()
	if got := hex.EncodeToString(o.digest); got != recorded[o.Name()] {
		o.Errorf("the digest of %d cases is %s, that of LLVM 23.1.4 is %s: set LLVM23 to see which differ", o.cases, got, recorded[o.Name()])
	}
}

// different removes properties with a repeated key: LLVM 23 writes freed memory for them.
func different(images []string) {
	for i, image := range images {
		properties, ok := strings.CutPrefix(image, "--image=")
		if !ok {
			continue
		}
		seen := map[string]bool{}
		parts := slices.DeleteFunc(strings.Split(properties, ","), func(part string) bool {
			key, _, _ := strings.Cut(part, "=")
			before := seen[key]
			seen[key] = true
			return before
		})
		images[i] = "--image=" + strings.Join(parts, ",")
	}
}

// TestPackVersion2 writes the container of LLVM 23.
func TestPackVersion2(t *testing.T) {
	t.Parallel()
	o := newOracle(t)
	g := newGeneratorIn(t, 23, filepath.Join(o.bench.dir, "in"), "../in")
	for range 300 {
		args := g.packs()
		different(args)
		o.compare(args, "--format-version=2")
	}
	o.done()
}

// TestExtractVersion2 extracts like LLVM 23: all images, with printed names, from nested packages
// and from archive members.
func TestExtractVersion2(t *testing.T) {
	t.Parallel()
	o := newOracle(t)
	in := filepath.Join(o.bench.dir, "in")
	g := newGeneratorIn(t, 24, in, "../in")
	pack := func(name string, args ...string) {
		do(t, filepath.Join(o.bench.dir, "w"), o.bench.ours, append(args, "--format-version=2", "-o", "../in/"+name)...)
	}
	if err := os.MkdirAll(filepath.Join(o.bench.dir, "w"), 0o777); err != nil {
		t.Fatal(err)
	}
	packs := func() []string {
		for {
			args := g.packs()[2:]
			different(args)
			if len(args) > 0 {
				return args
			}
		}
	}
	var members []string
	for i := range 250 {
		input := fmt.Sprint("packed", i, pick(g, []string{"", ".bin", ".tar.gz", "."}))
		args := packs()
		pack(input, args...)
		switch g.IntN(6) {
		case 0: // nested
			pack("outer", "--image=file=../in/"+input+",triple=nest,arch=a", "--image=file="+pick(g, g.images[:12])+",triple=nest")
			pack("outermost", "--image=file=../in/outer,arch=b", "--image=file=../in/"+input)
			input = pick(g, []string{"outer", "outermost"})
		case 1: // in an archive
			members = append(members, input)
			input = fmt.Sprint("library", i, ".a")
			do(t, in, llvm.Tool(t, "llvm-ar"), append([]string{"rcs", input}, members[max(0, len(members)-3):]...)...)
		}
		call := []string{"../in/" + input}
		switch g.IntN(4) {
		case 0:
			call = append(call, pick(g, []string{"--image=member=" + pick(g, append(members, "none")), "--image=kind=hip", "--image=triple=nest", "--image="}))
		case 1:
			call = append(call, g.filter(args, "named"))
		case 2:
			call = append(call, "--archive", g.filter(args, "named.a"))
		}
		o.compare(call)
	}
	o.done()
}
