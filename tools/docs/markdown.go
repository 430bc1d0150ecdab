package main

import (
	"fmt"
	"io"
	"strings"
)

// write writes the modules as one page of Markdown.
func write(w io.Writer, title string, modules []*module) {
	fmt.Fprintf(w, "# %s\n\nGenerated from the `.bzl` files by `./bazelw run //docs:update`. A test checks that it is current.\n", title)
	for _, m := range modules {
		fmt.Fprintf(w, "\n- `%s`:", m.load())
		for i, s := range append(m.symbols[:len(m.symbols):len(m.symbols)], m.extensions...) {
			if i > 0 {
				fmt.Fprint(w, ",")
			}
			fmt.Fprintf(w, " [%s](#%s)", s.name, strings.ToLower(s.name))
		}
	}
	fmt.Fprintln(w)
	for _, m := range modules {
		fmt.Fprintf(w, "\n# %s\n", m.load())
		if m.doc != "" {
			fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(m.doc))
		}
		for _, s := range m.symbols {
			s.write(w)
		}
		for _, e := range m.extensions {
			e.write(w)
			for _, tag := range e.tags {
				fmt.Fprintf(w, "\n### %s.%s\n", e.name, tag.name)
				tag.body(w)
			}
		}
	}
}

// load returns the label that users load the module by.
func (m *module) load() string {
	_, path, found := strings.Cut(m.file, "//")
	if !found {
		path = m.file
	}
	return "@rules_offload//" + path
}

func (s *symbol) write(w io.Writer) {
	fmt.Fprintf(w, "\n## %s\n", s.name)
	s.body(w)
}

func (s *symbol) body(w io.Writer) {
	var names []string
	for _, f := range s.fields {
		names = append(names, f.name)
	}
	switch s.kind {
	case "rule", "macro", "function", "tag":
		fmt.Fprintf(w, "\n```starlark\n%s(%s)\n```\n", s.name, strings.Join(names, ", "))
	case "provider", "aspect", "extension":
		fmt.Fprintf(w, "\n*%s*\n", s.kind)
	}
	if s.doc != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(s.doc))
	}
	if len(s.gives) > 0 {
		fmt.Fprintf(w, "\nProvides `%s`.\n", strings.Join(s.gives, "`, `"))
	}
	if len(s.fields) > 0 {
		fmt.Fprintln(w)
	}
	for _, f := range s.fields {
		f.write(w, s.kind)
	}
	if s.returns != "" {
		fmt.Fprintf(w, "\nReturns %s\n", strings.TrimSpace(s.returns))
	}
}

func (f *field) write(w io.Writer, of string) {
	var about []string
	if f.kind != "" && f.kind != "name" {
		kind := f.kind
		if len(f.needs) > 0 {
			kind += " with `" + strings.Join(f.needs, "`, or `") + "`"
		}
		about = append(about, kind)
	}
	switch {
	case of == "provider":
	case f.mandatory:
		about = append(about, "mandatory")
	case f.fallback != "":
		about = append(about, "default `"+f.fallback+"`")
	}
	if len(f.values) > 0 {
		about = append(about, "one of `"+strings.Join(f.values, "`, `")+"`")
	}
	fmt.Fprintf(w, "- `%s`", f.name)
	if len(about) > 0 {
		fmt.Fprintf(w, " (%s)", strings.Join(about, "; "))
	}
	if f.doc != "" {
		fmt.Fprintf(w, ": %s", strings.Join(strings.Fields(f.doc), " "))
	}
	fmt.Fprintln(w)
}

// withoutExample returns the names of the rules, macros and tags whose documentation has no
// example that calls them. A function that returns nothing is a macro.
func withoutExample(modules []*module) []string {
	var names []string
	look := func(symbols []symbol) {
		for _, s := range symbols {
			callable := s.kind == "rule" || s.kind == "macro" || s.kind == "tag" || s.kind == "function" && s.returns == ""
			if _, example, _ := strings.Cut(s.doc, "```starlark\n"); callable && !strings.Contains(example, s.name+"(") {
				names = append(names, s.name)
			}
		}
	}
	for _, m := range modules {
		look(m.symbols)
		for _, extension := range m.extensions {
			look(extension.tags)
		}
	}
	return names
}
