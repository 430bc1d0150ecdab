package linkerwrapper

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

// same are command lines for which both tools print the same output.
var same = []string{
	"saxpy.o -o out",
	"plain.o -o out",
	"saxpy.o -oout -Lfoo -L bar -library-path baz --library-path=qux -libpath:zz --library xx --library=yy",
	"saxpy.o -o out -rpath a -rpath=b --rpath c --rpath=d",
	"saxpy.o -o out -whole-archive --no-whole-archive -no-whole-archive --whole-archive",
	"saxpy.o -o out -r", "saxpy.o --relocatable -o out", "plain.o -relocatable -o out",
	"saxpy.o -o out --sysroot=/s -z now -m elf_x86_64 --hash-style=gnu -retain --rpath-link=x",
	"saxpy.o --output=out", "saxpy.o --output out", "saxpy.o /out:out", "saxpy.o -out:out",
	"saxpy.o -o out -- foo /nosuch -unknown /wholearchive -wholearchive",
	"@nosuch.rsp saxpy.o -o out",
	"saxpy.o saxpy.o -o out",
	"saxpy.o library.o regions.o -o dir/out",
	"saxpy.o libshared.so -o out",
	"saxpy-lto.o -o out",
	"coff.obj -o out.exe --host-triple=x86_64-pc-windows-msvc",
	"kernels.o -o out", "kernels.o -o out --compress --compression-level=9", "kernels.o saxpy.o -o out", "saxpy.o kernels.o -o out",
	"kernels.o both.pk -o out",
	"cuda.pk -o out", "cuda.pk saxpy.o -o out --host-triple=i386-pc-linux-gnu",
	"sycl.pk -o out", "none.pk -o out", "none.pk saxpy.o -o out",
	"-mllvm -disable-symbolication saxpy.o --offload-opt=-disable-symbolication kernels.o -o out", "-offload-opt=-disable-symbolication cuda.pk -o out",
	"saxpy.o -o out --embed-bitcode", "kernels.o -o out --device-compiler=-O3",
	"saxpy.o -o out --save-temps", "saxpy.o -o out --save-temps --linker-path=/usr/bin/ld.lld",
	"saxpy.o -o out --device-linker=foo=bar --device-linker=a --device-linker=" + host + "=b --device-linker=x86_64=c --device-linker=" + amd + "=d --device-linker=nvptx64= " +
		"--device-compiler=-O2 --device-compiler=" + host + "=-g --device-linker=-plugin-opt=x",
	"plain.o libsaxpy.a -o out", "plain.o --whole-archive libsaxpy.a -o out", "plain.o --whole-archive libsaxpy.a --no-whole-archive -L. -llibrary -o out",
	"saxpy.o libsaxpy.a -L. -llibrary -o out", "saxpy.o -llibrary -lsaxpy -o out -L nosuch -L .", "plain.o /wholearchive libsaxpy.a -o out",
	"plain.o libsaxpy.a -llibrary -L. -o out --should-extract=generic,foo", "plain.o -l:libsaxpy.a -L. -o out --should-extract=foo --should-extract=generic",
	"plain.o libkernels.a -o out --should-extract=gfx1030", "kernels.o libkernels.a -o out",
	"saxpy.o -L=. -o out --sysroot=.", "saxpy.o -lshared -L. -o out", "saxpy.o -L=. -lsaxpy -o out",
	"--override-image=openmp=saxpy.o plain.o -o out", "--override-image=hip=saxpy.o --override-image=cuda=plain.o kernels.o -o out",
	". /nosuch text.c -o out",
	"saxpy.o kernels.o --emit-fatbin-only -o out", "plain.o --emit-fatbin-only -o out",
	"saxpy.o -o out --wrapper-jobs=4", "saxpy.o -o out --wrapper-jobs=02", "saxpy.o -o out --wrapper-jobs=0x4", "saxpy.o -o out --wrapper-jobs=08",
	// Registration as LLVM IR.
	"saxpy.o -o out --print-wrapped-module", "kernels.o -o out --print-wrapped-module", "cuda.pk -o out --print-wrapped-module", "sycl.pk -o out --print-wrapped-module",
	"saxpy.o -r -o out --print-wrapped-module", "kernels.o saxpy.o -o out --print-wrapped-module --host-triple=x86_64-pc-windows-msvc",
	"--override-image=openmp=plain.o --override-image=openmp=hiprt.o -o out --print-wrapped-module", "sycl.pk -o out --print-wrapped-module --host-triple=aarch64-pc-windows-msvc",
	"saxpy.o -o out --host-triple=powerpc64le-linux-gnu --print-wrapped-module",
	// Errors.
	"saxpy.o -o out --host-triple=nosuch",
	"saxpy.o -o", "saxpy.o -mllvm", "saxpy.o -lnosuch -o out", "saxpy.o -l", "saxpy.o -L",
	"--wrapper-jobs=0", "--wrapper-jobs=", "--wrapper-jobs=-1", "--wrapper-jobs=+1", "--wrapper-jobs=x",
	"saxpy.o --linker-path= -o out",
	"riscv.pk -o out", "saxpy.o riscv.pk -o out",
	"sycl.pk sycl-omp.pk -o out",
	"--override-image=openmp=nosuch", "--override-image=foo", "--override-image=foo=saxpy.o -o out",
	"kernels.o -r -o out --host-triple=x86_64-pc-windows-msvc",
}

