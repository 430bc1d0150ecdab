package linkerwrapper

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// wrapper returns llvm-offload-wrapper of this project.
func wrapper(t testing.TB) string { return llvm.DropIn(t, "llvm-offload-wrapper") }

// module returns a module of bitcode as llvm-dis prints it, without its data
// layout, which LLVM's tool omits.
func (b *bench) module(name string) string {
	b.Helper()
	b.run(llvm.Tool(b, "llvm-dis"), name, "-o", name+".ll")
	_, text, _ := strings.Cut(string(b.read(name+".ll")), "\n") // the first line has the name
	return regexp.MustCompile("(?m)^target datalayout = .*\n").ReplaceAllString(text, "")
}

// TestOffloadWrapper compares the modules of llvm-offload-wrapper.
func TestOffloadWrapper(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("image", "a \x00\xff\"\\ image")
	ours, theirs := wrapper(t), llvm.Tool(t, "llvm-offload-wrapper")
	for _, line := range []string{
		"--kind=openmp image", "--kind=openmp both.pk image sycl.pk", "-kind openmp -triple aarch64-linux-gnu k.pk", "--kind=hip image", "--kind=cuda image",
		"--kind=openmp --triple=x86_64-pc-windows-msvc image both.pk", "--kind=hip --triple=x86_64-pc-windows-msvc image", "--kind=cuda --triple=i686-pc-windows-msvc image",
		"--kind=hip --triple=nosuch image", "--kind hip image -o other",
	} {
		t.Run(line, func(t *testing.T) {
			b := *b
			b.TB = t
			var modules [2]string
			for i, program := range []string{theirs, ours} {
				b.run(program, append(strings.Fields(line), "-o", "out.bc")...)
				modules[i] = b.module("out.bc")
			}
			// The image of HIP keeps its alignment with ours.
			modules[1] = strings.ReplaceAll(modules[1], ", align 4096", "")
			if diff := cmp.Diff(strings.Split(modules[0], "\n"), strings.Split(modules[1], "\n")); diff != "" {
				t.Errorf("(-LLVM +ours):\n%s", diff)
			}
		})
	}
	for _, line := range []string{
		"--kind=hip image k.pk -o out", "--kind=hip nosuch -o out", "--kind=openmp image", "image -o out", "--kind=foo image -o out", "--kind=openmp -o out",
		"--kind=openmp image -o /no/such/out", "--kind=openmp image -o .",
	} {
		t.Run(line, func(t *testing.T) {
			want, got := b.call(theirs, strings.Fields(line)...), b.call(ours, strings.Fields(line)...)
			want.Stderr, got.Stderr = b.normal(want.Stderr, theirs), b.normal(got.Stderr, ours)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-LLVM +ours):\n%s", diff)
			}
		})
	}
}

// TestOffloadWrapperPrograms links the wrapped images: as IR with clang, and as an object.
func TestOffloadWrapperPrograms(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ours := wrapper(t)
	b.run(b.ours, "--host-triple="+host, "--emit-fatbin-only", "saxpy.o", "-o", "saxpy.pk", "--device-compiler="+host+"=-L"+libraries, "--device-compiler="+host+"=-lomptarget", "--device-compiler="+host+"=-lomp")
	b.run(ours, "--kind=openmp", "saxpy.pk", "-o", "wrapped.bc")
	b.clang("-O2", "-fPIC", "-c", "-x", "ir", "wrapped.bc", "-o", "compiled.o")
	b.run(ours, "--kind=openmp", "saxpy.pk", "-o", "direct.o")
	for _, object := range []string{"compiled.o", "direct.o", "-x ir wrapped.bc -x none", "wrapped.bc -fuse-ld=lld"} { // lld reads bitcode
		program := append(strings.Fields("saxpy.o "+object), "-o", "program", "-L"+libraries, "-lomptarget", "-lomp", "-Wl,-rpath,"+libraries)
		b.clang(program...)
		if got := b.offloaded("program"); got != "on_host=0 sum=4096.0\n" {
			t.Errorf("%s: printed %q", object, got)
		}
	}
}

// TestOtherHosts registers for hosts for which our program writes no objects: clang compiles the
// module.
func TestOtherHosts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("ld", "#!/bin/sh\nfor word; do case $word in *.image.wrapper*.o) cp $word "+b.path("wrapper.o")+";; esac; done\n")
	for triple, want := range map[string]string{
		"powerpc64le-linux-gnu": "elf64-powerpcle", "i686-linux-gnu": "elf32-i386", "aarch64-linux-gnu": "elf64-littleaarch64", "x86_64-pc-windows-msvc": "COFF-x86-64", "arm64-apple-macos": "Mach-O arm64",
	} {
		os.Remove(b.path("wrapper.o"))
		b.run(b.ours, "--host-triple="+triple, "--linker-path="+b.path("ld"), "kernels.o", "-o", "out")
		if got := b.run(llvm.Tool(t, "llvm-readobj"), "--file-headers", "wrapper.o"); !strings.Contains(got, "Format: "+want) {
			t.Errorf("%s:\n%s", triple, got)
		}
	}
	b.tidy()
}

