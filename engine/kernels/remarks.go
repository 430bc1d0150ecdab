package kernels

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Remark is what a compiler reports about a function in an optimization record.
type Remark struct {
	Kind string `json:"kind"` // passed, missed or analysis
	Pass string `json:"pass"`
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	Text string `json:"text"`

	function string
}

// Remarks are the remarks of one build.
type Remarks struct {
	byFunction map[[2]string][]Remark // by architecture and Key of the function
}

// RemarkPasses are the passes whose remarks help with registers, spills and
// scratch: the value of clang's -foptimization-record-passes.
const RemarkPasses = "kernel-resource-usage|prologepilog|regalloc|loop-unroll|inline"

// RecordArch returns the architecture in the name of an optimization record, or
// "" if it has none. Clang chooses names such as NAME-hip-amdgcn-amd-amdhsa-gfx90a.opt.yaml.
func RecordArch(name string) string {
	name, ok := strings.CutSuffix(name, ".opt.yaml")
	if !ok {
		return ""
	}
	// A target ID can contain a hyphen, too: the architecture begins at the first gfx of which the
	// rest is one.
	const before, letters = "/.-", "0123456789abcdefghijklmnopqrstuvwxyz:+-"
	for from := 0; ; from++ {
		i := strings.Index(name[from:], "gfx")
		if i < 0 {
			return ""
		}
		from += i
		rest := name[from+len("gfx"):]
		if rest != "" && strings.Trim(rest, letters) == "" && (from == 0 || strings.IndexByte(before, name[from-1]) >= 0) {
			return name[from:]
		}
	}
}

// Add adds the remarks of an optimization record for an architecture, which clang
// writes with -fsave-optimization-record. Remarks of other passes than RemarkPasses
// are ignored.
func (r *Remarks) Add(arch, content string) error {
	if arch == "" {
		return errors.New("found no target in the name, expected a file such as a-gfx90a.opt.yaml")
	}
	if content != "" && !strings.HasPrefix(content, "--- !") {
		return errors.New("not an optimization record in YAML, which clang -fsave-optimization-record writes")
	}
	if r.byFunction == nil {
		r.byFunction = make(map[[2]string][]Remark)
	}
	passes := strings.Split(RemarkPasses, "|")
	for document := range strings.SplitSeq(content, "\n...") {
		remark, ok := parseRemark(strings.TrimLeft(document, "\n"))
		if ok && slices.Contains(passes, remark.Pass) {
			remark.function = Key(remark.function)
			key := [2]string{arch, remark.function}
			r.byFunction[key] = append(r.byFunction[key], remark)
		}
	}
	return nil
}

// parseRemark parses a document of an optimization record. LLVM writes them in a
// small part of YAML: top-level keys, and a list of arguments whose values make up
// the text.
func parseRemark(document string) (r Remark, ok bool) {
	lines := strings.Split(document, "\n")
	kind, found := strings.CutPrefix(lines[0], "--- !")
	if !found {
		return r, false
	}
	r.Kind = strings.ToLower(kind)
	var text strings.Builder
	for i := 1; i < len(lines); i++ {
		name, value, _ := strings.Cut(lines[i], ":")
		value = strings.TrimSpace(value)
		if quote := value[:min(1, len(value))]; quote == "'" || quote == `"` {
			parts, last := []string{value}, value[1:]
			for i+1 < len(lines) && !strings.HasSuffix(strings.ReplaceAll(last, "''", ""), quote) { // a long value continues
				i++
				last = strings.TrimSpace(lines[i])
				parts = append(parts, last)
			}
			value = strings.Join(parts, " ")
		}
		switch argument, isArgument := strings.CutPrefix(name, "  - "); {
		case isArgument && argument != "DebugLoc":
			text.WriteString(scalar(value))
		case name == "Pass":
			r.Pass = scalar(value)
		case name == "Name":
			r.Name = scalar(value)
		case name == "Function":
			r.function = scalar(value)
		case name == "DebugLoc":
			r.File, r.Line = location(value)
		}
	}
	r.Text = strings.TrimSpace(text.String())
	return r, r.function != ""
}

// scalar returns the value of a YAML scalar.
func scalar(value string) string {
	switch {
	case len(value) > 1 && value[0] == '\'':
		return strings.ReplaceAll(value[1:len(value)-1], "''", "'")
	case len(value) > 1 && value[0] == '"':
		if s, err := strconv.Unquote(value); err == nil {
			return s
		}
		return value[1 : len(value)-1]
	}
	return value
}

// location returns the file and line of { File: a.hip, Line: 3, Column: 60 }.
func location(value string) (file string, line int) {
	before, after, _ := strings.Cut(strings.Trim(value, "{ }"), ", Line:")
	number, _, _ := strings.Cut(after, ",")
	line, _ = strconv.Atoi(strings.TrimSpace(number))
	return scalar(strings.TrimSpace(strings.TrimPrefix(before, "File:"))), line
}

// AddRemarks sets the remarks of the kernels that got worse or exceed a limit:
// those of each build that the other build does not have.
func (d *Diff) AddRemarks(old, new *Remarks) {
	for i := range d.Kernels {
		k := &d.Kernels[i]
		exceeds := func(f Failure) bool {
			return f.Kernel != nil && f.Arch == k.Arch && *f.Kernel == k.Name
		}
		if k.Change != Changed || !k.worse() && !slices.ContainsFunc(d.Failures, exceeds) && !slices.ContainsFunc(d.Accepted, exceeds) {
			continue
		}
		key := [2]string{k.Arch, Key(k.Name)}
		k.OldRemarks, k.NewRemarks = without(old.byFunction[key], new.byFunction[key]), without(new.byFunction[key], old.byFunction[key])
	}
}

// without returns the remarks that are not in another list, each once, those that
// matter most for registers first.
func without(list, other []Remark) []Remark {
	known := make(map[Remark]bool)
	for _, r := range other {
		known[r] = true
	}
	var rest []Remark
	for _, r := range list {
		if !known[r] {
			known[r] = true
			rest = append(rest, r)
		}
	}
	passes := strings.Split(RemarkPasses, "|")
	rank := func(r Remark) int { return slices.Index(passes, r.Pass) }
	slices.SortStableFunc(rest, func(a, b Remark) int { return cmp.Compare(rank(a), rank(b)) })
	return rest
}
