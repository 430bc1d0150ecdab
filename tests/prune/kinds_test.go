package prune

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/elf/elfcheck"
	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

//go:embed program/openmp.c
var openMPSource string

// TestObjects prunes objects and an archive before they are linked.
func TestObjects(t *testing.T) {
	t.Parallel()
	b := build(t, layout{linker: "bfd", kind: "pie", bundles: 3, shape: "swapped"})
	want := filter(b.run(t, b.path), func(line string) bool { return strings.Contains(line, "gfx942") })
	rt := runtimeDir(t)
	command(t, b.dir, "gcc", "-c", "device.S", "-o", "device.o")
	command(t, b.dir, "gcc", "-c", "-fPIE", "-DPROGRAM", "-DCOUNT=3", "-DSTRIDE=24", filepath.Join(rt, "host.c"), "-o", "host.o")
	command(t, b.dir, "ar", "rcs", "all.a", "host.o", "device.o")
	link := func(name string, args ...string) {
		t.Helper()
		command(t, b.dir, "gcc", append(append([]string{"-pie", "-o", name}, args...), "-L"+rt, "-lruntime", "-Wl,-rpath,"+rt)...)
		if got := b.run(t, filepath.Join(b.dir, name)); got != want {
			t.Errorf("%s: printed\n%sexpected\n%s", name, got, want)
		}
	}
	b.prune(t, "device.o", "device-942.o", engine.PruneOptions{Keep: []string{"gfx942"}})
	link("from-object", "host.o", "device-942.o")
	b.prune(t, "all.a", "all-942.a", engine.PruneOptions{Drop: []string{"gfx90a", "gfx1100"}})
	link("from-archive", "-Wl,--whole-archive", "all-942.a", "-Wl,--no-whole-archive")
	index := func(name string) string {
		text, _, _ := strings.Cut(command(t, b.dir, "nm", "-s", name), "\n\n")
		return text
	}
	if before, after := index("all.a"), index("all-942.a"); before != after || !strings.Contains(after, "wrappers in device.o") {
		t.Errorf("index of the archive:\n%sbefore\n%s", after, before)
	}
	if before, after := command(t, b.dir, "ar", "t", "all.a"), command(t, b.dir, "ar", "t", "all-942.a"); before != after {
		t.Errorf("members of the archive:\n%sbefore\n%s", after, before)
	}
	for _, name := range []string{"device-942.o"} {
		if got, was := warnings(t, filepath.Join(b.dir, name)), warnings(t, filepath.Join(b.dir, "device.o")); got != was {
			t.Errorf("%s: readers complain\n%s\nbefore\n%s", name, got, was)
		}
	}
}

// image returns the content of an OpenMP image.
func image(i int) []byte {
	return bytes.Repeat([]byte{byte('a' + i)}, 5000+1000*i)
}

// TestOpenMP prunes linked files with images of OpenMP.
func TestOpenMP(t *testing.T) {
	t.Parallel()
	for _, linker := range []string{"bfd", "lld", "gold", "mold"} {
		if !haveLinker(linker) {
			continue
		}
		for _, kind := range []string{"so", "pie", "exec"} {
			t.Run(linker+"-"+kind, func(t *testing.T) {
				t.Parallel()
				testOpenMP(t, linker, kind)
			})
		}
	}
}

func testOpenMP(t *testing.T, linker, kind string) {
	b := &built{dir: t.TempDir(), layout: layout{linker: linker, kind: kind}}
	b.path = filepath.Join(b.dir, "linked")
	rt := runtimeDir(t)
	var asm, records strings.Builder
	asm.WriteString(".section .llvm.offloading,\"a\",@0x6fff4c0b\n.p2align 3\n")
	records.WriteString(".section .data.rel.ro,\"aw\",@progbits\n.p2align 3\n.globl records\n.hidden records\nrecords:\n")
	archs := []string{"gfx90a", "gfx942", "gfx1100"}
	for i, arch := range archs {
		var out content.Buffer
		img := offloadbinary.Image{Kind: offloadbinary.Object, Offload: offloadbinary.OpenMP, Content: content.Memory(image(i)),
			Properties: offloadbinary.Properties{{Key: "triple", Value: "amdgcn-amd-amdhsa"}, {Key: "arch", Value: arch}}}
		if err := offloadbinary.Write(&out, 1, []offloadbinary.Image{img}); err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(out.Bytes(), image(i))
		if err := os.WriteFile(filepath.Join(b.dir, arch), out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&asm, ".p2align 3\nimage%d:\n.incbin %q\n", i, arch)
		fmt.Fprintf(&records, ".quad image%d+%d, image%d+%d, name, name\n", i, at, i, at+len(image(i)))
	}
	asm.WriteString(".section .llvm.rodata.offloading,\"a\",@progbits\nname: .asciz \"entry\"\n" + records.String() + ".section .note.GNU-stack,\"\",@progbits\n")
	for name, text := range map[string]string{"device.S": asm.String(), "host.c": openMPSource} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"-O1", "-DCOUNT=3", "host.c", "device.S", "-o", "linked"}
	args = append(args, map[string][]string{"so": {"-shared", "-fPIC"}, "pie": {"-fPIE", "-pie", "-DPROGRAM"}, "exec": {"-fno-pie", "-no-pie", "-DPROGRAM"}}[kind]...)
	if linker == "lld" {
		command(t, b.dir, llvm.Tool(t, "clang"), append(args, "--ld-path="+llvm.Tool(t, "ld.lld"))...)
	} else {
		command(t, b.dir, "gcc", append(args, "-fuse-ld="+linker)...)
	}
	_ = rt
	lines := strings.SplitAfter(b.run(t, b.path), "\n")
	want := "image 0 cbf29ce484222325 entry\n" + lines[1] + "image 0 cbf29ce484222325 entry\n" + strings.Join(lines[3:], "")
	b.prune(t, "linked", "kept", engine.PruneOptions{Keep: []string{"gfx942"}})
	before, after := read(t, b.path), read(t, filepath.Join(b.dir, "kept"))
	for _, f := range append(elfcheck.Check(after), elfcheck.Compare(before, after, ".llvm.offloading")...) {
		t.Error(f)
	}
	got := strings.ReplaceAll(b.run(t, filepath.Join(b.dir, "kept")), "14650fb0739d0383", "cbf29ce484222325")
	if got != strings.ReplaceAll(want, "14650fb0739d0383", "cbf29ce484222325") {
		t.Errorf("printed\n%sexpected\n%s", got, want)
	}
	b.survives(t, "kept", b.run(t, filepath.Join(b.dir, "kept")))
	report, err := session().Prune(context.Background(), engine.PruneOptions{Input: b.path, Output: filepath.Join(b.dir, "none"), Keep: []string{"amdgcn-amd-amdhsa--gfx90a"}, DryRun: true})
	if err != nil || len(report.Bundles) != 3 || report.Bundles[1].Dropped[0] != "amdgcn-amd-amdhsa--gfx942" {
		t.Errorf("dry run: %+v, %v", report, err)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "none")); err == nil {
		t.Error("the dry run wrote a file")
	}
}

