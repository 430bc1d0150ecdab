package cache

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// put stores a result with one output and returns the digests of both.
func put(t *testing.T, l *Local, key byte, data []byte) (action, output Digest) {
	t.Helper()
	action, output = Action([32]byte{key}), DigestOf(data)
	if err := l.Put(t.Context(), action, &Result{Outputs: []Output{{"object", output}}, Stderr: []byte("warning")}, data); err != nil {
		t.Fatal(err)
	}
	return action, output
}

func TestLocal(t *testing.T) {
	l := &Local{Dir: t.TempDir()}
	for key, data := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("text "), 10000)} {
		action, output := put(t, l, byte(key), data)
		got, err := l.Result(t.Context(), action)
		want := &Result{Outputs: []Output{{"object", output}}, Stderr: []byte("warning")}
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if blob, err := l.Blob(t.Context(), output); err != nil || !bytes.Equal(blob, data) {
			t.Errorf("a blob of %d bytes: got %d bytes, %v", len(data), len(blob), err)
		}
	}
	if got, err := l.Result(t.Context(), Action([32]byte{9})); got != nil || err != nil {
		t.Errorf("a result that is not stored: got %v, %v", got, err)
	}
	if _, err := l.Blob(t.Context(), DigestOf([]byte("other"))); !errors.Is(err, ErrMissing) {
		t.Errorf("a blob that is not stored: got %v, want ErrMissing", err)
	}
	if checked, damaged, err := l.Verify(); checked != 6 || damaged != 0 || err != nil {
		t.Errorf("verify: got %d, %d, %v, want 6, 0", checked, damaged, err)
	}
}

// TestDamaged changes each byte of a stored blob and result: neither is returned as if it were whole.
func TestDamaged(t *testing.T) {
	l := &Local{Dir: t.TempDir()}
	data := []byte("the content of a blob")
	action, output := put(t, l, 1, data)
	for _, name := range []string{l.path(blobs, output), l.path(results, action)} {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(file) + 1 {
			changed := bytes.Clone(file)
			if i < len(file) {
				changed[i] ^= 0x10
			} else {
				changed = changed[:len(file)/2]
			}
			if err := os.WriteFile(name, changed, 0o666); err != nil {
				t.Fatal(err)
			}
			if filepath.Base(filepath.Dir(filepath.Dir(name))) == blobs {
				if _, err := l.Blob(t.Context(), output); !errors.Is(err, ErrMissing) {
					t.Errorf("byte %d of a blob: got %v, want ErrMissing", i, err)
				}
			} else if got, err := l.Result(t.Context(), action); got != nil || err != nil {
				t.Errorf("byte %d of a result: got %v, %v, want none", i, got, err)
			}
			if _, err := os.Stat(name); err == nil {
				t.Errorf("byte %d: the damaged file is still there", i)
			}
		}
		if err := os.WriteFile(name, file, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(l.path(blobs, output), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if checked, damaged, err := l.Verify(); checked != 2 || damaged != 1 || err != nil {
		t.Errorf("verify: got %d, %d, %v, want 2, 1", checked, damaged, err)
	}
}

// TestTrim stores more than the limit: the files that were used last stay.
func TestTrim(t *testing.T) {
	l := &Local{Dir: t.TempDir(), Limit: 40000}
	noise := func(key byte) []byte {
		data := make([]byte, 4000)
		x := uint32(key) + 1
		for i := range data {
			x = x*1664525 + 1013904223
			data[i] = byte(x >> 24)
		}
		return data
	}
	var outputs []Digest
	for key := range byte(20) {
		_, output := put(t, l, key, noise(key))
		outputs = append(outputs, output)
		at := time.Now().Add(time.Duration(int(key)-100) * time.Hour)
		if err := os.Chtimes(l.path(blobs, output), at, at); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		size, _, err := l.Size()
		if err != nil || size > l.Limit {
			t.Fatalf("after %d results: size %d, %v, want at most %d", key+1, size, err, l.Limit)
		}
	}
	if l.Has(outputs[0]) || !l.Has(outputs[19]) {
		t.Errorf("the first blob is stored: %v, the last: %v; want the last only", l.Has(outputs[0]), l.Has(outputs[19]))
	}
	if size, files, err := l.Trim(0); size != 0 || files != 0 || err != nil {
		t.Errorf("trim to 0: got %d, %d, %v", size, files, err)
	}
}

// TestConcurrent has several users of a directory that is always full.
func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for user := range 4 {
		wg.Go(func() {
			l := &Local{Dir: dir, Limit: 3000}
			for i := range 30 {
				data := bytes.Repeat([]byte{byte(i), byte(i >> 1), byte(user % 2)}, 100)
				action := Action([32]byte{byte(i), byte(user % 2)})
				if err := l.Put(t.Context(), action, &Result{Outputs: []Output{{"object", DigestOf(data)}}}, data); err != nil {
					t.Error(err)
				}
				if got, err := l.Blob(t.Context(), DigestOf(data)); err == nil && !bytes.Equal(got, data) || err != nil && !errors.Is(err, ErrMissing) {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
				if err := l.Count(Counters{"n": 1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if counters, err := (&Local{Dir: dir}).Counters(); err != nil || counters["n"] != 120 {
		t.Errorf("counters: %v, %v, want 120", counters, err)
	}
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	l := &Local{Dir: dir, ReadOnly: true}
	put(t, l, 1, []byte("x"))
	if err := errors.Join(l.PutRecord("kind", [32]byte{1}, []byte("x")), l.Count(Counters{"n": 1})); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 0 || err != nil {
		t.Errorf("got %v, %v, want an empty directory", entries, err)
	}
}

func TestParseDigest(t *testing.T) {
	d := DigestOf([]byte("x"))
	if got, err := ParseDigest(d.String()); got != d || err != nil {
		t.Errorf("got %v, %v, want %v", got, err, d)
	}
	for _, s := range []string{"", "/", d.Hex(), d.Hex() + "/-1", d.Hex() + "/x", "00/1", fmt.Sprintf("%s0/1", d.Hex())} {
		if got, err := ParseDigest(s); err == nil {
			t.Errorf("%q: got %v, want an error", s, got)
		}
	}
}

func FuzzResult(f *testing.F) {
	f.Add((&Result{Outputs: []Output{{"object", DigestOf(nil)}}, Stderr: []byte("x")}).Marshal())
	f.Add([]byte{0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseResult(data)
		if err != nil {
			return
		}
		again, err := ParseResult(r.Marshal())
		if err != nil || len(again.Outputs) != len(r.Outputs) || !bytes.Equal(again.Stderr, r.Stderr) {
			t.Errorf("%+v: got %+v, %v", r, again, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(nil))
	f.Add(encode(bytes.Repeat([]byte("abc"), 1000)))
	f.Fuzz(func(t *testing.T, file []byte) {
		if data, digest, ok := decode(file); ok && DigestOf(data) != digest {
			t.Errorf("%d bytes with the digest %v", len(data), digest)
		}
	})
}
