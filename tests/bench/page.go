package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// section is the part of docs/performance.md about a corpus.
type section struct {
	corpus, about string
	size          string // of the plain bundle or archive, with its unit
	rows          []row
}

// row is the row of the page for an operation.
type row struct {
	operation string
	faster    spread
	lighter   float64
	smaller   string // "" if sizes are equal or not compared
}

// sectionsOf returns the sections of the page for results.
func sectionsOf(results []result) []section {
	var list []section
	for i, r := range results {
		if i == 0 || r.corpus != results[i-1].corpus {
			list = append(list, section{corpus: r.corpus.name, about: r.corpus.about, size: megabytes(r.raw)})
		}
		s := &list[len(list)-1]
		s.rows = append(s.rows, row{r.operation.name, r.faster, r.lighter.median, r.smaller()})
	}
	return list
}

// String returns the section as Markdown.
func (s section) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s: %s, %s\n\n", s.corpus, s.about, s.size)
	fmt.Fprintf(&b, "| | faster | quartiles | less memory | smaller output |\n")
	fmt.Fprintf(&b, "| --- | ---: | ---: | ---: | ---: |\n")
	for _, r := range s.rows {
		fmt.Fprintf(&b, "| %s | **%.1f ×** | %.1f … %.1f | %.1f × | %s |\n", r.operation, r.faster.median, r.faster.low, r.faster.high, r.lighter, r.smaller)
	}
	return b.String()
}

var (
	sectionLine = regexp.MustCompile(`^### ([^:]+): (.*), ([0-9.]+ MB)$`)
	rowLine     = regexp.MustCompile(`^\| (.+) \| \*\*([0-9.]+) ×\*\* \| ([0-9.]+) … ([0-9.]+) \| ([0-9.]+) × \| (.*) \|$`)
)

// parsePage returns the sections of a page that bench wrote.
func parsePage(page string) []section {
	var list []section
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if m := sectionLine.FindStringSubmatch(line); m != nil {
			list = append(list, section{corpus: m[1], about: m[2], size: m[3]})
		}
		if m := rowLine.FindStringSubmatch(line); m != nil && list != nil {
			s := &list[len(list)-1]
			s.rows = append(s.rows, row{m[1], spread{number(m[3]), number(m[2]), number(m[4])}, number(m[5]), m[6]})
		}
	}
	return list
}

// number parses a number that a pattern has matched.
func number(s string) float64 {
	v, _ := strconv.ParseFloat(s, 64)
	return v
}

// merge returns the sections of all corpora in their order: the rows measured now, and
// the others as recorded before.
func merge(recorded, measured []section) []section {
	var list []section
	for _, c := range corpora {
		now, before := find(measured, c.name), find(recorded, c.name)
		switch {
		case now == nil && before != nil:
			list = append(list, *before)
		case now != nil && before != nil:
			now.rows = mergeRows(before.rows, now.rows)
			fallthrough
		case now != nil:
			list = append(list, *now)
		}
	}
	return list
}

// mergeRows returns the recorded rows with those measured now in their places. A new row
// follows the row that was measured before it.
func mergeRows(recorded, measured []row) []row {
	rows, at := slices.Clone(recorded), 0
	for _, r := range measured {
		i := slices.IndexFunc(rows, func(b row) bool { return b.operation == r.operation })
		if i < 0 {
			i = at
			rows = slices.Insert(rows, i, r)
		}
		rows[i], at = r, i+1
	}
	return rows
}

// find returns the section of a corpus, or nil.
func find(list []section, corpus string) *section {
	for i := range list {
		if list[i].corpus == corpus {
			return &list[i]
		}
	}
	return nil
}

// fallen returns a line for each operation that is slower than recorded: three quarters of the runs
// are below three quarters of the recorded runs. Ratios of long runs and of busy machines vary, so
// a line is a reason to measure again.
func fallen(recorded, measured []section) []string {
	var lines []string
	for _, s := range measured {
		before := find(recorded, s.corpus)
		if before == nil {
			continue
		}
		for _, r := range s.rows {
			for _, b := range before.rows {
				if b.operation == r.operation && r.faster.high < b.faster.low {
					lines = append(lines, fmt.Sprintf("%s, %s: %.1f (%.1f … %.1f), recorded: %.1f (%.1f … %.1f)", s.corpus, r.operation,
						r.faster.median, r.faster.low, r.faster.high, b.faster.median, b.faster.low, b.faster.high))
				}
			}
		}
	}
	return lines
}

// missed returns a line for each operation whose ratio is below its target.
func missed(results []result) []string {
	var lines []string
	for _, r := range results {
		if r.faster.median < r.operation.want {
			lines = append(lines, fmt.Sprintf("%s, %s: %.1f, wanted: %.1f", r.corpus.name, r.operation.name, r.faster.median, r.operation.want))
		}
	}
	return lines
}
