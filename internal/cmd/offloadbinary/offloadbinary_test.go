package offloadbinary

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/release"
)

// tool runs command lines of the tool in a directory.
type tool struct {
	testing.TB
	dir  string
	name string
	// release is the value of the variable that selects a release.
	release string
}

func newTool(t testing.TB, inputs map[string]string) *tool {
	dir := t.TempDir()
	for name, data := range inputs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return &tool{TB: t, dir: dir, name: "/none/llvm-offload-binary"}
}

func (t *tool) run(stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(context.Background(), &command.Call{
		Name: t.name, Args: args, Stdout: &out, Stderr: &errs,
		Session:   engine.New(engine.Config{Dir: t.dir, Stdin: strings.NewReader(stdin), Stdout: &out, Budget: budget.New(1, 64<<20)}),
		LookupEnv: func(name string) (string, bool) { return t.release, name == release.Variable },
	})
	return code, out.String(), errs.String()
}

// must runs a command line that must succeed, and returns its only output.
func (t *tool) must(args ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := t.run("", args...)
	if code != 0 || stderr != "" {
		t.Fatalf("%q: exit code %d, %s", args, code, stderr)
	}
	return stdout
}

// fails runs a command line that must fail and leave no outputs.
func (t *tool) fails(want string, args ...string) {
	t.Helper()
	before := t.files()
	code, stdout, stderr := t.run("", args...)
	if want = t.name + ": error: " + want; code != 1 || stdout != "" || !strings.HasPrefix(stderr, want) {
		t.Errorf("%q: exit code %d, %s%s\nwant %s", args, code, stdout, stderr, want)
	}
	if diff := cmp.Diff(before, t.files()); diff != "" {
		t.Errorf("%q left outputs: %s", args, diff)
	}
}

func (t *tool) files() map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(t.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, t.dir+"/")] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (t *tool) has(name, want string) {
	t.Helper()
	if got, ok := t.files()[name]; !ok || got != want {
		t.Errorf("%s is %q (%v), want %q", name, got, ok, want)
	}
}

var inputs = map[string]string{"a.o": "object", "b.bc": "bitcode", "c.spv": "spirv", "d.so": "shared", "e.s": "ptx"}

func TestHelp(t *testing.T) {
	tool := newTool(t, nil)
	for _, args := range [][]string{nil, {"-h"}, {"--help"}, {"-o", ""}} {
		if got := tool.must(args...); !strings.HasPrefix(got, "OVERVIEW: A utility for bundling several object files") {
			t.Errorf("%q prints %s", args, got)
		}
	}
	if got := tool.must("--version"); !strings.Contains(got, "LLVM version 23.1.4") {
		t.Errorf("--version prints %s", got)
	}
}

func TestMistakes(t *testing.T) {
	tool := newTool(t, inputs)
	tool.fails("Packaging to an output file and extracting from an input file are mutually exclusive.", "-o", "x", "a.o")
	tool.fails("'file' is a required image arguments", "-o", "x", "--image=triple=t")
	tool.fails("No such file or directory: 'nope.o'", "-o", "x", "--image=file=nope.o")
	tool.fails("No such file or directory: ''", "-o", "x", "--image=file")
	tool.fails("'nope': No such file or directory", "nope")
	tool.fails("No such file or directory: 'dir/x'", "-o", "dir/x", "--image=file=a.o")
	tool.fails("offload binaries of version 4 cannot be written, expected 1, 2 or 3", "-o", "x", "--format-version=4", "--image=file=a.o")
	code, _, stderr := tool.run("", "a", "b")
	if want := "llvm-offload-binary: Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: /none/llvm-offload-binary --help\n"; code != 1 || stderr != want {
		t.Errorf("two inputs: exit code %d, %s", code, stderr)
	}
	tool.name = "clang-offload-packager"
	if _, _, stderr := tool.run(""); !strings.Contains(stderr, "warning: 'clang-offload-packager' is deprecated. Use 'llvm-offload-binary' instead.\n") {
		t.Errorf("old name: %s", stderr)
	}
}

