package codeobject

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// node is a value of a YAML document: a text, a list or a map. The zero value stands for a missing
// or empty one.
type node struct {
	text   string
	list   []node
	fields []field
}

// field is a key of a map with its value.
type field struct {
	key   string
	value node
}

// get returns the value of a key, the zero value if the map does not have the key.
func (n node) get(key string) node {
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return node{}
}

// maxNested is the maximum depth of lists and maps. LLVM writes six levels.
const maxNested = 64

// yamlLine is a line of YAML, or what follows the dash of a list or the key of a map in it.
type yamlLine struct {
	number int // from 1
	indent int // in characters
	text   string
}

// item reports whether the line begins an item of a list.
func (l yamlLine) item() bool { return l.text == "-" || strings.HasPrefix(l.text, "- ") }

// errorf returns an error that names the line.
func (l yamlLine) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", l.number, fmt.Sprintf(format, args...))
}

// yamlReader reads the form of YAML that LLVM writes: maps and lists in blocks, lists in brackets,
// and texts of one line. Anchors, tags, maps in braces and texts of several lines are errors.
type yamlReader struct {
	lines []yamlLine // that follow
}

// parseYAML parses the first document of a text.
func parseYAML(text string) (node, error) {
	var r yamlReader
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, " \r\n")
		content := strings.TrimLeft(line, " ")
		switch {
		case content == "" || content[0] == '#' || line == "---" && len(r.lines) == 0:
			continue
		case content[0] == '\t':
			return node{}, fmt.Errorf("line %d: found a tab, expected spaces before the text", number)
		case line == "...", line == "---":
			return r.document()
		}
		r.lines = append(r.lines, yamlLine{number, len(line) - len(content), content})
	}
	return r.document()
}

// document returns the value of all lines.
func (r *yamlReader) document() (node, error) {
	if len(r.lines) == 0 {
		return node{}, nil
	}
	n, err := r.block(maxNested)
	if err == nil && len(r.lines) > 0 {
		err = r.lines[0].errorf("found %q, expected a key or an item of the block before it", clip(r.lines[0].text))
	}
	return n, err
}

// block returns the value that begins at the next line.
func (r *yamlReader) block(depth int) (n node, err error) {
	first := r.lines[0]
	if depth == 0 {
		return n, first.errorf("lists and maps are nested deeper than %d levels", maxNested)
	}
	if _, _, isMap := cutKey(first.text); !first.item() && !isMap {
		r.lines = r.lines[1:]
		return first.value()
	}
	for len(r.lines) > 0 && r.lines[0].indent == first.indent && r.lines[0].item() == first.item() {
		l := &r.lines[0]
		if l.item() {
			rest := after(l.text[1:])
			l.indent, l.text = l.indent+len(l.text)-len(rest), rest
			value, err := r.nested(first.indent+1, depth)
			if err != nil {
				return n, err
			}
			n.list = append(n.list, value)
			continue
		}
		key, rest, ok := cutKey(l.text)
		if !ok {
			return n, l.errorf("found %q, expected a key and a colon", clip(l.text))
		}
		f := field{key: key}
		if l.text = rest; rest != "" {
			f.value, err = l.value()
			r.lines = r.lines[1:]
		} else {
			least := first.indent + 1
			if len(r.lines) > 1 && r.lines[1].item() {
				least = first.indent // lists may be as far to the left as their key
			}
			f.value, err = r.nested(least, depth)
		}
		if err != nil {
			return n, err
		}
		n.fields = append(n.fields, f)
	}
	return n, nil
}

// nested returns the value of the next line, or if its text is empty, of the lines after it that are
// indented by at least a number of characters. No such lines are an empty value.
func (r *yamlReader) nested(least, depth int) (node, error) {
	if r.lines[0].text == "" {
		r.lines = r.lines[1:]
		if len(r.lines) == 0 || r.lines[0].indent < least {
			return node{}, nil
		}
	}
	return r.block(depth - 1)
}

// after returns the text after a dash or colon without the spaces before it, and without a comment.
func after(text string) string {
	if text = strings.TrimLeft(text, " "); strings.HasPrefix(text, "#") {
		return ""
	}
	return text
}

