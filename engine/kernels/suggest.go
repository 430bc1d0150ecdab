package kernels

import "slices"

// Flags are flags of clang that can remove a regression, under a name.
type Flags struct {
	Name  string
	Flags []string
}

// SuggestedFlags returns the flags that offload diff --suggest and the rule
// offload_compiler_diff try.
func SuggestedFlags() []Flags {
	return []Flags{
		{"no-lto", []string{"-fno-offload-lto"}},
		{"O2", []string{"-O2"}},
		{"no-unroll", []string{"-fno-unroll-loops"}},
		{"unroll-less", []string{"-mllvm", "-unroll-threshold=100"}},
		{"unroll-arrays-less", []string{"-mllvm", "-amdgpu-unroll-threshold-private=500"}},
		{"inline-less", []string{"-mllvm", "-inline-threshold=100"}},
		{"schedule-for-occupancy", []string{"-mllvm", "-amdgpu-schedule-metric-bias=100"}},
	}
}

// Suggestion is the result of a build with additional flags.
type Suggestion struct {
	Name  string   `json:"name"`
	Flags []string `json:"flags"`
	// Removes are failures that the build does not have.
	Removes []Failure `json:"removes"`
	// Harms are kernels that are worse than without the flags.
	Harms []Failure `json:"harms"`
}

// Suggest adds a suggestion to d, the difference between the images old and new:
// what became of its failures in tried, the images of the same build as new with
// additional flags.
func (l Limits) Suggest(d *Diff, old, new, tried []Image, flags Flags) {
	s := Suggestion{Name: flags.Name, Flags: flags.Flags, Removes: []Failure{}, Harms: []Failure{}}
	l.Accepted = nil
	after := Compare(old, tried)
	l.Check(after)
	contains := func(list []Failure, f Failure) bool { return slices.ContainsFunc(list, f.same) }
	for _, f := range d.Failures {
		if !contains(after.Failures, f) {
			s.Removes = append(s.Removes, f)
		}
	}
	// The flags must not break a limit that holds without them, and must not make a
	// kernel worse than it is without them.
	effect := Compare(new, tried)
	Limits{Rules: []Rule{MoreSGPRSpills, MoreVGPRSpills, MoreScratch, LessOccupancy, RemovedKernels, RemovedArchs}}.Check(effect)
	s.Harms = append(s.Harms, effect.Failures...)
	for _, f := range after.Failures {
		if !contains(d.Failures, f) && !contains(d.Accepted, f) && !contains(s.Harms, f) {
			s.Harms = append(s.Harms, f)
		}
	}
	d.Suggestions = append(d.Suggestions, s)
}

// RemovedBy returns the suggestions that remove a failure and make no kernel worse.
func (d *Diff) RemovedBy(f Failure) (list []Suggestion) {
	for _, s := range d.Suggestions {
		if len(s.Harms) == 0 && slices.ContainsFunc(s.Removes, f.same) {
			list = append(list, s)
		}
	}
	return list
}

// LaunchBounds reports whether a failure is about registers, spills, scratch or
// occupancy of a kernel that may have the largest workgroups: launch bounds in the
// source can remove it.
func (d *Diff) LaunchBounds(f Failure) bool {
	const largest = 1024
	if f.Kernel == nil || len(f.Rule.values()) == 0 || f.Rule == MoreLDS || f.Rule == MoreCode {
		return false
	}
	at := slices.IndexFunc(d.Kernels, func(k ChangedKernel) bool { return k.Arch == f.Arch && k.Name == *f.Kernel })
	if at < 0 || d.Kernels[at].New == nil {
		return false
	}
	k := d.Kernels[at].New
	return k.ReqdWorkgroup == nil && k.MaxWorkgroupSize != nil && *k.MaxWorkgroupSize >= largest
}

// Reproduced returns the part of d, the difference to the images old, whose failures images also have, for suggestions
// that only build these. Bitcode has no registers: it reproduces nothing.
func (l Limits) Reproduced(d *Diff, old, images []Image) *Diff {
	l.Accepted = nil
	built := Compare(old, images)
	l.Check(built)
	part := *d
	part.Failures = slices.DeleteFunc(slices.Clone(d.Failures), func(f Failure) bool {
		return f.Kernel == nil || !slices.ContainsFunc(built.Failures, f.same)
	})
	return &part
}

// Missing returns the number of kernels of a build that images do not have, and the number of all.
func Missing(build, images []Image) (missing, all int) {
	found, wanted := kernelKeys(images), kernelKeys(build)
	for key := range wanted {
		if !found[key] {
			missing++
		}
	}
	return missing, len(wanted)
}

// kernelKeys returns the architecture and the key of each kernel.
func kernelKeys(images []Image) map[[2]string]bool {
	found := make(map[[2]string]bool)
	for i := range images {
		for k := range images[i].Kernels {
			found[[2]string{images[i].Arch, Key(images[i].Kernels[k].Name)}] = true
		}
	}
	return found
}
