package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

const (
	generated  = "Generated from the `.bzl` files by `./bazelw run //docs:update`. A test checks that it is current.\n"
	shared     = "attributes" // the page of attributes that several rules have
	outputs    = "Default outputs:"
	groups     = "Output groups:"
	everywhere = "Bazel's attributes for all rules (`tags`, `testonly`, `visibility`, `exec_properties`, `target_compatible_with` and so on) have their usual meaning."
)

// pages returns the pages by name; that of the index is empty.
func pages(modules []*module) map[string]string {
	common := sharedAttributes(modules)
	all := map[string]string{"": index(modules), shared: sharedPage(common)}
	for _, m := range modules {
		all[m.name()] = m.page(common)
	}
	return all
}

func index(modules []*module) string {
	var w strings.Builder
	fmt.Fprintf(&w, "# The rules\n\n%s\n`load(\"@rules_offload//rules:defs.bzl\", …)` loads any rule. Each family also has a file of its own:\n\n", generated)
	fmt.Fprint(&w, "| page | load from | contents |\n| --- | --- | --- |\n")
	for _, m := range modules {
		var names []string
		for _, s := range append(slices.Clone(m.symbols), m.extensions...) {
			names = append(names, fmt.Sprintf("[%s](rules/%s.md#%s)", s.name, m.name(), strings.ToLower(s.name)))
		}
		fmt.Fprintf(&w, "| [%s](rules/%s.md) | `%s` | %s |\n", m.title(), m.name(), m.load(), strings.Join(names, ", "))
	}
	fmt.Fprintf(&w, "\n## Attributes\n\nAn attribute has the same meaning in every rule. %s\n\n", everywhere)
	fmt.Fprint(&w, "| attribute | meaning |\n| --- | --- |\n")
	for _, word := range vocabulary {
		fmt.Fprintf(&w, "| `%s` | %s |\n", word.name, word.meaning)
	}
	fmt.Fprintf(&w, "\n[Attributes of several rules](rules/%s.md) documents those that rules share.\n", shared)
	fmt.Fprint(&w, `
## Output groups, messages

- Output groups are named after targets: `+"`--output_groups=gfx942`"+` builds only the images for gfx942.
- Messages begin with the label of the target and the name of the rule.
`)
	return w.String()
}

// sharedAttributes returns the attributes that two rules or more have with the same documentation, by name. Of several
// texts for a name, the most frequent one wins, then the first one.
func sharedAttributes(modules []*module) map[string]field {
	users := map[identity]int{}
	var all []field
	for _, m := range modules {
		if m.declaresToolchains() {
			continue
		}
		for _, s := range m.symbols {
			if s.kind != "rule" {
				continue
			}
			for _, f := range s.fields {
				if f.kind != "name" {
					users[f.key()]++
					all = append(all, f)
				}
			}
		}
	}
	common := map[string]field{}
	for _, f := range all {
		if n := users[f.key()]; n > 1 && n > users[common[f.name].key()] {
			common[f.name] = f
		}
	}
	return common
}

// identity identifies what the documentation says of a field.
type identity struct{ name, about, doc string }

func (f field) key() identity { return identity{f.name, f.about("rule"), f.doc} }

func sharedPage(common map[string]field) string {
	var w strings.Builder
	fmt.Fprintf(&w, "# Attributes of several rules\n\n%s", generated)
	var names []string
	for name := range common {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f := common[name]
		fmt.Fprintf(&w, "\n## %s\n\n%s\n\n%s\n", name, sentence(f.about("rule")), strings.Join(strings.Fields(f.doc), " "))
	}
	return w.String()
}

func sentence(about string) string {
	if about == "" {
		return ""
	}
	return strings.ToUpper(about[:1]) + about[1:] + "."
}

// title returns the first sentence of the documentation, without what follows a colon.
func (m *module) title() string {
	first, _, _ := strings.Cut(m.doc, "\n")
	return strings.TrimSuffix(first[:strings.IndexAny(first+":", ":")], ".")
}

// name returns the name of the file, without its extension.
func (m *module) name() string {
	return strings.TrimSuffix(path.Base(strings.ReplaceAll(m.file, ":", "/")), ".bzl")
}

// declaresToolchains reports whether the rules of the module are for toolchains: they build nothing.
func (m *module) declaresToolchains() bool { return m.name() == "toolchains" }

