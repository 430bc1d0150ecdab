package images

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/ar"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

// Visits get every source once, with the contents that File.Load returns
// without them.
func TestVisit(t *testing.T) {
	var members []string
	want := map[string][]string{}
	for i := range 300 {
		name := fmt.Sprintf("m%03d.o", i)
		long := "gfx" + strings.Repeat(fmt.Sprint(i), 1+i*7%50)
		plain := fixture.Bundle(t, "gfx1", long)
		want[name] = []string{"", "\x7fELFgfx1", "\x7fELF" + long}
		data := plain
		switch i % 4 {
		case 1:
			data = fixture.Compressed(t, plain)
		case 2:
			data = fixture.CompressedByLLVM(t, plain)
		case 3:
			data = append(fixture.CompressedByLLVM(t, plain), fixture.Compressed(t, plain)...)
			want[name] = append(want[name], want[name]...)
		}
		members = append(members, name, string(data))
	}
	members = append(members, "text", "no bundle")
	want["text"] = nil

	const memory = 64 << 20
	shared := budget.New(4, memory)
	var mu sync.Mutex
	got := map[string][]string{}
	f := open(t, fixture.Archive(t, members...), Options{
		Scope: Bundles, Type: bundle.ArchiveType, Budget: shared,
		Visit: func(ctx context.Context, v *Visit) error {
			contents, err := v.Load(ctx, v.Source.Images...)
			if err != nil {
				return err
			}
			var list []string
			for _, c := range contents {
				list = append(list, string(c.Mapped(guard.Inside)))
			}
			mu.Lock()
			defer mu.Unlock()
			if _, twice := got[v.Source.Holder()]; twice {
				return fmt.Errorf("%s is visited twice", v.Source.Holder())
			}
			got[v.Source.Holder()] = list
			return nil
		},
	})
	list, err := f.All()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
	// Images can still be loaded after the visits.
	contents, err := f.Load(t.Context(), list...)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range list {
		if !strings.HasSuffix(string(contents.Get(i).Mapped(guard.Inside)), e.Arch) {
			t.Errorf("%s has %q", e, contents.Get(i).Mapped(guard.Inside))
		}
	}
	contents.Close()
	f.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	all, err := shared.Reserve(ctx, memory)
	if err != nil {
		t.Error("memory was not given back")
	}
	all.Release()
}

// Headers of members that are far apart are read from the file, those of others are in
// memory.
func TestHeadReader(t *testing.T) {
	var members []string
	want, raws := []string{}, map[string]int64{}
	for i := range 60 {
		name := fmt.Sprintf("a-long-name-of-a-member-%03d.o", i)
		data := strings.Repeat(fmt.Sprint(i%10), []int{1, 100, 70 << 10, 200 << 10}[i%4])
		if i%3 == 0 {
			plain := fixture.Bundle(t, "gfx1", "gfx"+data)
			raws[name] = int64(len(plain))
			data = string(fixture.CompressedByLLVM(t, plain)) + data
		}
		members = append(members, name, data)
		want = append(want, name)
	}
	data := fixture.Archive(t, members...)
	f := open(t, data, Options{Scope: Bundles, Type: "a"})
	archive, err := ar.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	headers := &headReader{content: f.Content(), first: make([]byte, 8)}
	archive.ReadHeaders(headers)
	var got []string
	for m, err := range archive.Members() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Name)
		if raw := headers.rawSize(&m); raw != raws[m.Name] {
			t.Errorf("%s: raw size %d, want %d", m.Name, raw, raws[m.Name])
		}
	}
	if headers.buffer == nil || headers.last == 0 {
		t.Errorf("%d bytes were read, the last header in memory ends at %d", len(headers.buffer), headers.last)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}

