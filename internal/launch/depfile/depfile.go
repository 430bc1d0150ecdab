// Package depfile reads dependency files: the Makefile rules in which a compiler
// names the files that it read.
package depfile

import "errors"

// ErrSyntax reports a file that is not a list of rules.
var ErrSyntax = errors.New("not a dependency file: expected rules, TARGET: FILE")

// Parse returns the prerequisites of all rules in data, in their order, duplicates
// included. The syntax is that of clang and GCC, a subset of make's: a backslash
// before the end of a line continues the rule, and one before a blank or "#" quotes
// it; "$$" is a dollar sign. Backslashes before a quoted character or a blank are
// doubled; all others stand for themselves. The first word that ends with a colon ends
// the targets of a rule. Parse returns ErrSyntax if there is no rule, or a line is
// not one.
func Parse(data []byte) (files []string, err error) {
	rules, words, targets := 0, 0, true // words of this rule; whether the next one is a target
	endRule := func() bool {
		complete := words == 0 || !targets
		words, targets = 0, true
		return complete
	}
	for len(data) > 0 {
		if data[0] == ' ' || data[0] == '\t' {
			data = data[1:]
			continue
		}
		if n := newline(data); n > 0 {
			if !endRule() {
				return nil, ErrSyntax
			}
			data = data[n:]
			continue
		}
		if data[0] == '\\' {
			if n := newline(data[1:]); n > 0 {
				data = data[1+n:]
				continue
			}
		}
		var name []byte
		var ends bool
		name, ends, data = word(data)
		words++
		switch {
		case !targets:
			files = append(files, string(name))
		case ends:
			targets = false
			rules++
		}
	}
	if !endRule() || rules == 0 {
		return nil, ErrSyntax
	}
	return files, nil
}

// newline returns the length of the end of a line with which data begins, 0 for none.
func newline(data []byte) int {
	switch {
	case len(data) >= 1 && data[0] == '\n':
		return 1
	case len(data) >= 2 && data[0] == '\r' && data[1] == '\n':
		return 2
	}
	return 0
}

// word returns the word with which data begins, unquoted, whether it ends with a
// colon, and what follows it.
func word(data []byte) (name []byte, colon bool, rest []byte) {
	i := 0
	for i < len(data) && data[i] != ' ' && data[i] != '\t' && newline(data[i:]) == 0 {
		switch data[i] {
		case '$':
			if i+1 < len(data) && data[i+1] == '$' {
				i++
			}
			name = append(name, '$')
			i++
		case '\\':
			n := 0 // backslashes
			for i+n < len(data) && data[i+n] == '\\' {
				n++
			}
			after := data[i+n:]
			i += n
			switch {
			case newline(after) > 0: // the last backslash continues the rule
				name = append(name, data[i-n:i-1]...)
				return name, ends(name), data[i-1:]
			case len(after) > 0 && (after[0] == ' ' || after[0] == '\t' || after[0] == '#'):
				name = append(name, data[i-n:i-n+n/2]...)
				if n%2 == 1 {
					name = append(name, after[0])
					i++
				} else if after[0] == '#' {
					name = append(name, '#')
					i++
				}
			default:
				name = append(name, data[i-n:i]...)
			}
		default:
			name = append(name, data[i])
			i++
		}
	}
	return name, ends(name), data[i:]
}

func ends(name []byte) bool { return len(name) > 0 && name[len(name)-1] == ':' }
