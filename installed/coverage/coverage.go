// Package coverage determines whether GPUs find code, and which code, by the rules
// of the HIP runtime: how the runtime selects an entry of a bundle or of a kpack
// archive, and which code its loader accepts. Ask answers for the images of a
// bundle, Check for files, directories and packages. CheckPackage checks that the
// files of packages fit each other. The reports have the JSON forms that
// `offload check --covers` and `offload check --package` print.
package coverage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Verdict is the result for a GPU: whether it finds code.
type Verdict string

// The verdicts.
const (
	Yes Verdict = "yes"
	No  Verdict = "no"
	// Empty means that the code found is empty, but another image is not.
	Empty Verdict = "empty"
	// Partly means that bundles of a file, or modes of a GPU, differ, or that kernels are missing in the code found.
	Partly Verdict = "partly"
	// HostOnly means that the file has no device code.
	HostOnly Verdict = "host-only"
)

// How is the way in which code was found.
type How string

// The ways to find code.
const (
	Native     How = "native"      // an entry for the processor
	Generic    How = "generic"     // an entry for its generic processor
	SPIRV      How = "spirv"       // an entry that is compiled when it is loaded
	CodeObject How = "code object" // an image outside bundles
	Data       How = "data"        // a database or an archive of a library
)

// Report is the result for several files.
type Report struct {
	Files []FileReport `json:"files"`
}

// FileReport is the result for a file or a directory of Tensile.
type FileReport struct {
	File string      `json:"file"`
	GPUs []GPUReport `json:"gpus"`

	// Unreadable is the reason why device code in the file cannot be read, or "".
	Unreadable string `json:"cannot_read,omitempty"`

	note string // describes a special property of the file, or is ""
}

// GPUReport is the result for a GPU.
type GPUReport struct {
	GPU     string       `json:"gpu"`
	Verdict Verdict      `json:"verdict"`
	Modes   []ModeReport `json:"modes"` // empty for host-only files
}

// ModeReport is the result for a mode of a GPU. How and Entry are the result in
// the first bundle; nil if no code was found there.
type ModeReport struct {
	Mode    string  `json:"mode"`
	Verdict Verdict `json:"verdict"`
	How     *How    `json:"how"`
	Entry   *string `json:"entry"`
	// Code has a place for each source of a split library. It is nil for other files.
	Code []Place `json:"code,omitempty"`
	// Older is the verdict of ROCm runtimes before the summer of 2026, if it differs: they use
	// only the first archive with code for a target ID. It is "" if it does not differ.
	Older Verdict `json:"older_runtimes,omitempty"`
	// Missing are the kernels that host code registers and that are not in the images found. It is set if the
	// verdict is Partly for that reason alone.
	Missing []MissingKernels `json:"missing_kernels,omitempty"`
}

// Ask returns the code that GPUs find in the bundles of a file. Bundles with
// only empty images are ignored unless there are no others.
func Ask(file string, bundles []Bundle, gpus []GPU) FileReport {
	sources := make([]source, len(bundles))
	for i := range bundles {
		sources[i] = &bundles[i]
	}
	return askSources(file, sources, gpus, nil)
}

// askSources returns the code that GPUs find in the sources of a file, and the kernels of its host code that they do
// not find. host is nil if the host code is not known.
func askSources(file string, sources []source, gpus []GPU, host *hostCode) FileReport {
	counted := slices.DeleteFunc(slices.Clone(sources), source.empty)
	if len(counted) == 0 {
		counted = sources
	}
	if len(counted) == 0 {
		return hostOnly(file, gpus)
	}
	answers := make([]answer, len(counted))
	ask := func(m Mode) []answer {
		for i := range counted {
			answers[i] = counted[i].ask(m)
		}
		return answers
	}
	kernels := newKernelCheck(counted, host)
	return reportWith(file, gpus, func(m Mode) ModeReport {
		mr := modeReport(m, ask(m))
		mr.lack(kernels.missing(answers))
		return mr
	})
}

