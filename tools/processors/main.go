// Command processors writes the tables of processors, in Go and Starlark, from engine/target/processors.json, and the table
// of runtimes in Starlark from package runtimes. Run it in the root of the repository after a change of these:
//
//	go run ./tools/processors
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

// data is the contents of processors.json.
type data struct {
	// Features are those that target IDs can name, in alphabetical order: that of canonical target IDs.
	Features []feature   `json:"features"`
	AMDGCN   []processor `json:"amdgcn"`
	Removed  []processor `json:"removed"` // known by their e_flags alone
	// Groups are AMD's GPU generations, by names of products and of instruction sets. Names are
	// identifiers, because //rules:archs.bzl uses them as fields.
	Groups map[string][]string `json:"groups"`
	// FamilyAliases are other names of families of instruction sets.
	FamilyAliases map[string]string `json:"family_aliases"`
	// Cuts are families of processors with similar code, as sets of families of instruction
	// sets.
	Cuts   map[string][]string `json:"cuts"`
	R600   []processor         `json:"r600"`
	NVPTX  []processor         `json:"nvptx"`
	Others []string            `json:"others"` // that entry IDs can name
}

// feature is a feature that target IDs can name, and where e_flags has its state.
type feature struct {
	Name  string `json:"name"`
	Flag  string `json:"flag"`  // the bit in versions 2 and 3 of code objects, set if the feature is on
	Shift int    `json:"shift"` // the number of the lower of its two bits, from version 4 on
}

// processor is one processor.
type processor struct {
	Name     string   `json:"name"`
	Aliases  []string `json:"aliases"`
	ISA      string   `json:"isa"`    // what follows amdgpu in its triple
	Family   string   `json:"family"` // the instruction set of its family, whose code all processors of the family run
	Generic  bool     `json:"generic"`
	Mach     string   `json:"mach"`     // EF_AMDGPU_MACH
	Features []string `json:"features"` // that target IDs can name in the newest release
	// Earlier has the features of older releases of LLVM where they differ, oldest first.
	Earlier []struct {
		Until    int      `json:"until"` // the last release that has them
		Features []string `json:"features"`
	} `json:"earlier"`
	// Fixed are the features that the hardware always has. Target IDs of newer compilers cannot name them.
	Fixed []string `json:"fixed"`
	Since int      `json:"since"` // the first release of LLVM, from 22 on, that supports it
}

const input = "engine/target/processors.json"

func main() {
	log.SetFlags(0)
	log.SetPrefix("processors: ")
	text, err := os.ReadFile(input)
	if err != nil {
		log.Fatal(err)
	}
	outputs, err := generate(text)
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range outputs {
		if err := os.WriteFile(filepath.FromSlash(name), text, 0o666); err != nil {
			log.Fatal(err)
		}
	}
}

