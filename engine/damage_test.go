package engine

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
)

// unevenWords returns n bytes that compress as code does.
func unevenWords(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	dict := make([][]byte, 300)
	for i := range dict {
		dict[i] = binaryWord(r)
	}
	var b []byte
	for len(b) < n {
		b = append(b, dict[r.IntN(len(dict))]...)
	}
	return b[:n]
}

func binaryWord(r *rand.Rand) []byte {
	w := r.Uint64()
	return []byte{byte(w), byte(w >> 8), byte(w >> 16), byte(w>>24) & 3, 0, byte(w >> 40), 1, 0}
}

// TestDamagedBundles flips bits in compressed bundles of all forms. Every operation fails or
// has the same result as without the damage.
func TestDamagedBundles(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	names := []string{"host-x86_64-unknown-linux-gnu", "hip-amdgcn-amd-amdhsa--gfx906", "hip-amdgcn-amd-amdhsa--gfx1030", "hip-amdgcn-amd-amdhsa--gfx1100"}
	out := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// do does everything with the file "x" and returns all results; those that failed are empty.
	do := func(k int) [4]string {
		s := bundleSession(dir)
		var results [4]string
		id := parse(t, names[1+k%3])
		if _, err := s.Unbundle(ctx, UnbundleOptions{Type: "bc", Input: "x", Requests: []UnbundleRequest{{Target: id, Output: "o"}}}); err == nil {
			results[0] = string(out("o"))
		}
		if listed, err := s.List(ctx, ListOptions{Type: "bc", Input: "x"}); err == nil {
			results[1] = fmt.Sprint(listed)
		}
		if file, err := s.Inspect(ctx, "x", InspectOptions{}); err == nil {
			for _, e := range file.Found {
				results[2] += fmt.Sprintln(brief(e), e.Size)
			}
		}
		choose := func() error {
			f, err := s.Open(ctx, "x", images.Options{})
			if err != nil {
				return err
			}
			defer f.Close()
			all, err := f.All()
			if err != nil {
				return err
			}
			var list []Extraction
			for _, e := range all {
				if e.ID == id.String() {
					list = append(list, Extraction{Output: "o", Images: []*images.DeviceImage{e}})
				}
			}
			_, err = s.Extract(ctx, f, list)
			return err
		}
		os.Remove(filepath.Join(dir, "o"))
		if err := choose(); err == nil {
			if b, err := os.ReadFile(filepath.Join(dir, "o")); err == nil {
				results[3] = string(b)
			}
		}
		return results
	}
	for _, form := range []struct {
		name   string
		size   int
		frames ccob.Frames
		same   bool
	}{
		{"small", 1000, ccob.FramesAuto, false},
		{"small, a frame each", 1000, ccob.FramesEntry, false},
		{"index", 400_000, ccob.FramesAuto, false},
		{"one frame", 400_000, ccob.FramesOne, false},
		{"a frame each", 400_000, ccob.FramesEntry, false},
		{"zeros", 400_000, ccob.FramesAuto, true},
	} {
		t.Run(form.name, func(t *testing.T) {
			opt := BundleOptions{Type: "bc", Align: 4096, Output: "x", Compress: &Compression{Level: 3, Frames: form.frames}}
			for i, name := range names {
				entry := BundleEntry{Target: parse(t, name)}
				if entry.Target.Kind != target.Host {
					entry.Input = fmt.Sprint("in", i)
					content := unevenWords(uint64(i), form.size+i)
					if form.same {
						content = make([]byte, form.size+i)
					}
					if err := os.WriteFile(filepath.Join(dir, entry.Input), content, 0o666); err != nil {
						t.Fatal(err)
					}
				}
				opt.Entries = append(opt.Entries, entry)
			}
			if _, err := bundleSession(dir).Bundle(ctx, opt); err != nil {
				t.Fatal(err)
			}
			good := out("x")
			var want [3][4]string
			for k := range want {
				want[k] = do(k)
				for i, result := range want[k] {
					if result == "" {
						t.Fatalf("%d does not work", i)
					}
				}
			}
			r := rand.New(rand.NewPCG(1, uint64(len(good))))
			for n := range 120 {
				at := r.IntN(len(good))
				switch n % 4 {
				case 0:
					at = r.IntN(min(200, len(good)))
				case 1:
					at = len(good) - 1 - r.IntN(min(200, len(good)))
				}
				damaged := bytes.Clone(good)
				damaged[at] ^= 1 << r.IntN(8)
				if err := os.WriteFile(filepath.Join(dir, "x"), damaged, 0o666); err != nil {
					t.Fatal(err)
				}
				got := do(n)
				for i := range got {
					// What does not begin as a bundle has no images.
					if got[i] != "" && got[i] != want[n%3][i] && (at >= 4 || got[i] != "[]") {
						t.Fatalf("byte %d of %d, operation %d: other bytes: %s", at, len(good), i, cmp.Diff(want[n%3][i], got[i]))
					}
				}
				if n%10 != 0 {
					continue
				}
				// Registration copies the bundle unchanged: the damage must be detected or
				// irrelevant.
				s := bundleSession(dir)
				err := s.Register(ctx, RegisterOptions{Kind: offloadbinary.HIP, Triple: "x86_64-unknown-linux-gnu", Images: []string{"x"}, Output: "r"})
				if all := s.unbundleAll(ctx, t, dir, names); err == nil && at >= 4 && !all {
					t.Fatalf("byte %d of %d: registered", at, len(good))
				}
			}
		})
	}
}

// unbundleAll reports whether all entries of the file "x" can be taken out.
func (s *Session) unbundleAll(ctx context.Context, t *testing.T, dir string, names []string) bool {
	var requests []UnbundleRequest
	for i, name := range names {
		requests = append(requests, UnbundleRequest{Target: parse(t, name), Output: fmt.Sprint("out", i)})
	}
	_, err := s.Unbundle(ctx, UnbundleOptions{Type: "bc", Input: "x", Requests: requests})
	return err == nil
}
