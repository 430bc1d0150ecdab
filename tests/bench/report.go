package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"

	"github.com/rules-offload/rules_offload/internal/testing/llvm"
)

//go:embed performance.md.tmpl
var page string

// report writes performance.md and its chart.
func report(dir string, sections []section) error {
	version, err := exec.Command(filepath.Join(llvm.Dir, "clang-offload-bundler"), "--version").Output()
	if err != nil {
		return err
	}
	t, err := template.New("page").Parse(page)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{
		"LLVM":     llvmVersion(version),
		"Go":       runtime.Version(),
		"Cores":    runtime.NumCPU(),
		"Sections": sections,
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "performance.svg"), chart(sections), 0o666); err != nil {
		return err
	}
	fmt.Println("\nwriting docs/performance.md and docs/performance.svg")
	return os.WriteFile(filepath.Join(dir, "performance.md"), b.Bytes(), 0o666)
}

// llvmVersion returns the version in the output of --version.
func llvmVersion(out []byte) string {
	for line := range strings.Lines(string(out)) {
		if _, v, ok := strings.Cut(line, " version "); ok {
			v, _, _ = strings.Cut(strings.TrimSpace(v), " ") // the packager's suffix follows
			return v
		}
	}
	return "of an unknown version"
}

func megabytes(n int64) string {
	mb := float64(n) / 1e6
	if mb < 10 {
		return fmt.Sprintf("%.1f MB", mb)
	}
	return fmt.Sprintf("%.0f MB", mb)
}

// Dimensions of the chart, in pixels.
const (
	labelWidth = 250
	plotWidth  = 560
	rowHeight  = 11
	groupGap   = 12
	top        = 46
	mostFaster = 100 // right end of the scale
)

// x returns the position of a ratio on the logarithmic scale.
func x(ratio float64) float64 {
	ratio = min(max(ratio, 1), mostFaster)
	return labelWidth + plotWidth*math.Log10(ratio)/math.Log10(mostFaster)
}

var palette = []string{"#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08519c", "#08306b"}

// chart draws the ratio of each operation on a logarithmic scale: a bar for each corpus, from small
// to large.
func chart(sections []section) []byte {
	type bar struct {
		corpus, size string
		faster       float64
	}
	var names []string
	groups := make(map[string][]bar)
	for _, s := range sections {
		for _, r := range s.rows {
			if groups[r.operation] == nil {
				names = append(names, r.operation)
			}
			groups[r.operation] = append(groups[r.operation], bar{s.corpus, s.size, r.faster.median})
		}
	}
	var bars bytes.Buffer
	y := top
	for _, name := range names {
		group := groups[name]
		fmt.Fprintf(&bars, `<text x="%d" y="%d" text-anchor="end" class="name">%s</text>`+"\n", labelWidth-8, y+len(group)*rowHeight/2+4, html.EscapeString(name))
		for i, r := range group {
			color := palette[i*len(palette)/len(group)]
			fmt.Fprintf(&bars, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"><title>%s, %s: %.1f times faster</title></rect>`+"\n",
				labelWidth, y, x(r.faster)-labelWidth, rowHeight-2, color, html.EscapeString(r.corpus), r.size, r.faster)
			fmt.Fprintf(&bars, `<text x="%.1f" y="%d" class="value">%.1f  %s</text>`+"\n", x(r.faster)+4, y+rowHeight-3, r.faster, html.EscapeString(r.corpus))
			y += rowHeight
		}
		y += groupGap
	}
	var b bytes.Buffer
	width, height := labelWidth+plotWidth+110, y+10
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n", width, height, width, height)
	b.WriteString("<style>text{font-family:sans-serif;fill:#222}.title{font-size:15px;font-weight:bold}.name{font-size:12px}.value,.axis{font-size:9px;fill:#555}</style>\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="%d" y="18" class="title">Times faster than clang-offload-bundler</text>`+"\n", labelWidth)
	for _, tick := range []float64{1, 2, 3, 5, 10, 20, 30, 50, 100} {
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle" class="axis">%g</text>`+"\n",
			x(tick), x(tick), top-6, height-10, x(tick), top-10, tick)
	}
	b.Write(bars.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}
