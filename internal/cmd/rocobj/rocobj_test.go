package rocobj

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// tools runs command lines in a directory.
type tools struct {
	testing.TB
	dir string
}

// newTools returns tools in a directory with the files of the tests.
func newTools(t testing.TB) *tools {
	plain := fixture.Bundle(t, "gfx906", "gfx90a:xnack+")
	packed := fixture.Compressed(t, plain)
	two := append(append(bytes.Clone(plain), make([]byte, 16384-len(plain))...), plain...)
	x := &tools{TB: t, dir: t.TempDir()}
	for name, data := range map[string][]byte{
		"bundle":      plain,
		"packed":      packed,
		"two":         two,
		"mixed":       append(append(bytes.Clone(packed), make([]byte, 8192-len(packed))...), packed...),
		"program":     fixture.ELF(t, ".text", "code", ".hip_fatbin", string(two)),
		"packed.o":    fixture.ELF(t, ".hip_fatbin", string(packed)),
		"none.o":      fixture.ELF(t, ".text", "code"),
		"other.o":     fixture.ELF(t, ".data", string(plain)),
		"lib.a":       fixture.Archive(t, "a.o", string(fixture.ELF(t, ".hip_fatbin", string(plain)))),
		"a b#%41?c,d": plain,
		"damaged":     packed[:len(packed)-8],
		"-":           plain,
		"digits":      []byte("0123456789"),
	} {
		if err := os.WriteFile(filepath.Join(x.dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(x.dir, "out"), 0o777); err != nil {
		t.Fatal(err)
	}
	return x
}

// call runs a command line.
func (x *tools) call(run func(context.Context, *command.Call) int, stdin string, args ...string) (code int, stdout, stderr string) {
	x.Helper()
	var out, errs bytes.Buffer
	code = run(context.Background(), &command.Call{
		Name: "roc-obj", Args: args, Stdout: &out, Stderr: &errs, LookupEnv: func(string) (string, bool) { return "", false },
		Session: engine.New(engine.Config{Dir: x.dir, Stdin: strings.NewReader(stdin), Stdout: &out, Budget: budget.New(1, 64<<20)}),
	})
	return code, out.String(), errs.String()
}

// written returns the files in a directory and their contents, and removes them.
func (x *tools) written(dir string) map[string]string {
	x.Helper()
	files := map[string]string{}
	names, err := filepath.Glob(filepath.Join(x.dir, dir, "*.co"))
	if err != nil {
		x.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			x.Fatal(err)
		}
		files[filepath.Base(name)] = string(data)
		if err := os.Remove(name); err != nil {
			x.Fatal(err)
		}
	}
	return files
}

// uris returns the third column of a listing.
func uris(listing string) (list []string) {
	for line := range strings.Lines(listing) {
		list = append(list, strings.Fields(line)[2])
	}
	return list
}

const (
	host   = "host-x86_64-unknown-linux-gnu-"
	gfx906 = "hipv4-amdgcn-amd-amdhsa--gfx906"
	gfx90a = "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"
)

// row is a line of a listing: columns of 8, 40 and 35 characters, where the last one ends with the scheme.
func row(bundle int, id, uri string) string {
	return fmt.Sprint(bundle) + strings.Repeat(" ", 7) + id + strings.Repeat(" ", 40-len(id)+28) + "file://" + uri + "\n"
}

func TestList(t *testing.T) {
	x := newTools(t)
	// The builder of the fixtures aligns sections to 8 bytes.
	data, err := os.ReadFile(filepath.Join(x.dir, "program"))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte("__CLANG_OFFLOAD_BUNDLE__"))
	rows := func(first int, name string, base int, suffix string) string {
		return row(first, host, fmt.Sprintf("%s#offset=%d&size=0%s", name, base+4096, suffix)) +
			row(first, gfx906, fmt.Sprintf("%s#offset=%d&size=10%s", name, base+4096, suffix)) +
			row(first, gfx90a, fmt.Sprintf("%s#offset=%d&size=17%s", name, base+8192, suffix))
	}
	program := rows(1, "program", at, "") + rows(2, "program", at+16384, "")
	header := "Bundle# Entry ID:" + strings.Repeat(" ", 31+31) + "URI:\n"
	const noSection = "Error: No kernel section found\n"
	for _, test := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"", 0, "", ""},
		{"program", 0, program, ""},
		{"-v bundle", 0, header + rows(1, "bundle", 0, "") + "\n", ""},
		{"-vd -- two", 0, header + rows(1, "two", 0, "") + "\n" + header + rows(2, "two", 16384, "") + "\n", ""},
		{"bundle program", 0, rows(1, "bundle", 0, "") + rows(2, "program", at, "") + rows(3, "program", at+16384, ""), ""},
		{"packed", 0, rows(1, "packed", 0, "&bundle=1"), ""},
		{"packed.o", 0, rows(1, "packed.o", 0, "&bundle=1"), ""},
		{"mixed", 0, rows(1, "mixed", 0, "&bundle=1") + rows(2, "mixed", 0, "&bundle=2"), ""},
		{"-q bundle", 0, rows(1, "bundle", 0, ""), "Unknown option: q\n"},
		{"-- -", 0, rows(1, "-", 0, ""), ""},
		{"none.o", 255, "", noSection},
		{"other.o", 255, "", noSection},
		{"bundle none.o packed", 255, rows(1, "bundle", 0, ""), noSection},
		{"bundle missing packed", 2, rows(1, "bundle", 0, ""), "Error: failed to open file: missing\n"},
		{"out", 255, "", "Error: failed to open file: out: Is a directory\n"},
	} {
		code, stdout, stderr := x.call(List, "", strings.Fields(test.args)...)
		if code != test.code || stdout != test.stdout || !strings.EqualFold(stderr, test.stderr) {
			t.Errorf("%q: exit code %d, expected %d\nfound    %s\nexpected %s\nfound    %s\nexpected %s", test.args, code, test.code, stdout, test.stdout, stderr, test.stderr)
		}
	}
	for args, want := range map[string]string{"lib.a": "a member of an archive has no URI", "damaged": "damaged"} {
		code, stdout, stderr := x.call(List, "", args)
		if code != 255 || stdout != "" || !strings.HasPrefix(stderr, "Error: ") || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
	for _, help := range []string{"-h", "-vh", "--help"} {
		if code, stdout, stderr := x.call(List, "", help, "missing"); code != 0 || !strings.HasPrefix(stdout, "Usage: roc-obj ") || stderr != "" {
			t.Errorf("%s: exit code %d, %s%s", help, code, stdout, stderr)
		}
	}
}

