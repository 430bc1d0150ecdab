package key

import "strings"

// depfileColumns is the width at which clang breaks the lines of a dependency file.
const depfileColumns = 75

// Depfile returns the dependency file that clang writes for targets, which are quoted already, and files. With
// phony, each file but the first has a rule of its own.
func Depfile(targets, files []string, phony bool) []byte {
	var b strings.Builder
	columns := 0
	for _, target := range targets {
		switch {
		case columns == 0:
			columns += len(target)
		case columns+len(target)+2 > depfileColumns:
			columns = len(target) + 2
			b.WriteString(" \\\n  ")
		default:
			columns += len(target) + 1
			b.WriteByte(' ')
		}
		b.WriteString(target)
	}
	b.WriteByte(':')
	columns++
	for _, file := range files {
		if columns+len(file)+1+2 > depfileColumns {
			b.WriteString(" \\\n ")
			columns = 2
		}
		b.WriteByte(' ')
		quote(&b, file)
		columns += len(file) + 1
	}
	b.WriteByte('\n')
	if phony {
		for i, file := range files {
			if i > 0 {
				quote(&b, file)
				b.WriteString(":\n")
			}
		}
	}
	return []byte(b.String())
}

// quote writes the name of a file as clang does.
func quote(b *strings.Builder, name string) {
	for i := range len(name) {
		switch name[i] {
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
}
