package linkcache

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/link/process"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// fakeLLVM writes a clang that lists a link by ld.lld with its own arguments, and an ld.lld that
// concatenates the files in LINKED.
func fakeLLVM(t *testing.T, dir string) (clang string) {
	t.Helper()
	clang = filepath.Join(dir, "clang")
	write(t, clang, `#!/bin/sh
here=${0%/*}
if [ "$1" = "-###" ]; then
  shift
  printf 'clang version 22\n "%s/ld.lld"' "$here" >&2
  for word; do printf ' "%s"' "$word" >&2; done
  echo >&2
  exit
fi
exec "$here/ld.lld" "$@"
`)
	write(t, filepath.Join(dir, "ld.lld"), `#!/bin/sh
while [ "$1" != -o ]; do shift; done
echo linked
cat $LINKED >"$2"
`)
	for _, name := range []string{clang, filepath.Join(dir, "ld.lld")} {
		if err := os.Chmod(name, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return clang
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

// elfFile is an object without sections.
const elfFile = "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x3e\x00\x01\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// depending returns an object that names libraries, as #pragma comment(lib) does.
func depending(t *testing.T, libraries ...string) string {
	t.Helper()
	b := object.NewBuilder(elf.MachineAMDGPU)
	b.Section(object.BuilderSection{Name: ".deplibs", Type: elf.ShtDependent, Align: 1, Content: content.Memory([]byte(strings.Join(libraries, "\x00") + "\x00"))})
	return string(fixture.Bytes(t, b.Write))
}

// keys returns a function that identifies the link of DIR/in.o with some arguments. In arguments,
// DIR is the directory.
func keys(t *testing.T) (dir string, identify func(args ...string) *Link) {
	t.Helper()
	dir = t.TempDir()
	clang := fakeLLVM(t, filepath.Join(dir, "llvm"))
	input, output := filepath.Join(dir, "in.o"), filepath.Join(dir, "out.img")
	write(t, input, elfFile+"input")
	return dir, func(args ...string) *Link {
		t.Helper()
		command := process.Command{Args: []string{clang, "-o", output, input}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin"}}
		for _, arg := range args {
			command.Args = append(command.Args, strings.ReplaceAll(arg, "DIR", dir))
		}
		link, err := Identify(t.Context(), command, []string{input}, output, nil)
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
}

// TestKeyOfFiles checks that a change of any file that a link reads changes the key.
func TestKeyOfFiles(t *testing.T) {
	for _, test := range []struct{ file, args string }{
		{"in.o", ""},
		{"llvm/clang", ""},
		{"llvm/ld.lld", ""},
		{"more.o", "DIR/more.o"},
		{"more.o", "more.o"},
		{"libs/libfoo.a", "-LDIR/libs -lfoo"},
		{"libs/libfoo.a", "-lfoo -L DIR/libs"},
		{"libs/libfoo.a", "-l foo --library-path=DIR/libs"},
		{"libs/libfoo.a", "--library=foo --library-path DIR/libs"},
		{"libs/libfoo.a", "-l:libfoo.a -Llibs"},
		{"libs/libfoo.a", "-L=libs --sysroot=DIR -lfoo"},
		{"libs/libfoo.so", "-LDIR/libs -lfoo"},
		{"map", "--version-script=DIR/map"},
		{"map", "--version-script=map"},
		{"map", "--symbol-ordering-file=map"},
		{"map", "--symbol-ordering-file map"},
		{"libs/map", "--version-script=map -Llibs"},
		{"profile", "-plugin-opt=cs-profile-path=DIR/profile"},
		{"profile", "-mllvm -some-file=DIR/profile"},
		{"profile", "-mllvm=-some-file=DIR/profile"},
		{"members/a.o", "DIR/thin.a"},
		{"members/a.o", "-LDIR -lthin"},
		{"libs/libfoo.a", "-LDIR/libs foo.o"},
		{"libs/libfoo.so", "DIR/foo.o -Llibs"},
		{"libs/foo", "foo.o --library-path=libs"},
		{"foo", "foo.o"},
		{"libs/libfoo.a", "-LDIR/libs whole.a"},
		{"libs/libfoo.a", "-LDIR/libs -LDIR -lwhole"},
		{"libs/libfoo.a", "-LDIR/libs thinfoo.a"},
		{"libs/libfoo.a", "-LDIR/libs -LDIR second.o"},
	} {
		t.Run(test.file+" "+test.args, func(t *testing.T) {
			dir, identify := keys(t)
			args := strings.Fields(test.args)
			name := filepath.Join(dir, test.file)
			if _, err := os.Stat(name); err != nil {
				write(t, name, elfFile+"one")
			}
			// The other form of the library also exists: -Bstatic selects the one that is linked.
			if strings.HasPrefix(test.file, "libs/lib") {
				write(t, filepath.Join(dir, "libs/libfoo.so"), elfFile)
				write(t, filepath.Join(dir, "libs/libfoo.a"), elfFile)
			}
			write(t, filepath.Join(dir, "thin.a"), thinArchive("members/a.o/"))
			write(t, filepath.Join(dir, "libthin.a"), thinArchive("members/a.o/"))
			write(t, filepath.Join(dir, "foo.o"), depending(t, "foo"))
			write(t, filepath.Join(dir, "second.o"), depending(t, "missing.o", "whole", "whole"))
			write(t, filepath.Join(dir, "missing.o"), elfFile)
			write(t, filepath.Join(dir, "thinfoo.a"), thinArchive("foo.o/"))
			for _, name := range []string{"whole.a", "libwhole.a"} {
				write(t, filepath.Join(dir, name), string(fixture.Archive(t, "a.o", elfFile, "notes", "text", "foo.o", depending(t, "foo"))))
			}
			write(t, filepath.Join(dir, "members/a.o"), elfFile+"a")
			first := identify(args...)
			if first == nil {
				t.Fatal("got no key, want one")
			}
			if again := identify(args...); again == nil || again.Key != first.Key {
				t.Error("got another key for the same link, want the same")
			}
			if !first.Unchanged() {
				t.Error("before a change: got Unchanged false, want true")
			}
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, append(data, " # changed"...), 0o777); err != nil {
				t.Fatal(err)
			}
			if second := identify(args...); second != nil && second.Key == first.Key {
				t.Error("got the same key for another content, want another one")
			}
			if first.Unchanged() {
				t.Error("after a change: got Unchanged true, want false")
			}
		})
	}
}

// thinArchive returns a thin archive with one member. In the table, its name ends with a slash.
func thinArchive(member string) string {
	names := member + "\n"
	if len(names)%2 != 0 {
		names += "\n"
	}
	return "!<thin>\n" + fmt.Sprintf("%-48s%-10d`\n", "//", len(names)) + names +
		fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10d`\n", "/0", 0, 0, 0, "644", 5)
}

// TestNewFiles checks that the key changes if a new file is found before or instead of another one.
func TestNewFiles(t *testing.T) {
	for _, test := range []struct{ file, args string }{
		{"first/libfoo.a", "-LDIR/first -LDIR/libs -lfoo"},
		{"libs/libfoo.so", "-LDIR/libs -lfoo"},
		{"map", "--version-script=map"},
		{"first/libfoo.a", "-LDIR/first -LDIR/libs foo.o"},
		{"libs/foo", "-LDIR/libs foo.o"},
		{"foo", "-LDIR/libs foo.o"},
	} {
		t.Run(test.file+" "+test.args, func(t *testing.T) {
			dir, identify := keys(t)
			args := strings.Fields(test.args)
			write(t, filepath.Join(dir, "libs/libfoo.a"), elfFile)
			write(t, filepath.Join(dir, "foo.o"), depending(t, "foo"))
			first := identify(args...)
			write(t, filepath.Join(dir, test.file), elfFile)
			if second := identify(args...); first == nil || second == nil || first.Key == second.Key {
				t.Errorf("got keys %v and %v, want different ones", first, second)
			}
		})
	}
}

// TestUncacheable checks links that read files that cannot be hashed, or write other files.
func TestUncacheable(t *testing.T) {
	dir, identify := keys(t)
	for name, content := range map[string]string{
		"response": "--gc-sections", "script": "INPUT(/other.o)", "dir/file": "", "thin.a": thinArchive("missing.o/"),
		"text.a": thinArchive("script/"), "libtext.a": "GROUP(x)", "libthin.a": thinArchive("missing.o/"),
		"cut.o": elfFile[:20], "cut.bc": "BC\xc0\xde\x35", "cut.a": "!<arch>\nx",
	} {
		write(t, filepath.Join(dir, name), content)
	}
	write(t, filepath.Join(dir, "foo.o"), depending(t, "foo"))
	write(t, filepath.Join(dir, "script.o"), depending(t, "script"))
	write(t, filepath.Join(dir, "empty.o"), depending(t, ""))
	write(t, filepath.Join(dir, "foo.a"), string(fixture.Archive(t, "foo.o", depending(t, "foo"))))
	if identify("--gc-sections") == nil {
		t.Fatal("plain link: got no key, want one")
	}
	for _, args := range []string{
		"@response", "@DIR/response", "@missing", "-Wl,@response", "-Wl,--gc-sections,@DIR/response",
		"script", "DIR/script", "-T script", "-Tscript", "--script=script", "thin.a", "text.a", "-LDIR -lthin", "-LDIR -ltext",
		"foo.o", "foo.a", "script.o", "empty.o", "cut.o", "cut.bc", "cut.a",
		"dir", "--some-file=dir", "/dev/null", "--some-file=/dev/null", "-lmissing", "-LDIR -lmissing",
		"-Map=x", "--Map x", "-Wl,-Map,x", "--save-temps", "-plugin-opt=save-temps", "-plugin-opt save-temps", "-plugin-opt=obj-path=x",
		"--dependency-file=x", "--reproduce=x", "--print-map", "-ftime-trace", "-t", "-M", "--load-pass-plugin=x.so", "-mllvm=-load=x.so",
		"--just-symbols=x", "-R x", "--remap-inputs-file=x", "--config=x", "-o other",
	} {
		t.Run(args, func(t *testing.T) {
			if identify(strings.Fields(args)...) != nil {
				t.Error("got a key, want none")
			}
		})
	}
	write(t, filepath.Join(dir, "in.o"), "INPUT(/other.o)")
	if identify() != nil {
		t.Error("an input that is a script: got a key, want none")
	}
}

// TestUnknownLinker checks links for which clang runs a linker with unknown inputs.
func TestUnknownLinker(t *testing.T) {
	dir, identify := keys(t)
	for old, name := range map[string]string{"ld.lld": "ld", "ld": "ld.lld-22"} {
		if err := os.Rename(filepath.Join(dir, "llvm", old), filepath.Join(dir, "llvm", name)); err != nil && old == "ld.lld" {
			t.Fatal(err)
		}
	}
	clang := filepath.Join(dir, "llvm/clang")
	script, err := os.ReadFile(clang)
	if err != nil {
		t.Fatal(err)
	}
	for name, cached := range map[string]bool{"ld": false, "ld.bfd": false, "ld.lld-22": true, "clang-nvlink-wrapper": true, "other": false} {
		write(t, clang, strings.ReplaceAll(string(script), "/ld.lld", "/"+name))
		write(t, filepath.Join(dir, "llvm", name), "#!/bin/sh\n")
		if got := identify() != nil; got != cached {
			t.Errorf("%s: got a key: %t, want %t", name, got, cached)
		}
	}
	// A change of a program that NVIDIA's linker runs.
	write(t, clang, strings.ReplaceAll(string(script), "/ld.lld", "/clang-nvlink-wrapper"))
	write(t, filepath.Join(dir, "cuda/bin/ptxas"), "#!/bin/sh\n")
	first := identify("--cuda-path=DIR/cuda")
	write(t, filepath.Join(dir, "cuda/bin/ptxas"), "#!/bin/sh\nexit 1\n")
	if second := identify("--cuda-path=DIR/cuda"); first == nil || second == nil || first.Key == second.Key {
		t.Errorf("ptxas: got keys %v and %v, want different ones", first, second)
	}
}

// TestSharedLibraries checks that a key covers the shared libraries of a program.
func TestSharedLibraries(t *testing.T) {
	k := keyer{ctx: t.Context(), hash: newHasher(), link: process.Command{Env: []string{"PATH=/usr/bin:/bin"}}}
	if err := k.program("/bin/sh"); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(k.read, func(f used) bool { return strings.Contains(filepath.Base(f.name), "libc") }) {
		t.Errorf("got %v, want also the C library", k.read)
	}
	for line, want := range map[string]string{
		"\tlibc.so.6 => /lib/libc.so.6 (0x00007fda0320a000)\n": "/lib/libc.so.6",
		"\t/lib64/ld-linux-x86-64.so.2 (0x00007fda10835000)\n": "/lib64/ld-linux-x86-64.so.2",
		"\tlinux-vdso.so.1 (0x00007fda10833000)\n":             "",
		"\tlibx.so => not found\n":                             "",
	} {
		if got, _ := loadedLibrary(line); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

// TestPrograms replaces programs: a key covers their content, not their times.
func TestPrograms(t *testing.T) {
	for _, name := range []string{"llvm/clang", "llvm/ld.lld"} {
		t.Run(name, func(t *testing.T) {
			dir, identify := keys(t)
			name := filepath.Join(dir, name)
			before, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			first := identify()
			later := before.ModTime().Add(time.Hour)
			if err := os.Chtimes(name, later, later); err != nil {
				t.Fatal(err)
			}
			if again := identify(); again == nil || again.Key != first.Key {
				t.Error("a new time: got another key, want the same")
			}
			script, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			var changed [2]*Link
			for i, comment := range []string{"# one", "# two"} {
				write(t, name, string(script)+comment)
				if err := os.Chtimes(name, later, later); err != nil {
					t.Fatal(err)
				}
				changed[i] = identify()
			}
			if changed[0].Key == changed[1].Key {
				t.Error("another content with equal size and time: got the same key, want another one")
			}
		})
	}
}

// memory is a Memory that counts.
type memory struct {
	values            map[Key][]byte
	recalled, missing int
}

func (m *memory) Recall(key Key) ([]byte, bool) {
	value, found := m.values[key]
	if found {
		m.recalled++
	} else {
		m.missing++
	}
	return value, found
}

func (m *memory) Remember(key Key, value []byte) { m.values[key] = value }

// TestMemory checks that the digest of a program is remembered for its state, and only if a change would
// change the state.
func TestMemory(t *testing.T) {
	m := &memory{values: map[Key][]byte{}}
	hash := func(name string) Key {
		t.Helper()
		k := keyer{ctx: t.Context(), memory: m, hash: newHasher()}
		if err := k.installed(name); err != nil {
			t.Fatal(err)
		}
		return k.hash.key()
	}
	settledFile := "/bin/sh"
	first := hash(settledFile)
	if len(m.values) != 1 || m.missing != 1 {
		t.Fatalf("got %d values after %d questions, want 1 and 1", len(m.values), m.missing)
	}
	if hash(settledFile) != first || m.recalled != 1 {
		t.Error("the same program: got another key, or no remembered digest")
	}
	for key := range m.values {
		m.values[key] = make([]byte, len(Key{}))
	}
	if hash(settledFile) == first {
		t.Error("got the digest of the content, want the remembered one")
	}
	// A file that was just written can change again without another state.
	name := filepath.Join(t.TempDir(), "new")
	write(t, name, "new")
	hash(name)
	if len(m.values) != 1 {
		t.Error("a new file: got a remembered digest, want none")
	}
}

// TestUnchanged checks that a change of a file with the same size and time is found, also in the moment
// in which the file was hashed.
func TestUnchanged(t *testing.T) {
	dir, identify := keys(t)
	name := filepath.Join(dir, "in.o")
	link := identify()
	before, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, elfFile+"INPUT")
	if err := os.Chtimes(name, before.ModTime(), before.ModTime()); err != nil {
		t.Fatal(err)
	}
	if link.Unchanged() {
		t.Error("got Unchanged true, want false")
	}
	// Two contents in one state, as a file system with a slow clock has them.
	state, err := stateOf(name)
	if err != nil {
		t.Fatal(err)
	}
	_, digest, err := digestOf(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		file used
		want bool
	}{
		{used{state, digest, false}, true},
		{used{state, Key{}, false}, false},
		{used{state, digest, true}, true},
	} {
		if got := test.file.unchanged(); got != test.want {
			t.Errorf("%v: got unchanged %t, want %t", test.file, got, test.want)
		}
	}
	for _, file := range link.read {
		if strings.HasPrefix(file.name, dir) && file.settled {
			t.Errorf("%s was just written: got settled, want not", file.name)
		}
	}
}

// TestWarnings checks that a warning about the store is not stored with the output of a link.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	clang := fakeLLVM(t, filepath.Join(dir, "llvm"))
	write(t, filepath.Join(dir, "in.o"), elfFile+"input")
	s := Store{Dir: filepath.Join(dir, "cache"), Name: "CACHE"}
	run := func(messages *bytes.Buffer) {
		t.Helper()
		link := process.Command{Args: []string{clang, "-o", "out.img", "in.o"}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "LINKED=in.o"}, Stdout: messages, Stderr: messages}
		if err := s.Run(t.Context(), link, []string{"in.o"}, "out.img", messages); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		messages := bytes.NewBufferString("warning: CACHE: earlier\n")
		run(messages)
		if got, want := messages.String(), "warning: CACHE: earlier\nlinked\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	var messages bytes.Buffer
	run(&messages)
	if got, want := messages.String(), "linked\n"; got != want {
		t.Errorf("later: got %q, want %q", got, want)
	}
}

// TestEnvironment changes variables of the environment.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	clang := fakeLLVM(t, filepath.Join(dir, "llvm"))
	identify := func(env ...string) *Link {
		link, err := Identify(t.Context(), process.Command{Args: []string{clang}, Env: append(env, "PATH=/usr/bin:/bin"), Dir: dir}, nil, "out", nil)
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
	plain := identify()
	for variable, same := range map[string]bool{"HOME=/x": true, "LD_LIBRARY_PATH=/x": false, "SOURCE_DATE_EPOCH=1": false, "LC_ALL=C": false} {
		t.Run(variable, func(t *testing.T) {
			if got := identify(variable); got == nil || (got.Key == plain.Key) != same {
				t.Errorf("got %v, without the variable %v; want the same key: %t", got, plain, same)
			}
		})
	}
	for _, variable := range []string{"LD_PRELOAD=", "LD_AUDIT=x", "LLD_REPRODUCE=x"} {
		t.Run(variable, func(t *testing.T) {
			if identify(variable) != nil {
				t.Error("got a key, want none")
			}
		})
	}
}

// TestRun checks that a second link uses the stored result, and that a link whose input changes stores
// none.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	clang := fakeLLVM(t, filepath.Join(dir, "llvm"))
	input, output := filepath.Join(dir, "in.o"), filepath.Join(dir, "out.img")
	write(t, input, elfFile+"input")
	s := Store{Dir: filepath.Join(dir, "cache"), Name: "CACHE"}
	run := func() string {
		t.Helper()
		os.Remove(output)
		var messages bytes.Buffer
		link := process.Command{Args: []string{clang, "-o", "out.img", "in.o"}, Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "LINKED=" + input}, Stdout: &messages, Stderr: &messages}
		if err := s.Run(t.Context(), link, []string{"in.o"}, "out.img", &messages); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		return messages.String() + string(got)
	}
	results := func() int {
		found, err := s.results()
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return len(found)
	}
	const want = "linked\n" + elfFile + "input"
	for range 2 {
		if got := run(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if n := results(); n != 1 {
			t.Errorf("got %d results, want 1", n)
		}
	}
	// The linker replaces its input, so that the result belongs to another key.
	linker := filepath.Join(dir, "llvm/ld.lld")
	write(t, linker, "#!/bin/sh\nprintf '"+`\177`+"ELFchanged' >in.o\nwhile [ \"$1\" != -o ]; do shift; done\ncat in.o >$2\n")
	if run(); results() != 1 {
		t.Errorf("the input changed during the link: got %d results, want 1", results())
	}
}

// TestUserFiles checks that a full store does not remove files of users from its directory.
func TestUserFiles(t *testing.T) {
	dir := t.TempDir()
	s := Store{Dir: filepath.Join(dir, "cache"), Limit: 1}
	image := filepath.Join(dir, "image")
	write(t, image, "image")
	sum := key("user").String()
	names := []string{"notes", "v1/notes", "v1/new-1", "v1/ab/new-1f", "v1/ab/notes", "v1/ab/" + sum[:63], "v1/zz/" + sum, "v1/ab/.offload-notes"}
	for _, name := range names {
		name = filepath.Join(s.Dir, name)
		write(t, name, "mine")
		before := time.Now().Add(-48 * time.Hour)
		if err := os.Chtimes(name, before, before); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		if err := s.Put(key(fmt.Sprint(i)), image, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if got, err := os.ReadFile(filepath.Join(s.Dir, name)); err != nil || string(got) != "mine" {
			t.Errorf("%s: got %q and error %v, want %q", name, got, err, "mine")
		}
	}
}
