package verb

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/kpack"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
	"github.com/rules-offload/rules_offload/internal/testing/testelf"
)

// A written is a command line that writes a file, and those that must read it.
type written struct {
	write []string
	read  [][]string
}

// words splits command lines. Each %s in them is a word of names.
func words(line string, names ...string) (list []string) {
	for word := range strings.FieldsSeq(line) {
		for strings.Contains(word, "%s") {
			word = strings.Replace(word, "%s", names[0], 1)
			names = names[1:]
		}
		list = append(list, word)
	}
	return list
}

// lines returns command lines of words.
func lines(text string) (list [][]string) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 {
			list = append(list, fields)
		}
	}
	return list
}

// runLarge is runIn with more memory.
func runLarge(dir string, args ...string) (code int, stderr string) {
	var errs bytes.Buffer
	code = Run(context.Background(), &command.Call{
		Name: "offload", Args: args, Stdout: io.Discard, Stderr: &errs,
		Session: engine.New(engine.Config{Dir: dir, Stdout: io.Discard, Budget: budget.New(2, 2<<30)}),
	})
	return code, errs.String()
}

// agree runs the writer, and all readers if it succeeds. It returns what the writer printed if it fails.
func (w written) agree(t interface {
	Helper()
	Errorf(string, ...any)
}, dir string) (refused string) {
	t.Helper()
	for _, name := range []string{"out", "parts", "read"} {
		os.RemoveAll(filepath.Join(dir, name))
	}
	if code, stderr := runLarge(dir, w.write...); code != 0 {
		return stderr
	}
	for _, args := range w.read {
		for _, name := range []string{"read", "reads"} {
			os.RemoveAll(filepath.Join(dir, name))
		}
		if err := os.Mkdir(filepath.Join(dir, "reads"), 0o777); err != nil {
			t.Errorf("%v", err)
		}
		if code, stderr := runLarge(dir, args...); code != 0 {
			shown := w.write
			if len(shown) > 12 {
				shown = append(slices.Clone(shown[:12]), "...")
			}
			t.Errorf("offload %q wrote what offload %q does not read: exit code %d, %.500s", shown, args, code, stderr)
		}
	}
	return ""
}

// Readers of any file, of bundles in the types of clang-offload-bundler, and of archives.
const (
	anyReaders = `
		inspect out
		inspect --json out
		report --json read out
		extract --output-dir reads out
		diff out out
	`
	bundleReaders = `
		list --type TYPE out
		list --type TYPE --json out
	`
)

// agreementFiles writes the inputs of the command lines of agreement tests, and returns their directory.
func agreementFiles(t *testing.T) string {
	t.Helper()
	object := testelf.CodeObject{ABI: 3, Flags: 0x53f, Kernels: []testelf.Kernel{device("k", 8, 0)}}.Build()
	library := testelf.Library{Bundles: [][]byte{fixture.BundleOf(t, bundle.Options{Align: 4096}, bundle.Item{ID: "hipv4-amdgcn-amd-amdhsa--gfx90a", Content: content.Memory(object)})}, Wrappers: []int{0}}
	return writeAll(t, map[string][]byte{"image": object, "lib.so": library.Build(), "text": []byte("text\n"), "host.o": fixture.ELF(t, ".text", "code"), "empty": nil})
}