// generate returns the contents of the generated files.
func generate(text []byte) (map[string][]byte, error) {
	var d data
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return nil, fmt.Errorf("%s: %w", input, err)
	}
	if err := d.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", input, err)
	}
	outputs := map[string][]byte{"rules/private/processors.bzl": d.starlark(), "rules/private/runtimes.bzl": runtimeLists()}
	for name, text := range map[string]string{
		"engine/target/processor_tables.go": d.target(),
		"internal/check/processors.go":      d.flags(),
	} {
		formatted, err := format.Source([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		outputs[name] = formatted
	}
	return outputs, nil
}

// check reports contradictions.
func (d *data) check() error {
	if err := d.checkFeatures(); err != nil {
		return err
	}
	names, machs, families := map[string]bool{}, map[string]string{}, map[string]bool{}
	cut := map[string]bool{}
	for _, list := range d.Cuts {
		for _, family := range list {
			cut[family] = true
		}
	}
	for _, p := range slices.Concat(d.AMDGCN, d.R600, d.NVPTX) {
		for _, name := range append(p.Aliases, p.Name) {
			if names[name] {
				return fmt.Errorf("%s occurs twice", name)
			}
			names[name] = true
		}
	}
	for _, p := range append(d.AMDGCN, d.Removed...) {
		if other := machs[p.Mach]; other != "" {
			return fmt.Errorf("%s and %s have the number %s", other, p.Name, p.Mach)
		}
		machs[p.Mach] = p.Name
	}
	for _, p := range d.AMDGCN {
		families[p.Family] = true
		for i, e := range p.Earlier {
			if i > 0 && e.Until <= p.Earlier[i-1].Until {
				return fmt.Errorf("%s: the features until %d are not newer than those before", p.Name, e.Until)
			}
		}
		switch {
		case p.Generic && p.ISA != p.Family:
			return fmt.Errorf("%s is generic, and %s is not its family's instruction set", p.Name, p.ISA)
		case !cut[p.Family]:
			return fmt.Errorf("%s: no cut has the family %s", p.Name, p.Family)
		}
	}
	for group, members := range d.Groups {
		for _, name := range members {
			if !names[name] {
				return fmt.Errorf("the group %s has %s, which is not a processor", group, name)
			}
		}
	}
	for alias, family := range d.FamilyAliases {
		if !families[family] {
			return fmt.Errorf("%s stands for %s, which no processor has", alias, family)
		}
	}
	return nil
}

// checkFeatures reports contradictions in the features and their uses.
func (d *data) checkFeatures() error {
	const most = 8 // bits of the field that holds them
	var known []string
	for i, f := range d.Features {
		switch {
		case i >= most:
			return fmt.Errorf("%d features, expected at most %d", len(d.Features), most)
		case i > 0 && f.Name <= known[i-1]:
			return fmt.Errorf("the feature %s is after %s, expected alphabetical order", f.Name, known[i-1])
		case f.Flag == "":
			return fmt.Errorf("the feature %s has no flag", f.Name)
		case slices.ContainsFunc(d.Features[:i], func(o feature) bool { return o.Shift-1 <= f.Shift && f.Shift <= o.Shift+1 }):
			return fmt.Errorf("the feature %s has the bits of another one", f.Name)
		}
		known = append(known, f.Name)
	}
	for _, p := range d.AMDGCN {
		names := slices.Concat(p.Features, p.Fixed)
		for _, e := range p.Earlier {
			names = append(names, e.Features...)
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				return fmt.Errorf("%s has the feature %s, which is not in the list of features", p.Name, name)
			}
		}
	}
	return nil
}

const generated = "// Code generated by tools/processors from engine/target/processors.json. DO NOT EDIT.\n\n"

// target returns the tables of package target.
func (d *data) target() string {
	var b strings.Builder
	b.WriteString(generated + "package target\n")
	d.features(&b)
	d.processors(&b, "amdgcnProcessors are the processors of AMD GPUs, in the order of their instruction sets.", "amdgcnProcessors", d.AMDGCN)
	d.processors(&b, "removedProcessors are those that LLVM no longer defines.", "removedProcessors", d.Removed)
	d.processors(&b, "r600Processors are the processors of r600 triples.", "r600Processors", d.R600)
	others := map[string]string{}
	for alias, family := range d.FamilyAliases {
		others[alias] = strconv.Quote(family)
	}
	goTable(&b, "isaAliases are other names of families of instruction sets.", "isaAliases", "string", others)
	groups := map[string]string{}
	for name, list := range d.Groups {
		groups[name] = fmt.Sprintf("%#v", list)
	}
	goTable(&b, "archGroups are the processors of AMD's GPU generations, by names of products and of instruction sets.", "archGroups", "[]string", groups)
	b.WriteString("// nvptxProcessors are the names of the processors of NVIDIA GPUs.\nvar nvptxProcessors = []string{\n")
	for _, p := range d.NVPTX {
		fmt.Fprintf(&b, "%q,\n", p.Name)
	}
	fmt.Fprintf(&b, "}\n\n// otherOffloadArchs are the other names that LLVM accepts as the processor of an entry ID.\nvar otherOffloadArchs = %#v\n", d.Others)
	return b.String()
}