func TestPackAndExtract(t *testing.T) {
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			tool := newTool(t, inputs)
			tool.must("-o", "in.bin", fmt.Sprintf("--format-version=%d", version),
				"--image=file=a.o,triple=x-y-z,arch=gfx1,kind=hip", "--image=file=b.bc,triple=x-y-z,kind=openmp",
				"--image=file=c.spv,arch=a", "--image=file=d.so,file=e.s,triple=t,arch=,kind=nonsense")
			spv := map[int]string{1: "", 2: "spv"}[version]
			want := "Extracted: in-x-y-z-gfx1.0.o\nExtracted: in-x-y-z.1.bc\nExtracted: in--a.2." + spv + "\nExtracted: in-t.3.\nExtracted: in-t.4.s\n"
			if got := tool.must("in.bin"); got != want {
				t.Errorf("everything: %s\nwant %s", got, want)
			}
			for name, content := range map[string]string{"in-x-y-z-gfx1.0.o": "object", "in-x-y-z.1.bc": "bitcode", "in--a.2." + spv: "spirv", "in-t.3.": "shared", "in-t.4.s": "ptx"} {
				tool.has(name, content)
			}
			// The number starts again with each filter.
			if got, want := tool.must("in.bin", "--image=kind=openmp", "--image=kind=none,triple=t"), "Extracted: in-x-y-z.0.bc\nExtracted: in-t.0.\nExtracted: in-t.1.s\n"; got != want {
				t.Errorf("filtered: %s", got)
			}
			// Names, values that are absent, no match: silent.
			for _, args := range [][]string{{"--image=arch=gfx1,nope=,file=x"}, {"--image=member=in.bin,arch=gfx1,file=x"}, {"--image=arch=gfx2,file=y"}, {"--image=member=other,file=y"}, {"--image=kind=sycl"}} {
				if got := tool.must(append(args, "in.bin")...); got != "" {
					t.Errorf("%q prints %s", args, got)
				}
			}
			tool.has("x", "object")
			if _, ok := tool.files()["y"]; ok {
				t.Error("a filter without match wrote a file")
			}
			code, _, stderr := tool.run("", "in.bin", "--image=triple=t,file=z")
			if want := "/none/llvm-offload-binary: warning: Multiple inputs match to a single file, 'z'\n"; code != 0 || stderr != want {
				t.Errorf("several for one file: exit code %d, %s", code, stderr)
			}
			tool.has("z", "ptx")
		})
	}
}

// TestCompress compresses for every release: the options exist since LLVM 24 and have one meaning.
func TestCompress(t *testing.T) {
	image := strings.Repeat("image", 1000)
	for _, release := range []string{"", "22", "23", "24"} {
		tool := newTool(t, map[string]string{"a": image})
		tool.release = release
		tool.must("-o", "packed", "--image=file=a,triple=t", "--compress", "--compression-format=zlib", "--compression-level=9")
		if packed := tool.files()["packed"]; len(packed) > 1000 || packed[4] != offloadbinary.CompressedVersion {
			t.Errorf("LLVM %q: %d bytes, version %d", release, len(packed), packed[4])
		}
		tool.must("packed", "--image=file=out,triple=t")
		tool.has("out", image)
		tool.fails("an offload binary of version 2 cannot be compressed", "-o", "packed", "--image=file=a,triple=t", "--compress", "--format-version=2")
		code, help, _ := tool.run("", "--help")
		if listed := strings.Contains(help, "--compress"); code != 0 || listed != (release == "24") {
			t.Errorf("LLVM %q: --help lists --compress: %v", release, listed)
		}
	}
}

