package ccob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/klauspost/compress/zstd"
)

// keeper checks the data that a decoder wrote, after it has written another half of its window.
type keeper struct {
	t      *testing.T
	want   []byte // from the oldest block kept on
	blocks [][]byte
	kept   int
	most   int
}

func (k *keeper) Write(p []byte) (int, error) {
	k.blocks = append(k.blocks, p)
	k.kept += len(p)
	for k.kept > k.most {
		b := k.blocks[0]
		if !bytes.Equal(b, k.want[:len(b)]) {
			k.t.Fatalf("a block changed before %d bytes more were decoded", k.kept)
		}
		k.blocks, k.want, k.kept = k.blocks[1:], k.want[len(b):], k.kept-len(b)
	}
	return len(p), nil
}

// The decoder does not change the data that it wrote while the lender uses it.
func TestLent(t *testing.T) {
	noise := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{}).Read(noise)
	raw := slices.Concat(code(1, 1, 5<<20), noise, make([]byte, 1<<20), code(1, 2, 5<<20), noise[:1<<20])
	windows := []int{lendFrom, 2 * lendFrom, 16 * lendFrom}
	if testing.Short() {
		windows = windows[:1]
	}
	for _, window := range windows {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			d := newDecoder(bytes.NewReader(zst(t, raw, zstd.WithWindowSize(window))))
			defer d.Close()
			k := &keeper{t: t, want: raw, most: window / 2}
			if n, err := d.WriteTo(k); n != int64(len(raw)) || err != nil {
				t.Fatalf("%d of %d bytes, %v", n, len(raw), err)
			}
			if !bytes.Equal(bytes.Join(k.blocks, nil), k.want) {
				t.Error("other bytes at the end")
			}
		})
	}
}

func TestLender(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	var got []byte
	l := newLender(ctx, lendFrom, func(b []byte) error {
		got = append(got, b...)
		return nil
	})
	var want []byte
	for i := range 101 {
		b := bytes.Repeat([]byte{byte(i)}, i)
		want = append(want, b...)
		if err := l.lend(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.end(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes, %v", len(got), len(want), err)
	}

	bad := errors.New("bad")
	l = newLender(ctx, lendFrom, func([]byte) error { return bad })
	var err error
	for err == nil {
		err = l.lend([]byte{1})
	}
	if end := l.end(); err != errStopped || end != bad {
		t.Errorf("%v, and %v in the end", err, end)
	}
	l = newLender(ctx, lendFrom, func([]byte) error { panic("in emit") })
	_ = l.lend([]byte{1})
	if err := l.end(); err == nil || !strings.Contains(err.Error(), "in emit") {
		t.Error(err)
	}

	cancel(bad)
	l = newLender(ctx, lendFrom, func([]byte) error {
		t.Error("emitted after the end of the context")
		return nil
	})
	_ = l.lend([]byte{1})
	if err := l.end(); err != bad {
		t.Error(err)
	}
}

// The decoder writes its blocks one after another, from the beginning of its window, while they
// fit.
func TestWindowIsContiguous(t *testing.T) {
	raw := code(1, 3, 5<<20)
	for _, size := range []int{largeFrom, 8 << 20} {
		d := newDecoder(bytes.NewReader(zst(t, raw, zstd.WithWindowSize(size))))
		defer d.Close()
		c := &contiguous{t: t, size: size}
		if _, err := d.WriteTo(c); err != nil {
			t.Fatal(err)
		}
		if c.n < min(size, len(raw)) {
			t.Errorf("window of %d bytes: only %d were looked at", size, c.n)
		}
	}
}

// contiguous checks where blocks lie.
type contiguous struct {
	t       *testing.T
	first   *byte
	n, size int
}

func (c *contiguous) Write(p []byte) (int, error) {
	if c.first == nil {
		c.first = &p[0]
	}
	if at := uintptr(unsafe.Pointer(&p[0])) - uintptr(unsafe.Pointer(c.first)); c.n+len(p) <= c.size && at != uintptr(c.n) {
		c.t.Fatalf("after %d bytes, a block lies %d bytes behind the first one", c.n, at)
	}
	c.n += len(p)
	return len(p), nil
}
