// Package nearest suggests names for mistyped ones.
package nearest

import "strings"

// Distance returns the edit distance of two names: how many bytes must be inserted,
// deleted or replaced to turn a into b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}

// longest is the length in bytes from which a name is not considered mistyped.
const longest = 64

// Name returns the name with the smallest distance to the typed one, the first of several, or
// else the only name that begins with it. It returns "" if no name is within two changes, or
// one for each three bytes typed. For fewer than four bytes, one change is the limit.
func Name(typed string, names []string) string {
	if len(typed) > longest {
		return ""
	}
	limit := max(2, len(typed)/3)
	if len(typed) < 4 {
		limit = 1
	}
	best, least := "", limit+1
	for _, name := range names {
		if d := Distance(typed, name); d < least && d < len(name) {
			best, least = name, d
		}
	}
	if best != "" || len(typed) < 3 {
		return best
	}
	for _, name := range names {
		if strings.HasPrefix(name, typed) {
			if best != "" {
				return ""
			}
			best = name
		}
	}
	return best
}
