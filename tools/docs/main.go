// Docs writes the reference of the rules, in Markdown, from what Bazel's
// starlark_doc_extract reads from their .bzl files: an index, and in a
// directory of its name, a page for each file and one for shared attributes.
//
//	docs --output=docs/rules.md EXTRACTED...
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	output := flag.String("output", "", "the index, a `file`; below the workspace when called by bazel run")
	flag.Parse()
	if err := run(filepath.Join(os.Getenv("BUILD_WORKSPACE_DIRECTORY"), *output), flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "docs: %v\n", err)
		os.Exit(1)
	}
}

func run(output string, inputs []string) error {
	var modules []*module
	for _, name := range inputs {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		m, err := readModule(b)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		modules = append(modules, m)
	}
	if err := check(modules); err != nil {
		return err
	}
	pages := pages(modules)
	dir := strings.TrimSuffix(output, ".md")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, page := range pages {
		path := output
		if name != "" {
			path = filepath.Join(dir, name+".md")
		}
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// check reports what is missing in the documentation, and attributes that are not in the vocabulary.
func check(modules []*module) error {
	var problems []error
	if names := withoutExample(modules); names != nil {
		problems = append(problems, fmt.Errorf("%s: no example in its documentation, expected a ```starlark block that calls it", strings.Join(names, ", ")))
	}
	if names := withoutOutputs(modules); names != nil {
		problems = append(problems, fmt.Errorf("%s: expected a paragraph %q in its documentation", strings.Join(names, ", "), outputs))
	}
	return errors.Join(append(problems, outsideVocabulary(modules, vocabulary)...)...)
}

// isMacro reports whether a symbol is a macro. A function that returns nothing is one.
func (s *symbol) isMacro() bool {
	return s.kind == "macro" || s.kind == "function" && s.returns == ""
}

// callable returns the symbols that BUILD and MODULE files call: rules, macros and tags.
func (m *module) callable() []symbol {
	var all []symbol
	for _, s := range m.symbols {
		if s.kind == "rule" || s.isMacro() {
			all = append(all, s)
		}
	}
	for _, extension := range m.extensions {
		all = append(all, extension.tags...)
	}
	return all
}

// withoutExample returns the names of the rules, macros and tags whose documentation has no example that calls them.
func withoutExample(modules []*module) []string {
	var names []string
	for _, m := range modules {
		for _, s := range m.callable() {
			if _, example, _ := strings.Cut(s.doc, "```starlark\n"); !strings.Contains(example, s.name+"(") {
				names = append(names, s.name)
			}
		}
	}
	return names
}

// withoutOutputs returns the names of the rules and macros whose documentation does not name their default outputs.
func withoutOutputs(modules []*module) []string {
	var names []string
	for _, m := range modules {
		for _, s := range m.symbols {
			if (s.kind == "rule" || s.isMacro()) && !m.declaresToolchains() && !strings.Contains(s.doc, "\n"+outputs) {
				names = append(names, s.name)
			}
		}
	}
	return names
}
