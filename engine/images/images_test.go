package images

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// open opens a file with the given content, and closes it after the test.
func open(t testing.TB, data []byte, opt Options) *File {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in"), data, 0o666); err != nil {
		t.Fatal(err)
	}
	if opt.Budget == nil {
		opt.Budget = budget.New(2, 1<<30)
	}
	root := files.NewRoot(dir)
	input, err := root.Open("in")
	if err != nil {
		t.Fatal(err)
	}
	opt.OpenMember = func(path string) (Input, error) { return root.OpenRegular(path) }
	f, err := Read(t.Context(), input, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// places returns a line for each image in a file, and the error if there is one.
func places(f *File) []string {
	lines := []string{}
	for e, err := range f.Images() {
		if err != nil {
			lines = append(lines, "fault: "+err.Error())
			continue
		}
		line := fmt.Sprintf("%s %s: %s 0x%x", e.Place.String(), e.Arch, e.Form, e.Container)
		if e.Bundle > 0 {
			line += fmt.Sprintf(" bundle %d", e.Bundle)
		}
		lines = append(lines, fmt.Sprintf("%s index %d at 0x%x, %d bytes", line, e.Index, e.Offset, e.Size))
	}
	return lines
}

func TestPlaces(t *testing.T) {
	plain := fixture.Bundle(t, "gfx1", "gfx2")
	packed := fixture.Compressed(t, plain)
	one := fixture.OffloadBinary(t, "gfx3", "three")
	text := "\n// __CLANG_OFFLOAD_BUNDLE____START__ hip-amdgcn-amd-amdhsa--gfx4\nfour\n// __CLANG_OFFLOAD_BUNDLE____END__ hip-amdgcn-amd-amdhsa--gfx4\n"
	entry := "__CLANG_OFFLOAD_BUNDLE__"
	host := entry + "host-x86_64-unknown-linux-gnu-"
	object := fixture.ELF(t, entry+"hip-amdgcn-amd-amdhsa--gfx6", "six", host, "\x00")
	join := func(parts ...[]byte) []byte {
		var all []byte
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	for _, test := range []struct {
		name string
		data []byte
		opt  Options
		want []string
	}{
		{name: "nothing", data: []byte("text"), want: []string{}},
		{name: "empty", data: nil, want: []string{}},
		{name: "several bundles", data: join(plain, packed), want: []string{
			"in : bundle 0x0 bundle 1 index 0 at 0x1000, 0 bytes",
			"in gfx1: bundle 0x0 bundle 1 index 1 at 0x1000, 8 bytes",
			"in gfx2: bundle 0x0 bundle 1 index 2 at 0x2000, 8 bytes",
			"in : compressed bundle 0x2008 bundle 2 index 0 at 0x1000, 0 bytes",
			"in gfx1: compressed bundle 0x2008 bundle 2 index 1 at 0x1000, 8 bytes",
			"in gfx2: compressed bundle 0x2008 bundle 2 index 2 at 0x2000, 8 bytes",
		}},
		{name: "a damaged bundle after another", data: join(plain, plain[:0x2000]), want: []string{
			"in : bundle 0x0 bundle 1 index 0 at 0x1000, 0 bytes",
			"in gfx1: bundle 0x0 bundle 1 index 1 at 0x1000, 8 bytes",
			"in gfx2: bundle 0x0 bundle 1 index 2 at 0x2000, 8 bytes",
			"fault: in: plain bundle at byte 0x2008: entry 3 of 3 at byte 0x8b: offset 0x2000 + size 0x8 passes the end of the file (8,192 bytes). Not a whole bundle: was it cut short?",
		}},
		{name: "members of an archive", data: fixture.Archive(t, "a.bin", string(one), "text", "text", "b.o", string(fixture.ELF(t, ".x:offloading", string(one)+string(one)))), want: []string{
			"in(a.bin) gfx3: offload binary 0x0 index 0 at 0x90, 5 bytes",
			"in(b.o): section .x gfx3: offload binary 0x0 index 0 at 0xd0, 5 bytes",
			"in(b.o): section .x gfx3: offload binary 0x98 index 0 at 0x168, 5 bytes",
		}},
		{name: "strings with the magic of bundles", data: fixture.ELF(t, ".rodata", "CCOB is a magic", ".data", bundle.Magic+" is one, too", ".kept", string(plain)), want: []string{
			"in: section .kept : bundle 0x0 bundle 1 index 0 at 0x1078, 0 bytes",
			"in: section .kept gfx1: bundle 0x0 bundle 1 index 1 at 0x1078, 8 bytes",
			"in: section .kept gfx2: bundle 0x0 bundle 1 index 2 at 0x2078, 8 bytes",
		}},
		{name: "a damaged member after another", data: fixture.Archive(t, "a.bin", string(one), "b.bin", string(one[:100]), "c.bin", string(one)), want: []string{
			"in(a.bin) gfx3: offload binary 0x0 index 0 at 0x90, 5 bytes",
			"fault: in(b.bin): offload binary at byte 0x0: its size of 152 bytes passes the end at 100",
		}},
		{name: "a text bundle", data: []byte(text), opt: Options{Scope: Bundles, Type: "i"}, want: []string{
			"in gfx4: text bundle 0x0 bundle 1 index 0 at 0x42, 4 bytes",
		}},
		{name: "a compressed text bundle", data: fixture.Compressed(t, []byte(text)), opt: Options{Scope: Bundles, Type: "i"}, want: []string{
			"in gfx4: compressed bundle 0x0 bundle 1 index 0 at 0x42, 4 bytes",
		}},
		{name: "a bundled object", data: object, opt: Options{Scope: Bundles}, want: []string{
			"in gfx6: bundled object 0x0 bundle 1 index 0 at 0x40, 3 bytes",
			"in : bundled object 0x0 bundle 1 index 1 at 0x48, 1 bytes",
		}},
		{name: "a bundled object for every reader", data: object, want: []string{
			"in: section " + entry + "hip-amdgcn-amd-amdhsa--gfx6 gfx6: bundled object 0x0 index 0 at 0x40, 3 bytes",
			"in: section " + host + " : bundled object 0x0 index 0 at 0x48, 1 bytes",
		}},
		{name: "an archive of bundles", data: fixture.Archive(t, "a.o", string(object), "b.bc", string(packed)), opt: Options{Scope: Bundles, Type: bundle.ArchiveType}, want: []string{
			"in(a.o) gfx6: bundled object 0x0 bundle 1 index 0 at 0x40, 3 bytes",
			"in(a.o) : bundled object 0x0 bundle 1 index 1 at 0x48, 1 bytes",
			"in(b.bc) : compressed bundle 0x0 bundle 1 index 0 at 0x1000, 0 bytes",
			"in(b.bc) gfx1: compressed bundle 0x0 bundle 1 index 1 at 0x1000, 8 bytes",
			"in(b.bc) gfx2: compressed bundle 0x0 bundle 1 index 2 at 0x2000, 8 bytes",
		}},
		{name: "no bundle for a type", data: plain, opt: Options{Scope: Bundles, Type: "i"}, want: []string{}},
		{name: "an unknown type", data: plain, opt: Options{Scope: Bundles, Type: "x"}, want: []string{"fault: unknown file type \"x\": expected i, ii, cui, hipi, d, ll, s, bc, gch, ast, o or a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, places(open(t, test.data, test.opt))); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
}

// Load and Copy return the original contents for every form of storage.
func TestContents(t *testing.T) {
	plain := fixture.Bundle(t, "gfx1", "gfx2")
	host := "__CLANG_OFFLOAD_BUNDLE__host-x86_64-unknown-linux-gnu-"
	object := fixture.ELF(t, ".text", "code", host, "\x00")
	stripped := string(fixture.ELF(t, ".text", "code"))
	for _, test := range []struct {
		name string
		data []byte
		opt  Options
		want []string
	}{
		{"plain", plain, Options{}, []string{"", "\x7fELFgfx1", "\x7fELFgfx2"}},
		{"compressed", fixture.Compressed(t, plain), Options{}, []string{"", "\x7fELFgfx1", "\x7fELFgfx2"}},
		{"both", append(fixture.Compressed(t, plain), plain...), Options{Verify: true, Scope: Bundles}, []string{"", "\x7fELFgfx1", "\x7fELFgfx2", "", "\x7fELFgfx1", "\x7fELFgfx2"}},
		{"host object", object, Options{Scope: Bundles}, []string{stripped}},
		{"compressed host object", fixture.Compressed(t, object), Options{Scope: Bundles}, []string{stripped}},
		{"compressed offload binary", fixture.CompressedOffloadBinary(t, "image"), Options{}, []string{"image"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := open(t, test.data, test.opt)
			list, err := f.All()
			if err != nil {
				t.Fatal(err)
			}
			contents, err := f.Load(t.Context(), list...)
			if err != nil {
				t.Fatal(err)
			}
			defer contents.Close()
			var loaded, copied []string
			for i, e := range list {
				loaded = append(loaded, string(contents.Get(i).Mapped(guard.Inside)))
				var out content.Buffer
				if err := f.Copy(t.Context(), []Copy{{Image: e, To: &out}}); err != nil {
					t.Fatal(err)
				}
				copied = append(copied, string(out.Bytes()))
			}
			if test.name == "host object" || test.name == "compressed host object" {
				// Layouts differ at the position of a section; the test checks that it was removed.
				for _, list := range [][]string{loaded, copied} {
					if strings.Contains(list[0], host) || !strings.Contains(list[0], "code") {
						t.Errorf("the host object is %q", list[0])
					}
				}
				return
			}
			if diff := cmp.Diff(test.want, loaded); diff != "" {
				t.Errorf("loaded (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, copied); diff != "" {
				t.Errorf("copied (-want +got):\n%s", diff)
			}
		})
	}
}

// Damage to a compressed bundle is noticed when a content is used.
func TestDamagedContents(t *testing.T) {
	data := fixture.Compressed(t, fixture.Bundle(t, "gfx1"))
	const hash = 24 // in the header of version 3
	data[hash]++
	f := open(t, data, Options{Verify: true})
	list, err := f.All()
	if err != nil {
		var placed *PlaceError
		if !errors.As(err, &placed) || placed.Place != "in" {
			t.Errorf("error %v", err)
		}
		return
	}
	if _, err := f.Load(t.Context(), list...); err == nil || !strings.HasPrefix(err.Error(), "in: ") {
		t.Errorf("error %v", err)
	}
}

// The memory of contents and of the file goes back to the budget.
func TestMemory(t *testing.T) {
	const memory = 1 << 20
	inner := fixture.CompressedOffloadBinary(t, strings.Repeat("image ", 1000))
	for _, data := range [][]byte{
		[]byte("file"), inner, append(append([]byte{}, inner...), inner...), fixture.CompressedOffloadBinary(t, string(inner)),
		fixture.Compressed(t, fixture.Bundle(t, "gfx1")),
	} {
		budget := budget.New(1, memory)
		f := open(t, data, Options{Budget: budget})
		list, err := f.Unwrapped()
		if err != nil {
			t.Fatal(err)
		}
		contents, err := f.Load(t.Context(), list...)
		if err != nil {
			t.Fatal(err)
		}
		contents.Close()
		f.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		all, err := budget.Reserve(ctx, memory)
		if err != nil {
			t.Error("memory was not given back")
		}
		all.Release()
	}
}

// While a file with compressed offload binaries is open, their memory is taken.
func TestInflationIsReserved(t *testing.T) {
	const memory = 8000
	image := strings.Repeat("image ", 1000)
	budget := budget.New(1, memory)
	open(t, fixture.CompressedOffloadBinary(t, image), Options{Budget: budget})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := budget.Reserve(ctx, memory-int64(len(image))); err == nil {
		t.Error("nothing was reserved")
	}
}

// Nested offload binaries are images of their own when they are asked for, and
// their faults matter only then.
func TestUnwrap(t *testing.T) {
	inner := string(fixture.OffloadBinary(t, "gfx1", "one")) + string(fixture.OffloadBinary(t, "gfx2", "two"))
	f := open(t, []byte(string(fixture.OffloadBinary(t, "outer", inner))+string(fixture.OffloadBinary(t, "bad", inner[:len(inner)-20]))), Options{})
	list, err := f.All()
	if err != nil || len(list) != 2 {
		t.Fatalf("%d images, %v", len(list), err)
	}
	images, err := list[0].Unwrap()
	if err != nil || len(images) != 2 || images[0].Arch != "gfx1" || images[1].Arch != "gfx2" {
		t.Errorf("nested: %v, %v", images, err)
	}
	if _, err := list[1].Unwrap(); err == nil || !strings.HasPrefix(err.Error(), "in: offload binary at byte 0x98: ") {
		t.Errorf("error %v", err)
	}
	if _, err := f.Unwrapped(); err == nil {
		t.Error("Unwrapped returns no error")
	}
}

// The order of clang-offload-bundler is that of a hash table, in each bundle.
func TestBundlerOrder(t *testing.T) {
	one := fixture.Bundle(t, "gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100")
	f := open(t, append(one, one...), Options{})
	var archs []string
	for source, err := range f.Sources() {
		if err != nil {
			t.Fatal(err)
		}
		var stored []string
		for _, e := range source.Images {
			stored = append(stored, e.Arch)
		}
		for _, e := range source.BundlerOrder() {
			archs = append(archs, e.Arch)
		}
		if cmp.Equal(stored, archs) {
			t.Error("the order is that of the file")
		}
	}
	if half := len(archs) / 2; len(archs) != 14 || !cmp.Equal(archs[:half], archs[half:]) {
		t.Errorf("order %q", archs)
	}
}

// The number of examined items is limited.
func TestNumberIsBounded(t *testing.T) {
	one := string(fixture.OffloadBinary(t, "gfx1", "x"))
	data := fixture.Archive(t, "a", one+one, "b", one)
	const things = 1 + 2 + 3 + 3 // the archive, its members, offload binaries, images
	f := &File{name: "in", budget: budget.New(2, 1<<20)}
	for left := range things + 1 {
		s := &search{in: f, memory: new(inflation), left: left, opt: Options{Budget: f.budget}}
		err := s.file(t.Context(), content.Memory(data), place{Place: Place{File: "in"}, path: "in"})
		if left == things && err != nil || left < things && (err == nil || !strings.Contains(err.Error(), "more than 1048576 images and archive members")) {
			t.Errorf("%d: %v", left, err)
		}
	}
}

// Cancelling a search ends it with the cause.
func TestOpenCancelled(t *testing.T) {
	cause := errors.New("no reader")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "in"), fixture.Bundle(t, "gfx1"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, filepath.Join(dir, "in"), Options{}); err != cause {
		t.Errorf("error %v", err)
	}
}

// Without options, Open reports a missing file.
func TestOpenDefaults(t *testing.T) {
	name := filepath.Join(t.TempDir(), "in")
	if _, err := Open(t.Context(), name, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(name, fixture.Bundle(t, "gfx1"), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if list, err := f.All(); err != nil || len(list) != 2 {
		t.Errorf("%d images, %v", len(list), err)
	}
}
