// Package coverage determines whether a GPU finds code in device images, and
// which code, by the rules of the HIP runtime: how the runtime selects an entry
// of a bundle, and which code its loader accepts. Report has the JSON form that
// `offload check --covers` prints.
package coverage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
)

// Verdict is the result for a GPU: whether it finds code.
type Verdict string

// The verdicts.
const (
	Yes Verdict = "yes"
	No  Verdict = "no"
	// Empty means that the code found is empty, but another image is not.
	Empty Verdict = "empty"
	// Partly means that bundles of a file, or modes of a GPU, differ.
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

// GPU is a GPU to check.
type GPU struct {
	Name  string // as given
	Modes []Mode // the combinations of its feature states, - before +
}

// Mode is a GPU with a state, on or off, for every feature.
type Mode struct {
	Processor      string
	SRAMECC, XNACK target.FeatureState // Unsupported, Off or On
}

// String returns the name of the mode, such as gfx942:sramecc+:xnack-.
func (m Mode) String() string {
	return target.CodeObject{Processor: m.Processor, SRAMECC: m.SRAMECC, XNACK: m.XNACK}.ID()
}

// GenericOf returns the generic processor that the runtime looks up for a processor, such as
// gfx11-generic; "" for none.
func GenericOf(processor string) string {
	switch processor {
	case "gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c":
		return "gfx9-generic"
	case "gfx942", "gfx950":
		return "gfx9-4-generic"
	case "gfx1010", "gfx1011", "gfx1012", "gfx1013":
		return "gfx10-1-generic"
	case "gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036":
		return "gfx10-3-generic"
	case "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153":
		return "gfx11-generic"
	case "gfx1200", "gfx1201":
		return "gfx12-generic"
	}
	return ""
}

// ParseGPU parses the name of a GPU: a processor and optional feature settings.
// A feature without a setting stands for both of its states.
func ParseGPU(name string) (GPU, error) {
	fail := func(format string, args ...any) (GPU, error) {
		return GPU{}, fmt.Errorf("%q is not a GPU: %s", name, fmt.Sprintf(format, args...))
	}
	id, err := target.ParseTargetID(name)
	if err != nil {
		return GPU{}, fmt.Errorf("%q is not a GPU: %w", name, err)
	}
	features, ok := target.AMDGPUFeatures(id.Processor)
	if strings.HasPrefix(id.Processor, "gfx125") {
		features = nil // LLVM 24 supports xnack settings there; the runtime of ROCm 7 does not
	}
	switch {
	case !ok:
		return fail("found processor %q, expected one such as gfx90a or gfx1100", id.Processor)
	case strings.HasSuffix(id.Processor, "-generic"):
		return fail("%s is a target for compilation; name a processor that runs the code", id.Processor)
	}
	states := map[string][]target.FeatureState{"sramecc": {target.FeatureUnsupported}, "xnack": {target.FeatureUnsupported}}
	for _, f := range features {
		states[f] = []target.FeatureState{target.FeatureOff, target.FeatureOn}
	}
	for _, f := range id.Features {
		if !slices.Contains(features, f.Name) {
			return fail("%s has no feature %q", id.Processor, f.Name)
		}
		states[f.Name] = []target.FeatureState{target.FeatureOff}
		if f.On {
			states[f.Name] = []target.FeatureState{target.FeatureOn}
		}
	}
	gpu := GPU{Name: name}
	for _, sramecc := range states["sramecc"] {
		for _, xnack := range states["xnack"] {
			gpu.Modes = append(gpu.Modes, Mode{Processor: id.Processor, SRAMECC: sramecc, XNACK: xnack})
		}
	}
	return gpu, nil
}

// Image is a device image.
type Image struct {
	ID   string // entry ID, "" outside bundles
	Size int64  // bytes
	// Code is the target of an AMD code object; nil for other images.
	Code *target.CodeObject
	// Empty reports whether the image has neither kernels nor exported variables.
	Empty bool
}

// loads reports whether the loader accepts the image for a GPU.
func (img *Image) loads(m Mode) bool {
	c := img.Code
	if c == nil || c.Version == 0 {
		return false
	}
	fits := func(code, gpu target.FeatureState) bool {
		return code != target.FeatureOn && code != target.FeatureOff || code == gpu
	}
	processor := c.Processor == m.Processor || c.Generic >= 1 && c.Processor != "" && c.Processor == GenericOf(m.Processor)
	return processor && fits(c.SRAMECC, m.SRAMECC) && fits(c.XNACK, m.XNACK)
}

// Bundle is a set of images from which the runtime selects one: a bundle, or
// images outside bundles.
type Bundle struct {
	Images []Image // in the order of the file
	// Bare is set for images outside bundles: any image that loads may be
	// selected.
	Bare bool
}

// empty reports whether all images are empty.
func (b *Bundle) empty() bool {
	return !slices.ContainsFunc(b.Images, func(img Image) bool { return img.Size > 0 && !img.Empty })
}

// source is what a mode must find code in: a bundle, or a source of a split library.
type source interface {
	ask(m Mode) answer
	// empty reports whether all code is empty.
	empty() bool
}

// answer is the code that a mode finds in a source.
type answer struct {
	verdict Verdict
	how     How
	entry   string
	place   *Place  // of code outside of the file; nil for other code
	older   Verdict // with older runtimes; "" if it is verdict
}

// ask returns the code that a mode finds.
func (b *Bundle) ask(m Mode) answer {
	img, how := b.find(m)
	switch {
	case img == nil, how != SPIRV && !img.loads(m):
		return answer{verdict: No}
	case img.Empty && !b.empty():
		return answer{verdict: Empty, how: how, entry: img.ID}
	}
	return answer{verdict: Yes, how: how, entry: img.ID}
}

// find returns the image that the runtime selects, or nil for none.
func (b *Bundle) find(m Mode) (*Image, How) {
	if b.Bare {
		var found *Image
		for i := range b.Images {
			if img := &b.Images[i]; img.Size > 0 && img.loads(m) && (found == nil || found.Empty && !img.Empty) {
				found = img
			}
		}
		return found, CodeObject
	}
	if img := b.named(m.String()); img != nil {
		return img, Native
	}
	if generic := GenericOf(m.Processor); generic != "" {
		if img := b.named(Mode{generic, m.SRAMECC, m.XNACK}.String()); img != nil {
			return img, Generic
		}
	}
	for i := range b.Images {
		if img := &b.Images[i]; img.Size > 0 && isSPIRV(img.ID) {
			return img, SPIRV
		}
	}
	return nil, ""
}

// named returns the first image for a target ID. A target ID with features that
// the processor does not have matches no image.
func (b *Bundle) named(targetID string) *Image {
	const triple = "hip-amdgcn-amd-amdhsa--"
	request, err := target.Parse(triple + targetID)
	if err != nil || target.CheckTargetID(request.Triple, targetID) != nil {
		return nil
	}
	for i := range b.Images {
		img := &b.Images[i]
		if img.Size == 0 {
			continue
		}
		entry, err := target.Parse(img.ID)
		if err == nil && isHIP(entry.Kind) && target.CheckTargetID(request.Triple, entry.TargetID) == nil &&
			(target.Rules{}).Match(entry, request).Compatible() {
			return img
		}
	}
	return nil
}

func isHIP(k target.Kind) bool { return k == target.HIP || k == target.HIPv4 }

// isSPIRV reports whether an entry ID is one for AMD GPUs' SPIR-V.
func isSPIRV(id string) bool {
	kind, rest, _ := strings.Cut(id, "-")
	return isHIP(target.Kind(kind)) && (rest == "spirv64-amd-amdhsa--amdgcnspirv" || rest == "spirv64-amd-amdhsa-unknown-amdgcnspirv")
}

// Report is the result for several files.
type Report struct {
	Files []FileReport `json:"files"`
}

// FileReport is the result for a file or a directory of Tensile.
type FileReport struct {
	File string      `json:"file"`
	GPUs []GPUReport `json:"gpus"`
	// Note describes a special property of the file, or is "".
	Note string `json:"-"`
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
}

// Ask returns the code that GPUs find in the bundles of a file. Bundles with
// only empty images are ignored unless there are no others.
func Ask(file string, bundles []Bundle, gpus []GPU) FileReport {
	sources := make([]source, len(bundles))
	for i := range bundles {
		sources[i] = &bundles[i]
	}
	return askSources(file, sources, gpus)
}

func askSources(file string, sources []source, gpus []GPU) FileReport {
	counted := slices.DeleteFunc(slices.Clone(sources), source.empty)
	if len(counted) == 0 {
		counted = sources
	}
	if len(counted) == 0 {
		return hostOnly(file, gpus)
	}
	return report(file, gpus, func(m Mode) []answer {
		answers := make([]answer, len(counted))
		for i := range counted {
			answers[i] = counted[i].ask(m)
		}
		return answers
	})
}

// AskTensile returns the code that GPUs find in a directory of Tensile. catalogue
// are the processors in the names of its .dat files, and code the bundles of
// its code files by the processor in their name.
func AskTensile(folder string, catalogue map[string]bool, code map[string][]Bundle, gpus []GPU) FileReport {
	return report(folder, gpus, func(m Mode) []answer {
		if !catalogue[m.Processor] {
			return []answer{{verdict: No}}
		}
		for _, b := range code[m.Processor] {
			if a := b.ask(m); a.verdict != No {
				return []answer{{verdict: Yes, how: a.how, entry: a.entry}}
			}
		}
		return []answer{{verdict: No}}
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
	r := FileReport{File: file, GPUs: []GPUReport{}}
	for _, g := range gpus {
		gr := GPUReport{GPU: g.Name, Modes: []ModeReport{}}
		var verdicts []Verdict
		for _, m := range g.Modes {
			mr := modeReport(m, ask(m))
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

// HostOnly reports whether the file has no device code.
func (f *FileReport) HostOnly() bool {
	return slices.ContainsFunc(f.GPUs, func(g GPUReport) bool { return g.Verdict == HostOnly })
}

// Sort orders the files by name.
func (r *Report) Sort() {
	slices.SortStableFunc(r.Files, func(a, b FileReport) int { return cmp.Compare(a.File, b.File) })
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

// Explain describes the code that a GPU does not find in the file.
func (f *FileReport) Explain(g *GPUReport) string {
	return f.noted(g.GPU + ": " + g.explain())
}

// noted adds the note of the file to a text.
func (f *FileReport) noted(text string) string {
	if f.Note == "" {
		return text
	}
	return text + " (" + f.Note + ")"
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
