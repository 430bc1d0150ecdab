package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The tables are those of the data file and of package runtimes.
func TestGenerated(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(input)))
	if err != nil {
		t.Fatal(err)
	}
	outputs, err := generate(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range outputs {
		got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: run `go run ./tools/processors` (%v)", name, err)
		}
	}
}

func TestContradictions(t *testing.T) {
	const cuts = `"cuts": {"gfx9": ["9"]}, `
	const xnack = `{"name": "xnack", "flag": "0x100", "shift": 8}`
	for want, text := range map[string]string{
		"gfx900 occurs twice":   cuts + `"amdgcn": [{"name": "gfx900", "isa": "9.00", "family": "9", "mach": "0x1"}, {"name": "gfx901", "aliases": ["gfx900"], "isa": "9.01", "family": "9", "mach": "0x2"}]`,
		"have the number 0x1":   cuts + `"amdgcn": [{"name": "gfx900", "isa": "9.00", "family": "9", "mach": "0x1"}, {"name": "gfx901", "isa": "9.01", "family": "9", "mach": "0x1"}]`,
		"is not its family's":   cuts + `"amdgcn": [{"name": "gfx9-generic", "isa": "9.0", "family": "9", "mach": "0x1", "generic": true}]`,
		"no cut has the family": cuts + `"amdgcn": [{"name": "gfx1000", "isa": "10.00", "family": "10", "mach": "0x1"}]`,
		"which is not a proc":   cuts + `"groups": {"mi400": ["gfx1250"]}`,
		"which no processor":    cuts + `"family_aliases": {"9.5": "9.4"}`,
		"unknown field":         `"what": 1`,
		"expected alphabetical": `"features": [` + xnack + `, {"name": "sramecc", "flag": "0x200", "shift": 10}]`,
		"bits of another one":   `"features": [` + xnack + `, {"name": "zero", "flag": "0x200", "shift": 9}]`,
		"has no flag":           `"features": [{"name": "xnack", "shift": 8}]`,
		"not in the list of":    cuts + `"features": [` + xnack + `], "amdgcn": [{"name": "gfx900", "isa": "9.00", "family": "9", "mach": "0x1", "features": ["sramecc"]}]`,
	} {
		if _, err := generate([]byte("{" + text + "}")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