func TestNoImages(t *testing.T) {
	tool := newTool(t, nil)
	tool.must("-o", "one")
	tool.must("-o", "two", "--format-version=2")
	if all := tool.files(); len(all["one"]) != 0 || len(all["two"]) != 40 {
		t.Errorf("%d and %d bytes", len(all["one"]), len(all["two"]))
	}
	// LLVM 23 cannot read the second, which it wrote itself.
	tool.must("one")
	tool.must("two")
}

func TestStandardStreams(t *testing.T) {
	tool := newTool(t, nil)
	code, packed, stderr := tool.run("image", "-o", "-", "--image=file=-,triple=t")
	if code != 0 || stderr != "" || !strings.HasPrefix(packed, "\x10\xff\x10\xad") {
		t.Fatalf("exit code %d, %s", code, stderr)
	}
	if code, got, _ := tool.run(packed, "-", "--image=member=<stdin>,file=-"); code != 0 || got != "image" {
		t.Errorf("exit code %d, %q", code, got)
	}
	if code, got, _ := tool.run(packed, "-", "--archive", "--image=file=-"); code != 0 || !strings.HasPrefix(got, "!<arch>\n") {
		t.Errorf("exit code %d, %q", code, got)
	}
	if code, got, _ := tool.run(packed, "-"); code != 0 || got != "Extracted: --t.0.\n" {
		t.Errorf("exit code %d, %q", code, got)
	}
}

func TestNested(t *testing.T) {
	tool := newTool(t, inputs)
	tool.must("-o", "inner", "--image=file=a.o,triple=t,arch=a", "--image=file=b.bc,triple=t,arch=b")
	tool.must("-o", "outer", "--image=file=inner,triple=t,arch=nested", "--image=file=e.s,triple=t,arch=c")
	if got, want := tool.must("outer"), "Extracted: outer-t-a.0.o\nExtracted: outer-t-b.1.bc\nExtracted: outer-t-c.2.s\n"; got != want {
		t.Errorf("everything: %s", got)
	}
	tool.must("outer", "--image=arch=nested,file=raw")
	tool.has("raw", tool.files()["inner"])
	tool.must("outer", "--image=arch=a,file=none") // filters see the outer images
	if _, ok := tool.files()["none"]; ok {
		t.Error("a filter saw an inner image")
	}
}

func TestArchive(t *testing.T) {
	tool := newTool(t, inputs)
	tool.must("-o", "in.bin", "--image=file=a.o,arch=a", "--image=file=e.s,arch=b")
	tool.must("in.bin", "--archive", "--image=file=lib.a")
	member := func(content string) string {
		pad := ""
		if len(content)%2 == 1 {
			pad = "\n"
		}
		return fmt.Sprintf("%-16s%-12s%-6s%-6s%-8s%-10d`\n%s%s", "in.bin/", "0", "0", "0", "644", len(content), content, pad)
	}
	tool.has("lib.a", "!<arch>\n"+member("object")+member("ptx"))
	tool.fails("Image must have a 'file' argument.", "in.bin", "--archive", "--image=arch=a")
	// Both members have the name of the input, as in LLVM.
	tool.must("-o", "second.bin", "--image=file=lib.a")
	tool.must("lib.a", "--image=member=in.bin,file=x") // the members are not offload binaries
}

func TestMember(t *testing.T) {
	tool := newTool(t, inputs)
	tool.must("-o", "one.bin", "--image=file=a.o,arch=a")
	tool.must("-o", "two.bin", "--image=file=e.s,arch=a")
	all := tool.files()
	lib := "!<arch>\n"
	for _, name := range []string{"one.bin", "two.bin"} {
		lib += fmt.Sprintf("%-16s%-12s%-6s%-6s%-8s%-10d`\n%s", name+"/", "0", "0", "0", "644", len(all[name]), all[name])
	}
	if err := os.WriteFile(filepath.Join(tool.dir, "lib.a"), []byte(lib), 0o666); err != nil {
		t.Fatal(err)
	}
	tool.must("lib.a", "--image=member=one.bin,file=x", "--image=member=two.bin,file=y")
	tool.has("x", "object")
	tool.has("y", "ptx")
}

