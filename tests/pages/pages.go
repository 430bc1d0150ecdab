// Package pages executes the documentation: it runs the commands of every page and
// compares what they print, builds the BUILD files, evaluates the MODULE.bazel files, and checks
// that links, flags, settings, rules and attributes exist.
//
// A block of code runs as it stands. HTML comments directly before a block say more:
//
//	<!-- not run: REASON -->   the block is only parsed
//	<!-- file: NAME -->        the block is the content of a file that later blocks use
//
// A block that depends on libraries of ROCm does not run here either: tests/rocm has such programs.
//
// A block whose first line is a comment with a file name, such as "# MODULE.bazel", is that file.
package pages

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A page is a Markdown file of the repository.
type page struct {
	path    string // from the root of the repository, with slashes
	lines   []string
	blocks  []*block
	anchors map[string]bool
}

// A block is fenced code of a page.
type block struct {
	page     *page
	line     int    // of the fence, from 1
	language string // may be empty
	text     string // ends with a newline
	file     string // name, if the block is a file, or empty
	excuse   string // why the block does not run, or empty
}

func (b *block) String() string { return fmt.Sprintf("%s:%d", b.page.path, b.line) }

var (
	fence     = regexp.MustCompile("^( *)```(\\S*)\\s*$")
	directive = regexp.MustCompile(`^\s*<!-- (not run|file): (.*?) -->$`)
	ofROCm    = regexp.MustCompile(`"@rocm//|@offload_system_clang//:(?:hip|roc)`)
	fileName  = regexp.MustCompile(`^(?:#|//) ([\w./-]*(?:BUILD\.bazel|MODULE\.bazel|\.bazelrc|\.bzl|\.hip|\.cc|\.h|\.cpp))$`)
)

// parse reads a page.
func parse(path, content string) (*page, error) {
	p := &page{path: path, lines: strings.Split(content, "\n"), anchors: map[string]bool{}}
	var open *block
	var indent string
	for i, line := range p.lines {
		m := fence.FindStringSubmatch(line)
		switch {
		case open == nil && m != nil:
			open, indent = &block{page: p, line: i + 1, language: m[2]}, m[1]
			p.direct(open, i-1)
		case open != nil && m != nil && m[2] == "":
			if m := fileName.FindStringSubmatch(strings.SplitN(open.text, "\n", 2)[0]); m != nil && open.file == "" {
				open.file = m[1]
			}
			if open.language == "starlark" && open.excuse == "" && ofROCm.MatchString(open.text) {
				open.excuse = "needs the libraries of ROCm: tests/rocm builds programs with them"
			}
			p.blocks = append(p.blocks, open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		case strings.HasPrefix(line, "#"):
			p.anchor(line)
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s: the block is not closed", open)
	}
	return p, nil
}

// direct applies the comments that end at a line to the block that follows.
func (p *page) direct(b *block, i int) {
	for ; i >= 0; i-- {
		m := directive.FindStringSubmatch(p.lines[i])
		if m == nil {
			return
		}
		if m[1] == "file" {
			b.file = m[2]
		} else {
			b.excuse = m[2]
		}
	}
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// anchor adds the anchor of a heading, by GitHub's rules.
func (p *page) anchor(heading string) {
	text := strings.ToLower(strings.TrimSpace(strings.TrimLeft(heading, "#")))
	name := strings.ReplaceAll(notInAnchors.ReplaceAllString(text, ""), " ", "-")
	for i, first := 1, name; p.anchors[name]; i++ {
		name = fmt.Sprintf("%s-%d", first, i)
	}
	p.anchors[name] = true
}

// prose returns the lines of a page with its blocks blanked.
func (p *page) prose() []string {
	lines := slices.Clone(p.lines)
	for _, b := range p.blocks {
		for i := b.line - 1; i <= b.line+strings.Count(b.text, "\n"); i++ {
			lines[i] = ""
		}
	}
	return lines
}

// Script returns the commands of a page for bash, without those that do not run.
func Script(project, path string) (string, error) {
	content, err := os.ReadFile(filepath.Join(project, path))
	if err != nil {
		return "", err
	}
	p, err := parse(path, string(content))
	if err != nil {
		return "", err
	}
	var script strings.Builder
	for _, b := range p.blocks {
		if b.language == "sh" && b.excuse == "" {
			script.WriteString(b.text)
		}
	}
	return script.String(), nil
}

// load returns all pages: README.md and similar files, docs and examples.
func load(project string) ([]*page, error) {
	var all []*page
	add := func(path string) error {
		content, err := os.ReadFile(filepath.Join(project, path))
		if err != nil {
			return err
		}
		p, err := parse(filepath.ToSlash(path), string(content))
		all = append(all, p)
		return err
	}
	for _, top := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} {
		if err := add(top); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{"docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(project, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Type()&fs.ModeSymlink != 0 || d.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			rel, err := filepath.Rel(project, path)
			if err != nil {
				return err
			}
			return add(rel)
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
