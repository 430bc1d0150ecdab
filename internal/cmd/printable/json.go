package printable

import (
	"fmt"
	"io"
)

// JSON returns a writer for the output of encoding/json. It writes the control
// characters that encoding/json leaves as they are, DEL and C1, as \u escapes.
// They occur in strings only, so the JSON keeps its meaning.
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
	for i := 0; i < len(p); i++ {
		switch {
		case p[i] == 0x7f:
			j.buf = append(append(j.buf, p[from:i]...), `\u007f`...)
			from = i + 1
		case p[i] == 0xc2 && i+1 < len(p) && p[i+1] >= 0x80 && p[i+1] < 0xa0:
			j.buf = fmt.Appendf(append(j.buf, p[from:i]...), `\u%04x`, p[i+1])
			from = i + 2
			i++
		}
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
