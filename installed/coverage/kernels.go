package coverage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine/target"
)

// MissingKernels are kernels that host code registers, and that are not in the image which the runtime selects: a
// launch fails, although other images have them.
type MissingKernels struct {
	// Image is the entry ID of the selected image, or the target ID of its code; "" if no image has the kernels.
	Image string `json:"image"`
	// Kernels are the names, in order.
	Kernels []string `json:"kernels"`
	// In are the other images of the source that have at least one of them.
	In []string `json:"in"`
}

// String describes the kernels in one line.
func (m *MissingKernels) String() string {
	if m.Image == "" {
		return "no image has these registered kernels: " + some(m.Kernels)
	}
	return fmt.Sprintf("the image %s that it selects does not have the registered kernels %s, which are in %s", m.Image, some(m.Kernels), some(m.In))
}

// lack adds missing kernels to the result of a mode.
func (m *ModeReport) lack(missing []MissingKernels) {
	if len(missing) > 0 && m.Verdict == Yes {
		m.Verdict, m.Missing = Partly, missing
	}
}

// onlyKernels reports whether a GPU finds code everywhere, and kernels are missing in it.
func (g *GPUReport) onlyKernels() bool {
	return !slices.ContainsFunc(g.Modes, func(m ModeReport) bool { return m.Verdict != Yes && len(m.Missing) == 0 })
}

// kernelCheck finds the kernels of host code that are not in the images of its sources which the runtime selects.
type kernelCheck struct {
	sources []kernelSource
	// nowhere are registered kernels that no image has.
	nowhere []string
}

// kernelSource is a source and the registered kernels that at least one of its images has.
type kernelSource struct {
	source
	kernels []string
	known   map[*Image]*MissingKernels // results, by the selected image
}

// newKernelCheck prepares the check of the sources of a file. Without host code, there is nothing to check.
func newKernelCheck(sources []source, host *hostCode) *kernelCheck {
	c := &kernelCheck{}
	if host == nil || len(host.registered) == 0 {
		return c
	}
	anywhere, complete := make(map[string]bool), true
	for _, s := range sources {
		all := make(map[string]bool)
		for img := range s.images() {
			maps.Copy(all, img.Kernels)
			complete = complete && (img.Size == 0 || img.listsKernels())
		}
		k := kernelSource{source: s, known: make(map[*Image]*MissingKernels)}
		for _, name := range host.registered {
			if all[name] {
				k.kernels = append(k.kernels, name)
				anywhere[name] = true
			}
		}
		c.sources = append(c.sources, k)
	}
	if complete && len(anywhere) > 0 {
		c.nowhere = slices.DeleteFunc(slices.Clone(host.registered), func(name string) bool { return anywhere[name] })
	}
	return c
}

// listsKernels reports whether the kernels of the image are known.
func (img *Image) listsKernels() bool { return img.Code != nil || len(img.Kernels) > 0 }

// missing returns the kernels that are not in the images found, which are those of the sources, in order.
func (c *kernelCheck) missing(found []answer) (list []MissingKernels) {
	for i := range c.sources {
		if m := c.sources[i].missing(&found[i]); m != nil {
			list = append(list, *m)
		}
	}
	if len(c.nowhere) > 0 {
		list = append(list, MissingKernels{Kernels: c.nowhere, In: []string{}})
	}
	return list
}

// missing returns the kernels of the source that are not in the image found, or nil for none.
func (s *kernelSource) missing(found *answer) *MissingKernels {
	img := found.image
	if found.verdict != Yes || img == nil || !img.listsKernels() {
		return nil
	}
	if m, ok := s.known[img]; ok {
		return m
	}
	var m *MissingKernels
	if names := slices.DeleteFunc(slices.Clone(s.kernels), func(name string) bool { return img.Kernels[name] }); len(names) > 0 {
		m = &MissingKernels{Image: found.entry, Kernels: names, In: []string{}}
		if m.Image == "" {
			m.Image = img.targetID()
		}
		for other := range s.images() {
			if id := other.name(); slices.ContainsFunc(names, func(name string) bool { return other.Kernels[name] }) && !slices.Contains(m.In, id) {
				m.In = append(m.In, id)
			}
		}
	}
	s.known[img] = m
	return m
}

// name returns the entry ID of the image, or the target ID of its code.
func (img *Image) name() string {
	if img.ID != "" {
		return img.ID
	}
	return img.targetID()
}

// Missing are kernels that are not in the image which the runtime selects on some GPUs.
type Missing struct {
	MissingKernels
	GPUs []string // in order
}

// MissingIn returns the registered kernels that are in an image of a bundle, and not in the one which a GPU selects. The
// GPUs are those that the images are for, also through generic processors.
func MissingIn(bundles []Bundle, registered map[string]bool) []Missing {
	return missingIn(sourcesOf(bundles), &hostCode{registered: slices.Sorted(maps.Keys(registered))})
}

func missingIn(sources []source, host *hostCode) (list []Missing) {
	check := newKernelCheck(sources, host)
	if len(check.sources) == 0 {
		return nil
	}
	index := make(map[*MissingKernels]int)
	for _, gpu := range gpusOf(sources) {
		for _, mode := range gpu.Modes {
			for i := range check.sources {
				found := check.sources[i].ask(mode)
				m := check.sources[i].missing(&found)
				if m == nil {
					continue
				}
				at, ok := index[m]
				if !ok {
					at = len(list)
					index[m] = at
					list = append(list, Missing{MissingKernels: *m})
				}
				if gpus := &list[at].GPUs; !slices.Contains(*gpus, gpu.Name) {
					*gpus = append(*gpus, gpu.Name)
				}
			}
		}
	}
	return list
}

// hiddenKernels reports the registered kernels of a library that are in one of its images, and not in the one which a
// GPU selects. See unknownKernels for those that are in no image.
func (p *packageCheck) hiddenKernels(f *file, sources []source) {
	for _, m := range missingIn(sources, &f.host) {
		p.fault(f.name, FaultKernel, "compile all sources for the same GPUs, or remove the image "+m.Image, "on %s: %s", some(m.GPUs), m.MissingKernels.String())
	}
}

// gpusOf returns the GPUs that the images of sources are for, in order.
func gpusOf(sources []source) (gpus []GPU) {
	named := make(map[string]bool)
	for _, s := range sources {
		for img := range s.images() {
			processor, _, _ := strings.Cut(img.targetID(), ":")
			named[processor] = true
		}
	}
	for _, processor := range slices.Sorted(slices.Values(target.Processors())) {
		if generic := GenericOf(processor); !named[processor] && (generic == "" || !named[generic]) {
			continue
		}
		if gpu, err := ParseGPU(processor); err == nil {
			gpus = append(gpus, gpu)
		}
	}
	return gpus
}
