package verb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

// builds are two builds of three kernels: one uses 70 VGPRs more, one scratch.
func builds(t *testing.T) string {
	t.Helper()
	object := func(kernels ...testelf.Kernel) []byte {
		return testelf.CodeObject{ABI: 4, Flags: gfx90a, Kernels: kernels}.Build()
	}
	dir := writeAll(t, map[string][]byte{
		"old.co":   object(device("_Z1aPf", 24, 0), device("_Z1bPf", 4, 0), device("same", 4, 0)),
		"new.co":   object(device("_Z1aPf", 94, 0), device("_Z1bPf", 4, 64), device("same", 4, 0)),
		"less.co":  object(device("_Z1aPf", 94, 0), device("_Z1bPf", 4, 0), device("same", 4, 0)),
		"harms.co": object(device("_Z1aPf", 24, 0), device("_Z1bPf", 4, 0), device("same", 4, 4)),
		"accepted": []byte("scratch gfx90a _Z1bPf +64 # b(float*)\n"),
		"stale":    []byte("scratch gfx90a _Z1bPf +64\nscratch gfx90a _Z1cPf +64 # c\n"),
		"broken":   []byte("scratch\n"),
		"new.gfx90a.opt.yaml": []byte("--- !Missed\nPass: regalloc\nName: SpillReloadCopies\nDebugLoc: { File: b.hip, Line: 7, Column: 0 }\nFunction: _Z1bPf\nArgs:\n" +
			"  - NumSpills: '16'\n  - String: ' <spills>'\n...\n"),
	})
	for _, name := range []string{"old", "new"} {
		content, err := os.ReadFile(filepath.Join(dir, name+".co"))
		if err != nil {
			t.Fatal(err)
		}
		// The same code object is in two files of the tree, and another file has none.
		for file, content := range map[string][]byte{"a.co": content, "lib/b.co": content, "text": []byte("no code")} {
			path := filepath.Join(dir, name+".tree", file)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			write(t, path, content)
		}
	}
	return dir
}

// Limits with tolerances and accepted differences, of files and directories.
func TestDiffLimits(t *testing.T) {
	dir := builds(t)
	const exceeded = "offload: new.co: limits exceeded: "
	for _, test := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"--fail-on=vgpr_spills,sgpr-spills,lds old.co new.co", 0, ""},
		{"--tolerance=vgprs=70 --tolerance=code_size=200% old.co new.co", 0, ""},
		{"--tolerance=vgprs=69 old.co new.co", 1, exceeded + "vgprs: gfx90a a(float*)\n"},
		{"--fail-on=scratch --accepted=accepted old.co new.co", 0, ""},
		{"--fail-on=scratch,vgprs --accepted=accepted old.co new.co", 1, exceeded + "vgprs: gfx90a a(float*)\n" +
			"offload: to accept the difference, add to accepted: vgprs gfx90a _Z1aPf +70  # a(float*)\n"},
		{"--fail-on=scratch --accepted=stale old.co new.co", 1, "offload: stale: line 2 accepts no difference, delete it: scratch gfx90a _Z1cPf +64 # c\n"},
		{"--fail-on=scratch --accepted=broken old.co new.co", 1, "offload: broken: line 1: found \"scratch\", expected: scratch ARCH KERNEL CHANGE\n"},
		{"--accepted=accepted old.co new.co", 2, "offload diff: --accepted requires limits: --fail-on, --tolerance or --max-growth. Try: offload diff --help\n"},
		{"--tolerance=vgprs old.co new.co", 2, "offload diff: --tolerance: found \"vgprs\", expected VALUE=NUMBER or VALUE=PERCENT%, such as vgprs=8 or code-size=5%. Try: offload diff --help\n"},
		{"--fail-on=scratch old.tree new.tree", 1, "offload: new.tree: limits exceeded: scratch: gfx90a b(float*)\n"},
		{"--fail-on=scratch --old=old.co --old=old.tree --new=new.tree --new=new.co", 1, "offload: new.tree, new.co: limits exceeded: scratch: gfx90a b(float*)\n"},
		{"old.co new.co less.co", 2, "offload diff: expected two files, OLD and NEW, found 3; to try flags with a compile command, add --suggest. Try: offload diff --help\n"},
		{"--suggest --fail-on=scratch old.co new.co", 2, "offload diff: --suggest requires a compile command: add -- and clang's command line, with -o FILE, or --compile-commands. Try: offload diff --help\n"},
		{"--suggest --compile-commands=text --fail-on=scratch old.co new.co", 1, "offload: text: no such file or directory\n"},
		{"--suggest --compile-commands=accepted --fail-on=scratch old.co new.co", 1, "offload: accepted: not a compilation database, such as cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON writes: "},
		{"--compile-commands=c old.co new.co", 2, "offload diff: --compile-commands requires --suggest, and no command after --. Try: offload diff --help\n"},
		{"--suggest old.co new.co -- clang -o x", 2, "offload diff: suggestions require limits: --fail-on, --tolerance or --max-growth. Try: offload diff --help\n"},
		{"--suggest --fail-on=scratch old.co new.co -- clang a.hip", 2, "offload diff: --suggest: the command after -- has no -o FILE. Try: offload diff --help\n"},
		{"--tried=O4=less.co old.co new.co", 2, "offload diff: --tried: found \"O4\", expected no-lto, O2, "},
		{"--new-remarks=text --fail-on=scratch old.co new.co", 1, "offload: text: no such file or directory\n"},
		{"--new-remarks=accepted old.co new.co", 1, "offload: accepted: found no target in the name, expected a file such as a-gfx90a.opt.yaml\n"},
	} {
		code, _, stderr := runIn(dir, append([]string{"diff"}, strings.Fields(test.args)...)...)
		if code != test.code || !strings.HasPrefix(stderr, test.stderr) || test.stderr == "" && stderr != "" {
			t.Errorf("%s: exit code %d, %q; want %d, %q", test.args, code, stderr, test.code, test.stderr)
		}
	}
	// Copies are not counted.
	_, stdout, _ := runIn(dir, "diff", "old.tree", "new.tree")
	if !strings.Contains(stdout, "kernels: 2 changed, 0 added, 0 removed, 1 equal\n") {
		t.Error(stdout)
	}
}

