package engine

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// For any content of a file, listing and extracting end without a panic, in memory limited by the
// size of the file.
func FuzzRead(f *testing.F) {
	dir := f.TempDir()
	s := bundleSession(dir)
	if err := os.WriteFile(filepath.Join(dir, "host"), bundledHost(f), 0o644); err != nil {
		f.Fatal(err)
	}
	for i, opt := range []BundleOptions{{Type: "bc"}, {Type: "bc", Compress: &Compression{}}, {Type: "i"}, {Type: "s", Compress: &Compression{Version: 2}}, {Type: "o"}} {
		opt.Align, opt.Output = 1, filepath.Join("out", string(opt.Type))
		if err := os.MkdirAll(filepath.Join(dir, "out"), 0o755); err != nil {
			f.Fatal(err)
		}
		opt.Entries = []BundleEntry{{Target: parse(f, "host-x86_64-unknown-linux-gnu"), Input: "host"}, {Target: parse(f, "openmp-amdgcn-amd-amdhsa--gfx906"), Input: "host"}}
		if _, err := s.Bundle(context.Background(), opt); err != nil {
			f.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, opt.Output))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint8(i))
		if opt.Type == "o" {
			if err := s.Archive(context.Background(), ArchiveOptions{Inputs: []string{opt.Output, "host"}, Output: "out/a"}); err != nil {
				f.Fatal(err)
			}
			if data, err = os.ReadFile(filepath.Join(dir, "out/a")); err != nil {
				f.Fatal(err)
			}
			f.Add(data, uint8(5))
		}
	}
	types := []bundle.FileType{"bc", "bc", "i", "s", "o", "a"}
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "x"), data, 0o644); err != nil {
			t.Fatal(err)
		}
		fileType := types[int(kind)%len(types)]
		request := []UnbundleRequest{{Target: parse(t, "openmp-amdgcn-amd-amdhsa--gfx906:xnack+"), Output: "y"}, {Target: parse(t, "host-x86_64-unknown-linux-gnu"), Output: "z"}}
		s := bundleSession(dir)
		ctx := context.Background()
		check := func(err error) {
			if _, ok := err.(*guard.PanicError); ok {
				t.Fatal(err)
			}
		}
		_, err := s.List(ctx, ListOptions{Type: fileType, Input: "x"})
		check(err)
		high := kind >= 128
		read := ReadOptions{Lenient: high && fileType != bundle.ArchiveType}
		_, err = s.Unbundle(ctx, UnbundleOptions{Type: fileType, Input: "x", Requests: request, AllowMissing: true, Check: high, Read: read})
		check(err)
	})
}
