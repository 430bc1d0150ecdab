package linkerwrapper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// fake replaces the clang for device links with a shell script, which gets the output in $out and
// the processor in $arch.
func (b *bench) fake(script string) {
	b.Helper()
	b.ours = filepath.Join(b.mkdir("bin"), "clang-linker-wrapper")
	os.Remove(b.ours)
	if err := os.Symlink(llvm.Offload(b), b.ours); err != nil {
		b.Fatal(err)
	}
	b.write("bin/clang", `#!/bin/sh
case "$*" in *-###*|--version) exec `+llvm.Dir+`/clang "$@";; esac
for word; do
  case $previous in -o) out=$word;; esac
  case $word in -mcpu=*) arch=${word#-mcpu=};; esac
  previous=$word
done
`+script+"\n")
}

func (b *bench) link(args ...string) result {
	b.Helper()
	return b.call(b.ours, append([]string{"--host-triple=" + host, "--linker-path=/usr/bin/ld"}, args...)...)
}

// TestFailures checks exit codes and messages, and that no file remains.
func TestFailures(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct{ name, clang, args, want string }{
		{"a device link fails", "echo broken >&2; exit 3", "saxpy.o -o out", "broken\nWRAPPER: error: 'clang' failed\n"},
		{"a device link makes nothing", "exit 0", "saxpy.o -o out", "WRAPPER: error: 'clang' failed: the device link for x86_64-pc-linux-gnu succeeded but wrote no image\n"},
		{"a device link makes an empty file", ": > $out", "kernels.o -o out", "WRAPPER: error: 'clang' failed: the device link for amdgcn-amd-amdhsa gfx"},
		{"the host linker fails", "echo image > $out", "saxpy.o nosuch.o -o out", "WRAPPER: error: 'ld' failed\n"},
		{"there is no such linker", "echo image > $out", "saxpy.o -o out --linker-path=/no/such/ld", "WRAPPER: error: 'ld' failed\n"},
		{"a linker that fails", "echo image > $out", "saxpy.o -o out --linker-path=/bin/false", "WRAPPER: error: 'false' failed\n"},
		{"no linker", "echo image > $out", "saxpy.o -o out --linker-path=", "WRAPPER: error: linker path missing, must pass 'linker-path'\n"},
		{"no fatbinary", "echo image > $out", "cuda.pk -o out", "WRAPPER: error: Unable to find 'fatbinary' in path\n"},
		{"a broken package", "", "saxpy.o cut.pk -o out", "WRAPPER: error: The end of the file was unexpectedly encountered: cut.pk: offload binary at byte 0x0: "},
		{"one of two fails", `case $arch in gfx90a) sleep 60;; *) echo failed; exit 1;; esac`, "kernels.o -o out --wrapper-jobs=2", "failed\nWRAPPER: error: 'clang' failed\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := *b
			b.TB = t
			b.fake(test.clang)
			start := time.Now()
			r := b.link(strings.Fields(test.args)...)
			got := b.normal(r.Stderr, b.ours)
			if r.Code != 1 || !strings.Contains(got, test.want) {
				t.Errorf("exit %d\n%s\nexpected\n%s", r.Code, got, test.want)
			}
			if time.Since(start) > 30*time.Second {
				t.Error("the other device link was not stopped")
			}
			if _, err := os.Stat(b.path("out")); err == nil {
				t.Error("an output is left")
			}
			b.tidy()
		})
	}
}

// TestVerbose runs device links that each wait until their command is printed.
func TestVerbose(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fake(`until grep -q -e "-mcpu=$arch" ../log; do sleep 0.01; done; echo linked $arch >&2; echo image > $out`)
	for _, jobs := range []string{"1", "2"} {
		// The clang in the directory of the program runs, even if the program is called from its
		// own directory.
		b.run("/bin/sh", "-c", "cd bin; ./clang-linker-wrapper --host-triple="+host+" --linker-path=/bin/true --wrapper-verbose --wrapper-jobs="+jobs+" ../kernels.o -o ../out 2> ../log")
		var got []string
		for line := range strings.Lines(string(b.read("log"))) {
			for _, what := range []string{"-mcpu=gfx90a", "-mcpu=gfx1030", "linked gfx90a", "linked gfx1030", "/bin/true"} {
				if strings.Contains(line, what) {
					got = append(got, what)
				}
			}
		}
		// With two jobs, the second command may precede or follow the output of the first one.
		one := "-mcpu=gfx90a linked gfx90a -mcpu=gfx1030 linked gfx1030 /bin/true"
		two := "-mcpu=gfx90a -mcpu=gfx1030 linked gfx90a linked gfx1030 /bin/true"
		if text := strings.Join(got, " "); text != one && (jobs == "1" || text != two) {
			t.Errorf("%s jobs: %s", jobs, text)
		}
	}
	b.tidy()
}

// TestInterrupt interrupts the wrapper during a device link.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fake("echo $$ > " + b.path("pid.new") + "; mv " + b.path("pid.new") + " " + b.path("pid") + "; sleep 60")
	cmd := exec.Command(b.ours, "--linker-path=/usr/bin/ld", "saxpy.o", "-o", "out")
	cmd.Dir, cmd.Env = b.dir, b.env
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		if _, err := os.Stat(b.path("pid")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no device link was started")
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("exit 0")
	}
	b.tidy()
	pid := strings.TrimSpace(string(b.read("pid")))
	for deadline := time.Now().Add(20 * time.Second); ; {
		status, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(status), ") Z ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the device link runs on: %s", status)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestLongCommandLine links with more arguments than a command line can have, for the host and for
