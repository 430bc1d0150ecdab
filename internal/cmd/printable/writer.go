package printable

import (
	"io"
	"unicode/utf8"
)

// Terminal returns a writer for a terminal that escapes text like Text. Characters may be split
// between calls of Write; an incomplete character at the end is lost.
func Terminal(w io.Writer) io.Writer { return &terminal{w: w} }

// terminal is the writer that Terminal returns.
type terminal struct {
	w    io.Writer
	rest []byte // the beginning of a character
}

// Write escapes p and writes it immediately, except for an incomplete character at its end.
func (t *terminal) Write(p []byte) (int, error) {
	data := append(t.rest, p...)
	end := len(data)
	for i := max(0, end-utf8.UTFMax+1); i < end; i++ {
		if utf8.RuneStart(data[i]) && !utf8.FullRune(data[i:]) {
			end = i
		}
	}
	t.rest = append([]byte(nil), data[end:]...)
	if end == 0 {
		return len(p), nil
	}
	if _, err := io.WriteString(t.w, Text(string(data[:end]))); err != nil {
		return 0, err
	}
	return len(p), nil
}
