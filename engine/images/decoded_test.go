package images

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// textBundle returns a text bundle of type i with the given contents.
func textBundle(t testing.TB, contents ...string) []byte {
	return fixture.Bytes(t, func(out content.Sink) error {
		var items []bundle.Item
		for i, body := range contents {
			items = append(items, bundle.Item{ID: fmt.Sprint("hip-amdgcn-amd-amdhsa--gfx", i), Content: content.Memory([]byte(body))})
		}
		return bundle.WriteText(out, items, "//")
	})
}

// source returns n bytes that look like preprocessed sources.
func source(n int) string {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "int v%d = %d;\n", b.Len(), r.Int64())
	}
	return b.String()[:n]
}

// objectBundle returns a bundled object with an entry and a host object.
func objectBundle(t testing.TB, body string) []byte {
	const prefix = "__CLANG_OFFLOAD_BUNDLE__"
	return fixture.ELF(t, ".text", "code", prefix+"hip-amdgcn-amd-amdhsa--gfx1", body, prefix+"host-x86_64-unknown-linux-gnu-", "\x00")
}

// loaded returns the contents of all images, from Load and from Copy, which must be equal.
func loaded(t testing.TB, f *File) []string {
	t.Helper()
	list, err := f.All()
	if err != nil {
		t.Fatal(err)
	}
	contents, err := f.Load(t.Context(), list...)
	if err != nil {
		t.Fatal(err)
	}
	defer contents.Close()
	var all []string
	for i, e := range list {
		all = append(all, string(contents.Get(i).Mapped(guard.Inside)))
		var out content.Buffer
		if err := f.Copy(t.Context(), []Copy{{Image: e, To: &out}}); err != nil {
			t.Fatal(err)
		}
		if string(out.Bytes()) != all[i] {
			t.Errorf("%s: Copy writes %d bytes other than the %d of Load", e, out.Len(), len(all[i]))
		}
	}
	return all
}

// A bundle that the search decodes is not decoded again: its compressed bytes are not read
// after Open.
func TestDecodedOnce(t *testing.T) {
	text, other := textBundle(t, source(5000), "b"), textBundle(t, "c")
	for _, test := range []struct {
		name string
		data []byte
		kind bundle.FileType
		want []string
	}{
		{"text", fixture.Compressed(t, text), "i", []string{source(5000), "b"}},
		{"text written by LLVM", fixture.CompressedByLLVM(t, text), "hipi", []string{source(5000), "b"}},
		{"adjacent texts", slices.Concat(fixture.Compressed(t, text), fixture.Compressed(t, other)), "i", []string{source(5000), "b", "c"}},
		{"object", fixture.Compressed(t, objectBundle(t, "device")), "o", []string{"device", "host object"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := open(t, test.data, Options{Scope: Bundles, Type: test.kind})
			clear(f.Content().Mapped(guard.Inside)) // small files are not mapped
			got := loaded(t, f)
			for i, body := range got {
				if strings.HasPrefix(body, "\x7fELF") && !strings.Contains(body, "device") {
					got[i] = "host object"
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("visit", func(t *testing.T) {
		visited := false
		f := open(t, fixture.Archive(t, "a.o", string(fixture.Compressed(t, objectBundle(t, "device")))), Options{
			Scope: Bundles, Type: bundle.ArchiveType,
			Visit: func(ctx context.Context, v *Visit) error {
				clear(v.search.in.Content().Mapped(guard.Inside))
				contents, err := v.Load(ctx, v.Source.Images...)
				if err == nil {
					visited = string(contents[0].Mapped(guard.Inside)) == "device"
				}
				return err
			},
		})
		if _, err := f.All(); err != nil || !visited {
			t.Errorf("error %v; the visit got the content: %v", err, visited)
		}
	})
}

// Bundles that the search decoded stay in memory only while the budget suffices, and all
// memory is returned.
func TestDecodedMemory(t *testing.T) {
	const memory = 5<<20 + 64<<10 // for one content, and to decode it
	large := source(2 << 20)
	text := fixture.Compressed(t, textBundle(t, large))
	object := fixture.Compressed(t, objectBundle(t, large))
	for _, test := range []struct {
		name string
		data []byte
		kind bundle.FileType
		want int // images
		kept bool
	}{
		{"one", text, "i", 1, true},
		{"more than fit", slices.Concat(text, text, text), "i", 3, false},
		{"objects", slices.Concat(object, object, object), "o", 6, false},
		{"an archive", fixture.Archive(t, "a.o", string(object), "b.o", string(object)), bundle.ArchiveType, 4, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			shared := budget.New(2, memory)
			free := func(n int64) bool {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				reserved, err := shared.Reserve(ctx, n)
				reserved.Release()
				return err == nil
			}
			f := open(t, test.data, Options{Scope: Bundles, Type: test.kind, Budget: shared})
			if kept := !free(memory); kept != test.kept {
				t.Errorf("while the file is open, contents are kept: %v", kept)
			}
			list, err := f.All()
			if err != nil || len(list) != test.want {
				t.Fatalf("%d images, error %v, expected %d", len(list), err, test.want)
			}
			for _, e := range list {
				var out content.Buffer
				if err := f.Copy(t.Context(), []Copy{{Image: e, To: &out}}); err != nil {
					t.Fatal(err)
				}
				if !e.HostObject() && string(out.Bytes()) != large {
					t.Errorf("%s: %d bytes are not the content", e, out.Len())
				}
			}
			f.Close()
			if !free(memory) {
				t.Error("memory was not returned")
			}
		})
	}
}

// A visit can load contents that do not fit into the memory together with what the search
// decoded.
func TestDecodedMemoryVisit(t *testing.T) {
	large := source(900 << 10)
	loads := 0
	f := open(t, fixture.Compressed(t, objectBundle(t, large)), Options{
		Scope: Bundles, Budget: budget.New(1, 3<<20/2),
		Visit: func(ctx context.Context, v *Visit) error {
			contents, err := v.Load(ctx, v.Source.Images[0])
			if err == nil && string(contents[0].Mapped(guard.Inside)) == large {
				loads++
			}
			return err
		},
	})
	if _, err := f.All(); err != nil || loads != 1 {
		t.Errorf("%d loads, error %v", loads, err)
	}
}

// BenchmarkUnbundleText reads a compressed text bundle of two entries.
func BenchmarkUnbundleText(b *testing.B) {
	data := fixture.Compressed(b, textBundle(b, source(16<<20), source(8<<20)))
	b.SetBytes(24 << 20)
	for b.Loop() {
		f := open(b, data, Options{Scope: Bundles, Type: "i"})
		list, err := f.All()
		if err != nil {
			b.Fatal(err)
		}
		var copies []Copy
		for _, e := range list {
			copies = append(copies, Copy{Image: e, To: io.Discard})
		}
		if err := f.Copy(b.Context(), copies); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}
