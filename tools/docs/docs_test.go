package main

import (
	"errors"
	"slices"
	"strings"
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

func TestWithoutOutputs(t *testing.T) {
	rules := []symbol{
		{kind: "rule", name: "with", doc: "Does it.\n\nDefault outputs: the file.\n"},
		{kind: "rule", name: "without", doc: "Does it."},
		{kind: "function", name: "macro", doc: "Does it."},
		{kind: "function", name: "returning", returns: "a list", doc: "Does it."},
	}
	modules := []*module{{file: "//rules:hip.bzl", symbols: rules}, {file: "//rules:toolchains.bzl", symbols: rules}}
	if got, want := withoutOutputs(modules), []string{"without", "macro"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOutsideVocabulary(t *testing.T) {
	words := []word{{name: "src", kinds: "label"}, {name: "srcs", kinds: "list of labels, dict of label to string"}, {name: "unused", kinds: "bool"}}
	modules := []*module{
		{file: "//rules:a.bzl", symbols: []symbol{
			{kind: "rule", name: "one", fields: []field{{name: "name", kind: "name"}, {name: "src", kind: "label"}, {name: "archive", kind: "label"}}},
			{kind: "rule", name: "two", fields: []field{{name: "srcs", kind: "dict of label to string"}, {name: "src", kind: "list of labels"}}},
			{kind: "rule", name: "four", fields: []field{{name: "src", kind: "label", doc: "`NAME=VALUE`."}, {name: "srcs", kind: "dict of label to string", doc: "A space-separated list."}}},
			{kind: "rule", name: "five", fields: []field{{name: "src", kind: "label", doc: "`TARGET=FLAG`."}}},
			{kind: "function", name: "macro", fields: []field{{name: "name"}, {name: "srcs"}, {name: "anything"}, {name: "visibility"}, {name: "**kwargs"}}},
			{kind: "function", name: "returning", returns: "a list", fields: []field{{name: "then"}}},
		}},
		{file: "//rules:toolchains.bzl", symbols: []symbol{{kind: "rule", name: "toolchain", fields: []field{{name: "clang", kind: "label"}}}}},
	}
	err := errors.Join(outsideVocabulary(modules, words)...)
	for _, want := range []string{
		"one: the attribute archive is not in the vocabulary",
		"two: the attribute src is a list of labels, expected a label as in other rules",
		"macro: the attribute anything is not in the vocabulary",
		"the attribute unused, which no rule has",
		`four: the attribute srcs has strings in strings ("space-separated")`,
		`five: the attribute src has strings in strings ("TARGET=FLAG")`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 6 {
		t.Errorf("got %d problems, want 6: %v", lines, err)
	}
}

func TestPage(t *testing.T) {
	rule := func(name string) symbol {
		return symbol{
			kind: "rule", name: name,
			doc:   "Does a|b.\n\nDefault outputs: the\nfile.\n\nOutput groups: `gfx942`.\n",
			gives: []string{"CcInfo"},
			fields: []field{
				{name: "name", kind: "name", mandatory: true},
				{name: "copts", kind: "list of strings", fallback: "[]", doc: "Flags."},
				{name: "src", kind: "label", mandatory: true, doc: "The file of " + name + ", x | y."},
			},
		}
	}
	m := &module{file: "@@//rules:some.bzl", doc: "Some rules.\n\nThey do it.\n", symbols: []symbol{rule("one"), rule("two")}}
	all := pages([]*module{m})
	for page, wants := range map[string][]string{
		"some": {
			"# Some rules\n", "`@rules_offload//rules:some.bzl`: [one](#one), [two](#two)\n\nThey do it.\n",
			"## one\n\nDoes a|b.\n\n- Default outputs: the file.\n- Output groups: `gfx942`.\n- Providers: `CcInfo`.\n",
			"| attribute | value | meaning |\n| --- | --- | --- |\n| `src` | label; mandatory | The file of one, x \\| y. |\n",
			"Shared attributes: [`copts`](attributes.md#copts).\n",
		},
		"attributes": {"## copts\n\nList of strings; default `[]`.\n\nFlags.\n"},
		"":           {"| [Some rules](rules/some.md) | `@rules_offload//rules:some.bzl` | [one](rules/some.md#one), [two](rules/some.md#two) |"},
	} {
		for _, want := range wants {
			if !strings.Contains(all[page], want) {
				t.Errorf("page %q does not have %q:\n%s", page, want, all[page])
			}
		}
	}
	if strings.Contains(all["attributes"], "src") || strings.Contains(all["attributes"], "## name") {
		t.Errorf("attributes of one rule are on the page of shared ones:\n%s", all["attributes"])
	}
}

func TestSharedAttributes(t *testing.T) {
	rule := func(docs string) symbol { return symbol{kind: "rule", fields: []field{{name: "copts", doc: docs}}} }
	for _, test := range []struct{ docs, want string }{{"abab", "a"}, {"baba", "b"}, {"abbab", "b"}, {"abc", ""}} {
		m := &module{file: "//rules:some.bzl"}
		for _, docs := range strings.Split(test.docs, "") {
			m.symbols = append(m.symbols, rule(docs))
		}
		for range 20 {
			if got := sharedAttributes([]*module{m})["copts"].doc; got != test.want {
				t.Errorf("%s: got %q, want %q", test.docs, got, test.want)
			}
		}
	}
}
