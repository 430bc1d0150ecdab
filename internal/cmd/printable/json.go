package printable

import (
	"fmt"
	"io"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON returns a writer for the output of encoding/json. It writes the characters that Name escapes and
// encoding/json leaves as they are as \u escapes: DEL, C1, controls of bidirectional text, characters without
// width. Spaces stay. All of them occur in strings only, so the JSON keeps its meaning.
func JSON(w io.Writer) io.Writer { return &jsonWriter{w: w} }

// jsonWriter is the writer that JSON returns. A Write must not end inside a character;
// json.Encoder writes whole values.
type jsonWriter struct {
	w   io.Writer
	buf []byte
}

// Write escapes p and writes it at once.
func (j *jsonWriter) Write(p []byte) (int, error) {
	j.buf = j.buf[:0]
	from := 0
	for i := 0; i < len(p); {
		if p[i] < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRune(p[i:])
		i += size
		if strconv.IsPrint(r) || r == utf8.RuneError || unicode.Is(unicode.Zs, r) {
			continue
		}
		j.buf = append(j.buf, p[from:i-size]...)
		if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
			j.buf = fmt.Appendf(j.buf, `\u%04x\u%04x`, high, low)
		} else {
			j.buf = fmt.Appendf(j.buf, `\u%04x`, r)
		}
		from = i
	}
	out := p
	if from > 0 {
		j.buf = append(j.buf, p[from:]...)
		out = j.buf
	}
	if _, err := j.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