// All outputs have the limits, the flags that remove them, and the remarks.
func TestDiffOutputs(t *testing.T) {
	dir := builds(t)
	code, stdout, stderr := runIn(dir, "diff", "--fail-on=scratch", "--tried=O2=less.co", "--tried=no-unroll=harms.co", "--new-remarks=new.gfx90a.opt.yaml",
		"--html=h", "--markdown=m", "--output=j", "--message=f", "old.co", "new.co")
	if code != 0 || stdout+stderr != "" {
		t.Fatal(code, stdout, stderr)
	}
	for name, want := range map[string]string{
		"h": "<td class=\"t\">scratch</td><td class=\"t\">gfx90a</td><td class=\"t\">b(float*)</td><td class=\"up\">+64</td><td class=\"t\">O2 (-O2)</td>",
		"m": `| scratch | gfx90a | b(float\*) | +64 | O2 (-O2) |`,
		"f": "limits exceeded: scratch: gfx90a b(float*)\nto accept the difference, add to a text file for the attribute accepted: scratch gfx90a _Z1bPf +64  # b(float*)\n",
	} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(content), want) {
			t.Errorf("%s (%v): %s is missing in:\n%s", name, err, want, content)
		}
		if name != "f" && !strings.Contains(string(content), "b.hip:7: 16 &lt;spills&gt;") {
			t.Errorf("%s has no remarks", name)
		}
	}
	var d struct {
		Kernels []struct {
			Name    string
			Remarks []struct{ File, Text string } `json:"new_remarks"`
		}
		Suggestions []struct {
			Name           string
			Flags          []string
			Removes, Harms []struct{ Kernel string }
		}
	}
	content, err := os.ReadFile(filepath.Join(dir, "j"))
	if err == nil {
		err = json.Unmarshal(content, &d)
	}
	if err != nil || d.Kernels[0].Name != "_Z1bPf" || len(d.Kernels[0].Remarks) != 1 || len(d.Suggestions) != 2 ||
		len(d.Suggestions[0].Harms) != 0 || len(d.Suggestions[1].Removes) != 1 || d.Suggestions[1].Harms[0].Kernel != "same" {
		t.Errorf("%v: %+v", err, d)
	}
	if _, _, stderr := runIn(dir, "diff", "--fail-on=lds", "--message=f", "old.co", "new.co"); stderr != "" {
		t.Error(stderr)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || len(content) > 0 {
		t.Errorf("message %q, %v", content, err)
	}
}

// standIn writes a compiler that copies new.co, or runs the patterns of a case statement of sh for
// its arguments.
func standIn(t *testing.T, dir, patterns string) string {
	t.Helper()
	compiler := filepath.Join(dir, "clang")
	write(t, compiler, []byte(`#!/bin/sh
file=new.co
case "$*" in
`+patterns+`
esac
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then out=$2; fi # as for clang, the last one counts
  shift
done
cp "`+dir+`/$file" "$out"
`))
	if err := os.Chmod(compiler, 0o755); err != nil {
		t.Fatal(err)
	}
	return compiler
}

// A call that is cancelled while --suggest compiles does not warn about each of the other flags.
func TestDiffSuggestCancelled(t *testing.T) {
	dir := builds(t)
	compiler := standIn(t, dir, `*-fno-offload-lto*) : >"`+dir+`/started"; exec sleep 60 ;;`)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
				cancel(errors.New("the client left"))
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	var out, errs bytes.Buffer
	code := Run(ctx, &command.Call{
		Name: "offload", Args: []string{"diff", "--suggest", "--fail-on=scratch", "old.co", "new.co", "--", compiler, "-c", "a.hip", "-o", "out.o"},
		Stdout: &out, Stderr: &errs, Session: engine.New(engine.Config{Dir: dir, Stdout: &out, Budget: budget.New(1, 64<<20)}),
	})
	if code == 0 || out.Len() > 0 || !strings.Contains(errs.String(), "the client left") || strings.Contains(errs.String(), "warning") {
		t.Errorf("exit code %d, %q, %q, want only the cause", code, out.String(), errs.String())
	}
	cancel(nil)
}

