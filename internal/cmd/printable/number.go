package printable

import "fmt"

// Count returns a number with a noun, such as "1 file" and "2,000 files".
func Count(n int, noun string) string { return Grouped(int64(n)) + " " + Noun(n, noun) }

// Noun returns the noun after a number: "file" after 1, else "files".
func Noun(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// Grouped returns a number with a comma before each three digits.
func Grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
