package linkerwrapper

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/internal/link/linkcache"
	"github.com/rules-offload/rules_offload/internal/link/process"
	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// opened matches a file that a process reads or runs, in the output of strace.
var opened = regexp.MustCompile(`(?m)^\d+ +(?:openat\(AT_FDCWD, |open\(|execve\()"([^"]+)", ([^)]*)\) += \d`)

// TestCacheKeyIsComplete traces a device link: the key covers all files that it opens, and changes
// with each.
func TestCacheKeyIsComplete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, command := range []string{
		"cp gfx90a.bc main.o", "mkdir libs members", "cp empty90a.o members/member.o", llvm.Dir + "/llvm-ar rcsT thin.a members/member.o", llvm.Dir + "/llvm-ar rcs libs/libfoo.a empty90a.o",
	} {
		words := strings.Fields(command)
		b.run(words[0], words[1:]...)
	}
	b.write("script", "{ global: *; };\n")
	b.write("order", "kernel\n")
	// Libraries that bitcode, an object and a member of an archive name.
	for _, name := range []string{"bitcode", "object", "member"} {
		b.write(name+".c", "#pragma comment(lib, \"of"+name+"\")\n")
		compile := []string{"--target=" + amd, "-mcpu=gfx90a", "-nogpulib", "-c", name + ".c", "-o", name + ".o"}
		if name == "bitcode" {
			compile = append(compile, "-emit-llvm")
		}
		b.run(filepath.Join(llvm.Dir, "clang"), compile...)
		b.run(filepath.Join(llvm.Dir, "llvm-ar"), "rcs", "libs/libof"+name+".a", "empty90a.o")
	}
	b.run(filepath.Join(llvm.Dir, "llvm-ar"), "rcs", "libs/libfoo.a", "member.o")
	args := []string{
		filepath.Join(llvm.Dir, "clang"), "--no-default-config", "-o", "out.img", "--target=" + amd, "-mcpu=gfx90a", "-nogpulib", "-O2", "-flto", "main.o",
		"-Wl,--version-script=script", "-Wl,--symbol-ordering-file,order", "-Wl,--whole-archive", "thin.a", "-Llibs", "-lfoo", "bitcode.o", "object.o",
	}
	identify := func() *linkcache.Link {
		t.Helper()
		command := process.Command{Args: args, Env: b.env, Dir: b.dir}
		link, err := linkcache.Identify(t.Context(), command, []string{"main.o"}, "out.img", nil)
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
	link := identify()
	if link == nil {
		t.Fatal("the link is not cached")
	}
	var covered []string
	for _, name := range link.Files() {
		covered = append(covered, b.real(name))
	}
	var own []string
	for _, name := range b.trace(args) {
		if !slices.Contains(covered, name) {
			t.Errorf("the key does not cover %s", name)
		}
		if strings.HasPrefix(name, b.real(".")+"/") {
			own = append(own, name)
		}
	}
	for _, name := range []string{"main.o", "script", "order", "thin.a", "members/member.o", "libs/libfoo.a", "libs/libofbitcode.a", "libs/libofobject.a", "libs/libofmember.a"} {
		if !slices.Contains(own, b.real(name)) {
			t.Errorf("the trace is without %s: %q", name, own)
		}
	}
	for _, name := range own {
		before, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, append(bytes.Clone(before), '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
		if changed := identify(); changed != nil && changed.Key == link.Key {
			t.Errorf("%s: changed, but the key is the same", name)
		}
		if err := os.WriteFile(name, before, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if again := identify(); again == nil || again.Key != link.Key {
		t.Error("the key depends on more than the files")
	}
}

// trace runs a command and returns the files that it reads and runs.
func (b *bench) trace(args []string) (names []string) {
	b.Helper()
	b.run("strace", append([]string{"-f", "-o", b.path("trace"), "-e", "trace=open,openat,execve", "--"}, args...)...)
	for _, match := range opened.FindAllStringSubmatch(string(b.read("trace")), -1) {
		name, mode := match[1], match[2]
		if strings.Contains(mode, "O_DIRECTORY") || strings.Contains(mode, "O_CREAT") || strings.Contains(mode, "O_RDWR") {
			continue
		}
		// The loader's index of libraries has no content of its own.
		if slices.ContainsFunc([]string{"/proc/", "/sys/", "/dev/", "/etc/ld.so.cache"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		if name = b.real(name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// real returns the path of a file without symbolic links.
func (b *bench) real(name string) string {
	b.Helper()
	if !filepath.IsAbs(name) {
		name = b.path(name)
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		b.Fatal(err)
	}
	return real
}

// TestCacheOfResponseFile changes a response file that only the device linker reads.
func TestCacheOfResponseFile(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.env = append(b.env, "OFFLOAD_CACHE="+b.path("cache"))
	outputs := map[string]bool{}
	for _, id := range []string{"0x11111111", "0x22222222"} {
		b.write("response", "--build-id="+id)
		for _, name := range []string{"first.so", "second.so"} {
			if r := b.link("-shared", "kernels.o", "-o", name, "--device-compiler="+amd+"=-Wl,@response"); r.Code != 0 {
				t.Fatal(r.Stderr)
			}
		}
		if !bytes.Equal(b.read("first.so"), b.read("second.so")) {
			t.Errorf("%s: the second link has other bytes", id)
		}
		outputs[string(b.read("second.so"))] = true
	}
	if len(outputs) != 2 {
		t.Error("another content of the response file has the same image")
	}
	b.tidy()
}

// TestCacheOfDependentLibrary changes a library that only the content of an input names.
func TestCacheOfDependentLibrary(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	clang := func(args ...string) {
		b.run(filepath.Join(llvm.Dir, "clang"), append([]string{"--target=" + amd, "-mcpu=gfx90a", "-nogpulib", "-O2"}, args...)...)
	}
	b.run("mkdir", "libs")
	b.write("main.c", "#pragma comment(lib, \"dev\")\nint value(void);\n__attribute__((amdgpu_kernel)) void k(int *p) { *p = value(); }\n")
	store := linkcache.Store{Dir: b.path("cache"), Name: "CACHE"}
	for _, kind := range [][]string{{"-c"}, {"-c", "-emit-llvm"}} {
		clang(append(kind, "main.c", "-o", "main.o")...)
		images := map[string]bool{}
		for _, value := range []string{"1111", "2222"} {
			b.write("dev.c", "__attribute__((noinline)) int value(void) { return "+value+"; }\n")
			clang("-c", "dev.c", "-o", "dev.o")
			b.run("rm", "-f", "libs/libdev.a")
			b.run(filepath.Join(llvm.Dir, "llvm-ar"), "rcs", "libs/libdev.a", "dev.o")
			for range 2 {
				var messages bytes.Buffer
				command := process.Command{
					Args: []string{filepath.Join(llvm.Dir, "clang"), "--target=" + amd, "-mcpu=gfx90a", "-nogpulib", "-o", "out.img", "main.o", "-Wl,-Llibs"},
					Env:  b.env, Dir: b.dir, Stdout: &messages, Stderr: &messages,
				}
				if err := store.Run(t.Context(), command, []string{"main.o"}, "out.img", &messages); err != nil {
					t.Fatalf("%v: %s", err, messages.String())
				}
				images[string(b.read("out.img"))] = true
			}
		}
		if len(images) != 2 {
			t.Errorf("%q: got %d images of two libraries, want 2", kind, len(images))
		}
	}
}

// TestCacheOfAssembler checks that a link is not cached if its input names a file in the assembler's language:
// only the assembler, which runs during the link, knows where the file is.
func TestCacheOfAssembler(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("data", "1234")
	for name, source := range map[string]string{
		"module":    "__asm__(\".section .rodata\\n.incbin \\\"data\\\"\");\n",
		"statement": "__attribute__((amdgpu_kernel)) void k(void) { __asm__ volatile(\".incbin \\\"data\\\"\"); }\n",
		"other":     "__attribute__((amdgpu_kernel)) void k(void) { __asm__ volatile(\"s_nop 0\"); }\n",
	} {
		b.write("main.c", source)
		b.run(filepath.Join(llvm.Dir, "clang"), "--target="+amd, "-mcpu=gfx90a", "-nogpulib", "-O2", "-c", "-emit-llvm", "main.c", "-o", "main.o")
		command := process.Command{
			Args: []string{filepath.Join(llvm.Dir, "clang"), "--target=" + amd, "-mcpu=gfx90a", "-nogpulib", "-o", "out.img", "main.o"},
			Env:  b.env, Dir: b.dir,
		}
		link, err := linkcache.Identify(t.Context(), command, []string{"main.o"}, "out.img", nil)
		if err != nil {
			t.Fatal(err)
		}
		if (link != nil) != (name == "other") {
			t.Errorf("%s: got a key: %t, want %t", name, link != nil, name == "other")
		}
	}
}
