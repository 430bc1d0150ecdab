package linkcache

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
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
	for name, content := range map[string]string{"empty image": "", "small image": "image", "large image": string(make([]byte, 1<<20))} {
		t.Run(name, func(t *testing.T) {
			write(t, image, content)
			k := key(content)
			if _, found, err := s.Get(k, output); found || err != nil {
				t.Fatalf("before Put: got found %t and error %v, want neither", found, err)
			}
			if err := s.Put(k, image, []byte("printed")); err != nil {
				t.Fatal(err)
			}
			messages, found, err := s.Get(k, output)
			if !found || err != nil || string(messages) != "printed" {
				t.Errorf("got found %t, messages %q and error %v, want true and %q", found, messages, err, "printed")
			}
			if got, err := os.ReadFile(output); err != nil || string(got) != content {
				t.Errorf("got an image of %d bytes and error %v, want the %d bytes of Put", len(got), err, len(content))
			}
		})
	}
}

// TestDamage checks that Get removes, and does not use, a result in which any byte was changed.
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
			t.Errorf("%q: got found %t and error %v, want neither", data, found, err)
		}
		if _, err := os.Stat(name); err == nil {
			t.Errorf("%q: got a result in the store after Get, want it removed", data)
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
			t.Fatalf("result 0 after Put of result %d: got found %t and error %v, want it found", i, found, err)
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
		t.Error("got the oldest result, want it removed")
	}
	if _, found, _ := s.Get(key("29"), output); !found {
		t.Error("got no newest result, want it found")
	}
}

// TestConcurrent puts and gets the same results in many goroutines, in a store that cannot
// contain all of them.
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
		t.Error("got the same key for ab, c and a, bc; want different keys")
	}
}

// TestMoved checks that the result of one key is none of another.
func TestMoved(t *testing.T) {
	dir := t.TempDir()
	s := Store{Dir: dir}
	image, output := filepath.Join(dir, "image"), filepath.Join(dir, "output")
	write(t, image, "image")
	if err := s.Put(key("a"), image, nil); err != nil {
		t.Fatal(err)
	}
	s.Remember(key("digest"), []byte("value"))
	for _, from := range []string{"a", "digest"} {
		data, err := os.ReadFile(s.path(key(from)))
		if err != nil {
			t.Fatal(err)
		}
		write(t, s.path(key("b")), string(data))
		if _, found, err := s.Get(key("b"), output); found || err != nil {
			t.Errorf("result of %s as that of b: got found %t and error %v, want neither", from, found, err)
		}
		if value, found := s.Recall(key("b")); found {
			t.Errorf("result of %s as that of b: got value %q, want none", from, value)
		}
	}
	if value, found := s.Recall(key("digest")); !found || string(value) != "value" {
		t.Errorf("got value %q, found %t, want %q", value, found, "value")
	}
}

// TestNotRegular checks that a directory entry that is no regular file is no result, and that a link replaces
// it where that is possible.
func TestNotRegular(t *testing.T) {
	for name, create := range map[string]func(name string) error{
		"pipe":      func(name string) error { return syscall.Mkfifo(name, 0o666) },
		"directory": func(name string) error { return os.MkdirAll(filepath.Join(name, "x"), 0o777) },
		"link": func(name string) error {
			s := Store{Dir: filepath.Join(filepath.Dir(name), "other")}
			write(t, filepath.Join(filepath.Dir(name), "image"), "other")
			if err := s.Put(key("x"), filepath.Join(filepath.Dir(name), "image"), nil); err != nil {
				return err
			}
			return os.Symlink(s.path(key("x")), name)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := Store{Dir: filepath.Join(dir, "cache")}
			entry := s.path(key("x"))
			if err := os.MkdirAll(filepath.Dir(entry), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := create(entry); err != nil {
				t.Fatal(err)
			}
			image, output := filepath.Join(dir, "image"), filepath.Join(dir, "output")
			if _, found, err := s.Get(key("x"), output); found || err != nil {
				t.Errorf("got found %t and error %v, want neither", found, err)
			}
			if _, found := s.Recall(key("x")); found {
				t.Error("got a remembered value, want none")
			}
			write(t, image, "mine")
			if err := s.Put(key("x"), image, nil); (err != nil) != (name == "directory") {
				t.Errorf("Put: got error %v", err)
			}
			_, found, err := s.Get(key("x"), output)
			if err != nil || found == (name == "directory") {
				t.Errorf("after Put: got found %t and error %v", found, err)
			}
		})
	}
}