// Every URI of a listing extracts the code object of its line.
func TestListThenExtract(t *testing.T) {
	x := newTools(t)
	for _, name := range []string{"bundle", "two", "program", "packed", "packed.o", "mixed", "a b#%41?c,d"} {
		_, listing, _ := x.call(List, "", name)
		list := uris(listing)
		code, stdout, stderr := x.call(Extract, strings.Join(list, "\n")+"\n", "-o", "out")
		if code != 0 || stdout+stderr != "" {
			t.Fatalf("%s: exit code %d, %s%s", name, code, stdout, stderr)
		}
		files := x.written("out")
		if want := len(list) / 3 * 2; want == 0 || len(files) != want {
			t.Errorf("%s: found %d files, expected %d", name, len(files), want)
		}
		for file, data := range files {
			if !strings.HasPrefix(file, name+"-offset") || data != "\x7fELFgfx906" && data != "\x7fELFgfx90a:xnack+" {
				t.Errorf("%s: found %q in %s", name, data, file)
			}
		}
		for i, uri := range list {
			want := []string{"", "\x7fELFgfx906", "\x7fELFgfx90a:xnack+"}[i%3]
			if code, stdout, stderr := x.call(Extract, "", "-o-", uri); code != 0 || stdout != want || stderr != "" {
				t.Errorf("%s: exit code %d, found %q, expected %q; %s", uri, code, stdout, want, stderr)
			}
		}
	}
}

