package report

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rules-offload/rules_offload/engine/kernels"
)

// sourceFiles returns the names of all source files of the code, by name.
func (r *Report) sourceFiles() []string {
	names := make(map[string]bool)
	for _, img := range r.images() {
		for _, s := range img.Sources {
			names[s.File] = true
		}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// sourceTotals returns the source files of all code that has line tables, the largest first, and
// the bytes of this code.
func (r *Report) sourceTotals() (totals []kernels.Source, code int64) {
	var all []kernels.Source
	for _, img := range r.images() {
		all = append(all, img.Sources...)
	}
	totals = sum(all)
	for _, s := range totals {
		code += s.Bytes
	}
	return totals, code
}

// sum adds up sources of the same files and lines, the largest first.
func sum(all []kernels.Source) []kernels.Source {
	bytes := make(map[string]int64)
	lines := make(map[string]map[int64]int64)
	for _, s := range all {
		bytes[s.File] += s.Bytes
		if lines[s.File] == nil {
			lines[s.File] = make(map[int64]int64)
		}
		for _, l := range s.Lines {
			lines[s.File][l.Line] += l.Bytes
		}
	}
	var list []kernels.Source
	for _, name := range slices.Sorted(maps.Keys(bytes)) {
		s := kernels.Source{File: name, Bytes: bytes[name]}
		for _, line := range slices.Sorted(maps.Keys(lines[name])) {
			s.Lines = append(s.Lines, kernels.SourceLine{Line: line, Bytes: lines[name][line]})
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b kernels.Source) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list
}

// otherSources returns the source files of code of an architecture that is not in a kernel.
func otherSources(a arch) []kernels.Source {
	left := make(map[string]int64)
	for _, k := range a.kernels {
		for _, s := range k.Sources {
			left[s.File] -= s.Bytes
		}
	}
	var other []kernels.Source
	for _, s := range sum(a.sources) {
		if s.Bytes += left[s.File]; s.Bytes > 0 {
			other = append(other, s)
		}
	}
	return other
}