// windowsProgram has offload entries and the functions of the runtimes.
const windowsProgram = `
struct entry { unsigned long long zero; unsigned short version, kind; unsigned flags; void *addr; const char *name; unsigned long long size, data; void *aux; };
static int kernel;
__attribute__((used, section("llvm_offload_entries$OE"))) static const struct entry first = {0, 1, 4, 0, &kernel, "kernel", 0, 0, 0};
__attribute__((used, section("llvm_offload_entries$OE"))) static const struct entry second = {0, 1, 4, 16, &kernel, "variable", 4, 0, 0};
void *__hipRegisterFatBinary(void *p) { return p; }
void __hipUnregisterFatBinary(void *p) {}
int __hipRegisterFunction(void *h, void *a, const char *n, const char *m, int i, void *p, void *q, void *r, void *s, void *t) { return 0; }
void __hipRegisterVar(void *h, void *a, const char *n, const char *m, int e, unsigned long long s, int c, int z) {}
void __hipRegisterManagedVar(void *h, void *a, void *b, const char *m, unsigned long long s, int c) {}
void __hipRegisterSurface(void *h, void *a, const char *n, const char *m, int e, int c) {}
void __hipRegisterTexture(void *h, void *a, const char *n, const char *m, int e, int c, int d) {}
void __tgt_register_lib(void *p) {}
void __tgt_unregister_lib(void *p) {}
void __sycl_register_lib(void *p) {}
void __sycl_unregister_lib(void *p) {}
int atexit(void (*f)(void)) { return 0; }
int start(void) { return 0; }
`

// TestWindows links objects for Windows with LLVM's linker and checks the program.
func TestWindows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("win.c", windowsProgram)
	b.clang("--target=x86_64-pc-windows-msvc", "-O1", "-fno-builtin", "-c", "win.c", "-o", "win.obj")
	b.write("none.c", "int start(void) { return 0; } int atexit(void (*f)(void)) { return 0; } void __tgt_register_lib(void *p) {} void __tgt_unregister_lib(void *p) {}")
	b.clang("--target=x86_64-pc-windows-msvc", "-fno-builtin", "-c", "none.c", "-o", "none.obj")
	entries := regexp.MustCompile(`(?m)^ 0*([0-9a-f]+):([0-9a-f]+) +(__start|__stop)_llvm_offload_entries `)
	for _, test := range []struct {
		kind, image, program string
		size                 int // of the entries
		constructor          string
	}{
		{"hip", "k.pk.image", "win.obj", 2 * 56, ".CRT$XCA00101"},
		{"openmp", "both.pk", "win.obj", 2 * 56, ".CRT$XCA00101"},
		{"openmp", "both.pk", "none.obj", 0, ".CRT$XCA00101"},
		{"sycl", "sycl.pk", "win.obj", -1, ".CRT$XTA00001"},
	} {
		t.Run(test.kind+" "+test.program, func(t *testing.T) {
			b := *b
			b.TB = t
			b.write("k.pk.image", "an image")
			b.run(llvm.Offload(t), "register", "--kind="+test.kind, "--triple=x86_64-pc-windows-msvc", "--output=registration.obj", test.image)
			b.run(llvm.Tool(t, "lld-link"), "/nodefaultlib", "/entry:start", "/subsystem:console", "/opt:ref", "/out:out.exe", "/map:out.map", test.program, "registration.obj")
			text := string(b.read("out.map"))
			if !strings.Contains(text, test.constructor) {
				t.Errorf("no %s in\n%s", test.constructor, text)
			}
			at := map[string]int64{}
			for _, m := range entries.FindAllStringSubmatch(text, -1) {
				at[m[3]] = number(t, m[2])
			}
			if size := at["__stop"] - at["__start"]; test.size >= 0 && (len(at) != 2 || size != int64(test.size)) {
				t.Errorf("%d bytes of entries, expected %d\n%s", size, test.size, text)
			}
			unwind := b.run(llvm.Tool(t, "llvm-readobj"), "--unwind", "out.exe")
			if !strings.Contains(unwind, "ALLOC_SMALL size=40") {
				t.Errorf("no unwind information:\n%s", unwind)
			}
		})
	}
	// With the wrapper, and lld-link as the host linker.
	b.clang("--target=x86_64-pc-windows-msvc", "-O1", "-fno-builtin", "-c", "win.c", "-Xclang", "-fembed-offload-object="+b.path("k.pk"), "-o", "fat.obj")
	b.run(b.ours, "--host-triple=x86_64-pc-windows-msvc", "--linker-path="+llvm.Tool(t, "lld-link"), "/nodefaultlib", "/entry:start", "/subsystem:console", "/map:wrapped.map", "fat.obj", "-out:wrapped.exe")
	if text := string(b.read("wrapped.map")); !strings.Contains(text, ".hip.fatbin_reg") || !strings.Contains(text, ".hip_fatbin ") {
		t.Errorf("the program has no fat binary:\n%s", text)
	}
	b.tidy()
}