// A member whose content is damaged fails where it is loaded and nowhere else. If the visit permits it,
// hashes are compared later, with the same error.
func TestVisitDamage(t *testing.T) {
	good := fixture.CompressedByLLVM(t, fixture.Bundle(t, "gfx1"))
	damaged := []byte(string(good))
	const hash = 16 // in the header of version 2
	damaged[hash]++
	var members []string
	for i := range 100 {
		data := good
		if i%40 == 7 {
			data = damaged
		}
		members = append(members, fmt.Sprintf("%d.o", i), string(data))
	}
	for _, test := range []struct {
		name        string
		load, later bool
		want        []string
	}{
		{"not loaded", false, false, nil},
		{"loaded", true, false, []string{"7.o", "47.o", "87.o"}},
		{"compared later", true, true, []string{"7.o", "47.o", "87.o"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var mu sync.Mutex
			got := map[string]string{}
			f := open(t, fixture.Archive(t, members...), Options{
				Scope: Bundles, Type: bundle.ArchiveType,
				Visit: func(ctx context.Context, v *Visit) error {
					name := v.Source.Holder()
					failed := func(err error) {
						mu.Lock()
						defer mu.Unlock()
						got[name] = err.Error()
					}
					if test.later {
						v.Failed = failed
					}
					list := v.Source.Images
					if !test.load {
						list = nil
					}
					if _, err := v.Load(ctx, list...); err != nil {
						failed(err)
						if test.later {
							t.Errorf("%s: got %v, want this error later", name, err)
						}
					}
					v.Forget()
					return nil
				},
			})
			for source, err := range f.Sources() {
				if err != nil {
					t.Errorf("got %v for %v, want no fault", err, source)
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("got %d errors, want %d", len(got), len(test.want))
			}
			for _, name := range test.want {
				if want := "in(" + name + "): byte 0x10: the hash of the uncompressed bundle is "; !strings.HasPrefix(got[name], want) {
					t.Errorf("got %q, want an error that begins with %q", got[name], want)
				}
			}
		})
	}
}

// The error of a visit is the fault of its source.
func TestVisitFails(t *testing.T) {
	f := open(t, fixture.Archive(t, "a.o", string(fixture.Bundle(t, "gfx1")), "b.o", "text"), Options{
		Scope: Bundles, Type: bundle.ArchiveType,
		Visit: func(_ context.Context, v *Visit) error {
			if v.Source.Holder() == "b.o" {
				return fmt.Errorf("no %s", v.Source.Holder())
			}
			return nil
		},
	})
	list := places(f)
	if n := len(list); n != 3 || list[n-1] != "fault: no b.o" {
		t.Errorf("found %q", list)
	}
}

// A visit that forgets its images keeps the contents that it loaded, also of a thin archive.
func TestVisitForgets(t *testing.T) {
	var members, want []string
	for i := range 100 {
		id := fmt.Sprintf("gfx%03d", i)
		members = append(members, id+".o", string(fixture.CompressedByLLVM(t, fixture.Bundle(t, id, "gfx1"))))
		want = append(want, "\x7fELF"+id)
	}
	thin := filepath.Join(t.TempDir(), "gfx000.o")
	plain := append(fixture.Bundle(t, "gfx000"), make([]byte, 64<<10)...) // large enough to be mapped
	if err := os.WriteFile(thin, plain, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		data []byte
		want []string
	}{
		{"archive", fixture.Archive(t, members...), want},
		{"thin archive", fixture.ThinArchive(thin, len(plain)), want[:1]},
	} {
		t.Run(test.name, func(t *testing.T) {
			var mu sync.Mutex
			var contents []content.Content
			f := open(t, test.data, Options{
				Scope: Bundles, Type: bundle.ArchiveType,
				Visit: func(ctx context.Context, v *Visit) error {
					loaded, err := v.Load(ctx, v.Source.Images[1]) // after the host entry
					if err != nil {
						return err
					}
					v.Forget()
					mu.Lock()
					defer mu.Unlock()
					contents = append(contents, loaded...)
					return nil
				},
			})
			if left, err := f.All(); err != nil || len(left) > 0 {
				t.Errorf("got %d images, %v; want none", len(left), err)
			}
			var got []string
			for _, c := range contents {
				got = append(got, string(c.Mapped(guard.Inside)))
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
		})
	}
}