// TestAgreementAtLimits writes as many entries, images and members as writers accept, and one more.
func TestAgreementAtLimits(t *testing.T) {
	dir := agreementFiles(t)
	entries := func(n int) []string {
		args := []string{"--entry", "host-x86_64-unknown-linux-gnu=host.o"}
		for i := 1; i < n; i++ {
			args = append(args, "--entry", fmt.Sprintf("openmp-nvptx64-nvidia-cuda-e%d--sm_80=text", i))
		}
		return args
	}
	// Package bundle has the test of all forms.
	for _, test := range []struct {
		args     string
		n        int
		accepted bool
		read     string
	}{
		{"--type o", 1<<16 + 1, false, "inspect out"},
		{"--type bc --compress", 1 << 16, true, "list --type bc out\nextract --archive --image kind=openmp,file=read out"},
	} {
		t.Run("bundle "+test.args, func(t *testing.T) {
			w := written{append(words("bundle --output out "+test.args), entries(test.n)...), lines(test.read)}
			if refused := w.agree(t, dir); (refused == "") != test.accepted {
				t.Errorf("%d entries: got accepted %t, want %t: %.200s", test.n, refused == "", test.accepted, refused)
			}
		})
	}
	for _, args := range []string{"", "--format-version 3 --compress"} {
		t.Run("pack "+args, func(t *testing.T) {
			w := written{append(words("pack --output out "+args), slices.Repeat([]string{"--image", "file=image,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=hip"}, 1<<16+1)...), lines("extract --archive --image kind=hip,file=read out\nembed --input host.o --output read out")}
			if refused := w.agree(t, dir); refused != "" {
				t.Errorf("got %.200s, want success", refused)
			}
		})
	}
	t.Run("archive", func(t *testing.T) {
		if code, stderr := runLarge(dir, words("bundle --output member --entry gfx90a=text")...); code != 0 {
			t.Fatal(stderr)
		}
		w := written{append(words("archive --output out"), slices.Repeat([]string{"member"}, 1<<16+1)...), lines("list --type a out\nunbundle-archive --entry gfx90a=read out")}
		if refused := w.agree(t, dir); refused != "" {
			t.Errorf("got %.200s, want success", refused)
		}
	})
}

// TestAgreementOfNames writes with names of all kinds.
func TestAgreementOfNames(t *testing.T) {
	dir := agreementFiles(t)
	pieces := []string{
		"a", "B", "7", "/", "..", ".", "\\", ":", "#", "#0", " ", "\n", "\r", "\t", "é", "\u202e", "\xff", "-", "--", "=", "%", "*", "'", "\"", "C:", "lib", "__.SYMDEF", "#1/4", "//",
		"/SYM64/", strings.Repeat("x", 100),
	}
	name := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 4).Draw(t, "pieces"), "")
	})
	fileName := rapid.Custom(func(t *rapid.T) string {
		s := strings.ReplaceAll(name.Draw(t, "name"), "/", "_")
		if len(s) > 200 || s == "" || s == "." || s == ".." {
			return "file"
		}
		return s
	})
	copyTo := func(t *rapid.T, from, to string) {
		data, err := os.ReadFile(filepath.Join(dir, from))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), data, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if code, stderr := runLarge(dir, words("bundle --output member --entry gfx90a=text")...); code != 0 {
		t.Fatal(stderr)
	}
	for what, draw := range map[string]func(t *rapid.T) written{
		"bundle": func(t *rapid.T) written {
			typ := rapid.SampledFrom([]string{"bc", "o", "ii", "s", "ll"}).Draw(t, "type")
			id := rapid.SampledFrom([]string{"", "hip-", "hipv4-", "openmp-", "host-"}).Draw(t, "kind") + "amdgcn-amd-" + name.Draw(t, "system") + "-" + name.Draw(t, "environment") + "-" + name.Draw(t, "processor")
			w := written{words("bundle --output out --type "+typ+" --entry %s --entry gfx90a=text --entry host-x86_64-unknown-linux-gnu=host.o", id+"=text"), lines(strings.ReplaceAll(bundleReaders, "TYPE", typ))}
			w.read = append(w.read, words("unbundle --type "+typ+" --input out --entry %s", id+"=read"))
			if typ == "bc" || typ == "o" {
				w.read = append(w.read, lines(anyReaders)...)
			}
			return w
		},
		"pack": func(t *rapid.T) written {
			version := rapid.SampledFrom([]string{"", "--format-version 2", "--format-version 3", "--format-version 3 --compress"}).Draw(t, "version")
			image := "file=image,triple=" + name.Draw(t, "triple") + ",arch=" + name.Draw(t, "arch") + "," + name.Draw(t, "key") + "=" + name.Draw(t, "value")
			return written{words("pack --output out "+version+" --image %s", image), lines(anyReaders + "embed --input host.o --output read out\n")}
		},
		"archive": func(t *rapid.T) written {
			member := fileName.Draw(t, "member")
			copyTo(t, "member", member)
			return written{[]string{"archive", "--output", "out", "--", member}, lines(anyReaders + "list --type a out\nunbundle-archive --entry gfx90a=read out\n")}
		},
		"kpack": func(t *rapid.T) written {
			scheme := rapid.SampledFrom([]string{"none", "zstd"}).Draw(t, "scheme")
			group, library := "g", name.Draw(t, "name")
			if rapid.Bool().Draw(t, "named") {
				group, library = name.Draw(t, "group"), "lib"
			}
			archive := "parts/" + group + "_gfx90a.kpack"
			return written{
				words("kpack split lib.so --output out --kpack-dir parts --scheme "+scheme+" --group %s --kernel-name %s", group, library),
				[][]string{
					{"kpack", "list", "out"}, {"kpack", "verify", "out", archive}, {"kpack", "list", "--json", archive}, {"kpack", "extract", "--output-dir", "reads", archive},
					{"kpack", "merge", "--output", "read", "--input", "out", archive}, {"check", "--covers", "gfx90a", "out"}, {"kpack", "verify", "out", archive},
				},
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			accepted := 0
			rapid.Check(t, func(t *rapid.T) {
				if draw(t).agree(t, dir) == "" {
					accepted++
				}
			})
			t.Logf("%d names were accepted", accepted)
			if accepted == 0 {
				t.Error("got no accepted name, want some")
			}
		})
	}
}

