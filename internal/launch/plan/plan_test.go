package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const header = "clang version 22.1.8\nTarget: x86_64-pc-linux-gnu\nThread model: posix\nInstalledDir: /usr/bin\n"

func TestParse(t *testing.T) {
	c, err := Parse(header + `clang: warning: argument unused during compilation: '-lfoo'
 "/usr/bin/clang-22" "-cc1" "-triple" "amdgcn-amd-amdhsa" "-fcuda-is-device" "-target-cpu" "gfx90a" "-target-feature" "+xnack" "-o" "/tmp/a-1.o" "-x" "hip" "a \"b\".hip"
 "/usr/bin/lld" "-flavor" "gnu" "-plugin-opt=mcpu=gfx90a" "-o" "/tmp/a-2.out" "/tmp/a-1.o"
 "/usr/bin/clang-offload-bundler" "-type=o" "-input=/dev/null" "-input=/tmp/a-2.out" "-output=/tmp/a-3.hipfb"
 (in-process)
 "/usr/bin/clang-22" "-cc1" "-triple" "x86_64" "-fcuda-include-gpubinary" "/tmp/a-3.hipfb" "-o" "a.o" "-x" "hip" "a \"b\".hip"
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, job := range c.Jobs {
		got = append(got, strings.Join([]string{job.Target, job.Output}, " "))
	}
	if diff := cmp.Diff([]string{"gfx90a:xnack+ /tmp/a-1.o", "gfx90a /tmp/a-2.out", " /tmp/a-3.hipfb", "host a.o"}, got); diff != "" {
		t.Error(diff)
	}
	if want := "clang: warning: argument unused during compilation: '-lfoo'\n"; c.Messages != want {
		t.Errorf("messages: got %q, want %q", c.Messages, want)
	}
	for i, want := range [][]int{nil, {0}, {1}, {2}} {
		if !slices.Equal(c.Jobs[i].Inputs, want) {
			t.Errorf("inputs of job %d: got %v, want %v", i, c.Jobs[i].Inputs, want)
		}
	}
	if want := `a "b".hip`; c.Jobs[0].Args[len(c.Jobs[0].Args)-1] != want {
		t.Errorf("got %q, want %q", c.Jobs[0].Args, want)
	}
	for text, want := range map[string]string{
		header: "does not list its jobs",
		header + "clang: error: no input files\n":          "rejects the command",
		header + ` "/usr/bin/ld" "-o" "a.out" "/tmp/a.o"`:  "links",
		header + ` "/usr/bin/as" "-o" "a.o" "a.s"`:         "runs as",
		header + ` "/usr/bin/clang" "-cc1" "-x" "c" "a.c"`: "writes no file",
		header + ` "/usr/bin/clang" "-cc1as" "-o" "a.o"`:   "more than a compilation",
		header + ` "/usr/bin/clang`:                        "cannot be read",
		header + " \"/b/clang\" \"-cc1\" \"-o\" \"a.o\" \"-x\" \"c\" \"a.c\"\n \"/b/clang\" \"-cc1\" \"-o\" \"b.o\" \"-x\" \"c\" \"a.c\"": "several outputs",
	} {
		var reason Reason
		if c, err := Parse(text); !errors.As(err, &reason) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %+v, %v, want %q", text, c, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	for word, want := range map[string]bool{
		"/tmp/a": true, "-input=/tmp/a": true, "--image=file=/tmp/a,triple=x": true, "/tmp/a.o": false, "x/tmp/a": false, "a,/tmp/a": true, "/tmp/ab,/tmp/a": true, "": false,
	} {
		if got := Names(word, "/tmp/a"); got != want {
			t.Errorf("%s: got %v, want %v", word, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for line, want := range map[string]string{
		"-c a.c": "", "-c -o a.o -x hip a.hip": "", "-c -I x a.cc -Dy": "", "a.c": "no -c", "-c": "no source", "-c a.c b.c": "several inputs", "-c a.s": "not C", "-c -o a -o b a.c": "several outputs",
		"-c -oa.o a.c": "word of its own", "-c @x a.c": "response file", "-c -x assembler a": "language is assembler", "-E -c a.c": "preprocesses",
	} {
		c, err := Check(strings.Fields(line))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %+v, %v, want %s", line, c, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(header + " \"/usr/bin/clang\" \"-cc1\" \"-o\" \"a.o\" \"-x\" \"c\" \"a.c\"\n")
	f.Add(" \"\\")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err != nil {
			return
		}
		for i, job := range c.Jobs {
			for _, in := range job.Inputs {
				if in < 0 || in >= i {
					t.Errorf("job %d reads job %d", i, in)
				}
			}
		}
	})
}
