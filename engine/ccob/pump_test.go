package ccob

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
)

func TestPumped(t *testing.T) {
	want := map[int][]byte{}
	for i := range 5 {
		want[i] = bytes.Repeat([]byte{byte(i), 1, 2, 3, 4, 5, 6}, 1+i*100_000)
	}
	produce := func(emit func(int, []byte) error) error {
		for i := range 5 {
			for rest := want[i]; len(rest) > 0; {
				n := min(len(rest), 100_001)
				if err := emit(i, rest[:n]); err != nil {
					return err
				}
				rest = rest[n:]
			}
		}
		return nil
	}
	got := map[int][]byte{}
	err := pumped(func(i int, b []byte) error {
		got[i] = append(got[i], b...)
		return nil
	}, produce)
	if err != nil || !maps.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("other bytes, %v", err)
	}

	bad := errors.New("bad")
	calls := 0
	err = pumped(func(int, []byte) error { calls++; return bad }, produce)
	if err != bad || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if err := pumped(func(int, []byte) error { return nil }, func(func(int, []byte) error) error { return bad }); err != bad {
		t.Error(err)
	}
	err = pumped(func(int, []byte) error { panic("in the consumer") }, produce)
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
