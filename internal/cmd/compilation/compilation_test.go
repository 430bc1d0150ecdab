package compilation

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/elf"
)

// A test binary with this variable runs the command line after its own name.
const asProgram = "COMPILATION_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	os.Unsetenv(asProgram)
	err := Run(Options{Headers: "headers", Unused: "unused", Command: os.Args[1:]})
	var exit *ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.Code)
	case err != nil:
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}

// program returns a command that calls Run in dir for a script, which gets the
// dependency file in $depfile.
func program(t *testing.T, dir, script string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "/bin/sh", "-c", "depfile=$4\n"+script, "name")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUnused(t *testing.T) {
	files := map[string]string{
		"a.hip": "kernel", "a.h": "", "b.h": "", "dir/c.h": "", "dir/below/d.hpp": "", "external/+_repo+x/e.inc": "",
		"sp ace/do$l#r.h": "", "asm.h": `asm(".incbin \"b.h\"");`, "include.h": `asm(".include \"b.h\"");`, "module.modulemap": "", "version": "", "data.bin": "",
		"full.cc": "text", "full_asm.cc": `asm(".incbin \"b.h\"");`, "plain.rsp": "-O2\n'-DA=a b'\n", "modules.rsp": "-O2\n'-fmodule-map-file=module.modulemap'\n",
		"nested.rsp": "@plain.rsp\n",
	}
	all := []string{"a.h", "b.h", "dir/c.h", "dir/below/d.hpp", "external/+_repo+x/e.inc", "sp ace/do$l#r.h"}
	for _, test := range []struct {
		name    string
		headers []string
		depfile string
		opt     Options
		want    []string
	}{
		{"none read", all, "x: a.hip\n", Options{}, all},
		{"all read", all, "x: a.hip a.h b.h dir/c.h dir/below/d.hpp external/+_repo+x/e.inc sp\\ ace/do$$l\\#r.h\n", Options{}, nil},
		{"some read", all, "x: a.hip \\\n  a.h ./dir//c.h \\\n  /usr\n", Options{}, nil}, // a directory
		{"other names", all, "x: a.hip dir/../a.h ./dir//c.h dir/below/../below/d.hpp\n", Options{}, []string{"b.h", "external/+_repo+x/e.inc", "sp ace/do$l#r.h"}},
		{"through a link to a directory", all, "x: a.hip link/../c.h\n", Options{}, []string{"a.h", "b.h", "dir/below/d.hpp", "external/+_repo+x/e.inc", "sp ace/do$l#r.h"}},
		{"links to one file", []string{"a.h", "link.h", "b.h"}, "x: a.hip link.h\n", Options{}, []string{"b.h"}},
		{"absolute", all, "x: a.hip PWD/a.h\n", Options{}, all[1:]},
		{"several rules", all, "o x: a.hip a.h\na.h:\nb.h:\n", Options{}, all[1:]},
		{"file that is missing", all, "x: a.hip a.h other/b.h\n", Options{}, nil},
		{"no dependency file", all, "", Options{}, nil},
		{"broken dependency file", all, "a.hip\n", Options{}, nil},
		{"nothing read", all, "x:\n", Options{}, nil},
		{"other files", []string{"module.modulemap", "version", "data.bin", "headers.h", "missing.h", "a.h"}, "x: a.hip\n", Options{}, []string{"a.h"}},
		{"inline assembly", all, "x: a.hip asm.h\n", Options{}, nil},
		{"inline assembly that includes", all, "x: a.hip include.h\n", Options{}, nil},
		{"inline assembly, by an absolute path", all, "x: a.hip PWD/asm.h\n", Options{}, nil},
		{"inline assembly that is not read", []string{"a.h", "asm.h"}, "x: a.hip\n", Options{}, []string{"a.h", "asm.h"}},
		{"standard input", all, "x: a.h\n", Options{Command: []string{"clang", "-"}, Stdin: "full.cc"}, all[1:]},
		{"standard input alone", all, "x:\n", Options{Command: []string{"clang", "-"}, Stdin: "full.cc"}, all},
		{"standard input by name", all, "x: <stdin> a.h\n", Options{Command: []string{"clang", "-"}, Stdin: "full.cc"}, all[1:]},
		{"standard input with assembly", all, "x: a.h\n", Options{Command: []string{"clang", "-"}, Stdin: "full_asm.cc"}, nil},
		{"unknown standard input", all, "x: a.h\n", Options{Command: []string{"clang", "-"}}, nil},
		{"flags", all, "x: a.hip\n", Options{Command: []string{"clang", "-O2", "-MMD", "-I", "dir", "@plain.rsp"}}, all},
		{"modules", all, "x: a.hip\n", Options{Command: []string{"clang", "-fmodules"}}, nil},
		{"overlay", all, "x: a.hip\n", Options{Command: []string{"clang", "-Xclang", "-ivfsoverlay", "-Xclang", "x.yaml"}}, nil},
		{"precompiled header", all, "x: a.hip\n", Options{Command: []string{"clang", "--include-pch=x"}}, nil},
		{"working directory", all, "x: a.hip\n", Options{Command: []string{"clang", "-working-directory=dir"}}, nil},
		{"flag in a response file", all, "x: a.hip\n", Options{Command: []string{"clang", "@modules.rsp"}}, nil},
		{"response file in a response file", all, "x: a.hip\n", Options{Command: []string{"clang", "@nested.rsp"}}, nil},
		{"missing response file", all, "x: a.hip\n", Options{Command: []string{"clang", "@missing.rsp"}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			write(t, ".", files)
			for link, target := range map[string]string{"link": "dir/below", "link.h": "a.h"} {
				if err := os.Symlink(target, link); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir("headers.h", 0o755); err != nil {
				t.Fatal(err)
			}
			if test.depfile != "" {
				write(t, ".", map[string]string{"x.d": strings.ReplaceAll(test.depfile, "PWD", dir)})
			}
			if test.opt.Command == nil {
				test.opt.Command = []string{"clang"}
			}
			if diff := cmp.Diff(test.want, unused(test.headers, "x.d", test.opt)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"headers": "a.h\nb.h\n", "a.h": "", "b.h": "", "unused.d": "x: a.h b.h\n"})
	for _, test := range []struct {
		name, script   string
		code           int
		stdout, stderr string
		unused         string // "-" for no file
	}{
		{"success", `echo out; echo err >&2; printf 'x: a.h\n' > "$depfile"`, 0, "out\n", "err\n", "b.h\n"},
		{"no dependency file", "", 0, "", "", ""},
		{"standard input", "cat", 0, "input", "", ""},
		{"failure", `printf 'x: a.h\n' > "$depfile"; echo error >&2; exit 7`, 7, "", "error\n", "-"},
		{"segmentation fault", "kill -SEGV $$", 139, "", "", "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			os.Remove(filepath.Join(dir, "unused"))
			cmd := program(t, dir, test.script)
			var stdout, stderr strings.Builder
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("input"), &stdout, &stderr
			err := cmd.Run()
			if code := cmd.ProcessState.ExitCode(); code != test.code || stdout.String() != test.stdout || stderr.String() != test.stderr {
				t.Errorf("exit code %d, %v, %q, %q", code, err, stdout.String(), stderr.String())
			}
			got, err := os.ReadFile(filepath.Join(dir, "unused"))
			if test.unused == "-" && err == nil || test.unused != "-" && (err != nil || string(got) != test.unused) {
				t.Errorf("listed %q, want %q: %v", got, test.unused, err)
			}
			// A file of the user, or of a killed process, stays and is not read.
			if got, err := os.ReadFile(filepath.Join(dir, "unused.d")); err != nil || string(got) != "x: a.h b.h\n" {
				t.Errorf("the other file: %q, %v", got, err)
			}
			if _, err := os.Stat(filepath.Join(dir, "unused.d.1")); err == nil {
				t.Error("the dependency file is left")
			}
		})
	}
}

func TestCompilerThatCannotStart(t *testing.T) {
	for name, want := range map[string]string{
		"./missing":   "./missing: cannot start the compiler: no such file or directory",
		"no-compiler": `no-compiler: cannot start the compiler: exec: "no-compiler": executable file not found in $PATH`,
	} {
		err := Run(Options{Headers: "headers", Unused: filepath.Join(t.TempDir(), "unused"), Command: []string{name}})
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// As in an image of a remote machine that does not have the loader of the compiler.
func TestMissingInterpreter(t *testing.T) {
	program := make([]byte, elf.HeaderSize+elf.SegmentSize)
	copy(program, elf.Magic+"\x02\x01\x01")
	le := binary.LittleEndian
	le.PutUint16(program[16:], 2)  // ET_EXEC
	le.PutUint16(program[18:], 62) // EM_X86_64
	le.PutUint32(program[20:], 1)
	le.PutUint64(program[32:], elf.HeaderSize)
	le.PutUint16(program[52:], elf.HeaderSize)
	le.PutUint16(program[54:], elf.SegmentSize)
	le.PutUint16(program[56:], 1)
	segment := program[elf.HeaderSize:]
	le.PutUint32(segment, elf.PtInterp)
	le.PutUint64(segment[8:], uint64(len(program)))
	le.PutUint64(segment[32:], uint64(len("/no/ld.so\x00")))
	program = append(program, "/no/ld.so\x00"...)
	for name, content := range map[string][]byte{"/no/ld.so": program, "/no/sh": []byte("#!/no/sh -e\n")} {
		clang := filepath.Join(t.TempDir(), "clang")
		if err := os.WriteFile(clang, content, 0o777); err != nil {
			t.Fatal(err)
		}
		err := Run(Options{Headers: "headers", Unused: filepath.Join(t.TempDir(), "unused"), Command: []string{clang}})
		want := clang + ": cannot start the compiler: no such file or directory: the file exists, but its interpreter " + name + " does not: run the action in an image that has it"
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Without PATH, as in a strict environment of Bazel, the shell is found all the same.
func TestNoPath(t *testing.T) {
	path := os.Getenv("PATH")
	os.Unsetenv("PATH")
	t.Cleanup(func() { os.Setenv("PATH", path) })
	if got := find("sh"); !filepath.IsAbs(got) {
		t.Errorf("found %q", got)
	}
	if got := find("./sh"); got != "./sh" {
		t.Errorf("found %q", got)
	}
}

// wait waits for a file.
func wait(t *testing.T, name string) {
	t.Helper()
	for range 6000 {
		if _, err := os.Stat(name); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s does not appear", name)
}

// A signal goes to the compiler, which can handle it; one that ends the compiler ends the caller.
func TestSignals(t *testing.T) {
	t.Run("handled", func(t *testing.T) {
		dir := t.TempDir()
		cmd := program(t, dir, `trap 'echo caught; exit 3' TERM; : > ready; while :; do sleep 0.1; done`)
		var stdout strings.Builder
		cmd.Stdout = &stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait(t, filepath.Join(dir, "ready"))
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 3 || stdout.String() != "caught\n" {
			t.Errorf("exit code %d, %q", code, stdout.String())
		}
	})
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(s.String(), func(t *testing.T) {
			dir := t.TempDir()
			cmd := program(t, dir, `: > ready; exec sleep 1000`)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			wait(t, filepath.Join(dir, "ready"))
			cmd.Process.Signal(s)
			cmd.Wait()
			if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != s {
				t.Errorf("ended with %v, want %v", cmd.ProcessState, s)
			}
		})
	}
}

// TestMissing checks the message about a file that exists beside the source, but not where clang runs.
func TestMissing(t *testing.T) {
	workspace, sandbox := t.TempDir(), t.TempDir()
	write(t, workspace, map[string]string{"src/a.hip": "", "src/kernels.cu": "", "lib/x.h": ""})
	write(t, sandbox, map[string]string{"headers": "", "src/other.h": ""})
	if err := os.Symlink(filepath.Join(workspace, "src", "a.hip"), filepath.Join(sandbox, "src", "a.hip")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"kernels.cu": "kernels.cu", "../lib/x.h": "../lib/x.h", "nowhere.h": ""} {
		cmd := program(t, sandbox, "echo \"src/a.hip:3:10: fatal error: '"+name+"' file not found\" >&2; exit 1")
		output, err := cmd.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(output), "src/a.hip:3:10: fatal error") {
			t.Errorf("%s: %v\n%s", name, err, output)
		}
		message := "src/a.hip:3: " + want + " exists, but is not an input of the compilation: add it to hdrs of the target, or to textual_hdrs if it is not a header"
		if strings.Contains(string(output), message) != (want != "") {
			t.Errorf("%s: the message is %q", name, output)
		}
	}
	output, _ := program(t, sandbox, "echo \"src/a.hip:3:10: fatal error: 'omp.h' file not found\" >&2; exit 1").CombinedOutput()
	if want := "src/a.hip:3: omp.h belongs to libomp, clang's OpenMP runtime, which this compiler does not have: install it"; !strings.Contains(string(output), want) {
		t.Errorf("omp.h: %q does not contain %q", output, want)
	}
}
