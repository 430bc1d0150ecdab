package linkcache

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func key(s string) Key {
	h := newHasher()
	h.text(s)
	return h.key()
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	s := Store{Dir: filepath.Join(dir, "cache")}
	image, output := filepath.Join(dir, "image"), filepath.Join(dir, "output")
	for _, content := range []string{"", "image", string(make([]byte, 1<<20))} {
		if err := os.WriteFile(image, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		k := key(content)
		if _, found, err := s.Get(k, output); found || err != nil {
			t.Fatalf("found a result before Put: %v", err)
		}
		if err := s.Put(k, image, []byte("printed")); err != nil {
			t.Fatal(err)
		}
		messages, found, err := s.Get(k, output)
		got, rerr := os.ReadFile(output)
		if !found || err != nil || rerr != nil || string(messages) != "printed" || string(got) != content {
			t.Errorf("%d bytes: %v, %v, %v, %q", len(content), found, err, rerr, messages)
		}
	}
}

// TestDamage changes each byte of a result. Get removes the result and does not use it.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := Store{Dir: dir}
	image, output := filepath.Join(dir, "image"), filepath.Join(dir, "output")
	if err := os.WriteFile(image, []byte("image"), 0o666); err != nil {
		t.Fatal(err)
	}
	k := key("x")
	if err := s.Put(k, image, []byte("printed")); err != nil {
		t.Fatal(err)
	}
	name := s.path(k)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	damaged := [][]byte{nil, whole[:10], whole[:len(whole)-1], whole[1:], append([]byte("x"), whole...)}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 0x80
		damaged = append(damaged, changed)
	}
	for _, data := range damaged {
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, found, err := s.Get(k, output); found || err != nil {
			t.Errorf("%q: found, %v; want a result that is not found", data, err)
		}
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%q: not removed", data)
		}
	}
}

func TestLimit(t *testing.T) {
	dir := t.TempDir()
	s := Store{Dir: filepath.Join(dir, "cache"), Limit: 10 << 10}
	image, output := filepath.Join(dir, "image"), filepath.Join(dir, "output")
	if err := os.WriteFile(image, make([]byte, 1<<10), 0o666); err != nil {
		t.Fatal(err)
	}
	start := time.Now().Add(-time.Hour)
	for i := range 30 {
		k := key(fmt.Sprint(i))
		if err := s.Put(k, image, nil); err != nil {
			t.Fatal(err)
		}
		used := start.Add(time.Duration(i) * time.Second)
		if err := os.Chtimes(s.path(k), used, used); err != nil {
			t.Fatal(err)
		}
		if _, found, err := s.Get(key("0"), output); !found || err != nil { // always in use
			t.Fatalf("after %d: %v, %v", i, found, err)
		}
	}
	var total int64
	filepath.Walk(s.Dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			total += info.Size()
		}
		return err
	})
	if total > s.Limit || total < s.Limit/2 {
		t.Errorf("got %d bytes, want between %d and %d", total, s.Limit/2, s.Limit)
	}
	if _, found, _ := s.Get(key("1"), output); found {
		t.Error("found the oldest result, want it removed")
	}
	if _, found, _ := s.Get(key("29"), output); !found {
		t.Error("the newest result is missing")
	}
}

// TestConcurrent puts and gets the same results in many goroutines, in a store that is
// too small for all of them.
func TestConcurrent(t *testing.T) {
	dir := t.TempDir()
	s := Store{Dir: filepath.Join(dir, "cache"), Limit: 4 << 10}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			image, output := filepath.Join(dir, fmt.Sprint("image", g)), filepath.Join(dir, fmt.Sprint("output", g))
			for i := range 40 {
				content := bytes.Repeat([]byte{byte(i % 5)}, 1000)
				if err := os.WriteFile(image, content, 0o666); err != nil {
					t.Error(err)
				}
				k := key(fmt.Sprint(i % 5))
				if err := s.Put(k, image, nil); err != nil {
					t.Error(err)
				}
				if _, found, err := s.Get(k, output); err != nil {
					t.Error(err)
				} else if got, _ := os.ReadFile(output); found && !bytes.Equal(got, content) {
					t.Errorf("%d: got another content than that of Put", i)
				}
			}
		})
	}
	wg.Wait()
}

func TestHash(t *testing.T) {
	a, b := newHasher(), newHasher()
	a.text("ab")
	a.text("c")
	b.text("a")
	b.text("bc")
	if a.key() == b.key() {
		t.Error("the same key for ab and c as for a and bc")
	}
	if err := a.file(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a missing file has a hash")
	}
}