// TestDryRun compares the output and the exit codes.
func TestDryRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	theirs := llvm.Tool(t, "clang-linker-wrapper")
	for _, line := range same {
		t.Run(line, func(t *testing.T) {
			args := append([]string{"--dry-run", "--host-triple=" + host, "--linker-path=/usr/bin/ld"}, strings.Fields(line)...)
			want, got := b.call(theirs, args...), b.call(b.ours, args...)
			want.Stderr, got.Stderr = b.normal(want.Stderr, theirs), b.normal(got.Stderr, b.ours)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-LLVM +ours):\n%s", diff)
			}
		})
	}
	b.tidy()
}

// TestOverrideWithoutHeader passes files without a valid ELF header as linked images: a message has LLVM's
// words, and then the file.
func TestOverrideWithoutHeader(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	theirs := llvm.Tool(t, "clang-linker-wrapper")
	header := string(b.read("plain.o")[:64])
	for i, data := range []string{
		"", "text", "a text without any header, which is longer than the header of an object file",
		header[:15], header[:16], header[:52], header[:63], header[:4] + "\x01" + header[5:51], header[:4] + "\x03" + header[5:], header[:5] + "\x03" + header[6:],
	} {
		file := fmt.Sprintf("image%d", i)
		b.write(file, data)
		args := []string{"--dry-run", "--host-triple=" + host, "--linker-path=/usr/bin/ld", "--override-image=hip=" + file, "-o", "out"}
		want, got := b.call(theirs, args...), b.call(b.ours, args...)
		want.Stderr = strings.TrimSuffix(b.normal(want.Stderr, theirs), "\n") + ": " + file + ": expected an ELF file\n"
		got.Stderr = b.normal(got.Stderr, b.ours)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-LLVM +ours):\n%s", data, diff)
		}
	}
	b.tidy()
}

// TestListsOptions lists the options of LLVM, including those of its backends.
func TestListsOptions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, args := range [][]string{{"-mllvm", "--help"}, {"--offload-opt=--help"}} {
		if r := b.call(b.ours, args...); r.Code != 0 || !strings.Contains(r.Stdout, "OPTIONS:") || !strings.Contains(r.Stdout, "--amdgpu-") {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

// TestDryRunDifferences runs command lines for which the output of LLVM's tool is wrong.
func TestDryRunDifferences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, test := range []struct{ name, args, want string }{
		{"objects once, after the last output", "saxpy.o -o a --output=b -o c rest",
			` "/usr/bin/ld" saxpy.o -o a -o b -o c TMP/c.openmp.image.wrapper.o rest`},
		{"objects without an output", "saxpy.o rest", ` "/usr/bin/ld" saxpy.o rest TMP/a.out.openmp.image.wrapper.o`},
		{"plain code in the image for a setting, whatever comes first", "k.pk xnack.pk -o o",
			` "CLANG" --no-default-config -o TMP/o.amdgcn.gfx90a:xnack+.img -dumpdir o.amdgcn.gfx90a:xnack+.img. --target=amdgcn-amd-amdhsa -mcpu=gfx90a:xnack+ -flto -Wl,--no-undefined ` +
				`TMP/k-amdgcn-amd-amdhsa-gfx90a.o TMP/xnack-amdgcn-amd-amdhsa-gfx90a:xnack+.o`},
		{"the file of a broken package", "cut.pk -o out",
			"WRAPPER: error: The end of the file was unexpectedly encountered: cut.pk: offload binary at byte 0x0: "},
		{"the images of a bundle with --save-temps", "kernels.o -o out --save-temps", "-input=out.amdgcn.gfx90a.img -input=out.amdgcn.gfx1030.img -output=out.hipfb"},
		{"separators in the names of files", "slash.pk -o out", " TMP/slash-amdgcn-amd-amdhsa-a_b.o"},
		{"members that nobody asks for", "plain.o libsaxpy.a -o out --wrapper-verbose", "note: saxpy.o: the image for x86_64-pc-linux-gnu generic is not linked: no object has that target\n"},
		{"a library for Windows, in a directory of libraries", "plain.o -libpath:sub sub.lib -out:out.exe --should-extract=generic --host-triple=x86_64-pc-windows-msvc", " TMP/saxpy-x86_64-pc-linux-gnu-generic.o "},
		{"a library for Windows, whole", "plain.o -libpath:sub -wholearchive:sub.lib -out:out.exe --host-triple=x86_64-pc-windows-msvc", " TMP/saxpy-x86_64-pc-linux-gnu-generic.o "},
		{"an import library of MinGW", "plain.o -lsub -Lsub -o out.exe --should-extract=generic --host-triple=x86_64-w64-windows-gnu", " TMP/saxpy-x86_64-pc-linux-gnu-generic.o "},
		{"a granularity that is no number", "saxpy.o -o out --wrapper-time-trace-granularity=x", "warning: --wrapper-time-trace-granularity=x: expected a number of microseconds; using 500\n"},
		{"images of no kind", "none.pk -o out --wrapper-verbose", "note: the images for x86_64-pc-linux-gnu have no offload kind: they are linked, but not registered with a runtime\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			args := append([]string{"--dry-run", "--host-triple=" + host, "--linker-path=/usr/bin/ld"}, strings.Fields(test.args)...)
			got := b.normal(b.call(b.ours, args...).Stderr, b.ours)
			got = strings.ReplaceAll(got, llvm.Tool(t, "clang"), "CLANG")
			if !strings.Contains(got, test.want) {
				t.Errorf("printed\n%s\nwithout\n%s", got, test.want)
			}
		})
	}
}