// TestAArch64 prunes libraries for another processor than that of the machine. The test reads them
// and does not load them.
func TestAArch64(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"plain": nil, "relr": {"-Wl,-z,pack-relative-relocs"}, "4 KiB": {"-Wl,-z,max-page-size=4096"}, "2 MiB": {"-Wl,-z,max-page-size=0x200000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &built{dir: t.TempDir()}
			var asm strings.Builder
			asm.WriteString(".section .hip_fatbin,\"a\",@progbits\n")
			for i := range 8 {
				writeBundle(t, filepath.Join(b.dir, fmt.Sprintf("bundle%d", i)), i)
				fmt.Fprintf(&asm, ".p2align 12\nbundle%d:\n.incbin \"bundle%d\"\n", i, i)
			}
			asm.WriteString(".section .hipFatBinSegment,\"aw\",@progbits\n.p2align 3\n.globl wrappers\nwrappers:\n")
			for i := range 8 {
				fmt.Fprintf(&asm, ".long 0x48495046,1\n.quad bundle%d\n.quad 0\n", i)
			}
			source := "extern char wrappers[]; const char text[] = \"text\"; const char *const table[] = {text, text + 1, wrappers}; int data[] = {1}; int zeros[100];\n" +
				"int *get(void) { return data + zeros[1]; }\n"
			for file, text := range map[string]string{"device.S": asm.String(), "host.c": source} {
				if err := os.WriteFile(filepath.Join(b.dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			args := []string{"--target=aarch64-unknown-linux-gnu", "-shared", "-fPIC", "-nostdlib", "-Wl,--build-id", "--ld-path=" + llvm.Tool(t, "ld.lld"), "host.c", "device.S", "-o", "linked"}
			command(t, b.dir, llvm.Tool(t, "clang"), append(args, flags...)...)
			b.prune(t, "linked", "kept", engine.PruneOptions{Keep: []string{"gfx942"}})
			b.prune(t, "kept", "packed", engine.PruneOptions{Compress: true, Level: 3})
			b.prune(t, "packed", "plain", engine.PruneOptions{Decompress: true})
			for i, names := range [][2]string{{"linked", "kept"}, {"kept", "packed"}, {"packed", "plain"}} {
				before, after := read(t, filepath.Join(b.dir, names[0])), read(t, filepath.Join(b.dir, names[1]))
				for _, f := range append(elfcheck.Check(after), elfcheck.Compare(before, after, ".hip_fatbin")...) {
					t.Errorf("%s: %v", names[1], f)
				}
				if i == 0 && name != "2 MiB" && len(after) > len(before)/2 {
					t.Errorf("%s has %d bytes, before %d", names[1], len(after), len(before))
				}
				command(t, b.dir, llvm.Tool(t, "llvm-strip"), "-o", "stripped", names[1])
				for _, f := range elfcheck.Check(read(t, filepath.Join(b.dir, "stripped"))) {
					t.Errorf("%s, stripped: %v", names[1], f)
				}
			}
			listed := func(name string) (all []string) {
				report, err := session().Prune(context.Background(), engine.PruneOptions{Input: filepath.Join(b.dir, name), Output: "none", Compress: true, DryRun: true})
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range report.Bundles {
					all = append(all, fmt.Sprint(b.Kept, b.SizeBefore))
				}
				return all
			}
			if a, b := strings.Join(listed("kept"), "\n"), strings.Join(listed("plain"), "\n"); a != b || strings.Count(a, "gfx942") != 8 {
				t.Errorf("bundles\n%s\nafter compression and back\n%s", a, b)
			}
		})
	}
}
