package files

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rules-offload/rules_offload/engine/content"
)

// A small file that has the bytes already stays, with a new time. All others are
// replaced.
func TestSameBytes(t *testing.T) {
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	long := bytes.Repeat([]byte("0123456789abcdef"), compareUpTo/16)
	for _, test := range []struct {
		name   string
		before string
		write  func(o *Output) error
		want   string
		stays  bool
	}{
		{"same", "content", appends("con", "tent"), "content", true},
		{"empty", "", appends(), "", true},
		{"largest that is compared", string(long), appends(string(long[:100<<10]), string(long[100<<10:])), string(long), true},
		{"larger", string(long) + "x", appends(string(long) + "x"), string(long) + "x", false},
		{"another byte", "content", appends("con", "Tent"), "conTent", false},
		{"last byte of many", string(long), appends(string(long[:len(long)-1]), "x"), string(long[:len(long)-1]) + "x", false},
		{"shorter", "content", appends("con"), "con", false},
		{"longer", "content", appends("content", "s"), "contents", false},
		{"nothing", "content", appends(), "", false},
		{"was empty", "", appends("content"), "content", false},
		{"by position", "content", func(o *Output) error {
			_, err := o.WriteAt([]byte("content"), 0)
			return err
		}, "content", false},
		{"gathered, then by position", "content", func(o *Output) error {
			if err := appends("con....")(o); err != nil {
				return err
			}
			_, err := o.WriteAt([]byte("tent"), 3)
			return err
		}, "content", false},
		{"a hole", string(make([]byte, 2*holeFrom)), func(o *Output) error { return o.Zeros(2 * holeFrom) }, string(make([]byte, 2*holeFrom)), false},
		{"closed", "content", func(o *Output) error {
			if err := appends("content")(o); err != nil {
				return err
			}
			return o.Close()
		}, "content", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "out")
			if err := os.WriteFile(name, []byte(test.before), 0o640); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(name, old, old); err != nil {
				t.Fatal(err)
			}
			before, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			outputs := NewRoot(dir).Outputs()
			defer outputs.Abort()
			o, err := outputs.Create("out")
			if err != nil {
				t.Fatal(err)
			}
			if err := test.write(o); err != nil {
				t.Fatal(err)
			}
			if err := outputs.Commit(); err != nil {
				t.Fatal(err)
			}
			after, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("the file has %d bytes, want %d: or others", len(got), len(test.want))
			}
			if stays := os.SameFile(before, after); stays != test.stays {
				t.Errorf("the file stays: %t, want %t", stays, test.stays)
			}
			if !after.ModTime().After(old.Add(time.Minute)) {
				t.Errorf("the time of the file is %s", after.ModTime())
			}
			if after.Mode() != before.Mode() {
				t.Errorf("the mode is %s, was %s", after.Mode(), before.Mode())
			}
			if n := outputs.gathered.Load(); n != 0 {
				t.Errorf("%d bytes still count as gathered", n)
			}
			if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
				t.Errorf("the folder has %v, error %v", names, err)
			}
		})
	}
}

// appends returns a function that appends parts to an output.
func appends(parts ...string) func(o *Output) error {
	return func(o *Output) error {
		for _, part := range parts {
			if err := o.Append(content.Memory([]byte(part))); err != nil {
				return err
			}
		}
		return nil
	}
}

// One Outputs buffers at most compareAtOnce bytes and writes the rest.
func TestSameBytesOfMany(t *testing.T) {
	dir := t.TempDir()
	body := bytes.Repeat([]byte("content"), compareUpTo/7)
	const files = compareAtOnce/compareUpTo + 4
	outputs := NewRoot(dir).Outputs()
	defer outputs.Abort()
	for i := range files {
		name := string(rune('a' + i))
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o666); err != nil {
			t.Fatal(err)
		}
		o, err := outputs.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Append(content.Memory(body)); err != nil {
			t.Fatal(err)
		}
		if n := outputs.gathered.Load(); n > compareAtOnce {
			t.Fatalf("%d bytes are gathered", n)
		}
	}
	if err := outputs.Commit(); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		if got, err := os.ReadFile(filepath.Join(dir, string(rune('a'+i)))); err != nil || !bytes.Equal(got, body) {
			t.Errorf("file %d has %d bytes, error %v", i, len(got), err)
		}
	}
}

// Another file that fails leaves the one with the same bytes alone.
func TestSameBytesBesideAFailure(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "same")
	if err := os.WriteFile(name, []byte("content"), 0o666); err != nil {
		t.Fatal(err)
	}
	outputs := NewRoot(dir).Outputs()
	o, err := outputs.Create("same")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Append(content.Memory([]byte("content"))); err != nil {
		t.Fatal(err)
	}
	other, err := outputs.Create("other")
	if err != nil {
		t.Fatal(err)
	}
	other.drop()
	if outputs.Commit() == nil {
		t.Error("committed")
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "content" {
		t.Errorf("the file has %q, error %v", got, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("the folder has %v, error %v", names, err)
	}
}
