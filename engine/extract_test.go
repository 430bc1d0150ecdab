package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// newSession returns a session in a new directory that has the given files.
func newSession(t testing.TB, inputs map[string][]byte) (*Session, string) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range inputs {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return New(Config{Dir: dir, Budget: budget.New(2, 1<<30)}), dir
}

// brief describes an image for comparison.
func brief(e *images.DeviceImage) string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s %s %d: %s 0x%x in %s %s", e.Offload, e.Triple, e.Arch, e.Format, e.Size, e.Form, e.Container, strings.Join(e.Members, " "), e.Section))
}

// unwrapped returns the images in a file.
func unwrapped(s *Session, name string) ([]*images.DeviceImage, error) {
	f, err := s.Open(context.Background(), name, images.Options{})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Unwrapped()
}

// extract extracts the images that a selection chooses.
func extract(s *Session, selection Selection) ([]error, error) {
	f, err := s.Open(context.Background(), selection.Input, images.Options{})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	extractions, err := selection.Choose(f)
	if err != nil {
		return nil, err
	}
	return s.Extract(context.Background(), f, extractions)
}

func inspected(t testing.TB, data []byte) ([]string, error) {
	t.Helper()
	s, _ := newSession(t, map[string][]byte{"in": data})
	images, err := unwrapped(s, "in")
	var found []string
	for _, e := range images {
		found = append(found, brief(e))
	}
	return found, err
}

