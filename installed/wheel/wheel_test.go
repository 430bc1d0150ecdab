package wheel

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/limits"
	"github.com/rules-offload/rules_offload/internal/testing/fixture"
)

func TestNames(t *testing.T) {
	for _, file := range []string{
		"torch-2.10.0+rocm7.1-cp313-cp313-manylinux_2_28_x86_64.whl",
		"my_pkg-1.0-1local-py2.py3-none-any.whl",
		"pkg-1!2.0-cp312-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
	} {
		n, err := ParseName(file)
		if err != nil || n.String() != file {
			t.Errorf("%s: %v, %v", file, n, err)
		}
	}
	for _, file := range []string{
		"torch.whl", "torch-1.zip", "a-1-py3-none-any-x-y.whl", "a-1-b-py3-none-any.whl", "-1-py3-none-any.whl", "a-1-py3-none-.whl",
		"a-1--py3-none-any.whl", "a b-1-py3-none-any.whl", "a/b-1-py3-none-any.whl", "a-1-py3-none-any.whl.zip",
	} {
		if n, err := ParseName(file); err == nil {
			t.Errorf("%s is accepted: %v", file, n)
		}
	}
	for in, want := range map[string]string{"My.Pkg": "my-pkg", "a__b--c": "a-b-c", "torch": "torch", "A_.-b": "a-b"} {
		if got := Normalize(in); got != want {
			t.Errorf("%s: %s, expected %s", in, got, want)
		}
	}
}

