package depfile

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, data string
		want       []string
	}{
		{"one line", "a.o: a.hip a.h\n", []string{"a.hip", "a.h"}},
		{"no end of line", "a.o: a.hip", []string{"a.hip"}},
		{"nothing read", "a.o:\n", nil},
		{"continued", "a.o: a.hip \\\n  dir/a.h \\\n  /usr/b.h\n", []string{"a.hip", "dir/a.h", "/usr/b.h"}},
		{"continued without a blank", "a.o: a.hip\\\n  b.h\n", []string{"a.hip", "b.h"}},
		{"continued at the end", "a.o: a.hip \\", []string{"a.hip", `\`}},
		{"lines of Windows", "a.o: a.hip \\\r\n b.h\r\n", []string{"a.hip", "b.h"}},
		{"several targets", "a.o b.o x: a.hip\n", []string{"a.hip"}},
		{"a blank before the colon", "a.o: a.hip a.h\n\na.h:\nb.o : b.hip\n", []string{"a.hip", "a.h", "b.hip"}},
		{"phony rules", "a.o: a.hip a.h b.h\na.h:\nb.h:\n", []string{"a.hip", "a.h", "b.h"}},
		{"two rules", "a.o: a.hip\nb.o: b.hip a.h", []string{"a.hip", "b.hip", "a.h"}},
		{"blank", `a.o: sp\ ace/a\ b.h c.h`, []string{"sp ace/a b.h", "c.h"}},
		{"dollar and hash", `a.o: do$$l\#r.h $x.h #y.h`, []string{"do$l#r.h", "$x.h", "#y.h"}},
		{"backslash", `a.o: a\b.h c:\d.h`, []string{`a\b.h`, `c:\d.h`}},
		{"backslash before a blank of the name", `a.o: a\\\ b.h`, []string{`a\ b.h`}},
		{"backslash at the end of a name", `a.o: a\\ b.h`, []string{`a\`, "b.h"}},
		{"backslash before a hash", `a.o: a\\\#b.h`, []string{`a\#b.h`}},
		{"colon in a name", "a.o: a:b.h c: d.h\n", []string{"a:b.h", "c:", "d.h"}},
		{"colon in a target", "dir:x/a.o: a.h\n", []string{"a.h"}},
		{"bytes", "a.o: \xff\xc3\xa4.h\n", []string{"\xff\xc3\xa4.h"}},
		{"standard input", "a.o: <stdin> a.h\n", []string{"<stdin>", "a.h"}},
		{"tabs", "a.o:\ta.h\tb.h\n", []string{"a.h", "b.h"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Parse([]byte(test.data))
			if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
				t.Errorf("(-want +got):\n%s%v", diff, err)
			}
		})
	}
	for _, data := range []string{"", "\n\n", "a.h b.h\n", "a.o: a.h\nb.h c.h\n", "\x00", `\`} {
		if got, err := Parse([]byte(data)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%q: %q, %v", data, got, err)
		}
	}
}

// quote writes a name as clang writes it.
func quote(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; c {
		case '#':
			b.WriteByte('\\')
		case ' ':
			b.WriteByte('\\')
			for j := i; j > 0 && name[j-1] == '\\'; j-- {
				b.WriteByte('\\')
			}
		case '$':
			b.WriteByte('$')
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

// What clang writes is read back. It does not double backslashes before "#" and at the
// end of a name, so such a name is ambiguous.
func FuzzParse(f *testing.F) {
	f.Add([]byte("a.o: a.hip sp\\ ace/do$$l\\#r.h \\\n  c.h\n"), "a.h", `b\ c$#d.h`)
	f.Add([]byte("a.o x: a.hip\na.h:\n"), "#", "$")
	f.Add([]byte("\\\r\n:\r"), ":", `\x`)
	f.Fuzz(func(t *testing.T, data []byte, first, second string) {
		files, err := Parse(data)
		if err != nil && !errors.Is(err, ErrSyntax) {
			t.Error(err)
		}
		size := 0
		for _, file := range files {
			size += len(file) + 1
		}
		if size > len(data) {
			t.Errorf("%d bytes of names in %d bytes", size, len(data))
		}
		for _, name := range []string{first, second} {
			if name == "" || strings.ContainsAny(name, "\n\r\t") || strings.Contains(name, `\#`) || strings.HasSuffix(name, `\`) {
				return
			}
		}
		text := "x: " + quote(first) + " \\\n  " + quote(second) + "\n"
		if got, err := Parse([]byte(text)); err != nil || !slices.Equal(got, []string{first, second}) {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	})
}
