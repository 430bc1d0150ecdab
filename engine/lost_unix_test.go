//go:build unix

package engine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
)

// A program that imports the engine reads from its own goroutine, which has no guard, a file that was cut short
// after it was opened. It gets an error that names the file, and no signal ends it.
func TestReadFileCutShort(t *testing.T) {
	dir := t.TempDir()
	image := []byte("\x7fELF")
	for r := rand.New(rand.NewPCG(1, 1)); len(image) < 3<<20; {
		image = binary.LittleEndian.AppendUint64(image, r.Uint64()) // compresses to a file that is mapped
	}
	if err := os.WriteFile(filepath.Join(dir, "image"), image, 0o666); err != nil {
		t.Fatal(err)
	}
	s := engine.New(engine.Config{Dir: dir})
	var entries []engine.BundleEntry
	for _, name := range []string{"host-x86_64-unknown-linux-gnu-", "hip-amdgcn-amd-amdhsa--gfx942"} {
		id, err := target.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, engine.BundleEntry{Target: id, Input: "image"})
	}
	for name, compression := range map[string]*engine.Compression{"plain": nil, "packed": {}} {
		if _, err := s.Bundle(t.Context(), engine.BundleOptions{Entries: entries, Output: name, Type: "bc", Compress: compression}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		file string // "" for plain
		read func(f *images.File, c content.Content) error
	}{
		{"Bytes", "", func(_ *images.File, c content.Content) error { _, err := c.Bytes(); return err }},
		{"View", "", func(_ *images.File, c content.Content) error {
			return c.View(func(b []byte) error { _, err := io.Discard.Write(bytes.Clone(b)); return err })
		}},
		{"ReadAt", "", func(_ *images.File, c content.Content) error {
			_, err := c.ReadAt(make([]byte, c.Len()), 0)
			return err
		}},
		{"Buffer", "", func(_ *images.File, c content.Content) error { return new(content.Buffer).Append(c) }},
		{"WriterSink", "", func(_ *images.File, c content.Content) error {
			return (&content.WriterSink{W: new(bytes.Buffer)}).Append(c)
		}},
		{"Copy", "", func(f *images.File, _ content.Content) error {
			all, err := f.All()
			if err != nil {
				return err
			}
			return f.Copy(t.Context(), []images.Copy{{Image: all[len(all)-1], To: new(bytes.Buffer)}})
		}},
		{"Load of a compressed bundle", "packed", func(f *images.File, _ content.Content) error {
			all, err := f.All()
			if err != nil {
				return err
			}
			_, err = f.Load(t.Context(), all...)
			return err
		}},
		{"reader of a compressed bundle", "packed", func(f *images.File, _ content.Content) error {
			all, err := f.All()
			if err != nil {
				return err
			}
			_, err = all[0].Extent().Bundle.Decode(t.Context())
			return err
		}},
		{"Extract", "", func(f *images.File, _ content.Content) error {
			all, err := f.All()
			if err != nil {
				return err
			}
			_, err = s.Extract(t.Context(), f, []engine.Extraction{{Images: all[:1], Output: "out"}})
			return err
		}},
		{"offload binary", "", func(_ *images.File, c content.Content) error {
			for _, err := range offloadbinary.Parse(c, offloadbinary.Options{}) {
				return err
			}
			return nil
		}},
		{"writing an offload binary", "", func(_ *images.File, c content.Content) error {
			return offloadbinary.Write(new(content.Buffer), 1, []offloadbinary.Image{{Content: c}})
		}},
		{"text bundle", "", func(_ *images.File, c content.Content) error {
			return bundle.WriteText(new(content.Buffer), []bundle.Item{{ID: "a", Content: c}}, "#")
		}},
		{"bundle", "", func(_ *images.File, c content.Content) error {
			l, err := bundle.NewLayout([]bundle.Item{{ID: "a", Content: c}}, bundle.Options{Align: 1})
			if err != nil {
				return err
			}
			return l.Write(new(content.Buffer))
		}},
		{"hash", "", func(_ *images.File, c content.Content) error {
			return ccob.NewHasher().Add(t.Context(), content.Part{Content: c})
		}},
		{"compression", "", func(_ *images.File, c content.Content) error {
			_, err := ccob.Encode(t.Context(), new(content.Buffer), []content.Part{{Content: c}}, ccob.EncodeOptions{})
			return err
		}},
		{"plan", "", func(_ *images.File, c content.Content) error { _, err := ccob.ParsePlan(c); return err }},
		{"part", "", func(_ *images.File, c content.Content) error { _, err := ccob.ParsePart(c); return err }},
		{"output of a Session", "", func(_ *images.File, c content.Content) error {
			out := s.Files().Outputs()
			defer out.Abort()
			file, err := out.Create("out")
			if err != nil {
				return err
			}
			return file.Append(c)
		}},
		{"stream of a Session", "", func(_ *images.File, c content.Content) error {
			s := engine.New(engine.Config{Dir: dir, Stdout: new(bytes.Buffer)})
			out := s.Files().Outputs()
			defer out.Abort()
			file, err := out.Create("-")
			if err != nil {
				return err
			}
			if err := file.Append(c); err != nil {
				return err
			}
			return out.Commit()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := "plain"
			if test.file != "" {
				name = test.file
			}
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			cut := filepath.Join(dir, "cut")
			if err := os.WriteFile(cut, data, 0o666); err != nil {
				t.Fatal(err)
			}
			f, err := s.Open(context.Background(), "cut", images.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := os.Truncate(cut, 0); err != nil {
				t.Fatal(err)
			}
			err = test.read(f, f.Content())
			if err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "cut") || !strings.Contains(err.Error(), "shrank from") {
				t.Errorf("got %v, want an error that names the file and how it shrank", err)
			}
		})
	}
}