func number(t testing.TB, hex string) (n int64) {
	for _, c := range hex {
		n = n<<4 | int64(strings.IndexRune("0123456789abcdef", c))
	}
	return n
}

// TestSYCL checks the calls of both releases into the runtime.
func TestSYCL(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.write("runtime.c", `
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef PACKAGE
void __sycl_register_lib(const char *start, uint64_t size) { printf("register %d %d\n", (int)size, memcmp(start, "\x10\xff\x10\xad", 4)); }
void __sycl_unregister_lib(const char *start, uint64_t size) { printf("unregister %d\n", (int)size); }
#else
struct entry { uint64_t zero; uint16_t version, kind; uint32_t flags; void *addr; const char *name; uint64_t size, data; void *aux; };
struct image { uint16_t version; uint8_t offload, kind; const char *triple, *compile, *link, *start, *end; const struct entry *begin, *stop; void *a, *b; };
struct descriptor { uint16_t version, count; const struct image *images; void *a, *b; };
void __sycl_register_lib(const struct descriptor *d) {
  printf("register %d images\n", d->count);
  for (int i = 0; i < d->count; i++) {
    const struct image *m = &d->images[i];
    printf("  %d %d %d '%s' '%s' '%s' '%.*s'", m->version, m->offload, m->kind, m->triple, m->compile, m->link, (int)(m->end - m->start), m->start);
    for (const struct entry *e = m->begin; e < m->stop; e++)
      printf(" %s/%d/%d", e->name, e->kind, (int)e->size);
    puts("");
  }
}
void __sycl_unregister_lib(const struct descriptor *d) { printf("unregister %d\n", d->count); }
#endif
int main(void) { puts("main"); }
`)
	b.write("a", "first")
	b.write("b", "second")
	b.run(llvm.Tool(t, "llvm-offload-binary"), "-o", "linked.pk", "--image=file=a,triple=spirv64-unknown-unknown,arch=,kind=sycl,symbols=k1\nk2", "--image=file=b,triple=spirv64-x,arch=bmg,kind=sycl,symbols=k2")
	linked := "cp " + b.path("linked.pk") + " $out"
	for release, want := range map[string]string{
		"22": "register 2 images\n  3 8 0 'spirv64-unknown-unknown' '' '' 'first' k1/8/0 k2/8/0\n  3 8 0 'spirv64-x' '' '' 'second' k2/8/0\nmain\nunregister 2\n",
		"23": "register SIZE 0\nmain\nunregister SIZE\n",
	} {
		b := *b
		b.TB = t
		b.fake(linked)
		b.env = append(b.env, "OFFLOAD_LLVM_VERSION="+release)
		define := "-DDESCRIPTOR"
		if release == "23" {
			define = "-DPACKAGE"
		}
		b.run("gcc", define, "-c", "runtime.c", "-o", "runtime.o")
		for _, ld := range []string{"bfd", "lld"} {
			args := []string{"--host-triple=" + host, "--linker-path=" + map[string]string{"bfd": "/usr/bin/ld", "lld": llvm.Dir + "/ld.lld"}[ld], "--gc-sections",
				"sycl.obj", "-dynamic-linker", "/lib64/ld-linux-x86-64.so.2", crt(t, "crt1.o"), crt(t, "crti.o"), crt(t, "crtbegin.o"), "runtime.o",
				"-L" + filepath.Dir(crt(t, "crt1.o")), "-lc", crt(t, "crtend.o"), crt(t, "crtn.o"), "-o", "program"}
			b.fat("sycl.obj", "sycl.pk")
			b.run(b.ours, args...)
			got := regexp.MustCompile(`(register) [0-9]+( 0)?\n`).ReplaceAllString(b.run(b.path("program")), "$1 SIZE$2\n")
			if release == "22" {
				got = b.run(b.path("program"))
			}
			if got != want {
				t.Errorf("release %s, %s: printed %q, expected %q", release, ld, got, want)
			}
		}
	}
	b.tidy()
}

// fat makes a host object with a package.
func (b *bench) fat(name, pack string) {
	b.Helper()
	b.clang("-c", "empty.c", "-Xclang", "-fembed-offload-object="+b.path(pack), "-o", name)
}

// crt returns the path of a file of the C library or of gcc.
func crt(t testing.TB, name string) string {
	t.Helper()
	out, err := exec.Command("gcc", "-print-file-name="+name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
