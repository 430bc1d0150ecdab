package printable

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestName(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"plain", "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+", "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+"},
		{"letters of all scripts", "größe-кernel-核.co", "größe-кernel-核.co"},
		{"backslash", `C:\new`, `C:\new`},
		{"escape sequence", "a\x1b[2Jb", `a\x1b[2Jb`},
		{"newline and tab", "a\nb\tc\r", `a\nb\tc\r`},
		{"NUL and DEL", "\x00\x7f", `\x00\x7f`},
		{"C1", "a\u009b31mb\u0085", `a\u009b31mb\u0085`},
		{"C1 as a byte", "a\x9b31m", `a\x9b31m`},
		{"bidirectional controls", "\u202egnp.\u2066x\u2069\u200f\u061c", `\u202egnp.\u2066x\u2069\u200f\u061c`},
		{"no width", "a\u200bb\ufeff", `a\u200bb\ufeff`},
		{"separators", "a\u2028b\u2029", `a\u2028b\u2029`},
		{"not UTF-8", "a\xffb\xc3", `a\xffb\xc3`},
		{"the replacement character itself", "a\ufffdb", "a\ufffdb"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Name(test.in); got != test.want {
				t.Errorf("Name(%q) = %q, want %q", test.in, got, test.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	if got, want := Text("one\n\ttwo\x1b\r\n"), "one\n\ttwo\\x1b\\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestError(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"one line", errors.New("a\nb"), `a\nb`},
		{"joined", errors.Join(errors.New("a\nb"), errors.New("c")), "a\\nb\nc"},
		{"wrapped", fmt.Errorf("%w and %w", errors.New("a\n"), errors.New("b")), `a\n and b`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Error(test.err); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// FuzzName checks that nothing unprintable is left and printable text is not changed.
func FuzzName(f *testing.F) {
	f.Add("plain")
	f.Add("\x1b]0;title\x07\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		got := Name(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("Name(%q) = %q", s, got)
		}
		if Name(got) != got {
			t.Errorf("Name(%q) is %q, not itself", got, Name(got))
		}
	})
}

// Control sequences are escaped for a terminal, however the text is divided between writes.
func TestTerminal(t *testing.T) {
	const text = "host-é\u202e\x1b[31m\xff\tx\n日本\n"
	for cut := range len(text) {
		var got bytes.Buffer
		w := Terminal(&got)
		for _, part := range []string{text[:cut], text[cut:]} {
			if n, err := io.WriteString(w, part); n != len(part) || err != nil {
				t.Fatal(n, err)
			}
		}
		if want := Text(text); got.String() != want {
			t.Errorf("cut at %d: %q, want %q", cut, got.String(), want)
		}
	}
}
