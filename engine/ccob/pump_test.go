package ccob

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
)

func TestPumped(t *testing.T) {
	r := &Reader{budget: cores}
	want := bytes.Repeat([]byte("0123456789abcde"), pumpFrom/5)
	produce := func(emit func([]byte) error) error {
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 100_001)
			if err := emit(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	}
	var got []byte
	err := r.pumped(int64(len(want)), func(b []byte) error {
		got = append(got, b...)
		return nil
	}, produce)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}

	bad := errors.New("bad")
	calls := 0
	err = r.pumped(int64(len(want)), func([]byte) error { calls++; return bad }, produce)
	if err != bad || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if err := r.pumped(int64(len(want)), func([]byte) error { return nil }, func(func([]byte) error) error { return bad }); err != bad {
		t.Error(err)
	}
	err = r.pumped(int64(len(want)), func([]byte) error { panic("in the consumer") }, produce)
	if err == nil || !strings.Contains(err.Error(), "in the consumer") {
		t.Error(err)
	}
}

// A full disk ends an extraction.
func TestExtractFails(t *testing.T) {
	pieces, raw := sample(4096, 1<<20, processors...)
	for name, data := range map[string][]byte{"own": encode(t, pieces, EncodeOptions{}), "one": encode(t, pieces, EncodeOptions{Frames: FramesOne})} {
		r, err := Open(data, Options{Budget: cores})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Extract(context.Background(), []Range{{0, int64(len(raw)), full{}}}); err != errFull {
			t.Error(name, err)
		}
	}
}
