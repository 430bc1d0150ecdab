// Docs writes the reference of the rules, in Markdown, from what Bazel's
// starlark_doc_extract says of their .bzl files:
//
//	docs --title=TITLE --output=FILE EXTRACTED...
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	title := flag.String("title", "Rules", "title of the page")
	output := flag.String("output", "", "the page, a `file`; below the workspace when called by bazel run")
	flag.Parse()
	if err := run(*title, *output, flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "docs: %v\n", err)
		os.Exit(1)
	}
}

func run(title, output string, inputs []string) error {
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
	if names := withoutExample(modules); names != nil {
		return fmt.Errorf("%s: no example in its documentation, expected a ```starlark block that calls it", strings.Join(names, ", "))
	}
	var page bytes.Buffer
	write(&page, title, modules)
	return os.WriteFile(filepath.Join(os.Getenv("BUILD_WORKSPACE_DIRECTORY"), output), page.Bytes(), 0o644)
}
