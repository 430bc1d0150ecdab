package flagfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// The results of this table are those of expandArgument in Bazel 7.7.1, run on
// the same files.
func TestExpand(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		args  []string
		want  []string
	}{
		{"no files", nil, []string{"bundle", "-o", "out"}, []string{"bundle", "-o", "out"}},
		{"nothing", nil, nil, []string{}},
		{"in place", map[string]string{"p": "a\nb\n"}, []string{"x", "@p", "y"}, []string{"x", "a", "b", "y"}},
		{"no newline at the end", map[string]string{"p": "a\nb"}, []string{"@p"}, []string{"a", "b"}},
		{"empty file", map[string]string{"p": ""}, []string{"@p", "x"}, []string{"x"}},
		{"one newline", map[string]string{"p": "\n"}, []string{"@p"}, []string{""}},
		{"blank lines", map[string]string{"p": "a\n\n\nb\n\n"}, []string{"@p"}, []string{"a", "", "", "b", ""}},
		{"crlf", map[string]string{"p": "a\r\n\r\nb\r\n"}, []string{"@p"}, []string{"a", "", "b"}},
		{"cr alone", map[string]string{"p": "a\rb\r\rc\n\rd"}, []string{"@p"}, []string{"a", "b", "", "c", "", "d"}},
		{"blanks count", map[string]string{"p": "  a \n\t\n"}, []string{"@p"}, []string{"  a ", "\t"}},
		{"no comments", map[string]string{"p": "# a\n#b\n"}, []string{"@p"}, []string{"# a", "#b"}},
		{"no quotes", map[string]string{"p": "'a b'\n\"c\\\"\n"}, []string{"@p"}, []string{"'a b'", "\"c\\\""}},
		{"vertical tab and form feed", map[string]string{"p": "a\vb\fc\n"}, []string{"@p"}, []string{"a\vb\fc"}},
		{"unicode line separators", map[string]string{"p": "a\u0085b\u2028c\u2029d\n"}, []string{"@p"}, []string{"a\u0085b\u2028c\u2029d"}},
		{"byte order mark", map[string]string{"p": "\ufeff@q\n"}, []string{"@p"}, []string{"\ufeff@q"}},
		{"utf-8", map[string]string{"p": "grüße/核.o\n"}, []string{"@p"}, []string{"grüße/核.o"}},
		{"nul", map[string]string{"p": "a\x00b\n"}, []string{"@p"}, []string{"a\x00b"}},
		{"escaped", map[string]string{"p": "@@a\n@@\n@@a//b\n"}, []string{"@@p", "@p"}, []string{"@@p", "@@a", "@@", "@@a//b"}},
		{"labels", map[string]string{"p": "@repo//pkg:name\n@//x\n"}, []string{"@p", "@repo//:all"}, []string{"@repo//pkg:name", "@//x", "@repo//:all"}},
		{"path with two slashes is a label", map[string]string{"dir/p": "a\n"}, []string{"@dir//p"}, []string{"@dir//p"}},
		{"no label over a line separator", map[string]string{"x\u2028//y": "a\n"}, []string{"@x\u2028//y"}, []string{"a"}},
		{"at sign inside", map[string]string{"p": "a@b\n=@q\n"}, []string{"@p"}, []string{"a@b", "=@q"}},
		{"flagfile= is no file", map[string]string{"p": "--flagfile=q\n"}, []string{"--flagfile=p", "@p"}, []string{"--flagfile=p", "--flagfile=q"}},
		{"nested", map[string]string{"p": "1\n@d/q\n4\n", "d/q": "2\n@r\n", "r": "3"}, []string{"@p"}, []string{"1", "2", "3", "4"}},
		{"twice, but no cycle", map[string]string{"p": "@q\n@q\n", "q": "a\n"}, []string{"@p", "@q"}, []string{"a", "a", "a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Expand(test.args, open(test.files))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExpandErrors(t *testing.T) {
	deep := map[string]string{}
	for i := range 200 {
		deep[fmt.Sprint(i)] = fmt.Sprintf("@%d", i+1)
	}
	for _, test := range []struct {
		name  string
		files map[string]string
		args  []string
		want  string
	}{
		{"missing", nil, []string{"@gone"}, "argument file gone: file does not exist"},
		{"missing inside", map[string]string{"p": "a\n@gone\n"}, []string{"@p"}, "argument file gone (named in p): file does not exist"},
		{"no name", nil, []string{"@"}, `argument "@" does not name a file`},
		{"no name inside", map[string]string{"p": "@"}, []string{"@p"}, `argument "@" does not name a file (named in p)`},
		{"itself", map[string]string{"p": "@p"}, []string{"@p"}, "argument file p contains itself (named in p)"},
		{"itself under another name", map[string]string{"p": "@d/../q", "q": "@./p"}, []string{"@p"}, "argument file ./p contains itself (named in q)"},
		{"too deep", deep, []string{"@0"}, "argument file 100 is 101 files deep (named in 99)"},
		{"not utf-8", map[string]string{"p": "a\nb\xffc\n"}, []string{"@p"}, `argument file p: line 2 is not UTF-8: "b\xffc"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Expand(test.args, open(test.files))
			if err == nil || err.Error() != test.want {
				t.Fatalf("got %q, error %v, want error %s", got, err, test.want)
			}
		})
	}
	if _, err := Expand([]string{"@x"}, open(nil)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error of open is not wrapped: %v", err)
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("@p", "a\n@q\r\n@@x\r\n", "b\r@r//s")
	f.Add("@p", "@q\n", "@./p\n")
	f.Fuzz(func(t *testing.T, arg, p, q string) {
		got, err := Expand([]string{arg}, open(map[string]string{"p": p, "q": q}))
		if err != nil {
			if strings.Contains(err.Error(), "\n") && !strings.Contains(arg, "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		for _, a := range got {
			if a != arg && (strings.ContainsAny(a, "\r\n") || !utf8.ValidString(a)) {
				t.Errorf("argument %q of %q and %q", a, p, q)
			}
			if strings.HasPrefix(a, "@") && !strings.HasPrefix(a, "@@") && !strings.Contains(a, "//") {
				t.Errorf("argument %q is left over", a)
			}
		}
	})
}

func open(files map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		for _, n := range []string{name, path.Clean(name)} {
			if data, ok := files[n]; ok {
				return []byte(data), nil
			}
		}
		return nil, fs.ErrNotExist
	}
}
