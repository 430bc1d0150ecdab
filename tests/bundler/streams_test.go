package bundler_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// shell runs a command line of sh in a directory, in which PATH begins with bin.
func shell(t *testing.T, dir, bin, command string) (code int, stderr string) {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", command)
	cmd.Dir, cmd.Stderr = dir, &errs
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.Run()
	return cmd.ProcessState.ExitCode(), errs.String()
}

// programs returns a directory with the drop-ins, the program among them, and one with LLVM's tools.
func programs(t *testing.T) (ours, theirs string) {
	t.Helper()
	ours = t.TempDir()
	for _, name := range []string{"offload", tool, "llvm-offload-binary", "clang-linker-wrapper", "llvm-offload-wrapper", "roc-obj-ls"} {
		if err := os.Symlink(llvm.Offload(t), filepath.Join(ours, name)); err != nil {
			t.Fatal(err)
		}
	}
	return ours, llvm.Dir
}

// streamInputs writes a bundle, b, an offload binary, p, and an object, h.o.
func streamInputs(t *testing.T, bin string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	code, stderr := shell(t, dir, bin, "echo device >d && cp /bin/true h.o && "+
		"offload bundle --type bc --output b --entry host-x86_64-unknown-linux-gnu=d --entry gfx90a=d && offload pack --output p --image file=d,triple=amdgcn-amd-amdhsa")
	if code != 0 {
		t.Fatal(stderr)
	}
	return dir
}

// TestClosedOutput runs calls that print, without standard output. They fail, drop-ins in LLVM's words; calls that
// print nothing succeed.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	ours, theirs := programs(t)
	dir := streamInputs(t, ours)
	for _, args := range []string{
		tool + " -type=bc -list -input=b", tool + " --help", tool + " --version",
		tool + " -type=bc -unbundle -targets=hip-amdgcn-amd-amdhsa--gfx90a -input=b -output=-",
		tool + " -type=bc -targets=host-x86_64-unknown-linux-gnu,hip-amdgcn-amd-amdhsa--gfx90a -input=d -input=d -output=-",
		tool + " -type=bc -targets=host-x86_64-unknown-linux-gnu,hip-amdgcn-amd-amdhsa--gfx90a -input=d -input=d -output=new",
		"llvm-offload-binary --help", "llvm-offload-binary -o new --image=file=d,triple=amdgcn-amd-amdhsa",
		"clang-linker-wrapper --help", "clang-linker-wrapper --version", "llvm-offload-wrapper --help", "llvm-offload-wrapper --version",
	} {
		t.Run(args, func(t *testing.T) {
			want, wantText := shell(t, dir, theirs, "exec "+args+" >&-")
			code, text := shell(t, dir, ours, "exec "+args+" >&-")
			if code != want || text != wantText {
				t.Errorf("got exit code %d and %q, want %d and %q", code, text, want, wantText)
			}
		})
	}
	for _, args := range []string{
		"offload", "offload help list", "offload list --help", "offload --version", "offload completion bash", "offload list b", "offload list --json b",
		"offload inspect p", "offload inspect --json p", "offload inspect --kernels --json p", "offload extract p", "offload diff b p", "offload check --covers gfx90a --json b", "llvm-offload-binary p",
		"offload unbundle --type bc --input b --entry gfx90a=-", "offload bundle --output - --entry gfx90a=d", "offload pack --output - --image file=d,triple=amdgcn-amd-amdhsa",
		"offload report --json - b", "roc-obj-ls --help",
	} {
		t.Run(args, func(t *testing.T) {
			code, text := shell(t, dir, ours, "exec "+args+" >&-")
			if code != 1 || !strings.Contains(strings.ToLower(text), "bad file descriptor") {
				t.Errorf("got exit code %d and %q, want 1 and the reason", code, text)
			}
		})
	}
	for _, args := range []string{"offload bundle --output new --entry gfx90a=d", "offload unbundle --type bc --input b --entry gfx90a=new"} {
		if code, text := shell(t, dir, ours, "exec "+args+" >&-"); code != 0 {
			t.Errorf("%s prints nothing: got exit code %d and %q, want 0", args, code, text)
		}
	}
}

// TestAddressSpace runs a call with limits of address space: it succeeds, or says in one line how much it needs.
func TestAddressSpace(t *testing.T) {
	t.Parallel()
	ours, _ := programs(t)
	dir := streamInputs(t, ours)
	const least = 983040
	for _, limit := range []int{
		1000, 100_000, 400_000, 700_000, 900_000, least - 1, least, 1_000_000, 1_050_000, 1_100_000, 1_122_000, 1_150_000, 1_170_000, 1_200_000, 1_250_000,
		1_300_000, 1_350_000, 1_400_000, 1_441_000, 1_442_000, 1_500_000, 2_000_000,
	} {
		for _, args := range []string{tool + " -type=bc -list -input=b", "offload inspect p"} {
			code, text := shell(t, dir, ours, fmt.Sprintf("ulimit -v %d; exec %s >/dev/null", limit, args))
			switch {
			case limit >= least && (code != 0 || text != ""):
				t.Errorf("%d KiB: %s: got exit code %d and %q, want 0", limit, args, code, text)
			case limit >= 100_000 && limit < least && (code != 1 || strings.Count(text, "\n") != 1 || !strings.Contains(text, fmt.Sprint("expected at least ", least, " KiB"))):
				t.Errorf("%d KiB: %s: got exit code %d and %q, want 1 and how much it needs", limit, args, code, text)
			case strings.Contains(text, "goroutine"):
				t.Errorf("%d KiB: %s: got a stack trace: %q", limit, args, text)
			}
		}
	}
}

// TestMemoryInAddressSpace reads and writes large files with limits of address space. Calls succeed, or fail with one
// line.
func TestMemoryInAddressSpace(t *testing.T) {
	t.Parallel()
	ours, _ := programs(t)
	dir := streamInputs(t, ours)
	code, text := shell(t, dir, ours, "head -c 60000000 /dev/urandom >large && offload bundle --type bc --compress --output packed --entry host-x86_64-unknown-linux-gnu=d --entry gfx90a=large")
	if code != 0 {
		t.Fatal(text)
	}
	for _, limit := range []int{983_040, 1_000_000, 1_122_000, 1_300_000, 1_442_000, 1_600_000} {
		for _, args := range []string{
			tool + " -type=bc -list -input=packed", tool + " -type=bc -unbundle -targets=hip-amdgcn-amd-amdhsa--gfx90a -input=packed -output=out",
			tool + " -type=bc -compress -targets=host-x86_64-unknown-linux-gnu,hip-amdgcn-amd-amdhsa--gfx90a -input=d -input=large -output=out",
			tool + " -type=bc -targets=host-x86_64-unknown-linux-gnu,hip-amdgcn-amd-amdhsa--gfx90a -input=d -input=large -output=out",
		} {
			code, text := shell(t, dir, ours, fmt.Sprintf("ulimit -v %d; exec %s >/dev/null", limit, args))
			if code != 0 && (code != 1 || strings.Count(text, "\n") != 1) || code == 0 && text != "" {
				t.Errorf("%d KiB: %s: got exit code %d and %.300q, want 0, or 1 and one line", limit, args, code, text)
			}
		}
	}
}
