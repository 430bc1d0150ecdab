package offloadbinary

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// bench is a directory for command lines: the inputs are in its directory in, and each call starts
// in a new directory w next to it.
type bench struct {
	dir          string
	theirs, ours string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	theirs, ours := programs(t)
	b := &bench{t.TempDir(), theirs, ours}
	if err := os.Mkdir(filepath.Join(b.dir, "in"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"a.o": "object", "b.bc": "bitcode", "empty": "", "many.rsp": strings.Repeat("--image=file=../in/a.o,arch=x\n", 100) + "-o out",
		"quoted.rsp": `-o out "--image=file=../in/a.o,triple=a b" '--image=file=../in/b.bc,arch=q\"' --image=file=../in/a\.o,arch="mid"dle`,
		"nested.rsp": "@quoted.rsp\n--image=file=../in/b.bc\r\n\t--image=file=../in/empty",
		"itself.rsp": "@itself.rsp -o out",
		"open.rsp":   `-o out "--image=file=../in/a.o,arch=never closed`,
	} {
		if err := os.WriteFile(filepath.Join(b.dir, "in", name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	do(t, filepath.Join(b.dir, "in"), b.theirs, "-o", "p", "--image=file=a.o,triple=t,arch=x,kind=hip", "--image=file=b.bc,triple=u,arch=y,kind=openmp")
	return b
}

// call runs a command line and returns its results.
func (b *bench) call(t *testing.T, program string, args []string) result {
	t.Helper()
	w := filepath.Join(b.dir, "w")
	if err := os.RemoveAll(w); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(w, "dir"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w, "exists"), []byte("before"), 0o666); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Stdin = w, &stdout, &stderr, strings.NewReader("from standard input")
	if err := cmd.Run(); err != nil {
		if _, ok := err.(*exec.ExitError); !ok {
			t.Fatal(err)
		}
	}
	r := result{cmd.ProcessState.ExitCode(), stdout.String(), strings.ReplaceAll(stderr.String(), program, "TOOL"), map[string]string{}}
	for _, pattern := range []string{"*", "dir/*"} {
		names, _ := filepath.Glob(filepath.Join(w, pattern))
		for _, name := range names {
			if data, err := os.ReadFile(name); err == nil {
				r.Files[strings.TrimPrefix(name, w)] = string(data)
			}
		}
	}
	return r
}

var (
	// LLVM 22 does not print the names of extracted files, and LLVM's tools do not print the names
	// of outputs.
	extracted = regexp.MustCompile(`Extracted: .*\n`)
	named     = regexp.MustCompile(`(?m)(error: [A-Z][a-z ]+): '.*'$`)
)

// TestCommandLines compares every option in all its spellings, and invalid command lines.
func TestCommandLines(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const pack, take = "--image=file=../in/a.o,triple=t", "--image=arch=x,file=taken"
	var calls [][]string
	add := func(args ...string) { calls = append(calls, args) }
	for _, output := range []string{"-o out", "--o out", "-o=out", "--o=out", "-oout", "--oout", "-o out -o second", "-o=", "-o -", "-o dir", "-o dir/x", "-o no/x", "-o exists", "-o /dev/null", "-o .", "-o -- out"} {
		fields := strings.Fields(output)
		add(append(fields, pack)...)
		add(append([]string{pack}, fields...)...)
	}
	add(pack, "-o")
	add(pack, "-o", "")
	add("-o", pack)
	add("-o", "out")
	for _, image := range [][]string{
		{"--image", pack[len("--image="):]}, {"-image=" + pack[len("--image="):]}, {"-image", pack[len("--image="):]},
		{"--image"}, {"--image="}, {"--image=,"}, {"--image=file="}, {"--image=file=,"}, {"--image=file=,triple=t"}, {"--image=triple=t"},
		{"--image=file=../in/a.o,file=../in/b.bc"}, {"--image=file=../in/a.o,file=nope"}, {"--image=file=-"}, {"--image=file=-,arch=x", "--image=file=../in/a.o"},
		{"--image=file=../in"}, {"--image=file=nope"}, {"--image==x,file=../in/a.o"}, {"--image=file=../in/a.o,a=b=c"}, {"--image=file=../in/a.o,kind="},
		{"--image=file=../in/a.o,kind"}, {"--image=file=../in/a.o,kind=hip,kind=cuda"}, {"--image=file=../in/a.o,kind=Hip"}, {"--image=file=../in/empty"},
		{"--image=file=../in/a.o,,"}, {"--image=,,file=../in/a.o,=,x"}, {"--image=file=../in/a.o," + strings.Repeat("k", 5000) + "=" + strings.Repeat("v", 5000)},
		{"--image=file=../in/a.o,é=ü"}, {"--image= file = ../in/a.o"}, {"--image=file=../in/a.o, triple = t "}, {"--image=file=\"../in/a.o\""},
		{"--imag=file=../in/a.o"}, {"--images=file=../in/a.o"}, {"--Image=file=../in/a.o"}, {pack, pack, pack},
	} {
		add(append([]string{"-o", "out"}, image...)...)
	}
	for _, archive := range []string{"", "--archive", "-archive", "--archive=true", "--archive=false", "--archive=TRUE", "--archive=True", "--archive=1", "--archive=0", "--archive=x", "--archive=", "--archive true", "--archive --archive", "--archiv", "--archive=true --archive=false"} {
		fields := strings.Fields(archive)
		add(append([]string{"../in/p", take}, fields...)...)
		add(append(fields, "../in/p", "--image=arch=x")...)
		add(append(fields, "-o", "out", pack)...)
	}
	for _, args := range []string{
		"../in/p ../in/p " + take, "-- ../in/p", take + " -- ../in/p", "-- -o", "-o out ../in/p " + take, "nope " + take, "../in " + take, "- " + take, take,
		"../in/empty " + take, "../in/a.o " + take, "../in/p --image=", "../in/p --image=nope=", "../in/p --image=arch=x,file=one --image=arch=y,file=one",
		"../in/p --image=file=dir", "../in/p --image=file=dir/x", "../in/p --image=file=no/x", "../in/p --image=file=exists", "../in/p --image=file=-", "../in/p --image=file=/dev/null",
		"../in/p --image=arch=x --image=arch=y", "../in/p --image=kind=hip,kind=hip,file=o", "../in/p --image=kind=hip,arch=x,arch=x,file=o", "../in/p --image=file=a,file=b",
		"../in/p --image=arch=x,file=", "../in/p --image=arch=x,file", "../in/p --archive --image=arch=x,file=", "../in/p --image=kind=HIP,file=o", "../in/p --image=kind,file=o",
		"../in/p --image=kind=hip,kind=openmp,file=o", "../in/p --image=arch,file=o", "../in/p --image=arch=,file=o", "../in/p --image=,file=o", "../in/p --image==,file=o",
		"./../in/p --archive --image=file=o.a", "../in/p --archive --image=file=o.a --image=arch=x,file=o.a", "../in/p --archive --image=file=o.a --image=arch=x", "../in/p --archive --image=nope=x",
		"@../in/quoted.rsp", "@../in/nested.rsp", "@../in/many.rsp", "@../in/itself.rsp", "@../in/open.rsp", "@nope", "@../in/empty", "-o out @../in/quoted.rsp", "@../in/quoted.rsp @../in/quoted.rsp",
		"-h", "--h", "--help", "-help", "--help-list", "--help-hidden", "--help-list-hidden", "", "-h=false", "--help=false", "-h ../in/p", "-o out -h " + pack, "--foo", "-x ../in/p", "-hh", "--print-options " + take + " ../in/p",
		"--help --foo", "--foo --help", "-o out --foo " + pack, "--o", "--image", "--archive",
	} {
		add(strings.Fields(args)...)
	}
	for i, args := range calls {
		if testing.Short() && i%4 != 0 {
			continue
		}
		if *number >= 24 && slices.ContainsFunc(args, func(arg string) bool { return strings.HasSuffix(arg, "-hidden") }) {
			continue // lists options of LLVM's library, too
		}
		want, got := b.call(t, b.theirs, args), b.call(t, b.ours, args)
		if *number == 22 {
			got.Stdout = extracted.ReplaceAllString(got.Stdout, "")
		}
		got.Stderr = named.ReplaceAllString(got.Stderr, "$1")
		if len(args) > 1 && strings.HasSuffix(args[len(args)-1], "in/p") && args[0] == "--" {
			got.Files = want.Files // without filters LLVM 22 extracts nothing
		}
		if want.Code != 0 {
			want.Files = map[string]string{"/exists": "before"} // LLVM keeps the files written before
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-LLVM +ours):\n%s", args, diff)
		}
	}
	t.Logf("%d command lines", len(calls))
}
