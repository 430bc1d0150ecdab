// Package linkerwrapper compares clang-linker-wrapper with LLVM 22's: the output of dry runs,
// the linked files, and the behavior of programs.
package linkerwrapper

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
	"github.com/rules-offload/rules_offload/tests/internal/programs"
)

const (
	host      = "x86_64-pc-linux-gnu"
	amd       = "amdgcn-amd-amdhsa"
	libraries = "/usr/lib/llvm-22/lib"
)

func TestMain(m *testing.M) { llvm.Main(m, "gcc", "strace", libraries+"/libomptarget.so") }

// fixture is a directory of inputs for links, made once and copied for each test.
var fixture struct {
	once sync.Once
	dir  string
	err  error
}

// recipe makes the inputs.
var recipe = []string{
	"clang -O2 -fPIC -fopenmp -fopenmp-targets=" + host + " -c saxpy.c -o saxpy.o",
	"clang -O2 -fPIC -fopenmp -fopenmp-targets=" + host + " -c library.c -o library.o",
	"clang -O2 -fPIC -fopenmp -fopenmp-targets=" + host + " -c regions.c -o regions.o",
	"clang -O2 -flto -fopenmp -fopenmp-targets=" + host + " -c saxpy.c -o saxpy-lto.o",
	"clang -nogpulib -nogpuinc -O2 -cuid=f -x hip --offload-device-only -fgpu-rdc --offload-arch=gfx90a -c kernels.hip -o gfx90a.bc",
	"clang -nogpulib -nogpuinc -O2 -cuid=f -x hip --offload-device-only -fgpu-rdc --offload-arch=gfx1030 -c kernels.hip -o gfx1030.bc",
	"llvm-offload-binary -o k.pk --image=file=gfx90a.bc,triple=" + amd + ",arch=gfx90a,kind=hip --image=file=gfx1030.bc,triple=" + amd + ",arch=gfx1030,kind=hip",
	"clang -nogpulib -nogpuinc -O2 -cuid=f -x hip --offload-host-only --offload-new-driver -fgpu-rdc -Xclang -fembed-offload-object=k.pk -c kernels.hip -o kernels.o",
	"clang -c hiprt.c -o hiprt.o",
	"clang -c empty.c -o plain.o",
	"clang --target=x86_64-pc-windows-msvc -c empty.c -Xclang -fembed-offload-object=k.pk -o coff.obj",
	"llvm-offload-binary -o none.pk --image=file=saxpy.o,triple=" + host + ",arch=generic",
	"llvm-offload-binary -o cuda.pk --image=file=plain.o,triple=nvptx64-nvidia-cuda,arch=sm_70,kind=cuda --image=file=plain.o,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda",
	"llvm-offload-binary -o both.pk --image=file=gfx90a.bc,triple=" + amd + ",arch=gfx90a,kind=openmp",
	"clang --target=" + amd + " -mcpu=gfx90a -nogpulib -c empty.c -o empty90a.o",
	"llvm-offload-binary -o more.pk --image=file=empty90a.o,triple=" + amd + ",arch=gfx90a,kind=hip",
	"clang -c empty.c -Xclang -fembed-offload-object=more.pk -o more.o",
	"llvm-offload-binary -o sycl.pk --image=file=plain.o,triple=spirv64-unknown-unknown,kind=sycl",
	"llvm-offload-binary -o sycl-omp.pk --image=file=plain.o,triple=spirv64-unknown-unknown,kind=openmp",
	"llvm-offload-binary -o riscv.pk --image=file=plain.o,triple=riscv64-unknown-linux,kind=openmp",
	"llvm-offload-binary -o slash.pk --image=file=gfx90a.bc,triple=" + amd + ",arch=a/b,kind=hip",
	"llvm-offload-binary -o xnack.pk --image=file=gfx90a.bc,triple=" + amd + ",arch=gfx90a:xnack+,kind=hip",
	"llvm-ar rcs libsaxpy.a saxpy.o plain.o",
	"llvm-ar rcsT liblibrary.a library.o",
	"llvm-ar rcs libkernels.a kernels.o",
	"clang -shared -fPIC library.c -fopenmp -o libshared.so -L" + libraries,
}