// hostOnly returns the report for a file without device code.
func hostOnly(file string, gpus []GPU) FileReport {
	r := FileReport{File: file, GPUs: []GPUReport{}}
	for _, g := range gpus {
		r.GPUs = append(r.GPUs, GPUReport{GPU: g.Name, Verdict: HostOnly, Modes: []ModeReport{}})
	}
	return r
}

// report builds a report from the answers of ask, which returns one for each
// bundle.
func report(file string, gpus []GPU, ask func(Mode) []answer) FileReport {
	return reportWith(file, gpus, func(m Mode) ModeReport { return modeReport(m, ask(m)) })
}

// reportWith builds a report from the results for modes.
func reportWith(file string, gpus []GPU, ask func(Mode) ModeReport) FileReport {
	r := FileReport{File: file, GPUs: []GPUReport{}}
	for _, g := range gpus {
		gr := GPUReport{GPU: g.Name, Modes: []ModeReport{}}
		var verdicts []Verdict
		for _, m := range g.Modes {
			mr := ask(m)
			gr.Modes = append(gr.Modes, mr)
			verdicts = append(verdicts, mr.Verdict)
		}
		gr.Verdict = together(verdicts)
		r.GPUs = append(r.GPUs, gr)
	}
	return r
}

// modeReport builds the report of a mode from the answers of all sources.
func modeReport(m Mode, answers []answer) ModeReport {
	mr := ModeReport{Mode: m.String()}
	var verdicts, older []Verdict
	for _, a := range answers {
		verdicts, older = append(verdicts, a.verdict), append(older, cmp.Or(a.older, a.verdict))
		if a.place != nil {
			mr.Code = append(mr.Code, *a.place)
		}
	}
	mr.Verdict = together(verdicts)
	if v := together(older); v != mr.Verdict {
		mr.Older = v
	}
	if first := answers[0]; first.verdict != No {
		mr.How = &first.how
		if first.entry != "" {
			mr.Entry = &first.entry
		}
	}
	return mr
}

// together returns the common verdict, or Partly if they differ.
func together(list []Verdict) Verdict {
	if slices.ContainsFunc(list, func(v Verdict) bool { return v != list[0] }) {
		return Partly
	}
	return list[0]
}

// Covered reports whether all GPUs find code in all files.
func (r *Report) Covered() bool {
	return !slices.ContainsFunc(r.Files, func(f FileReport) bool { return !f.covered() })
}

func (f *FileReport) covered() bool {
	return !slices.ContainsFunc(f.GPUs, func(g GPUReport) bool { return g.Verdict != Yes })
}

// Missing describes in one line which GPUs do not find code, and in which
// files.
func (r *Report) Missing() string {
	const most = 8 // number of files to list
	var parts []string
	left := 0
	for _, f := range r.Files {
		if f.covered() {
			continue
		}
		if len(parts) == most {
			left++
			continue
		}
		var gpus []string
		for _, g := range f.GPUs {
			if g.Verdict != Yes {
				gpus = append(gpus, g.GPU+": "+g.explain())
			}
		}
		parts = append(parts, f.File+": "+f.noted(strings.Join(gpus, ", ")))
	}
	if left > 0 {
		parts = append(parts, fmt.Sprintf("and %d more files", left))
	}
	return strings.Join(parts, "; ")
}

// noted adds the note of the file to a text.
func (f *FileReport) noted(text string) string {
	if f.note == "" {
		return text
	}
	return text + " (" + f.note + ")"
}

// explain describes the code that a GPU does not find.
func (g *GPUReport) explain() string {
	switch g.Verdict {
	case HostOnly:
		return "no device code"
	case No:
		return "no code for it"
	case Empty:
		return "the code for it is empty"
	}
	for _, m := range g.Modes {
		if len(m.Missing) > 0 {
			return m.Missing[0].String()
		}
	}
	if !slices.ContainsFunc(g.Modes, func(m ModeReport) bool { return m.Verdict != Partly }) {
		return "no code for it in some of the bundles"
	}
	var modes []string
	for _, m := range g.Modes {
		if m.Verdict != Yes {
			modes = append(modes, fmt.Sprintf("%s for %s", m.Verdict, m.Mode))
		}
	}
	return "partly covered (" + strings.Join(modes, ", ") + ")"
}