// cutKey splits a line after the colon of a key.
func cutKey(text string) (key, rest string, ok bool) {
	if text[0] == '"' || text[0] == '\'' {
		key, rest, err := quoted(text)
		if err != nil || !strings.HasPrefix(rest, ":") {
			return "", "", false
		}
		return key, after(rest[1:]), true
	}
	if strings.IndexByte("[{", text[0]) >= 0 {
		return "", "", false
	}
	if key, rest, ok = strings.Cut(text, ": "); ok {
		return key, after(rest), true
	}
	key, ok = strings.CutSuffix(text, ":")
	return key, "", ok
}

// value returns the value of a line without a key.
func (l yamlLine) value() (node, error) {
	text := l.text
	switch {
	case text == "{}":
		return node{}, nil
	case strings.IndexByte("{|>&*!@`%", text[0]) >= 0:
		return node{}, l.errorf("found %q, expected a text or a list", clip(text))
	case text[0] != '[':
		value, rest, err := scalar(text, false)
		if err == nil && rest != "" && rest[0] != '#' {
			err = fmt.Errorf("found %q after a text", clip(rest))
		}
		if err != nil {
			return node{}, l.errorf("%v", err)
		}
		return node{text: value}, nil
	}
	var n node
	for text = text[1:]; ; {
		text = strings.TrimLeft(text, " ,")
		if text == "" {
			return n, l.errorf("a list has no closing bracket")
		}
		if text[0] == ']' {
			if rest := strings.TrimLeft(text[1:], " "); rest != "" && rest[0] != '#' {
				return n, l.errorf("found %q after a list", clip(rest))
			}
			return n, nil
		}
		value, rest, err := scalar(text, true)
		if err != nil {
			return n, l.errorf("%v", err)
		}
		n.list, text = append(n.list, node{text: value}), rest
	}
}

// scalar returns the text at the start of a line, and what follows it. In a list, commas and
// brackets end it.
func scalar(text string, list bool) (value, rest string, err error) {
	if text[0] == '"' || text[0] == '\'' {
		return quoted(text)
	}
	end := len(text)
	if i := strings.Index(text, " #"); i >= 0 {
		end = i
	}
	if list {
		if i := strings.IndexAny(text[:end], ",[]{}"); i >= 0 {
			end = i
		}
		if end == 0 {
			return "", "", fmt.Errorf("found %q, expected a text", clip(text))
		}
	}
	return strings.TrimRight(text[:end], " "), strings.TrimLeft(text[end:], " "), nil
}

// quoted returns the text in quotes at the start of a line, and what follows it.
func quoted(text string) (value, rest string, err error) {
	quote := text[0]
	var b []byte
	for rest = text[1:]; rest != ""; {
		c := rest[0]
		switch {
		case c == quote && quote == '\'' && strings.HasPrefix(rest, "''"):
			b, rest = append(b, '\''), rest[2:]
		case c == quote:
			return string(b), strings.TrimLeft(rest[1:], " "), nil
		case c == '\\' && quote == '"':
			if b, rest, err = unescape(b, rest); err != nil {
				return "", "", err
			}
		default:
			b, rest = append(b, c), rest[1:]
		}
	}
	return "", "", errors.New("a text has no closing quote")
}

// unescape appends the character that an escape sequence at the start of a text stands for. It
// returns what follows the sequence.
func unescape(b []byte, text string) ([]byte, string, error) {
	if len(text) > 1 {
		if i := strings.IndexByte("0e/ N_LP", text[1]); i >= 0 {
			return utf8.AppendRune(b, [...]rune{0, 0x1b, '/', ' ', 0x85, 0xa0, 0x2028, 0x2029}[i]), text[2:], nil
		}
	}
	r, _, rest, err := strconv.UnquoteChar(text, '"')
	if err != nil {
		return nil, "", fmt.Errorf("unknown escape sequence %q", clip(text))
	}
	return utf8.AppendRune(b, r), rest, nil
}

// clip returns the start of a text, for messages.
func clip(text string) string { return text[:min(len(text), 40)] }