// load returns the label that users load the module by.
func (m *module) load() string {
	_, path, found := strings.Cut(m.file, "//")
	if !found {
		path = m.file
	}
	return "@rules_offload//" + path
}

func (m *module) page(common map[string]field) string {
	var w strings.Builder
	fmt.Fprintf(&w, "# %s\n\n%s\n", m.title(), generated)
	if len(m.extensions) == 0 {
		fmt.Fprintf(&w, "Load from `%s`:", m.load())
	} else {
		fmt.Fprintf(&w, "Use from `%s`:", m.load())
	}
	for i, s := range append(slices.Clone(m.symbols), m.extensions...) {
		if i > 0 {
			fmt.Fprint(&w, ",")
		}
		fmt.Fprintf(&w, " [%s](#%s)", s.name, strings.ToLower(s.name))
	}
	fmt.Fprintln(&w)
	doc := m.doc
	if strings.HasPrefix(doc, m.title()+".") {
		doc = doc[len(m.title())+1:]
	}
	if doc = strings.TrimSpace(doc); doc != "" {
		fmt.Fprintf(&w, "\n%s\n", doc)
	}
	for _, s := range m.symbols {
		fmt.Fprintf(&w, "\n## %s\n", s.name)
		s.body(&w, common, m.declaresToolchains())
	}
	for _, e := range m.extensions {
		fmt.Fprintf(&w, "\n## %s\n", e.name)
		e.body(&w, nil, true)
		for _, tag := range e.tags {
			fmt.Fprintf(&w, "\n### %s.%s\n", e.name, tag.name)
			tag.body(&w, nil, true)
		}
	}
	return w.String()
}

func (s *symbol) body(w *strings.Builder, common map[string]field, plain bool) {
	if s.kind == "provider" || s.kind == "aspect" || s.kind == "extension" {
		fmt.Fprintf(w, "\n*%s*\n", s.kind)
	}
	var doc, facts []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(s.doc), "\n\n") {
		if strings.HasPrefix(paragraph, outputs) || strings.HasPrefix(paragraph, groups) {
			facts = append(facts, "- "+strings.Join(strings.Fields(paragraph), " "))
		} else if paragraph != "" {
			doc = append(doc, paragraph)
		}
	}
	if len(s.gives) > 0 {
		facts = append(facts, "- Providers: `"+strings.Join(s.gives, "`, `")+"`.")
	}
	if len(doc) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(doc, "\n\n"))
	}
	if len(facts) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(facts, "\n"))
	}
	s.table(w, common, plain)
	if s.returns != "" {
		fmt.Fprintf(w, "\nReturns %s\n", strings.TrimSpace(s.returns))
	}
}

// memberNames are the heads of the first columns of tables.
var memberNames = map[string]string{"function": "parameter", "macro": "parameter", "provider": "field"}

// table writes the attributes, parameters or fields of a symbol; of attributes that common has, it only writes the names.
func (s *symbol) table(w *strings.Builder, common map[string]field, plain bool) {
	var rows []field
	var links []string
	for _, f := range s.fields {
		switch other, ok := common[f.name]; {
		case f.kind == "name":
		case !plain && s.kind == "rule" && ok && other.key() == f.key():
			links = append(links, fmt.Sprintf("[`%s`](%s.md#%s)", f.name, shared, f.name))
		default:
			rows = append(rows, f)
		}
	}
	head := memberNames[s.kind]
	if head == "" {
		head = "attribute"
	}
	switch {
	case len(rows) == 0:
	case s.kind == "provider":
		fmt.Fprint(w, "\n| field | contents |\n| --- | --- |\n")
		for _, f := range rows {
			fmt.Fprintf(w, "| `%s` | %s |\n", f.name, cell(f.doc))
		}
	default:
		fmt.Fprintf(w, "\n| %s | value | meaning |\n| --- | --- | --- |\n", head)
		for _, f := range rows {
			fmt.Fprintf(w, "| `%s` | %s | %s |\n", f.name, cell(f.about(s.kind)), cell(f.doc))
		}
	}
	if len(links) > 0 {
		fmt.Fprintf(w, "\nShared attributes: %s.\n", strings.Join(links, ", "))
	}
}

// cell returns a text as a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// about returns the type of a field of a symbol of a kind, its default and its possible values.
func (f field) about(of string) string {
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
	return strings.Join(about, "; ")
}
