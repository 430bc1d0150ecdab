package offload

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// report is what a run wrote, guessed and could not resolve, by directory.
type report map[string]*folderReport

type folderReport struct {
	rules   []string
	guesses []string
	skipped []string
	open    []string
}

func (r *report) of(rel string) *folderReport {
	if *r == nil {
		*r = report{}
	}
	f, ok := (*r)[rel]
	if !ok {
		f = &folderReport{}
		(*r)[rel] = f
	}
	return f
}

// written records a new rule.
func (r *report) written(rel, kind, name string) {
	f := r.of(rel)
	f.rules = union(f.rules, []string{fmt.Sprintf("%s %s", kind, name)})
}

// unresolved records a problem and the line that resolves it.
func (r *report) unresolved(rel, problem, line string) {
	f := r.of(rel)
	f.open = union(f.open, []string{fmt.Sprintf("%s: `%s`", strings.TrimSuffix(problem, " or"), line)})
}

// note records what a rule was guessed from.
func (g *generator) note(gr *group, format string, args ...any) {
	f := g.report.of(g.Rel)
	f.guesses = union(f.guesses, []string{gr.name + ": " + fmt.Sprintf(format, args...)})
}

// skip records a source without a rule.
func (g *generator) skip(file, format string, args ...any) {
	f := g.report.of(g.Rel)
	f.skipped = union(f.skipped, []string{file + ": " + fmt.Sprintf(format, args...)})
}

// AfterResolvingDeps writes the report.
func (l *offload) AfterResolvingDeps(context.Context) {
	if l.reportFile == "" {
		return
	}
	page := l.report.page()
	if l.reportFile == "-" {
		os.Stdout.Write(page)
		return
	}
	name := l.reportFile
	if !filepath.IsAbs(name) && l.plan != nil {
		name = filepath.Join(l.plan.c.RepoRoot, name)
	}
	if err := os.WriteFile(name, page, 0o644); err != nil {
		log.Print(err)
	}
}

// page returns the report in Markdown.
func (r report) page() []byte {
	var page bytes.Buffer
	open, rules := 0, 0
	for _, f := range r {
		rules += len(f.rules)
		if len(f.open) > 0 {
			open++
		}
	}
	fmt.Fprintf(&page, "# Generated rules\n\n%d new rules, %d directories with something to resolve.\n", rules, open)
	// Directories with something to resolve come first.
	rels := slices.Sorted(maps.Keys(r))
	slices.SortStableFunc(rels, func(a, b string) int { return min(len(r[b].open), 1) - min(len(r[a].open), 1) })
	for _, rel := range rels {
		f := r[rel]
		fmt.Fprintf(&page, "\n## //%s\n\n", rel)
		for _, part := range []struct {
			title string
			lines []string
		}{{"unresolved", f.open}, {"written", f.rules}, {"guessed", f.guesses}, {"left out", f.skipped}} {
			for _, line := range part.lines {
				fmt.Fprintf(&page, "- %s: %s\n", part.title, line)
			}
		}
	}
	return page.Bytes()
}
