// Package printable makes text from files safe to print: names of files, targets, members,
// sections and kernels, and messages that contain them. A name must not make a terminal run an
// escape sequence, break a line or reorder text. JSON output has its own escapes and does not
// need it.
package printable

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Name returns s with everything that is not a printable character written as an
// escape sequence of Go: \n, \x1b, \u202e. This includes the control characters of
// ASCII and Latin-1, line separators, controls of bidirectional text, characters
// without width, and bytes that are not UTF-8. Printable text is returned as it is,
// backslashes included.
func Name(s string) string { return escape(s, "") }

// Text returns s as Name does, but keeps newlines and tabs. It is for text of
// several lines, such as the messages of a compiler.
func Text(s string) string { return escape(s, "\n\t") }

// Error returns the message of err as one line, or as a line for each error that errors.Join
// combined.
func Error(err error) string { return strings.Join(Lines(err, error.Error), "\n") }

// Lines returns the message of err, or those of the errors that errors.Join combined: each is a
// line, the Name of what message returns.
func Lines(err error, message func(error) string) (lines []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var plain []string
		for _, e := range joined.Unwrap() {
			lines, plain = append(lines, Lines(e, message)...), append(plain, e.Error())
		}
		if strings.Join(plain, "\n") == err.Error() {
			return lines
		}
	}
	return []string{Name(message(err))}
}

// escape returns s with all that is neither printable nor in keep escaped.
func escape(s, keep string) string {
	i := unprintable(s, keep)
	if i < 0 {
		return s
	}
	var b strings.Builder
	for ; i >= 0; i = unprintable(s, keep) {
		b.WriteString(s[:i])
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			const hex = "0123456789abcdef"
			b.WriteString(`\x`)
			b.WriteByte(hex[s[i]>>4])
			b.WriteByte(hex[s[i]&0xf])
		} else {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[i+size:]
	}
	b.WriteString(s)
	return b.String()
}

// unprintable returns the index of the first character of s to escape, or -1.
func unprintable(s, keep string) int {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if (c < ' ' || c == 0x7f) && strings.IndexByte(keep, c) < 0 {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || !strconv.IsPrint(r) {
			return i
		}
		i += size
	}
	return -1
}