func TestExtract(t *testing.T) {
	x := newTools(t)
	type files map[string]string
	for _, test := range []struct {
		uri    string
		file   files
		stderr string
	}{
		{"file://digits#offset=2&size=3", files{"digits-offset2-size3.co": "234"}, ""},
		{"FILE://digits?size=3&offset=2", files{"digits-offset2-size3.co": "234"}, ""},
		{"file://digits#offset=0x2&size=03", files{"digits-offset0x2-size03.co": "234"}, ""},
		{"file://digits#offset=8", files{"digits-offset8-size2.co": "89"}, ""},
		{"file://digits#size=2", files{"digits-offset0-size2.co": "01"}, ""},
		{"file://digits", files{"digits-offset0-size10.co": "0123456789"}, ""},
		{"file://%64igits#offset=9&more=1", files{"digits-offset9-size1.co": "9"}, ""},
		{"file://digits#offset=10", files{}, ""},
		{"file://digits#offset=3&size=0", files{}, ""},
		{"file://digits#offset=8&size=3", files{}, `requested offset(8) + size(3) exceeds file size(10) for file "digits".`},
		{"file://digits#offset=11", files{}, `requested offset(11) + size(0) exceeds file size(10) for file "digits".`},
		{"file://digits#offset=9223372036854775807&size=9223372036854775807", files{}, "exceeds file size(10)"},
		{"file://digits#offset=x", files{}, "offset of file://digits#offset=x: found 'x', expected a decimal, octal or hexadecimal number"},
		{"file://digits#size=-1", files{}, "found '-1'"},
		{"file://missing#offset=1", files{}, "can't find file: missing"},
		{"file://out", files{}, "out: Is a directory"},
		{"ftp://digits", files{}, "'ftp' is not recognized as a supported code object URI."},
		{"", files{}, "'' is not recognized as a supported code object URI."},
		{"digits", files{}, "'digits' is not recognized as a supported code object URI."},
		{"file://packed#offset=4096&size=10&bundle=1", files{"packed-offset4096-size10-bundle1.co": "\x7fELFgfx906"}, ""},
		{"file://packed#offset=8192&bundle=1", files{"packed-offset8192-size17-bundle1.co": "\x7fELFgfx90a:xnack+"}, ""},
		{"file://packed#offset=4096&size=11&bundle=1", files{}, "compressed bundle 1 has no entry at offset(4096) of size(11)"},
		{"file://packed#offset=4096&size=10&bundle=2", files{}, "compressed bundle 2 has no entry"},
		{"file://bundle#offset=4096&size=10&bundle=1", files{}, "compressed bundle 1 has no entry"},
		{"memory://1", files{}, "must specify a Range Specifier (offset and size) for a memory URI: memory://1"},
		{"memory://2147483647#offset=1&size=1", files{}, "PID: 2147483647 is NOT running"},
		{"memory://x#offset=1&size=1", files{}, "PID: x is NOT running"},
	} {
		code, stdout, stderr := x.call(Extract, "", "-o", "out", "--", test.uri)
		found := x.written("out")
		wantCode := 0
		if test.stderr != "" {
			wantCode = 1
		}
		if code != wantCode || stdout != "" || fmt.Sprint(found) != fmt.Sprint(map[string]string(test.file)) ||
			(test.stderr == "") != (stderr == "") || !strings.Contains(strings.ToLower(stderr), strings.ToLower(test.stderr)) {
			t.Errorf("%s: exit code %d, wrote %q, %s%s", test.uri, code, found, stdout, stderr)
		}
	}
}