// TestKpackNames splits a library under names that no reader accepts, and extracts entries whose files would
// have the same name or one that is too long.
func TestKpackNames(t *testing.T) {
	dir := agreementFiles(t)
	for _, name := range []string{"../evil", "a/../../b", "/absolute", `..\b`, "C:/x", "\xff"} {
		code, stderr := runLarge(dir, "kpack", "split", "lib.so", "--output", "out", "--kpack-dir", "parts", "--group", "g", "--kernel-name", name)
		if code != 1 || !strings.Contains(stderr, "expected a file name in UTF-8 that is not empty or absolute") {
			t.Errorf("%q: got exit code %d and %q, want an error", name, code, stderr)
		}
		if _, err := os.Stat(filepath.Join(dir, "parts")); err == nil {
			t.Errorf("%q: got archives, want none", name)
		}
	}
	a := kpack.Archive{Group: "g", Family: "gfx90a", Archs: []string{"gfx90a"}, Scheme: kpack.None}
	long := strings.Repeat("long/", 100)
	for i, key := range []string{"a/b#0", "a_b#0", "a:b#0", long + "a#0", long + "b#0"} {
		a.Entries = append(a.Entries, kpack.Entry{Key: key, Arch: "gfx90a", Type: "hsaco", Ordinal: i, Size: 1, Stored: content.Memory([]byte{byte('0' + i)})})
	}
	write(t, filepath.Join(dir, "g.kpack"), fixture.Bytes(t, func(sink content.Sink) error { return kpack.Write(sink, &a) }))
	if code, stderr := runLarge(dir, "kpack", "extract", "--output-dir", "files", "g.kpack"); code != 0 {
		t.Fatal(stderr)
	}
	files, err := os.ReadDir(filepath.Join(dir, "files"))
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(dir, "files", file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got += string(data)
	}
	if len(files) != 5 || files[0].Name() != "a_b_0-gfx90a-2.hsaco" || strings.Trim(got, "01234") != "" {
		t.Errorf("got %v with %s, want a file for each entry", files, got)
	}
}
