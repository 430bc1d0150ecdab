package printable

import (
	"io"
	"unicode/utf8"
)

// Terminal returns a writer for a terminal that passes text on as Text returns it. Characters
// may be divided between calls of Write; one that is not complete at the end is lost.
func Terminal(w io.Writer) io.Writer { return &terminal{w: w} }

// terminal is the writer that Terminal returns.
type terminal struct {
	w    io.Writer
	rest []byte // the beginning of a character
}

// Write escapes p and writes it at once, but for a character that goes on.
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
