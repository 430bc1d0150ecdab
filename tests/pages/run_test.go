package pages

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// A step is a command of a page with its expected output, a block of commands, or a file.
type step struct {
	block   *block
	command string
	output  string // expected, of a command
	compare bool
	file    string // name of the file, or empty
}

// steps returns the commands and files of a block, in order.
func (b *block) steps() []step {
	switch {
	case b.excuse != "":
		return nil
	case b.file != "":
		return []step{{block: b, file: b.file}}
	case b.language == "sh":
		return []step{{block: b, command: b.text}}
	case b.language != "console":
		return nil
	}
	var all []step
	for _, line := range strings.SplitAfter(b.text, "\n") {
		last := len(all) - 1
		switch {
		case strings.HasPrefix(line, "$ "):
			all = append(all, step{block: b, command: line[2:], compare: true})
		case last >= 0 && strings.HasSuffix(all[last].command, "\\\n") && all[last].output == "":
			all[last].command += line
		case last >= 0:
			all[last].output += line
		}
	}
	return all
}

// figure matches a size, which another release of the compiler changes.
var figure = regexp.MustCompile(`\b\d{4,}\b|[+-]?\d+(?:\.\d+)? ?(?:[KMG]i)?B\b|\([+-][\d.]+%\)`)

// same reports whether the output of a command matches the page: "…" or "..." matches any text, and
// as a line any lines. Sizes can differ.
func same(shown, printed string) bool {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for _, line := range strings.Split(strings.TrimRight(shown, "\n"), "\n") {
		if line == "…" || line == "..." {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		line = regexp.QuoteMeta(strings.TrimRight(strings.Join(strings.Fields(figure.ReplaceAllString(line, "#")), " "), " "))
		pattern.WriteString(strings.ReplaceAll(strings.ReplaceAll(line, "…", ".*"), `\.\.\.`, ".*") + `\n`)
	}
	pattern.WriteString(`$`)
	var text strings.Builder
	for _, line := range strings.Split(strings.TrimRight(printed, "\n"), "\n") {
		text.WriteString(strings.Join(strings.Fields(figure.ReplaceAllString(line, "#")), " ") + "\n")
	}
	return regexp.MustCompile(pattern.String()).MatchString(text.String())
}

func TestSame(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		want           bool
	}{
		{"a\n", "a\n", true},
		{"a\n", "b\n", false},
		{"a\n", "a\nb\n", false},
		{"", "", true},
		{"…\nb\n", "a\na\nb\n", true},
		{"…\nb\n", "a\na\n", false},
		{"a … b (1)\n", "a 12 x b (1)\n", true},
		{"45168 -> 9.5 KiB\n", "45200 -> 9.7 KiB\n", true},
		{"vgprs 24\n", "vgprs 25\n", false},
	} {
		if got := same(c.shown, c.printed); got != c.want {
			t.Errorf("same(%q, %q) = %v, want %v", c.shown, c.printed, got, c.want)
		}
	}
}

const mark = "@@@ step"

// script returns a bash script of the steps that prints a mark after each.
func script(steps []step) string {
	var s strings.Builder
	s.WriteString("shopt -s expand_aliases\nexec 2>&1 </dev/null\n")
	for i, st := range steps {
		if st.file != "" {
			redirect, name := ">", st.file
			if rest, found := strings.CutPrefix(name, "+"); found {
				redirect, name = ">>", rest
			}
			fmt.Fprintf(&s, "mkdir -p \"$(dirname %s)\"\ncat %s %s <<'END OF FILE'\n%sEND OF FILE\n", name, redirect, name, st.block.text)
		} else if st.compare {
			s.WriteString(st.command)
		} else {
			fmt.Fprintf(&s, "set -e\n%sset +e\n", st.command)
		}
		fmt.Fprintf(&s, "echo; echo '%s' %d\n", mark, i)
	}
	return s.String()
}

