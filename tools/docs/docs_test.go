package main

import (
	"slices"
	"testing"
)

func TestWithoutExample(t *testing.T) {
	const example = "Does it.\n\n```starlark\nwith_example(name = \"a\")\n```\n"
	m := &module{
		symbols: []symbol{
			{kind: "rule", name: "with_example", doc: example},
			{kind: "rule", name: "rule_without", doc: "Does it, as with rule_without(name)."},
			{kind: "rule", name: "rule_with_another", doc: example},
			{kind: "function", name: "macro_without", doc: "Makes targets."},
			{kind: "function", name: "returning", returns: "a list"},
			{kind: "provider", name: "SomeInfo"},
		},
		extensions: []symbol{{kind: "extension", name: "offload", tags: []symbol{{kind: "tag", name: "tag_without"}}}},
	}
	want := []string{"rule_without", "rule_with_another", "macro_without", "tag_without"}
	if got := withoutExample([]*module{m}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