// devices.
func TestLongCommandLine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("long.rsp", strings.Repeat("-L/some/directory/with/a/long/name ", 4<<20/35))
	b.run(b.ours, "--host-triple="+host, "--linker-path=/usr/bin/ld", "-shared", "saxpy.o", "-L"+libraries, "-lomptarget", "@long.rsp", "-o", "out.so")
	if _, err := os.Stat(b.path("out.so")); err != nil {
		t.Error(err)
	}
	b.tidy()
}

// TestSaveTemps compares the names of the saved files.
func TestSaveTemps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	runs := []string{b.mkdir("llvm"), b.mkdir("ours")}
	for i, program := range []string{llvm.Tool(t, "clang-linker-wrapper"), b.ours} {
		run := *b
		run.dir = runs[i]
		run.run(program, "--host-triple="+host, "--linker-path=/usr/bin/ld", "--save-temps", "--embed-bitcode", "-shared", "../kernels.o", "-o", "out.so")
	}
	var names [2][]string
	for i, dir := range runs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			names[i] = append(names[i], entry.Name())
		}
	}
	if a, c := strings.Join(names[0], "\n"), strings.Join(names[1], "\n"); a != c {
		t.Errorf("LLVM keeps\n%s\nours\n%s", a, c)
	}
	b.tidy()
	// The bundle is a separate file, and the program is unchanged.
	b.run(b.ours, "--host-triple="+host, "--linker-path=/usr/bin/ld", "-shared", "kernels.o", "-o", "plain.so")
	b.run(b.ours, "--host-triple="+host, "--linker-path=/usr/bin/ld", "--save-temps", "-shared", "kernels.o", "-o", "kept.so")
	if !bytes.Equal(b.read("plain.so"), b.read("kept.so")) || !bytes.Contains(b.read("plain.so"), b.read("kept.so.hipfb")) {
		t.Error("the bundle in the program differs from the file")
	}

	// The commands can be run again.
	out := b.run(b.ours, "--host-triple="+host, "--linker-path=/usr/bin/ld", "--save-temps", "--wrapper-verbose", "-shared", "library.o", "-o", "again.so", "-L"+libraries, "-lomptarget")
	for _, want := range []string{
		"llvm-offload-binary\" library.o --image=kind=openmp,triple=" + host + ",arch=generic,file=library-" + host + "-generic.o\n",
		"llvm-offload-binary\" -o again.so.x86_64..openmp.offload --image=file=again.so.x86_64..img,kind=openmp,triple=" + host + ",arch=\n",
		"llvm-offload-wrapper\" --kind=openmp --triple=" + host + " -o again.so.openmp.image.wrapper.bc again.so.x86_64..openmp.offload\n",
		"clang\" --no-default-config --target=" + host + " -c -fPIC -o again.so.openmp.image.wrapper.o again.so.openmp.image.wrapper.bc\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// TestCache repeats a link: the second time, no device link runs.
func TestCache(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fake("echo run >> " + b.path("runs") + "; exec " + llvm.Dir + `/clang "$@"`)
	runs := func() int { return bytes.Count(b.read("runs"), []byte("\n")) }
	link := func(want int, args ...string) {
		t.Helper()
		if r := b.link(append([]string{"-shared", "kernels.o"}, args...)...); r.Code != 0 {
			t.Fatal(r.Stderr)
		}
		if got := runs(); got != want {
			t.Errorf("%q: %d device links in all, expected %d", args, got, want)
		}
	}
	link(2, "-o", "without.so")
	b.env = append(b.env, "OFFLOAD_CACHE="+b.path("cache"))
	link(4, "-o", "first.so")
	link(4, "-o", "second.so")
	link(4, "-o", "second.so", "--wrapper-jobs=1")
	if !bytes.Equal(b.read("without.so"), b.read("second.so")) {
		t.Error("other bytes")
	}
	link(6, "-o", "third.so", "--device-compiler="+amd+"=-O1")
	link(8, "-o", "fourth.so", "--device-linker=--build-id=none")
	link(9, "-o", "fifth.so", "more.o") // one more image for gfx90a; the other link is unchanged
	b.env = append(b.env, "OFFLOAD_CACHE_SIZE=x")
	if r := b.link("-shared", "kernels.o", "-o", "x.so"); r.Code != 1 || !strings.Contains(r.Stderr, `OFFLOAD_CACHE_SIZE: found "x", expected a size such as 4096, 100MB or 1GiB`) {
		t.Errorf("%+v", r)
	}
	b.tidy()
}

// TestJobserver runs the wrapper under GNU make, with both forms of its server.
func TestJobserver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.fake("exec " + llvm.Dir + `/clang "$@"`)
	b.write("Makefile", "all:\n\t+"+b.ours+" --linker-path=/usr/bin/ld -shared kernels.o -o make.so --wrapper-jobs=jobserver\n")
	for _, args := range [][]string{{"-j3"}, {"-j3", "--jobserver-style=pipe"}, {"-j1"}} {
		out := b.run("make", args...)
		if _, err := os.Stat(b.path("make.so")); err != nil || (args[0] != "-j1" && strings.Contains(out, "Warning")) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		os.Remove(b.path("make.so"))
	}
	b.tidy()
}

// TestTimeTrace parses the phases.
func TestTimeTrace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(b.ours, "--host-triple="+host, "--linker-path=/usr/bin/ld", "-shared", "kernels.o", "-o", "out.so", "--wrapper-time-trace=trace.json", "--wrapper-time-trace-granularity=0")
	var trace struct {
		TraceEvents []struct {
			Name, Ph string
			Ts, Dur  int64
		}
	}
	if err := json.Unmarshal(b.read("trace.json"), &trace); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range trace.TraceEvents {
		names = append(names, e.Name)
	}
	if got, want := fmt.Sprint(names), "[ExtractDeviceCode Link device input Link device input Bundle linked output Link host]"; got != want {
		t.Errorf("phases %s, expected %s", got, want)
	}
}