func TestInspect(t *testing.T) {
	one, two := packedImage(t, "gfx1", "one"), packedImage(t, "gfx2", "second")
	plain, zipped := bundled(t, "gfx3", "gfx4:xnack+"), compressed(t, bundled(t, "gfx5"))
	pad := strings.Repeat("\x00", 4096)
	object := elfObject(t,
		".text", "text",
		".llvm.offloading:offloading", string(one)+string(two),
		".any:offloading", string(one),
		".llvm.offloading", string(two),
		".llvm.offloading.relocatable", string(one),
		".hip_fatbin", pad+string(plain)+pad+string(zipped)+string(zipped)+pad+string(plain)+pad,
		".nv_fatbin", string(fatbinary("ptx"))+"\x00\x00\x00\x00\x00"+string(fatbinary("sass")),
		"__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx6", "\x7fELF",
		".other", string(plain),
	)
	plainAt := func(at, in string) []string {
		return []string{
			"host x86_64-unknown-linux-gnu  none 0: bundle " + at + " in  " + in,
			"hipv4 amdgcn-amd-amdhsa gfx3 elf 8: bundle " + at + " in  " + in,
			"hipv4 amdgcn-amd-amdhsa gfx4:xnack+ elf 15: bundle " + at + " in  " + in,
		}
	}
	first := 4096 + len(plain) + 4096
	zippedAt := func(at int) []string {
		return []string{
			fmt.Sprintf("host x86_64-unknown-linux-gnu  none 0: compressed bundle 0x%x in  .hip_fatbin", at),
			fmt.Sprintf("hipv4 amdgcn-amd-amdhsa gfx5 none 8: compressed bundle 0x%x in  .hip_fatbin", at),
		}
	}
	wantObject := slices.Concat([]string{
		"hip amdgcn-amd-amdhsa gfx1 elf 3: offload binary 0x0 in  .llvm.offloading",
		fmt.Sprintf("hip amdgcn-amd-amdhsa gfx2 elf 6: offload binary 0x%x in  .llvm.offloading", len(one)),
		"hip amdgcn-amd-amdhsa gfx1 elf 3: offload binary 0x0 in  .any",
		"hip amdgcn-amd-amdhsa gfx2 elf 6: offload binary 0x0 in  .llvm.offloading",
	},
		plainAt("0x1000", ".hip_fatbin"), zippedAt(first), zippedAt(first+len(zipped)),
		plainAt(fmt.Sprintf("0x%x", first+2*len(zipped)+4096), ".hip_fatbin"),
		[]string{
			"cuda   fatbinary 19: CUDA fatbinary 0x0 in  .nv_fatbin",
			"cuda   fatbinary 20: CUDA fatbinary 0x18 in  .nv_fatbin",
			"hip amdgcn-amd-amdhsa gfx6 elf 4: bundled object 0x0 in  __CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx6",
		},
		plainAt("0x0", ".other"),
	)
	inArchive := func(member string, images []string) []string {
		var all []string
		for _, image := range images {
			before, after, _ := strings.Cut(image, " in ")
			all = append(all, strings.TrimSpace(before+" in "+member+" "+strings.TrimSpace(after)))
		}
		return all
	}
	nested := bytesOf(t, func(out content.Sink) error {
		return offloadbinary.Write(out, 2, []offloadbinary.Image{
			{Content: content.Memory(slices.Concat(one, two))},
			{Offload: offloadbinary.SYCL, Content: content.Memory([]byte("spv"))},
		})
	})
	for _, test := range []struct {
		name string
		data []byte
		want []string
	}{
		{"empty", nil, nil},
		{"text", []byte("hello"), nil},
		{"zeros", make([]byte, 100), nil},
		{"offload binary", one, []string{"hip amdgcn-amd-amdhsa gfx1 elf 3: offload binary 0x0 in"}},
		{"bundle", plain, inArchive("", plainAt("0x0", ""))},
		{"object", object, wantObject},
		{"archive", archive(t, "readme", "text", "a.o", string(object), "inner.a", string(archive(t, "b.o", string(one)))),
			append(inArchive("a.o", wantObject), "hip amdgcn-amd-amdhsa gfx1 elf 3: offload binary 0x0 in inner.a b.o")},
		{"nested", nested, []string{
			"hip amdgcn-amd-amdhsa gfx1 elf 3: offload binary 0x0 in",
			fmt.Sprintf("hip amdgcn-amd-amdhsa gfx2 elf 6: offload binary 0x%x in", len(one)),
			"sycl   none 3: offload binary 0x0 in",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := inspected(t, test.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The scope of llvm-offload-binary: only offload binaries. A section that only has the name
// counts if it contains an offload binary.
func TestScope(t *testing.T) {
	one := string(packedImage(t, "gfx1", "one"))
	s, _ := newSession(t, map[string][]byte{"in": archive(t,
		"fat.o", string(elfObject(t, ".hip_fatbin", string(bundled(t, "gfx3")), ".nv_fatbin", string(fatbinary("ptx")), ".other", one)),
		"bundle", string(bundled(t, "gfx3")),
		"named.o", string(elfObject(t, ".llvm.offloading", one)),
		"typed.o", string(elfObject(t, ".any:offloading", one)),
		"relocatable.o", string(elfObject(t, ".llvm.offloading.relocatable", one)),
		"else.o", string(elfObject(t, ".llvm.offloading", "something else")),
	)})
	var members []string
	f, err := s.Open(context.Background(), "in", images.Options{Scope: images.OffloadBinaries})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.All()
	for _, e := range all {
		members = append(members, e.Member())
	}
	if diff := cmp.Diff([]string{"named.o", "typed.o"}, members); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestThinArchive(t *testing.T) {
	one := packedImage(t, "gfx1", "one")
	thin := func(name string) []byte { return fixture.ThinArchive(name, len(one)) }
	s, _ := newSession(t, map[string][]byte{"dir/lib.a": thin("sub/one.bin"), "dir/sub/one.bin": one, "loop.a": thin("loop.a"), "lost.a": thin("lost.o"), "zero.a": thin("/dev/zero"), "stdin.a": thin("-"), "dir/bad.a": thin("bad.o"), "dir/bad.o": one[:40]})
	images, err := unwrapped(s, "dir/lib.a")
	if err != nil || len(images) != 1 || images[0].Member() != "one.bin" {
		t.Errorf("%v, %v", images, err)
	}
	if _, err := unwrapped(s, "loop.a"); err == nil || !strings.Contains(err.Error(), "nested more than 32 deep") {
		t.Errorf("loop.a: %v", err)
	}
	for name, want := range map[string]string{"zero.a": "zero.a(/dev/zero): '/dev/zero': Not a regular file", "stdin.a": "stdin.a(-): '-': No such file or directory", "dir/bad.a": "dir/bad.a(bad.o): offload binary at byte 0x0: its size of 152 bytes passes the end at 40"} {
		if _, err := unwrapped(s, name); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	want := "lost.a(lost.o): 'lost.o': No such file or directory"
	if _, err := unwrapped(s, "lost.a"); err == nil || err.Error() != want {
		t.Errorf("lost.a: %v, want %s", err, want)
	}
}

func TestInspectErrors(t *testing.T) {
	bad := packedImage(t, "gfx1", "one")
	bad[8] = 0xff
	cut := bundled(t, "gfx1")
	cut = cut[:len(cut)-1]
	for _, test := range []struct {
		name string
		data []byte
		want string
	}{
		{"offload binary", bad, "in: offload binary at byte 0x0: its size of 255 bytes passes the end at 152"},
		{"section", elfObject(t, ".llvm.offloading:offloading", string(bad)), "in: section .llvm.offloading: offload binary at byte 0x0: its size"},
		{"member", archive(t, "good.o", string(packedImage(t, "a", "b")), "a/bad.o", string(elfObject(t, ".x:offloading", string(bad)))), "in(a/bad.o): section .x: offload binary at byte 0x0: its size"},
		{"bundle", cut, "in: plain bundle at byte 0x0: entry 2 of 2 at byte 0x56: offset 0x1000 + size 0x8 passes the end"},
		{"fatbinary", elfObject(t, ".nv_fatbin", string(fatbinary("x")[:16])), "in: section .nv_fatbin: CUDA fatbinary at byte 0x0: header 0x10 + size 0x1 passes the end at 0x10"},
		{"bitcode", []byte("BC\xc0\xde0"), "in: bitcode"},
		{"archive", []byte("!<arch>\nshort"), "in: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := inspected(t, test.data); err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// Files that hold more than they could if nothing overlapped.
func TestHostileNesting(t *testing.T) {
	le := binary.LittleEndian
	// Two entries of an offload binary refer to the same nested one, many levels deep: 2 to the
	// power of 30 images.
	inner := packedImage(t, "gfx1", "x")
	for range 30 {
		p := bytesOf(t, func(out content.Sink) error {
			return offloadbinary.Write(out, 2, []offloadbinary.Image{{Content: content.Memory(inner)}, {}})
		})
		copy(p[32+40+24:], p[32+24:32+40])
		inner = p
	}
	start := time.Now()
	if _, err := inspected(t, inner); err == nil || !strings.Contains(err.Error(), "images in a nested offload binary overlap") {
		t.Errorf("overlapping: %v", err)
	}
	// An image that is its own package.
	self := packedImage(t, "gfx1", "x")
	le.PutUint64(self[56:], 0)
	le.PutUint64(self[64:], uint64(len(self)))
	if _, err := inspected(t, self); err == nil || !strings.Contains(err.Error(), "nested more than 32 deep") {
		t.Errorf("itself: %v", err)
	}
	// Many sections with the same content.
	var sections []string
	for range 200 {
		sections = append(sections, ".x:offloading", strings.Repeat(string(packedImage(t, "gfx1", "x")), 10))
	}
	p := elfObject(t, sections...)
	headers := le.Uint64(p[40:])
	for i := range 200 {
		at := headers + 64*uint64(i+1) + 24
		le.PutUint64(p[at:], 64)
		le.PutUint64(p[at+8:], headers-64)
	}
	copy(p[64:], packedImage(t, "gfx1", "x"))
	if _, err := inspected(t, p); err == nil {
		t.Error("sections: no error")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// Compressed offload binaries are read, also inside each other.
func TestCompressedPackages(t *testing.T) {
	inner := deflated(t, strings.Repeat("image ", 100))
	got, err := inspected(t, deflated(t, string(inner)))
	want := []string{"none   elf 600: offload binary 0x0 in"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// read returns the files in a directory except the input.
func read(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if entry.Name() != "in.bin" {
			all[entry.Name()] = string(data)
		}
	}
	return all
}

func TestExtract(t *testing.T) {
	fat := elfObject(t, ".hip_fatbin", string(compressed(t, bundled(t, "gfx5", "gfx6")))+string(bundled(t, "gfx7")))
	lib := archive(t, "a.o", string(elfObject(t, ".llvm.offloading:offloading", string(packedImage(t, "gfx1", "one")))), "b.o", string(packedImage(t, "gfx/2", "second")), "fat.o", string(fat))
	for _, test := range []struct {
		name     string
		requests []string
		archive  bool
		want     map[string]string
		err      string
	}{
		{name: "everything", want: map[string]string{
			"in-amdgcn-amd-amdhsa-gfx1.0.o": "one", "in-amdgcn-amd-amdhsa-gfx_2.1.o": "second",
			"in-amdgcn-amd-amdhsa-gfx5.2.o": "\x7fELFgfx5", "in-amdgcn-amd-amdhsa-gfx6.3.o": "\x7fELFgfx6", "in-amdgcn-amd-amdhsa-gfx7.4.o": "\x7fELFgfx7",
		}},
		{name: "one each", requests: []string{"arch=gfx1,file=x", "kind=hip,arch=gfx6,file=y", "id=hipv4-amdgcn-amd-amdhsa--gfx7,file=z"},
			want: map[string]string{"x": "one", "y": "\x7fELFgfx6", "z": "\x7fELFgfx7"}},
		{name: "no match", requests: []string{"arch=gfx1,file=x", "arch=gfx9,file=y"},
			err: "in.bin: no image has arch=gfx9; there are hip amdgcn-amd-amdhsa gfx1 of a.o, hip amdgcn-amd-amdhsa gfx/2 of b.o, host x86_64-unknown-linux-gnu of fat.o (2 times), hipv4 amdgcn-amd-amdhsa gfx5 of fat.o"},
		{name: "several", requests: []string{"member=fat.o,kind=hip,file=x"},
			err: "in.bin: 3 images have member=fat.o,kind=hip: hipv4 amdgcn-amd-amdhsa gfx5 of fat.o,"},
		{name: "archive", requests: []string{"member=fat.o,kind=hip,file=x.a"}, archive: true,
			want: map[string]string{"x.a": string(archive(t, "in-amdgcn-amd-amdhsa-gfx5.0.o", "\x7fELFgfx5", "in-amdgcn-amd-amdhsa-gfx6.1.o", "\x7fELFgfx6", "in-amdgcn-amd-amdhsa-gfx7.2.o", "\x7fELFgfx7"))}},
		{name: "archive without file", requests: []string{"kind=hip"}, archive: true, err: "in.bin: no file name for the archive of images with kind=hip"},
		{name: "same output twice", requests: []string{"arch=gfx1,file=x", "arch=gfx5,file=x"}, err: "x"},
		{name: "over the input", requests: []string{"arch=gfx1,file=in.bin"}, err: "in.bin"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, dir := newSession(t, map[string][]byte{"in.bin": lib})
			selection := Selection{Input: "in.bin", Archive: test.archive}
			for _, request := range test.requests {
				selection.Requests = append(selection.Requests, ParseProperties(request))
			}
			_, err := extract(s, selection)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %s", err, test.err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if test.want == nil {
				test.want = map[string]string{}
			}
			if diff := cmp.Diff(test.want, read(t, dir)); diff != "" {
				t.Errorf("outputs (-want +got):\n%s", diff)
			}
		})
	}
}

// More images than a process may have files open.
func TestExtractMany(t *testing.T) {
	var data []byte
	for i := range 600 {
		data = append(data, packedImage(t, fmt.Sprint("gfx", i), fmt.Sprint(i))...)
	}
	s, dir := newSession(t, map[string][]byte{"in.bin": data})
	selection := Selection{Input: "in.bin"}
	if _, err := extract(s, selection); err != nil {
		t.Fatal(err)
	}
	got := read(t, dir)
	if len(got) != 600 || got["in-amdgcn-amd-amdhsa-gfx599.599.o"] != "599" {
		t.Errorf("%d files: %q …", len(got), slices.Sorted(maps.Keys(got))[:3])
	}
}

func FuzzInspect(f *testing.F) {
	one := string(packedImage(f, "gfx1", "one"))
	f.Add([]byte(one))
	f.Add(deflated(f, one))
	f.Add(bundled(f, "gfx3"))
	f.Add(compressed(f, bundled(f, "gfx3")))
	f.Add(elfObject(f, ".llvm.offloading:offloading", one, ".hip_fatbin", string(compressed(f, bundled(f, "gfx3"))), ".nv_fatbin", string(fatbinary("x"))))
	f.Add(archive(f, "a", one, "b", string(archive(f, "c", one))))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := New(Config{Stdin: bytes.NewReader(data), Budget: budget.New(1, 64<<20)})
		images, err := unwrapped(s, "-")
		if err != nil && (err.Error() == "" || strings.Contains(err.Error(), "panic")) {
			t.Fatal(err)
		}
		for _, e := range images {
			if e.Size < 0 {
				t.Fatalf("%s", brief(e))
			}
		}
	})
}