// waiting matches what Bazel's client prints on a busy machine while the server starts.
var waiting = regexp.MustCompile(`(?m)^\.\.\. still trying to connect to local Bazel server .*\n`)

// play runs the steps in a directory and compares their output.
func play(t *testing.T, dir string, env []string, steps []step) {
	t.Helper()
	for _, st := range steps {
		if dangerous.MatchString(st.command) {
			t.Errorf("%s: %s: expected <!-- not run: REASON -->", st.block, st.command)
			return
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script(steps))
	cmd.Dir, cmd.Env = dir, env
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	rest := waiting.ReplaceAllString(out.String(), "")
	for i, st := range steps {
		printed, after, found := strings.Cut(rest, fmt.Sprintf("\n%s %d\n", mark, i))
		if !found {
			t.Errorf("%s: %s\nfailed: %v\n%s", st.block, strings.TrimSpace(st.command), err, rest)
			return
		}
		rest = after
		if st.compare && !same(st.output, printed) {
			t.Errorf("%s: $ %sshown:\n%s\nprinted:\n%s", st.block, st.command, st.output, printed)
		}
	}
}

// libraries compiles the libraries that the pages inspect: old/libmath.so, new/libmath.so, copies of the new one, and a wheel with it.
func libraries(t *testing.T, project, dir string) {
	t.Helper()
	compile := func(out string, flags ...string) {
		args := append([]string{
			"-x", "hip", "-nogpuinc", "-nogpulib", "--no-offload-new-driver", "-I" + filepath.Join(project, "examples/hip_kernels/runtime"),
			"--offload-arch=gfx90a", "--offload-arch=gfx1100", "-O3", "-fPIC", "-fuse-ld=lld", "-c", filepath.Join(project, "tests/pages/program/math.hip"), "-o", "math.o",
		}, flags...)
		for _, args := range [][]string{args, {"-shared", "math.o", "-o", out}} {
			cmd := exec.Command(llvm.Tool(t, "clang++"), args...)
			cmd.Dir = dir
			if printed, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%q: %v\n%s", args, err, printed)
			}
		}
	}
	for _, name := range []string{"old", "new", "lib"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	compile("old/libmath.so", "-DTILE=4")
	compile("new/libmath.so")
	content, err := os.ReadFile(filepath.Join(dir, "new/libmath.so"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"libmath.so", "lib/libmath.so"} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	wheel := fixture.Wheel(t, "math", "1.0", "py3-none-any", "", fixture.WheelFile{Name: "math/__init__.py"}, fixture.WheelFile{Name: "math/libmath.so", Text: string(content), Mode: 0o755})
	if err := os.WriteFile(filepath.Join(dir, "math-1.0-py3-none-any.whl"), wheel, 0o644); err != nil {
		t.Fatal(err)
	}
}

// objects compiles the code objects that the pages name: gfx….co.
func objects(t *testing.T, project, dir string) {
	t.Helper()
	for _, arch := range []string{"gfx1030", "gfx1100", "gfx1201", "gfx90a", "gfx942"} {
		cmd := exec.Command(llvm.Tool(t, "clang++"), "-x", "hip", "-nogpuinc", "-nogpulib", "-I"+filepath.Join(project, "examples/hip_kernels/runtime"),
			"--offload-device-only", "--no-gpu-bundle-output", "--offload-arch="+arch, filepath.Join(project, "tests/pages/program/math.hip"), "-o", arch+".co")
		cmd.Dir = dir
		if printed, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", arch, err, printed)
		}
	}
}

// hipRuntime compiles a stand-in for HIP's runtime, and returns the variables with which clang finds it instead of ROCm.
func hipRuntime(t *testing.T, project string) (env []string) {
	t.Helper()
	runtime, dir := filepath.Join(project, "examples/hip_kernels/runtime"), t.TempDir()
	cmd := exec.Command(llvm.Tool(t, "clang"), "-shared", "-fPIC", filepath.Join(runtime, "stand_in.c"), "-o", filepath.Join(dir, "libamdhip64.so"))
	if printed, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	return []string{"LIBRARY_PATH=" + dir, "LD_LIBRARY_PATH=" + dir, "CCC_OVERRIDE_OPTIONS=# +-nogpuinc +-nogpulib +-I" + runtime}
}

// environment returns variables with programs of a directory first on PATH, and an empty home
// directory, so that the commands of a page do not change the user's files. Go and bazelw keep
// their caches.
func environment(t *testing.T, bin string) []string {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"PATH", "HOME", "XDG_CACHE_HOME", "GOMODCACHE", "GOFLAGS"}, name)
	})
	modules, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return append(env, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "XDG_CACHE_HOME="+cache, "GOMODCACHE="+strings.TrimSpace(string(modules)), "GOFLAGS=-buildvcs=false")
}

