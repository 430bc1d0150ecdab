package codeobject

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func text(s string) node { return node{text: s} }

func TestParseYAML(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want node
	}{
		"empty":          {"---\n...\n", node{}},
		"texts":          {"a: b c # d\n'e f': 'g''h: #'\n\"i\": \"j\\n\\x41\\\"\\\\\\e\"\nk:   -1 \n", node{fields: []field{{"a", text("b c")}, {"e f", text("g'h: #")}, {"i", text("j\nA\"\\\x1b")}, {"k", text("-1")}}}},
		"lists":          {"a: [ 1, 'b, c', d ]\nb: []\nc:\n  - x\n  - 'y: z'\nd:\n- w\n", node{fields: []field{{"a", node{list: []node{text("1"), text("b, c"), text("d")}}}, {"b", node{}}, {"c", node{list: []node{text("x"), text("y: z")}}}, {"d", node{list: []node{text("w")}}}}}},
		"maps in a list": {"a:\n  - b: 1\n    c:\n      d: 2\n  -\n    b: 3\ne: {}\n", node{fields: []field{{"a", node{list: []node{{fields: []field{{"b", text("1")}, {"c", node{fields: []field{{"d", text("2")}}}}}}, {fields: []field{{"b", text("3")}}}}}}, {"e", node{}}}}},
		"missing values": {"a:\nb:\n  c:\nd: e\n", node{fields: []field{{"a", node{}}, {"b", node{fields: []field{{"c", node{}}}}}, {"d", text("e")}}}},
		"documents":      {"# c\n---\na: b\n---\nc: d\n", node{fields: []field{{"a", text("b")}}}},
		"lists of lists": {"- - a\n  - b\n- c\n", node{list: []node{{list: []node{text("a"), text("b")}}, text("c")}}},
		"Windows":        {"a: b\r\n\r\nc: d\r\n", node{fields: []field{{"a", text("b")}, {"c", text("d")}}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseYAML(test.text)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(node{}, field{})); err != nil || diff != "" {
				t.Errorf("error %v, -want +got:\n%s", err, diff)
			}
		})
	}
}

func TestParseYAMLErrors(t *testing.T) {
	for text, want := range map[string]string{
		"a: b\n   c: d\n":           `line 2: found "c: d", expected a key or an item of the block before it`,
		"a: b\nc\n":                 `line 2: found "c", expected a key and a colon`,
		"\ta: b\n":                  "line 1: found a tab",
		"a: |\n  b\n":               `line 1: found "|"`,
		"a: { b: c }\n":             `line 1: found "{ b: c }"`,
		"a: &x b\n":                 `line 1: found "&x b"`,
		"a: [ b\n":                  "line 1: a list has no closing bracket",
		"a: [ [ b ] ]\n":            `found "[ b ] ]", expected a text`,
		"a: 'b\n":                   "line 1: a text has no closing quote",
		"a: \"\\q\"\n":              "line 1: unknown escape sequence",
		"a: 'b' c\n":                `line 1: found "c" after a text`,
		strings.Repeat("- ", 2<<20): "nested deeper than 64 levels",
		"a: b\n- c\n":               `line 2: found "- c"`,
		"a: [ ] b\n":                `line 1: found "b" after a list`,
	} {
		t.Run("", func(t *testing.T) {
			_, err := parseYAML(text)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.40q: got %v, want %s", text, err, want)
			}
		})
	}
}