// A process can read its own memory.
func TestExtractMemory(t *testing.T) {
	text := []byte("in memory")
	x := newTools(t)
	uri := fmt.Sprintf("memory://%d#offset=%p&size=%d", os.Getpid(), text, len(text))
	code, stdout, stderr := x.call(Extract, "", "-o", "out", uri)
	found := x.written("out")
	if name := fmt.Sprintf("pid%d-offset%p-size9.co", os.Getpid(), text); code != 0 || stdout+stderr != "" || found[name] != string(text) {
		t.Errorf("%s: exit code %d, wrote %q, %s%s", uri, code, found, stdout, stderr)
	}
	uri = fmt.Sprintf("memory://%d#offset=1&size=1", os.Getpid())
	if code, _, stderr := x.call(Extract, "", "-o", "out", uri); code != 1 || !strings.Contains(stderr, "read 0 of 1 bytes") || len(x.written("out")) > 0 {
		t.Errorf("%s: exit code %d, %s", uri, code, stderr)
	}
}

func TestExtractOptions(t *testing.T) {
	x := newTools(t)
	const part = "file://digits#offset=2&size=3"
	const messages = "Reading input file \"digits\" ...\nExtract request:  file: digits offset: 2 size: 3\n"
	for _, test := range []struct {
		stdin, args    string
		code           int
		stdout, stderr string // their beginning
		files          int    // in the current directory
	}{
		{"", part, 0, "", "", 1},
		{"", "-v " + part, 0, messages, "", 1},
		{"", "-v -o - " + part, 0, "234", messages, 0},
		{"", "-v file://digits#offset=2&size=0", 0, "Warning: trying to extract from digits at offset=2 with size=0.  Nothing to extract.\n", "", 0},
		{part + "\nfile://digits#offset=9\n", "", 0, "", "", 2},
		{part, "file://digits#offset=9", 0, "", "", 1},
		{"", "file://missing " + part + " ftp://x", 2, "", "Error: can't find file: missing\nError: 'ftp' ", 1},
		{"", strings.Repeat("x ", 256), 255, "", "Error: ", 0},
		{"", "", 1, "Usage: roc-obj ", "Error: No arguments.\n", 0},
		{"", "-h", 0, "Usage: roc-obj ", "", 0},
		{"", "-o missing " + part, 2, "", "Error: Path 'missing' cannot be found.\n", 0},
		{"", "-o digits " + part, 255, "", "Error: Path 'digits' cannot be found.\n", 0},
		{"", "-z " + part, 0, "", "Unknown option: z\n", 1},
		{part, "-o", 0, "", "", 1},
	} {
		code, stdout, stderr := x.call(Extract, test.stdin, strings.Fields(test.args)...)
		if files := x.written("."); code != test.code || !strings.HasPrefix(stdout, test.stdout) || !strings.HasPrefix(stderr, test.stderr) || len(files) != test.files ||
			(stdout == "") != (test.stdout == "") || (stderr == "") != (test.stderr == "") {
			t.Errorf("%.80q: exit code %d, wrote %q, stdout %q, stderr %q", test.args, code, files, stdout, stderr)
		}
	}
}

// Random arguments end with an exit code of the scripts, and a message unless it is 0.
func TestRandomArguments(t *testing.T) {
	x := newTools(t)
	words := []string{
		"", "-", "--", "-v", "-o", "-oout", "-o-", "-x:", "-h", "--help", "bundle", "packed.o", "none.o", "missing", "out", "loop", "\x00", "\xff\n",
		"file://", "memory://", "file://bundle", "file://packed", "#", "?", "&", "offset=", "size=", "bundle=", "=", "0", "1", "-1", "0x", "08", "4096", "10", "1e9", "99999999999999999999", "%", "%zz", "%00", "://",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		args := make([]string, random.IntN(4))
		for i := range args {
			for range 1 + random.IntN(6) {
				args[i] += words[random.IntN(len(words))]
			}
		}
		run := List
		if random.IntN(2) == 0 {
			run = Extract
		}
		code, stdout, stderr := x.call(run, "", args...)
		if code < 0 || code > 255 || code != 0 && !strings.Contains(stderr, "Error: ") || strings.Contains(stdout+stderr, "%!") {
			t.Errorf("%q: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
}