// An image that aborts LLVM's archive writer is a member without symbols.
func TestArchiveOfMalformedWasm(t *testing.T) {
	tool := newTool(t, map[string]string{"w.o": "\x00asm\x01\x00\x00\x00\xff\xff\xff"})
	tool.must("-o", "in.bin", "--image=file=w.o")
	tool.must("in.bin", "--archive", "--image=file=lib.a")
	if got := tool.files()["lib.a"]; !strings.HasPrefix(got, "!<arch>\n") || !strings.Contains(got, "in.bin/") {
		t.Errorf("%q", got)
	}
}

// What differs from LLVM: each is a row of docs/differences.md.
func TestDifferences(t *testing.T) {
	tool := newTool(t, inputs)
	tool.must("-o", "a.bin", "--image=file=a.o,triple=t,arch=a,kind=hip")
	good := tool.files()["a.bin"]
	write := func(name, data string) {
		if err := os.WriteFile(filepath.Join(tool.dir, name), []byte(data), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	spoil := func(offset int, value string) string { return good[:offset] + value + good[offset+len(value):] }
	// Counts and offsets that LLVM does not check.
	for _, data := range []string{
		spoil(48, "\xff\xff\xff\xff\xff\xff\xff\x0f"), // number of strings
		spoil(72, "\xff\xff\xff\x7f"),                 // key
		spoil(64, "\xff\xff\xff\x7f"),                 // image size
	} {
		write("bad.bin", data)
		tool.fails("The end of the file was unexpectedly encountered: bad.bin: offload binary at byte 0x0: image 1 of 1", "bad.bin")
	}
	// Errors name the file and the place.
	write("bad.bin", good+"trailing")
	tool.fails(fmt.Sprintf("Invalid data was encountered while parsing the file: bad.bin: offload binary at byte 0x%x: begins with 74 72 61 69, expected the magic", len(good)), "bad.bin")
	// Zeros after the last package are padding.
	write("padded.bin", good+"\x00\x00\x00")
	tool.must("padded.bin", "--image=file=x")
	// Version 1 with many short strings: LLVM 23 reports truncation.
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("%c%c=", 'a'+i/26, 'a'+i%26))
	}
	tool.must("-o", "many.bin", "--image=file=a.o,"+strings.Join(many, ","))
	tool.must("many.bin", "--image=file=x")
	// A repeated key, in both versions.
	for version := 1; version <= 2; version++ {
		tool.must("-o", "repeated.bin", fmt.Sprintf("--format-version=%d", version), "--image=file=a.o,k=1,k=2,k=3", "--image=file=e.s,k=1")
		tool.must("repeated.bin", "--image=k=1,k=2,k=3,file=y")
		tool.has("y", "object")
	}
	// Two images for one default name.
	tool.must("-o", "clash.bin", "--image=file=a.o,triple=t,x=1", "--image=file=b.bc,triple=t,x=2", "--image=file=a.o,triple=t,x=3")
	tool.must("clash.bin", "--image=x=1", "--image=triple=t,x=3") // equal bytes
	write("c.o", "other object")
	tool.must("-o", "clash.bin", "--image=file=a.o,triple=t,x=1", "--image=file=c.o,triple=t,x=2")
	tool.fails("two images would be written to 'clash-t.0.o': set file= for one of them", "clash.bin", "--image=x=1", "--image=x=2")
	// A name that is a path.
	tool.must("-o", "slash.bin", "--image=file=a.o,triple=t", "--image=file=a.o,triple=../t")
	tool.fails(`the triple "../t" and the arch "" of an image do not form a file name: select the image and set file=`, "slash.bin")
	// All outputs or none.
	tool.fails("No such file or directory: 'no/such'", "clash.bin", "--image=x=1,file=z", "--image=x=2,file=no/such")
	// The input cannot be an output.
	tool.fails("", "clash.bin", "--image=x=1,file=clash.bin")
}
