// Package flows runs complete offloading flows, from sources to a running program, with this
// project's program instead of LLVM's tools.
package flows

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/programs"
)

const (
	// host is the triple of the programs, and of the OpenMP device: libomptarget
	// has a plugin that runs images on the CPU.
	host = "x86_64-pc-linux-gnu"
	// amd is the triple of AMD's GPUs.
	amd = "amdgcn-amd-amdhsa"
	// libraries is the directory of libomptarget and libomp.
	libraries = "/usr/lib/llvm-22/lib"
)

func TestMain(m *testing.M) { llvm.Main(m, "gcc", libraries+"/libomptarget.so") }

// flow is a directory with the sources in which commands are run.
type flow struct {
	testing.TB
	dir string
	env []string
}

func newFlow(t testing.TB) *flow {
	t.Helper()
	f := &flow{TB: t, dir: t.TempDir()}
	if err := os.CopyFS(f.dir, programs.Sources()); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *flow) path(name string) string { return filepath.Join(f.dir, name) }

func (f *flow) write(name string, data []byte) {
	f.Helper()
	if err := os.WriteFile(f.path(name), data, 0o644); err != nil {
		f.Fatal(err)
	}
}

func (f *flow) read(name string) []byte {
	f.Helper()
	data, err := os.ReadFile(f.path(name))
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// run runs a command and returns its output.
func (f *flow) run(program string, args ...string) string {
	f.Helper()
	return f.pipe(nil, program, args...)
}

// pipe runs a command with standard input.
func (f *flow) pipe(stdin []byte, program string, args ...string) string {
	f.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), f.env...)
	cmd.Stdin = bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// fails runs a command that must fail and returns its output.
func (f *flow) fails(program string, args ...string) string {
	f.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = f.dir
	out, err := cmd.CombinedOutput()
	if err == nil {
		f.Fatalf("%s %s: succeeded\n%s", filepath.Base(program), strings.Join(args, " "), out)
	}
	return string(out)
}

// tool returns the path of a program of LLVM.
func (f *flow) tool(name string, args ...string) string {
	f.Helper()
	return f.run(f.toolPath(name), args...)
}

func (f *flow) toolPath(name string) string {
	f.Helper()
	return llvm.Tool(f, name)
}

func (f *flow) clang(args ...string) string {
	f.Helper()
	return f.tool("clang", args...)
}

func (f *flow) gcc(args ...string) string {
	f.Helper()
	return f.run("gcc", args...)
}

// offload runs this project's program.
func (f *flow) offload(args ...string) string {
	f.Helper()
	return f.run(llvm.Offload(f), args...)
}

// offloaded runs a program of the flow on a device or on the host.
func (f *flow) offloaded(name string) string {
	f.Helper()
	f.env = append(f.env, "OMP_TARGET_OFFLOAD=MANDATORY")
	return f.run(f.path(name))
}

// runtime returns the arguments that link OpenMP's host and offloading runtimes.
var runtime = []string{"-L" + libraries, "-lomptarget", "-lomp", "-Wl,-rpath," + libraries}

// linker returns the arguments that make gcc or clang use a linker.
func linker(name string) []string {
	if name == "lld" {
		return []string{"-fuse-ld=lld", "-B" + llvm.Dir}
	}
	return []string{"-fuse-ld=" + name}
}

// deviceRuntime returns arguments of offload link for images that run on the CPU.
var deviceRuntime = []string{"--device-arg=" + host + "=-L" + libraries, "--device-arg=" + host + "=-lomp", "--device-arg=" + host + "=-lomptarget"}

// link runs offload link.
func (f *flow) link(args ...string) string {
	f.Helper()
	return f.offload(append([]string{"link", "--triple=" + host, "--clang=" + llvm.Tool(f, "clang")}, args...)...)
}

// same fails unless two files have equal content.
func (f *flow) same(a, b string) {
	f.Helper()
	if !bytes.Equal(f.read(a), f.read(b)) {
		f.Errorf("%s and %s differ", a, b)
	}
}

func clangPath(t testing.TB) string   { return llvm.Tool(t, "clang") }
func offloadPath(t testing.TB) string { return llvm.Offload(t) }
