package bundler_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const hostSource = `
int table[100] = {1, 2, 3};
int common;
extern int elsewhere(int);
static int helper(int i) { return table[i % 100] + elsewhere(i); }
__attribute__((weak)) int weak_one(int i) { return helper(i) * 3; }
const char *text(void) { return "some text"; }
int run(int i) { return weak_one(i) + common; }
`

const deviceSource = `__attribute__((amdgpu_kernel)) void kernel(int *p) { *p = 42; }
int shared_value = 7;
`

// hosts are host objects for bundles, by file name.
var hosts = map[string][]string{
	"host.o":         {"--target=x86_64-unknown-linux-gnu", "-c"},
	"host-O2.o":      {"--target=x86_64-unknown-linux-gnu", "-O2", "-ffunction-sections", "-c"},
	"host-g.o":       {"--target=x86_64-unknown-linux-gnu", "-g", "-c"},
	"host32.o":       {"--target=i386-unknown-linux-gnu", "-c"},
	"host-aarch64.o": {"--target=aarch64-unknown-linux-gnu", "-c"},
	"host-ppc.o":     {"--target=powerpc-unknown-linux-gnu", "-c"},
	"host-ppc64.o":   {"--target=powerpc64-unknown-linux-gnu", "-c"},
	"host-riscv.o":   {"--target=riscv64-unknown-linux-gnu", "-g", "-c"},
	"host.obj":       {"--target=x86_64-pc-windows-msvc", "-c"},
	"host32.obj":     {"--target=i686-pc-windows-msvc", "-c"},
	"host.bc":        {"--target=x86_64-unknown-linux-gnu", "-c", "-emit-llvm"},
	"host.ll":        {"--target=x86_64-unknown-linux-gnu", "-S", "-emit-llvm"},
	"host.s":         {"--target=x86_64-unknown-linux-gnu", "-S"},
	"host.i":         {"--target=x86_64-unknown-linux-gnu", "-E"},
	"host.ast":       {"--target=x86_64-unknown-linux-gnu", "-emit-ast"},
}

// makeInputs writes the inputs of the calls to dir.
func makeInputs(dir, bin string) error {
	small := map[string]string{
		"one":   "Content of device file 1\n",
		"two":   "Content of device file 2\n",
		"three": "no line break at the end",
		"empty": "",
		"zero":  "\x00",
		"crlf":  "a line\r\nand another\r\n",
		"text":  "This is not an archive file.\n",
	}
	r := random(1)
	big := make([]byte, 200_000)
	for i := range big {
		big[i] = byte(r.IntN(7) * r.IntN(40))
	}
	small["big"] = string(big)
	for name, data := range small {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			return err
		}
	}
	sources := map[string]string{"host.c": hostSource, "device.c": deviceSource}
	for name, text := range sources {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for name, args := range hosts {
		if err := compile(dir, bin, append(args, "host.c", "-o", name)); err != nil {
			return err
		}
	}
	device := []string{"-x", "c", "--target=amdgcn-amd-amdhsa", "-nogpulib", "-O1"}
	for _, cpu := range []string{"gfx906", "gfx942"} {
		if err := compile(dir, bin, append(device, "-mcpu="+cpu, "-c", "device.c", "-o", cpu+".o")); err != nil {
			return err
		}
		if err := compile(dir, bin, append(device, "-mcpu="+cpu, "-emit-llvm", "-c", "device.c", "-o", cpu+".bc")); err != nil {
			return err
		}
	}
	return os.Chmod(filepath.Join(dir, "host-O2.o"), 0o755)
}

func compile(dir, bin string, args []string) error {
	cmd := exec.Command(filepath.Join(bin, "clang"), args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("clang %v: %w\n%s", args, err, out)
	}
	return nil
}

// llvmTool runs a program of LLVM in a directory.
func llvmTool(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
}