// dangerous matches commands that no page may run.
var dangerous = regexp.MustCompile(`\brm -|apt-get|sudo|git push|curl|> ?[~/]`)

// needsBazel reports whether steps of a page run Bazel or are files of a workspace.
func needsBazel(p *page) bool {
	return slices.ContainsFunc(p.blocks, func(b *block) bool {
		if b.excuse != "" || signature(b) {
			return false
		}
		return b.language == "starlark" || b.language == "bazelrc" || strings.Contains(b.text, "bazel ") && (b.language == "console" || b.language == "sh")
	})
}

// TestCommands runs the commands of all pages without Bazel.
func TestCommands(t *testing.T) {
	project, all := read(t)
	bin := t.TempDir()
	if err := os.Symlink(llvm.Offload(t), filepath.Join(bin, "offload")); err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for _, p := range all {
		var steps []step
		for _, b := range p.blocks {
			for _, st := range b.steps() {
				if bazel := strings.Contains(st.command, "bazel"); !bazel && st.file == "" {
					steps = append(steps, st)
				}
			}
		}
		if len(steps) == 0 || strings.HasPrefix(p.path, "examples/") || p.path == "docs/tutorial.md" || needsBazel(p) && slices.ContainsFunc(p.blocks, func(b *block) bool { return strings.Contains(b.text, "bazel-bin") && b.excuse == "" }) {
			continue
		}
		ran[p.path] = len(steps)
		t.Run(p.path, func(t *testing.T) {
			dir := t.TempDir()
			if p.path == "README.md" {
				dir = copyOf(t, project)
			} else {
				libraries(t, project, dir)
				objects(t, project, dir)
			}
			env := environment(t, bin)
			if p.path == "docs/howto/edited_kernels.md" {
				env = append(env, hipRuntime(t, project)...)
			}
			play(t, dir, env, steps)
		})
	}
	t.Logf("%d pages: %v", len(ran), slices.Sorted(maps.Keys(ran)))
	if len(ran) < 4 {
		t.Errorf("commands of %v, expected more pages", ran)
	}
}

// copyOf returns a directory with links to the entries of another, in which commands can write.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(dir, e.Name()), filepath.Join(to, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// TestGo builds the Go programs of the pages.
func TestGo(t *testing.T) {
	project, all := read(t)
	programs := 0
	for _, p := range all {
		for _, b := range p.blocks {
			if b.language != "go" || b.excuse != "" {
				continue
			}
			programs++
			t.Run(b.String(), func(t *testing.T) {
				dir := t.TempDir()
				source := filepath.Join(dir, "main.go")
				if err := os.WriteFile(source, []byte(b.text), 0o666); err != nil {
					t.Fatal(err)
				}
				// Files named on the command line are built in the module of the directory.
				cmd := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "program"), source)
				cmd.Dir = project
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v:\n%s", err, out)
				}
			})
		}
	}
	if programs == 0 {
		t.Error("no Go program in the pages")
	}
}
