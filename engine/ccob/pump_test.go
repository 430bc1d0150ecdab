package ccob

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestPumped(t *testing.T) {
	var want []byte
	for i := range 5 {
		want = append(want, bytes.Repeat([]byte{byte(i), 1, 2, 3, 4, 5, 6}, 1+i*100_000)...)
	}
	produce := func(emit func([]byte) error) error {
		for part := range slices.Chunk(want, 100_001) {
			if err := emit(part); err != nil {
				return err
			}
		}
		return nil
	}
	var got []byte
	err := pumped(func(b []byte) error {
		got = append(got, b...)
		return nil
	}, produce)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes, %v", err)
	}

	bad := errors.New("bad")
	calls := 0
	err = pumped(func([]byte) error { calls++; return bad }, produce)
	if err != bad || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if err := pumped(func([]byte) error { return nil }, func(func([]byte) error) error { return bad }); err != bad {
		t.Error(err)
	}
	err = pumped(func([]byte) error { panic("in the consumer") }, produce)
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
