package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// message is a protocol buffer message without its schema: the values of each
// field by number, as bytes or numbers. Fields are those of Bazel's
// stardoc_output.proto, which starlark_doc_extract writes.
type message map[protowire.Number][]value

type value struct {
	bytes  []byte
	number uint64
}

func parse(b []byte) (message, error) {
	m := message{}
	for len(b) > 0 {
		field, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		var v value
		switch kind {
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(b)
		default:
			n = protowire.ConsumeFieldValue(field, kind, b)
		}
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		b = b[n:]
		m[field] = append(m[field], v)
	}
	return m, nil
}

func (m message) text(field protowire.Number) string {
	if len(m[field]) == 0 {
		return ""
	}
	return string(m[field][0].bytes)
}

func (m message) texts(field protowire.Number) []string {
	var all []string
	for _, v := range m[field] {
		all = append(all, string(v.bytes))
	}
	return all
}

func (m message) number(field protowire.Number) uint64 {
	if len(m[field]) == 0 {
		return 0
	}
	return m[field][0].number
}

func (m message) messages(field protowire.Number) ([]message, error) {
	var all []message
	for _, v := range m[field] {
		inner, err := parse(v.bytes)
		if err != nil {
			return nil, fmt.Errorf("field %d: %w", field, err)
		}
		all = append(all, inner)
	}
	return all, nil
}

// module is what a .bzl file gives its users.
type module struct {
	file, doc  string
	symbols    []symbol // sorted by kind, then as in the file
	extensions []symbol
}

// symbol is a documented name.
type symbol struct {
	kind, name, doc string
	// fields are attributes, parameters or fields.
	fields  []field
	returns string
	tags    []symbol // of a module extension
	gives   []string // providers that a rule advertises
}

// field is an attribute, a parameter or a field of a provider.
type field struct {
	name, doc, kind, fallback string
	mandatory                 bool
	values                    []string
	needs                     []string // providers that targets must have: all of one group
}

// attributeTypes are the names of AttributeType.
var attributeTypes = []string{
	"", "name", "int", "label", "string", "list of strings", "list of ints", "list of labels", "bool",
	"dict of label to string", "dict of string to string", "dict of string to list of strings", "output", "list of outputs",
	"dict of string to label", "dict of string to list of labels",
}

func attributes(all []message) ([]field, error) {
	var fields []field
	for _, a := range all {
		f := field{
			name: a.text(1), doc: a.text(2), mandatory: a.number(4) != 0, fallback: a.text(6), values: a.texts(9),
		}
		groups, err := a.messages(5)
		if err != nil {
			return nil, err
		}
		for _, group := range groups {
			f.needs = append(f.needs, strings.Join(group.texts(1), "` and `"))
		}
		if kind := a.number(3); kind < uint64(len(attributeTypes)) {
			f.kind = attributeTypes[kind]
		}
		fields = append(fields, f)
	}
	// The name and other mandatory attributes first, then by name.
	slices.SortStableFunc(fields, func(a, b field) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.name, b.name))
	})
	return fields, nil
}

func rank(f field) int {
	switch {
	case f.kind == "name":
		return 0
	case f.mandatory:
		return 1
	}
	return 2
}

func parameters(all []message) []field {
	var fields []field
	for _, p := range all {
		name := p.text(1)
		switch p.number(5) {
		case 4:
			name = "*" + name
		case 5:
			name = "**" + name
		case 0: // not in the output of Bazel before 8
			if name == "kwargs" {
				name = "**" + name
			}
		}
		fields = append(fields, field{name: name, doc: p.text(2), fallback: p.text(3), mandatory: p.number(4) != 0})
	}
	return fields
}

// kinds are the fields of ModuleInfo, in the order of the documentation.
var kinds = []struct {
	field        protowire.Number
	name         string
	members      protowire.Number // attributes, parameters or fields
	doc          protowire.Number
	isParameters bool
}{
	{1, "rule", 3, 2, false},
	{9, "macro", 3, 2, false},
	{4, "aspect", 4, 2, false},
	{3, "function", 2, 3, true},
	{2, "provider", 3, 2, false},
}

func readModule(b []byte) (*module, error) {
	info, err := parse(b)
	if err != nil {
		return nil, err
	}
	m := &module{file: info.text(6), doc: info.text(5)}
	for _, kind := range kinds {
		all, err := info.messages(kind.field)
		if err != nil {
			return nil, err
		}
		for _, one := range all {
			members, err := one.messages(kind.members)
			if err != nil {
				return nil, err
			}
			s := symbol{kind: kind.name, name: one.text(1), doc: one.text(kind.doc)}
			if kind.isParameters {
				s.fields = parameters(members)
				if returned, err := one.messages(4); err == nil && len(returned) > 0 {
					s.returns = returned[0].text(1)
				}
			} else if s.fields, err = attributes(members); err != nil {
				return nil, err
			}
			if kind.name == "aspect" {
				s.fields = slices.DeleteFunc(s.fields, func(f field) bool { return f.kind == "name" })
			}
			if kind.name == "rule" {
				if groups, err := one.messages(5); err == nil && len(groups) > 0 {
					s.gives = groups[0].texts(1)
				}
			}
			m.symbols = append(m.symbols, s)
		}
	}
	extensions, err := info.messages(7)
	if err != nil {
		return nil, err
	}
	for _, one := range extensions {
		e := symbol{kind: "extension", name: one.text(1), doc: one.text(2)}
		tags, err := one.messages(3)
		if err != nil {
			return nil, err
		}
		for _, tag := range tags {
			members, err := tag.messages(3)
			if err != nil {
				return nil, err
			}
			fields, err := attributes(members)
			if err != nil {
				return nil, err
			}
			e.tags = append(e.tags, symbol{kind: "tag", name: tag.text(1), doc: tag.text(2), fields: fields})
		}
		m.extensions = append(m.extensions, e)
	}
	return m, nil
}