// --suggest with several commands judges each flag by the kernels of all of them.
func TestDiffSuggestCommands(t *testing.T) {
	dir := builds(t)
	// The command of another source has a kernel that -O2 makes worse: the build of both is the new one.
	compiler := standIn(t, dir, `*other.hip*-O2*) file=worse.co ;;
*other.hip*) file=other.co ;;
*a.hip*-O2*|*a.hip*-fno-unroll-loops*) file=less.co ;;
*host.cc*) exit 1 ;;`)
	for name, scratch := range map[string]int{"other.co": 0, "worse.co": 8} {
		write(t, filepath.Join(dir, name), testelf.CodeObject{ABI: 4, Flags: gfx90a, Kernels: []testelf.Kernel{device("other", 4, scratch)}}.Build())
	}
	alone := []string{compiler, "-c", "a.hip", "-o", "a.o"}
	database := []map[string]any{
		{"directory": dir, "file": "a.hip", "arguments": alone},
		{"directory": dir, "file": "other.hip", "command": "'" + compiler + "' -x hip -c other.hip -o other.o"},
		{"directory": dir, "file": "host.cc", "command": compiler + " -c host.cc -o host.o"},
	}
	text, err := json.Marshal(database)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "compile_commands.json"), text)
	limits := []string{"diff", "--suggest", "--fail-on=scratch", "--old=old.co", "--old=other.co", "--new=new.co", "--new=other.co"}
	for _, test := range []struct {
		args             []string
		removes, warning string
	}{
		{slices.Concat(limits, []string{"--"}, alone), "O2 (-O2), no-unroll (-fno-unroll-loops)", "offload diff: warning: the commands do not build 1 of 4 kernels: effects of the flags on these are not known\n"},
		{slices.Concat(limits, []string{"--"}, alone, []string{";", compiler, "-c", "other.hip", "-o", "other.o"}), "no-unroll (-fno-unroll-loops)", ""},
		{slices.Concat(limits, []string{"--compile-commands=compile_commands.json"}), "no-unroll (-fno-unroll-loops)", ""},
	} {
		code, stdout, stderr := runIn(dir, test.args...)
		if code != 1 || !slices.ContainsFunc(strings.Split(stdout, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "scratch  gfx90a  "+test.removes+" ")
		}) || !strings.HasPrefix(stderr, test.warning) || test.warning == "" && strings.Contains(stderr, "warning") {
			t.Errorf("%q: exit code %d, expected %s\n%s%s", test.args, code, test.removes, stdout, stderr)
		}
	}
	// Without registers, as in bitcode, a kernel does not exceed a limit: nothing is known of flags.
	compiler = standIn(t, dir, `*) file=unknown.co ;;`)
	write(t, filepath.Join(dir, "unknown.co"), testelf.CodeObject{ABI: 4, Flags: gfx90a, Kernels: []testelf.Kernel{{Name: "_Z1bPf"}}}.Build())
	if code, _, stderr := runIn(dir, append(limits, "--", compiler, "-c", "a.hip", "-o", "a.o")...); code != 1 || !strings.Contains(stderr, "no command builds a kernel that exceeds a limit") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// --suggest runs the command with each of the flags.
func TestDiffSuggest(t *testing.T) {
	dir := builds(t)
	compiler := standIn(t, dir, `*-O2*-o*|*-o*-O2*) file=less.co ;;
*-fno-unroll-loops*) file=harms.co ;;
*-inline-threshold*) echo "noise"; echo "a.hip:1: error: no such flag"; exit 1 ;;`)
	code, stdout, stderr := runIn(dir, "diff", "--suggest", "--fail-on=scratch", "old.co", "new.co", "--", compiler, "-c", "a.hip", "-o", "out.o")
	for _, line := range []string{
		"O2                      1 of 1   0      -O2\n", "no-unroll               1 of 1   1      -fno-unroll-loops\n", "no-lto                  0 of 1   0      ",
		"scratch  gfx90a  O2 (-O2)                 b(float*)\n",
	} {
		if !strings.Contains(stdout, line) {
			t.Errorf("%q is missing in:\n%s", line, stdout)
		}
	}
	if code != 1 || !strings.Contains(stderr, "offload diff: warning: inline-less: "+compiler+": exit status 1: a.hip:1: error: no such flag\n") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(dir, "out.o")); err == nil {
		t.Error("the command wrote its own output")
	}
	code, _, stderr = runIn(dir, "diff", "--suggest", "--fail-on=scratch", "old.co", "new.co", "--", "/bin/sh", "-c", "exit 3", "-o", "x")
	if code != 1 || !strings.HasPrefix(stderr, "offload: /bin/sh: exit status 3") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
