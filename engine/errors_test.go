package engine

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/engine/target"
)

// as reports whether an error is of type E, or wraps one.
func as[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// TestErrors checks the documented errors of operations: callers compare them by value or type.
func TestErrors(t *testing.T) {
	plain := bundled(t, "gfx906")
	badID := strings.Replace(string(plain), "amdgcn-amd-amdhsa--gfx906", "amdgcn+amd+amdhsa++gfx906", 1)
	inputs := map[string][]byte{
		"plain": plain, "id": []byte(badID), "packed": compressed(t, plain)[:40], "text": []byte("text"), "pkg": []byte("\x10\xff\x10\xad\x01\x00\x00\x00"),
	}
	ctx := context.Background()
	id := func(targetID string) target.ID { return must(target.Parse(gfx + targetID)) }
	gfx942 := []UnbundleRequest{{Target: id("gfx942"), Output: "out"}}
	for _, test := range []struct {
		name string
		call func(s *Session) error
		is   func(err error) bool
	}{
		{"a missing file", func(s *Session) error { _, err := s.List(ctx, ListOptions{Input: "lost"}); return err },
			func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		{"an unknown file type", func(s *Session) error { _, err := s.List(ctx, ListOptions{Input: "plain", Type: "x"}); return err },
			as[*bundle.FileTypeError]},
		{"a damaged compressed bundle", func(s *Session) error { _, err := s.List(ctx, ListOptions{Input: "packed"}); return err },
			as[*ccob.Error]},
		{"a damaged offload binary", func(s *Session) error { _, err := s.Inspect(ctx, "pkg", InspectOptions{}); return err },
			func(err error) bool { return as[*offloadbinary.Error](err) && as[*images.PlaceError](err) }},
		{"a target that no entry matches", func(s *Session) error {
			_, err := s.Unbundle(ctx, UnbundleOptions{Input: "plain", Requests: gfx942})
			return err
		}, as[*MissingError]},
		{"an entry ID that cannot be read", func(s *Session) error {
			_, err := s.Unbundle(ctx, UnbundleOptions{Input: "id", Requests: gfx942})
			return err
		}, func(err error) bool { return errors.Is(err, ErrEntryID) }},
		{"targets that must not be in one bundle", func(s *Session) error {
			_, err := s.Bundle(ctx, BundleOptions{Type: "bc", Output: "out", Entries: []BundleEntry{
				{Target: id("gfx906")}, {Target: id("gfx906:xnack+")}, {Target: must(target.Parse("host-x86_64-unknown-linux-gnu-"))},
			}})
			return err
		}, as[*target.ConflictError]},
		{"a target that is requested twice", func(s *Session) error {
			_, err := s.Unbundle(ctx, UnbundleOptions{Input: "plain", Requests: append(gfx942, gfx942...)})
			return err
		}, as[*target.DuplicateError]},
		{"an image without a file", func(s *Session) error {
			_, err := s.Pack(ctx, PackOptions{Output: "out", Images: []offloadbinary.Properties{ParseProperties("kind=hip")}})
			return err
		}, func(err error) bool { return errors.Is(err, ErrNoFile) }},
		{"no device code", func(s *Session) error {
			_, err := s.Prune(ctx, PruneOptions{Input: "text", Output: "out", Keep: []string{"gfx906"}})
			return err
		}, func(err error) bool { return errors.Is(err, ErrNoDeviceCode) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _ := newSession(t, inputs)
			if err := test.call(s); !test.is(err) {
				t.Errorf("got %v (%T)", err, err)
			}
		})
	}
}