func TestHeaders(t *testing.T) {
	for _, text := range []string{
		"", "A: b\n", "A: b", "A: b\r\nC: d\r\n\r\ntext\r\n", "Name: x\nDescription: one\n        |two\n\tthree\nVersion: 1\n\nbody: x\n\nmore", "\nonly text",
		"License-Expression:MIT\n", "Odd: a\rb\n",
	} {
		h, err := ParseHeaders([]byte(text))
		if err != nil || string(h.Bytes()) != text {
			t.Errorf("%q: %v, %v", text, h, err)
		}
	}
	h, err := ParseHeaders([]byte("Name: x\r\nrequires-dist: a\r\nRequires-Dist: b (>=1)\r\n ; python_version<\"3\"\r\n\r\nbody"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := h.All("Requires-Dist"), []string{"a", "b (>=1)\n ; python_version<\"3\""}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	h.Add("Provides-Extra", "z")
	h.Set("name", "y")
	h.Remove(func(key, value string) bool { return value == "a" })
	if got, want := string(h.Bytes()), "Name: y\r\nRequires-Dist: b (>=1)\r\n ; python_version<\"3\"\r\nProvides-Extra: z\r\n\r\nbody"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	for _, text := range []string{" a: b\n", "no colon\n", ": b\n", "a b: c\n", "A: \xff\n"} {
		if _, err := ParseHeaders([]byte(text)); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestRecord(t *testing.T) {
	text := "a.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n\"b,\"\"c\"\"\",,\n../../bin/x,sha256=aa,7\n"
	rows, err := ParseRecord([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []Row{{"a.py", "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU", 0}, {`b,"c"`, "", -1}, {"../../bin/x", "sha256=aa", 7}}
	if !cmp.Equal(rows, want) {
		t.Error(cmp.Diff(want, rows))
	}
	if got := string(FormatRecord(rows)); got != text {
		t.Errorf("%q, expected %q", got, text)
	}
	for _, text := range []string{"a\n", "a,b\n", "a,sha256=x,y\n", "a,sha256=x,-1\n", ",sha256=x,1\n", "a,sha256,1\n", "a,=x,1\n", "\"a,,\n", "a,,,\n", "\xff,,\n"} {
		if rows, err := ParseRecord([]byte(text)); err == nil {
			t.Errorf("%q is accepted: %v", text, rows)
		}
	}
}

const tag = "cp312-cp312-linux_x86_64"

// sample returns a wheel, with lines in its METADATA.
func sample(t testing.TB, files ...fixture.WheelFile) []byte {
	return fixture.Wheel(t, "demo", "1.0", tag, "", append([]fixture.WheelFile{
		{Name: "demo/__init__.py", Text: "x = 1\n"}, {Name: "demo/lib.so", Text: "\x7fELF" + strings.Repeat("code", 1000), Mode: 0o755}, {Name: "demo/stored", Text: "plain", Stored: true},
	}, files...)...)
}

// TestWrittenNames checks that wheels with all names that a Writer accepts can be read.
func TestWrittenNames(t *testing.T) {
	pieces := []string{
		"a", "B", "7", "/", "..", ".", "\\", ":", " ", "\n", "\r", "\t", ",", "\"", "'", "é", "\u202e", "\xff", "\x00", "-", "C:", "demo", ".dist-info", "RECORD",
		strings.Repeat("x", 400) + "/",
	}
	sampleWheel, accepted := sample(t), 0
	rapid.Check(t, func(t *rapid.T) {
		from, err := read(sampleWheel)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		out := NewWriter(&b)
		for _, m := range from.Members {
			if m.Name != from.recordFile() {
				if err := out.Copy(from, m, m.Name); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "files") {
			name := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 11).Draw(t, "pieces"), "")
			if out.Deflate(name, time.Unix(0, 0), []byte("x")) == nil {
				accepted++
			}
		}
		if out.Close(from.DistInfo, time.Unix(0, 0)) != nil {
			return
		}
		w, err := read(b.Bytes())
		if err == nil {
			err = check(w)
		}
		if err != nil || len(w.Unlisted()) > 0 {
			t.Errorf("got error %v, want none and no file that RECORD does not list", err)
		}
	})
	if accepted == 0 {
		t.Error("got no accepted name, want some")
	}
}

func read(data []byte) (*Wheel, error) {
	return Read("demo-1.0-"+tag+".whl", content.Memory(data))
}

// check reports the first fault of any member.
func check(w *Wheel) error {
	for _, m := range w.Members {
		if err := w.Check(m, nil); err != nil {
			return err
		}
	}
	return nil
}

func TestCopy(t *testing.T) {
	data := sample(t)
	w, err := read(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := check(w); err != nil || len(w.Unlisted()) > 0 {
		t.Errorf("%v, %v", err, w.Unlisted())
	}
	if !w.Member("demo/lib.so").Begins("\x7fELF") || w.Member("demo/stored").Begins("\x7fELF") {
		t.Error("the first bytes are wrong")
	}
	write := func() []byte {
		var b bytes.Buffer
		out := NewWriter(&b)
		for _, m := range w.Members {
			if m.Name == w.recordFile() {
				continue
			}
			if m.Name == "demo/stored" {
				p, err := PackBytes([]byte("other"))
				if err == nil {
					err = out.Replace(m, p)
				}
				if err != nil {
					t.Fatal(err)
				}
				continue
			}
			if err := out.Copy(w, m, m.Name); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.Close(w.DistInfo, w.Member("demo/lib.so").Modified()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	first := write()
	if !bytes.Equal(first, write()) {
		t.Error("the same call writes other bytes")
	}
	again, err := read(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := check(again); err != nil || len(again.Unlisted()) > 0 {
		t.Errorf("%v, %v", err, again.Unlisted())
	}
	lib := again.Member("demo/lib.so")
	if lib.zip.Mode().Perm() != 0o755 || lib.file.Len() != w.Member("demo/lib.so").file.Len() || !lib.Modified().Equal(w.Member("demo/lib.so").Modified()) {
		t.Errorf("the copy is different: %v", lib)
	}
	if got, _ := again.Member("demo/stored").text(); string(got) != "other" {
		t.Errorf("the new content is %q", got)
	}
}

// TestHostile reads archives that are no wheels, or lie.
func TestHostile(t *testing.T) {
	const info = "demo-1.0.dist-info/"
	metadata := fixture.WheelFile{Name: info + "METADATA", Text: "Name: demo\nVersion: 1.0\n"}
	about := fixture.WheelFile{Name: info + "WHEEL", Text: "Wheel-Version: 1.0\n"}
	record := func(text string) fixture.WheelFile { return fixture.WheelFile{Name: info + "RECORD", Text: text} }
	file := func(name string) fixture.WheelFile { return fixture.WheelFile{Name: name, Text: "x"} }
	headers := func(change func(b []byte, at int)) []byte {
		data := sample(t)
		for at := range data {
			if bytes.HasPrefix(data[at:], []byte("PK\x01\x02")) {
				change(data, at)
				break
			}
		}
		return data
	}
	whole := sample(t)
	for _, test := range []struct {
		name, want string
		data       []byte
	}{
		{"text", "not a wheel", []byte("no archive")},
		{"empty", "not a wheel", nil},
		{"cut", "not a wheel", whole[:len(whole)-30]},
		{"up", "relative path", sample(t, file("../x"))},
		{"inside up", "relative path", sample(t, file("demo/../../x"))},
		{"absolute", "relative path", sample(t, file("/etc/x"))},
		{"drive", "relative path", sample(t, file("c:/x"))},
		{"backslash", "relative path", sample(t, file(`demo\x`))},
		{"twice", "twice", sample(t, file("demo/lib.so"))},
		{"file and directory", "also the directory", sample(t, file("demo/lib.so/x"))},
		{"no dist-info", ".dist-info directory is missing", fixture.Zip(t, file("a"))},
		{"two dist-info", "expected one", sample(t, file("other-1.dist-info/METADATA"))},
		{"no metadata", "METADATA is missing", fixture.Zip(t, about, record(""))},
		{"no record", "RECORD is missing", fixture.Zip(t, about, metadata)},
		{"other name", "expected that of the file", fixture.Zip(t, about, record(""), fixture.WheelFile{Name: metadata.Name, Text: "Name: other\nVersion: 1.0\n"})},
		{"other version", "expected that of the file", fixture.Zip(t, about, record(""), fixture.WheelFile{Name: metadata.Name, Text: "Name: demo\nVersion: 2.0\n"})},
		{"version 2", "Wheel-Version", fixture.Zip(t, metadata, record(""), fixture.WheelFile{Name: about.Name, Text: "Wheel-Version: 2.0\n"})},
		{"record has more", "not in the archive", fixture.Zip(t, about, metadata, record("gone,sha256=x,1\n"))},
		{"record has one twice", "listed twice", fixture.Zip(t, about, metadata, record(info+"WHEEL,,\n"+info+"WHEEL,,\n"))},
		{"record is no table", "expected lines", fixture.Zip(t, about, metadata, record("x\n"))},
		{"encrypted", "encrypted", headers(func(b []byte, at int) { b[at+8] |= 1 })},
		{"method", "compression method 12", headers(func(b []byte, at int) { b[at+10] = 12 })},
		{"bomb", "cannot expand", headers(func(b []byte, at int) { binary.LittleEndian.PutUint32(b[at+24:], 1<<31) })},
		{"past the end", "cut short", headers(func(b []byte, at int) { binary.LittleEndian.PutUint32(b[at+20:], 1<<31) })},
	} {
		if _, err := read(test.data); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, expected %q", test.name, err, test.want)
		}
	}
	for _, test := range []struct{ name, want, record string }{
		{"hash", "has the hash", "x,sha256=aaaa,1\n"},
		{"size", "has 1 bytes, expected 2", "x,sha256=aaaa,2\n"},
		{"algorithm", "found the hash", "x,crc=aaaa,1\n"},
		{"no hash", "found the hash", "x,,\n"},
	} {
		w, err := read(fixture.Zip(t, about, metadata, file("x"), file("unlisted"), record(test.record)))
		if err != nil {
			t.Fatal(err)
		}
		if err := check(w); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, expected %q", test.name, err, test.want)
		}
		if all := w.Unlisted(); len(all) != 3 || all[2].Name != "unlisted" {
			t.Errorf("unlisted: %v", all)
		}
	}
	// A member that is larger than its header states.
	long := headers(func(b []byte, at int) { b[at+24]-- })
	w, err := read(long)
	if err == nil {
		_, err = w.Members[0].WriteTo(&bytes.Buffer{})
	}
	if err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a member that is longer than its header says: %v", err)
	}
}

// TestDamage reads a wheel with each byte changed, and cut at each byte.
func TestDamage(t *testing.T) {
	data := fixture.Wheel(t, "demo", "1.0", tag, "", fixture.WheelFile{Name: "a", Text: "text"})
	for i := range data {
		for _, changed := range [][]byte{data[:i], append(append(bytes.Clone(data[:i]), data[i]^0x55), data[i+1:]...)} {
			if w, err := read(changed); err == nil {
				_ = check(w)
			}
		}
	}
}

func FuzzMetadata(f *testing.F) {
	f.Add([]byte("Metadata-Version: 2.1\nName: x\nRequires-Dist: a == 1 ; extra == \"b\"\n\ntext"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ParseHeaders(data)
		if err != nil {
			return
		}
		if !bytes.Equal(h.Bytes(), data) {
			t.Fatalf("%q becomes %q", data, h.Bytes())
		}
		h.Add("Provides-Extra", "x")
		if again, err := ParseHeaders(h.Bytes()); err != nil || len(again.fields) != len(h.fields) {
			t.Fatalf("%q with a field: %v", data, err)
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte("a.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n\"b,c\",,\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := ParseRecord(data)
		if err != nil {
			return
		}
		again, err := ParseRecord(FormatRecord(rows))
		if err != nil || len(again) != len(rows) {
			t.Fatalf("%q is read and written as %q: %v", data, FormatRecord(rows), err)
		}
	})
}

func FuzzWheel(f *testing.F) {
	f.Add(fixture.Wheel(f, "demo", "1.0", tag, "", fixture.WheelFile{Name: "a", Text: "text"}))
	f.Fuzz(func(_ *testing.T, data []byte) {
		if w, err := read(data); err == nil {
			_ = check(w)
			w.Unlisted()
		}
	})
}

// TestLimits reads files that a small wheel can expand to.
func TestLimits(t *testing.T) {
	start := time.Now()
	long := "A: b\n" + strings.Repeat(" \n", 1<<19) + "C: d\n"
	h, err := ParseHeaders([]byte(long))
	if err != nil || string(h.Bytes()) != long || h.Get("C") != "d" {
		t.Errorf("long field: error %v", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("reading %d bytes took %s, want less than 10 s", len(long), took)
	}
	if _, err := ParseHeaders([]byte(strings.Repeat("A:\n", maxFields+1))); err == nil || !strings.Contains(err.Error(), "more than 65536 fields") {
		t.Errorf("fields: got error %v", err)
	}
	if _, err := ParseRecord([]byte(strings.Repeat("a,,\n", limits.Members+1))); err == nil || !strings.Contains(err.Error(), "more than 1048576 entries") {
		t.Errorf("rows: got error %v", err)
	}
	if err := checkMember(&zip.FileHeader{Name: strings.Repeat("a/", limits.Name/2) + "b"}); err == nil {
		t.Errorf("a name of %d bytes is accepted", limits.Name+1)
	}
}