// bench is a directory with the inputs in which commands are run.
type bench struct {
	testing.TB
	dir  string
	ours string // clang-linker-wrapper
	env  []string
}

func newBench(t testing.TB) *bench {
	t.Helper()
	fixture.once.Do(func() { fixture.dir, fixture.err = makeFixture() })
	if fixture.err != nil {
		t.Fatal(fixture.err)
	}
	b := &bench{TB: t, dir: t.TempDir(), ours: llvm.DropIn(t, "clang-linker-wrapper")}
	if err := os.CopyFS(b.dir, os.DirFS(fixture.dir)); err != nil {
		t.Fatal(err)
	}
	b.env = append(os.Environ(), "TMPDIR="+b.mkdir("tmp"), "PATH="+llvm.Dir+":"+os.Getenv("PATH"))
	return b
}

func makeFixture() (dir string, err error) {
	if dir, err = llvm.Scratch(); err != nil {
		return "", err
	}
	if err := os.CopyFS(dir, programs.Sources()); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "empty.c"), nil, 0o666); err != nil {
		return "", err
	}
	for _, line := range recipe {
		args := strings.Fields(line)
		cmd := exec.Command(filepath.Join(llvm.Dir, args[0]), args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", errors.New(line + ": " + err.Error() + "\n" + string(out))
		}
	}
	// Libraries with names for Windows linkers.
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
		return "", err
	}
	for _, name := range []string{"sub.lib", "libsub.dll.a"} {
		if err := os.Link(filepath.Join(dir, "libsaxpy.a"), filepath.Join(dir, "sub", name)); err != nil {
			return "", err
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "k.pk"))
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "cut.pk"), data[:100], 0o666)
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }

func (b *bench) mkdir(name string) string {
	b.Helper()
	if err := os.MkdirAll(b.path(name), 0o777); err != nil {
		b.Fatal(err)
	}
	return b.path(name)
}

func (b *bench) read(name string) []byte {
	b.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		b.Fatal(err)
	}
	return data
}

func (b *bench) write(name, text string) {
	b.Helper()
	if err := os.WriteFile(b.path(name), []byte(text), 0o777); err != nil {
		b.Fatal(err)
	}
}

// result is the result of a call.
type result struct {
	Code           int
	Stdout, Stderr string
}

// call runs a program.
func (b *bench) call(program string, args ...string) result {
	b.Helper()
	cmd := exec.Command(program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = b.dir, b.env, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			b.Fatal(err)
		}
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// run runs a program that must succeed, and returns its output.
func (b *bench) run(program string, args ...string) string {
	b.Helper()
	r := b.call(program, args...)
	if r.Code != 0 {
		b.Fatalf("%s %s: exit %d\n%s%s", filepath.Base(program), strings.Join(args, " "), r.Code, r.Stdout, r.Stderr)
	}
	return r.Stdout + r.Stderr
}

func (b *bench) clang(args ...string) string {
	b.Helper()
	return b.run(llvm.Tool(b, "clang"), args...)
}

// by returns an argument that makes clang use a wrapper: ours or LLVM's.
func (b *bench) by(ours bool) string {
	if ours {
		return "-B" + filepath.Dir(b.ours)
	}
	return "-B" + llvm.Dir
}

// tidy fails if our wrapper left a file in the directory for temporary files.
func (b *bench) tidy() {
	b.Helper()
	left, err := os.ReadDir(b.path("tmp"))
	if err != nil {
		b.Fatal(err)
	}
	for _, entry := range left {
		if strings.HasPrefix(entry.Name(), "offload") { // others are LLVM's
			b.Errorf("%s is left in TMPDIR", entry.Name())
		}
	}
}

var (
	temporary = regexp.MustCompile(`/[^ =]*/tmp/(offload-[a-z]+-?[a-z0-9]*/)?`)
	suffixes  = regexp.MustCompile(`llvm_offload_entries_[0-9a-f]+`)
	random    = regexp.MustCompile(`-[0-9a-f]{6}\.`)
)

// normal removes the parts of a text that differ between calls.
func (b *bench) normal(text, program string) string {
	text = strings.ReplaceAll(text, program, "WRAPPER")
	text = temporary.ReplaceAllString(text, "TMP/")
	return random.ReplaceAllString(text, ".")
}
