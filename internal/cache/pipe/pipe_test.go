package pipe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/rules-offload/rules_offload/internal/cache"
)

func TestServe(t *testing.T) {
	store := &cache.Local{Dir: t.TempDir()}
	data := []byte("output")
	action, digest := cache.Action([32]byte{1}), cache.DigestOf(data)
	r := &cache.Result{Outputs: []cache.Output{{Name: "object", Digest: digest}}}
	var requests, replies bytes.Buffer
	for _, frame := range []struct {
		kind  byte
		parts [][]byte
	}{
		{options, [][]byte{[]byte("{}")}}, {result, [][]byte{[]byte(action.String())}}, {put, [][]byte{[]byte(action.String()), r.Marshal(), data}},
		{result, [][]byte{[]byte(action.String())}}, {blob, [][]byte{[]byte(digest.String())}}, {blob, [][]byte{[]byte(action.String())}},
	} {
		if err := writeFrame(&requests, frame.kind, frame.parts...); err != nil {
			t.Fatal(err)
		}
	}
	if err := Serve(t.Context(), &requests, &replies, func([]byte) (cache.Store, error) { return store, nil }); err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		kind byte
		data string
	}{{missing, ""}, {found, string(r.Marshal())}, {found, "output"}, {missing, ""}} {
		kind, parts, err := readFrame(&replies)
		if err != nil || kind != want.kind || len(parts) != 1 || string(parts[0]) != want.data {
			t.Errorf("reply %d: got %c %q, %v, want %c %q", i, kind, parts, err, want.kind, want.data)
		}
	}
	// A store that cannot be opened answers each request with the reason.
	requests.Reset()
	writeFrame(&requests, options, nil)
	writeFrame(&requests, blob, []byte(digest.String()))
	replies.Reset()
	Serve(context.Background(), &requests, &replies, func([]byte) (cache.Store, error) { return nil, errors.New("no server") })
	if kind, parts, err := readFrame(&replies); kind != failed || err != nil || string(parts[0]) != "no server" {
		t.Errorf("got %c %q, %v, want the reason", kind, parts, err)
	}
}

func FuzzServe(f *testing.F) {
	var frames bytes.Buffer
	writeFrame(&frames, options, []byte("{}"))
	writeFrame(&frames, result, []byte(cache.DigestOf(nil).String()))
	f.Add(frames.Bytes())
	f.Add([]byte{put, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, requests []byte) {
		store := &cache.Local{Dir: t.TempDir(), ReadOnly: true}
		Serve(t.Context(), bytes.NewReader(requests), io.Discard, func([]byte) (cache.Store, error) { return store, nil })
	})
}
