package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var someSections = []section{
	{corpus: "rocfft", about: "the only bundle of librocfft0", size: "0.3 MB", rows: []row{
		{"bundle", spread{5.6, 6.1, 6.7}, 8.2, ""},
		{"compress, level 9", spread{2.9, 3.7, 3.8}, 8.9, "-0.4 %"},
	}},
	{corpus: "magma-members", about: "archives, without debug sections, ten of each", size: "413 MB", rows: []row{
		{"unbundle archive, one target", spread{1, 2, 3}, 1, ""},
	}},
}

// parsePage reads what section.String writes.
func TestPage(t *testing.T) {
	var b strings.Builder
	for _, s := range someSections {
		b.WriteString(s.String() + "\n")
	}
	if diff := cmp.Diff(someSections, parsePage(b.String()), cmp.AllowUnexported(section{}, row{}, spread{})); diff != "" {
		t.Errorf("page (-written +read):\n%s", diff)
	}
}

// parsePage reads the whole page in docs.
func TestPageInDocs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "performance.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(page), "## Measurements\n\n")
	var b strings.Builder
	for _, s := range parsePage(string(page)) {
		b.WriteString(s.String() + "\n")
	}
	if diff := cmp.Diff(strings.TrimRight(tables, "\n"), strings.TrimRight(b.String(), "\n")); diff != "" {
		t.Errorf("tables (-page +read):\n%s", diff)
	}
}

// TestMerge checks that corpora and operations that were not measured keep their values.
func TestMerge(t *testing.T) {
	bundle, compress, level9, list := row{operation: "bundle"}, row{operation: "compress", smaller: "new"}, row{operation: "compress, level 9", smaller: "new"}, row{operation: "list"}
	recorded := []section{{corpus: "rocfft", size: "0.3 MB", rows: []row{bundle, {operation: "compress, level 9"}, list}}, someSections[1]}
	now := []section{{corpus: "rocfft", size: "0.4 MB", rows: []row{bundle, compress, level9}}}
	want := []section{{corpus: "rocfft", size: "0.4 MB", rows: []row{bundle, compress, level9, list}}, someSections[1]}
	if diff := cmp.Diff(want, merge(recorded, now), cmp.AllowUnexported(section{}, row{}, spread{})); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

func TestFallen(t *testing.T) {
	measured := func(faster spread) []section {
		return []section{
			{corpus: "rocfft", rows: []row{{operation: "bundle", faster: faster}, {operation: "new", faster: spread{1, 1, 1}}}},
			{corpus: "new", rows: []row{{operation: "bundle", faster: spread{1, 1, 1}}}},
		}
	}
	if got := fallen(someSections, measured(spread{5, 5.2, 5.6})); got != nil {
		t.Errorf("quartiles that meet: %q", got)
	}
	want := []string{"rocfft, bundle: 5.2 (5.0 … 5.5), recorded: 6.1 (5.6 … 6.7)"}
	if diff := cmp.Diff(want, fallen(someSections, measured(spread{5, 5.2, 5.5}))); diff != "" {
		t.Errorf("fallen (-want +got):\n%s", diff)
	}
}

func TestMissed(t *testing.T) {
	results := []result{
		{corpus: &corpora[0], operation: operation{name: "bundle", want: 4}, faster: spread{3, 3.9, 5}},
		{corpus: &corpora[0], operation: operation{name: "list", want: 4}, faster: spread{3, 4, 5}},
		{corpus: &corpora[0], operation: operation{name: "other"}, faster: spread{1, 1, 1}},
	}
	if diff := cmp.Diff([]string{corpora[0].name + ", bundle: 3.9, wanted: 4.0"}, missed(results)); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
}
