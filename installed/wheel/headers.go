package wheel

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Headers are the lines of a METADATA or WHEEL file, which have the form of an email: fields
// "Key: value", continuation lines that begin with white space, an empty line and a text. A
// file that is parsed and formatted again has the same bytes. The zero value is an empty file.
type Headers struct {
	fields  []field
	newline string
	rest    []byte // the empty line and the text
}

// maxFields is the largest number of fields: a small wheel can expand to a large METADATA.
const maxFields = 1 << 16

// field is a field with its continuation lines.
type field struct{ key, value, lines string }

// ParseHeaders parses a METADATA or WHEEL file.
func ParseHeaders(data []byte) (*Headers, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("expected UTF-8")
	}
	h := &Headers{newline: "\n"}
	var value, lines strings.Builder // of the last field
	end := func() {
		if len(h.fields) > 0 {
			last := &h.fields[len(h.fields)-1]
			last.value, last.lines = value.String(), lines.String()
		}
		value.Reset()
		lines.Reset()
	}
	for number := 1; len(data) > 0; number++ {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		raw := data[:len(data)-len(rest)]
		text := strings.TrimSuffix(string(line), "\r")
		if text == "" {
			break
		}
		if len(text) < len(line) {
			h.newline = "\r\n"
		}
		key, first, ok := strings.Cut(text, ":")
		switch {
		case text[0] == ' ' || text[0] == '\t':
			if len(h.fields) == 0 {
				return nil, fmt.Errorf("line %d: a continuation line without a field", number)
			}
			value.WriteString("\n" + text)
			lines.Write(raw)
		case !ok || key == "" || strings.ContainsAny(key, " \t"):
			return nil, fmt.Errorf("line %d: found %.100q, expected \"Key: value\"", number, text)
		case len(h.fields) == maxFields:
			return nil, fmt.Errorf("line %d: found more than %d fields", number, maxFields)
		default:
			end()
			h.fields = append(h.fields, field{key: key})
			value.WriteString(strings.TrimSpace(first))
			lines.Write(raw)
		}
		data = rest
	}
	end()
	h.rest = data
	return h, nil
}

// Bytes returns the file.
func (h *Headers) Bytes() []byte {
	var b []byte
	for _, f := range h.fields {
		if len(b) > 0 && b[len(b)-1] != '\n' {
			b = append(b, h.newline...)
		}
		b = append(b, f.lines...)
	}
	if len(h.rest) > 0 && len(b) > 0 && b[len(b)-1] != '\n' {
		b = append(b, h.newline...)
	}
	return append(b, h.rest...)
}

// Get returns the first value of a key, or "". Keys are compared without case.
func (h *Headers) Get(key string) string {
	if all := h.All(key); len(all) > 0 {
		return all[0]
	}
	return ""
}

// All returns all values of a key.
func (h *Headers) All(key string) []string {
	var values []string
	for _, f := range h.fields {
		if strings.EqualFold(f.key, key) {
			values = append(values, f.value)
		}
	}
	return values
}

// Add adds a field after the others.
func (h *Headers) Add(key, value string) {
	h.fields = append(h.fields, h.field(key, value))
}

// Copy adds all fields of another file with some keys, in the order of the keys.
func (h *Headers) Copy(from *Headers, keys ...string) {
	for _, key := range keys {
		for _, value := range from.All(key) {
			h.Add(key, value)
		}
	}
}

func (h *Headers) field(key, value string) field {
	newline := h.newline
	if newline == "" {
		newline = "\n"
	}
	return field{key, value, key + ": " + strings.ReplaceAll(value, "\n", newline) + newline}
}

// Set replaces the first value of a key, or adds the field.
func (h *Headers) Set(key, value string) {
	for i, f := range h.fields {
		if strings.EqualFold(f.key, key) {
			h.fields[i] = h.field(f.key, value)
			return
		}
	}
	h.Add(key, value)
}

// Remove removes the fields for which drop returns true.
func (h *Headers) Remove(drop func(key, value string) bool) {
	h.fields = slices.DeleteFunc(slices.Clone(h.fields), func(f field) bool { return drop(f.key, f.value) })
}