// features writes the features of package target.
func (d *data) features(b *strings.Builder) {
	b.WriteString("\n// The features of target IDs, as bits.\nconst (\n")
	for i, f := range d.Features {
		b.WriteString(constant(f.Name))
		if i == 0 {
			b.WriteString(" = 1 << iota")
		}
		b.WriteString("\n")
	}
	b.WriteString(")\n\n// features are the features in the order of their bits.\nvar features = [...]feature{\n")
	for _, f := range d.Features {
		fmt.Fprintf(b, "{name: %q, flag: %s, shift: %d},\n", f.Name, f.Flag, f.Shift)
	}
	b.WriteString("}\n")
}

// constant returns the name of the constant for a feature.
func constant(feature string) string { return "feature" + strings.ToUpper(feature) }

// processors writes a list of processors of package target.
func (d *data) processors(b *strings.Builder, comment, name string, list []processor) {
	codeFamilies := d.codeFamilies()
	fmt.Fprintf(b, "\n// %s\nvar %s = processors{\n", comment, name)
	for _, p := range list {
		fmt.Fprintf(b, "{name: %q", p.Name)
		if p.Mach != "" {
			fmt.Fprintf(b, ", mach: %s", p.Mach)
		}
		if p.ISA != "" {
			fmt.Fprintf(b, ", isa: %q, isaFamily: %q, family: %q", p.ISA, p.Family, codeFamilies[p.Name])
		}
		if p.Features != nil {
			b.WriteString(", features: " + bits(p.Features))
		}
		if p.Fixed != nil {
			b.WriteString(", fixed: " + bits(p.Fixed))
		}
		if p.Earlier != nil {
			b.WriteString(", earlier: []earlier{")
			for _, e := range p.Earlier {
				fmt.Fprintf(b, "{until: %d, features: %s},", e.Until, bits(e.Features))
			}
			b.WriteString("}")
		}
		if p.Aliases != nil {
			fmt.Fprintf(b, ", aliases: %#v", p.Aliases)
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\n\n")
}

// goTable writes a table of package target. The values are Go expressions.
func goTable(b *strings.Builder, comment, name, valueType string, values map[string]string) {
	fmt.Fprintf(b, "// %s\nvar %s = table[%s]{\n", comment, name, valueType)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(b, "{%q, %s},\n", key, values[key])
	}
	b.WriteString("}\n\n")
}

// bits returns features as an expression.
func bits(features []string) string {
	if len(features) == 0 {
		return "0"
	}
	var names []string
	for _, f := range features {
		names = append(names, constant(f))
	}
	return strings.Join(names, "|")
}

// flags returns the table of package check.
func (d *data) flags() string {
	var b strings.Builder
	b.WriteString(generated + "package check\n\n// processors are the AMD GPUs by their number in the flags of an ELF header.\nvar processors = [256]string{\n")
	for _, p := range append(d.AMDGCN, d.Removed...) {
		fmt.Fprintf(&b, "%s: %q,\n", p.Mach, p.Name)
	}
	b.WriteString("}\n\n// features are the features of target IDs, in alphabetical order, and the numbers of the lower of their two bits\n// in the flags.\nvar features = []feature{\n")
	for _, f := range d.Features {
		fmt.Fprintf(&b, "{%q, %d},\n", f.Name, f.Shift)
	}
	b.WriteString("}\n\n// fixed returns the features that a processor always has, so that newer compilers do not name them.\nfunc fixed(processor string) []string {\nswitch processor {\n")
	for _, p := range d.AMDGCN {
		if len(p.Fixed) > 0 {
			fmt.Fprintf(&b, "case %q:\nreturn %#v\n", p.Name, p.Fixed)
		}
	}
	b.WriteString("}\nreturn nil\n}\n")
	return b.String()
}

// codeFamilies returns the families of processors with similar code, by the names of the
// processors.
func (d *data) codeFamilies() map[string]string {
	cut, families := map[string]string{}, map[string]string{}
	for name, list := range d.Cuts {
		for _, family := range list {
			cut[family] = name
		}
	}
	for _, p := range d.AMDGCN {
		families[p.Name] = cut[p.Family]
	}
	return families
}

// starlark returns the tables of the rules.
func (d *data) starlark() []byte {
	var b bytes.Buffer
	b.WriteString(`"""The processors that LLVM knows by name.

Generated by tools/processors from engine/target/processors.json.
"""

PROCESSORS = [
`)
	for _, p := range append(d.AMDGCN, d.NVPTX...) {
		fmt.Fprintf(&b, "    %q,\n", p.Name)
	}
	b.WriteString("    \"amdgcnspirv\",\n]\n\n# The features that target IDs can name.\nFEATURE_NAMES = [\n")
	for _, f := range d.Features {
		fmt.Fprintf(&b, "    %q,\n", f.Name)
	}
	b.WriteString("]\n\n# The features that target IDs of a processor may name, where there are any.\nFEATURES = {\n")
	for _, p := range d.AMDGCN {
		if len(p.Features) > 0 {
			fmt.Fprintf(&b, "    %q: [\"%s\"],\n", p.Name, strings.Join(p.Features, `", "`))
		}
	}
	b.WriteString("}\n\n# The features that the hardware of a processor always has. Newer compilers accept no target ID that names them.\nFIXED_FEATURES = {\n")
	for _, p := range d.AMDGCN {
		if len(p.Fixed) > 0 {
			fmt.Fprintf(&b, "    %q: [\"%s\"],\n", p.Name, strings.Join(p.Fixed, `", "`))
		}
	}
	b.WriteString("}\n\n# What follows amdgpu in the triple of an AMD GPU, which LLVM 24 names it by.\nINSTRUCTION_SETS = {\n")
	for _, p := range d.AMDGCN {
		fmt.Fprintf(&b, "    %q: %q,\n", p.Name, p.ISA)
	}
	b.WriteString("}\n\n# The families of AMD GPUs whose code is alike. Any other processor is a family of its own.\nCODE_FAMILIES = {\n")
	families := d.codeFamilies()
	for _, name := range slices.Sorted(maps.Keys(families)) {
		fmt.Fprintf(&b, "    %q: %q,\n", name, families[name])
	}
	b.WriteString("}\n\n# AMD's GPU generations, by names of products and of instruction sets.\nARCH_GROUPS = {\n")
	for _, name := range slices.Sorted(maps.Keys(d.Groups)) {
		fmt.Fprintf(&b, "    %q: [\"%s\"],\n", name, strings.Join(d.Groups[name], `", "`))
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// runtimeLists returns the lists of runtimes of the rules.
func runtimeLists() []byte {
	var b bytes.Buffer
	b.WriteString(`"""The runtimes that load device code, by offload kind.

Generated by tools/processors from internal/registration/runtimes.
"""
`)
	list := func(comment, name string, of func(*runtimes.Runtime) bool) {
		fmt.Fprintf(&b, "\n# %s\n%s = [\n", comment, name)
		for i := range runtimes.Table {
			if r := &runtimes.Table[i]; of(r) {
				fmt.Fprintf(&b, "    %q,\n", r.Kind)
			}
		}
		b.WriteString("]\n")
	}
	list("All kinds with a runtime.", "RUNTIMES", func(*runtimes.Runtime) bool { return true })
	list("Those that register any number of images.", "IMAGE_RUNTIMES", func(r *runtimes.Runtime) bool { return r.Form == runtimes.Images })
	list("Those that register one fat binary.", "FAT_BINARY_RUNTIMES", func(r *runtimes.Runtime) bool { return r.Form == runtimes.FatBinary })
	return b.Bytes()
}
