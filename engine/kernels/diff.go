package kernels

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// Change is the kind of difference between the builds.
type Change string

// The changes.
const (
	Added   Change = "added"
	Removed Change = "removed"
	Changed Change = "changed"
	Same    Change = "same"
)

// Diff is the difference between two builds.
type Diff struct {
	// Archs are all architectures of either build, by name.
	Archs []ChangedArch `json:"archs"`
	// Kernels are the kernels that differ, for architectures that both builds
	// have. Kernels that got worse are first.
	Kernels []ChangedKernel `json:"kernels"`
	// Failures are the exceeded limits, see Limits.Check.
	Failures []Failure `json:"failures"`
	// Accepted are exceeded limits that Limits.Accepted permits.
	Accepted []Failure `json:"accepted,omitempty"`
	// Stale are lines of Limits.Accepted that permit nothing.
	Stale []StaleLine `json:"stale,omitempty"`
	// Suggestions are the flags that were tried, see Limits.Suggest.
	Suggestions []Suggestion `json:"suggestions,omitempty"`
	// Equal is the number of kernels that do not differ.
	Equal int `json:"-"`
}

// ChangedArch is an architecture in both builds. Sizes are totals of all its images,
// in bytes.
type ChangedArch struct {
	Arch    string `json:"arch"`
	Change  Change `json:"change"`
	OldSize int64  `json:"old_size"`
	NewSize int64  `json:"new_size"`
}

// ChangedKernel is a kernel that differs between the builds.
type ChangedKernel struct {
	Arch      string  `json:"arch"`
	Name      string  `json:"name"` // of the new kernel, unless it is removed
	Demangled string  `json:"demangled"`
	Change    Change  `json:"change"` // Added, Removed or Changed
	Old       *Kernel `json:"old"`
	New       *Kernel `json:"new"`
	// Deltas are new minus old figures, by name, if both are known and differ.
	Deltas map[string]int64 `json:"deltas"`
	// OldRemarks and NewRemarks are what the compilers report about a kernel that
	// got worse, see AddRemarks.
	OldRemarks []Remark `json:"old_remarks,omitempty"`
	NewRemarks []Remark `json:"new_remarks,omitempty"`
}

// Compare compares two builds. Images are paired by architecture, kernels by
// architecture and the Key of their name. Empty images are ignored. Kernels of
// images with the same bytes are the same kernels, which count once.
func Compare(old, new []Image) *Diff {
	if mixedRules(old, new) {
		old, new = withOneRule(old), withOneRule(new)
	}
	before, after := collect(old), collect(new)
	d := &Diff{Archs: []ChangedArch{}, Kernels: []ChangedKernel{}, Failures: []Failure{}}
	for name, o := range before {
		n := after[name]
		if n == nil {
			d.Archs = append(d.Archs, ChangedArch{Arch: name, Change: Removed, OldSize: o.size})
			continue
		}
		change := Same
		if !o.same(n) {
			change = Changed
		}
		d.Archs = append(d.Archs, ChangedArch{Arch: name, Change: change, OldSize: o.size, NewSize: n.size})
		d.kernels(name, o, n)
	}
	for name, n := range after {
		if before[name] == nil {
			d.Archs = append(d.Archs, ChangedArch{Arch: name, Change: Added, NewSize: n.size})
		}
	}
	slices.SortFunc(d.Archs, func(a, b ChangedArch) int { return cmp.Compare(a.Arch, b.Arch) })
	slices.SortStableFunc(d.Kernels, compareKernels)
	return d
}

// mixedRules reports whether the occupancy of some kernels is by another rule than that of others.
func mixedRules(builds ...[]Image) bool {
	var before, since bool
	for _, images := range builds {
		for i := range images {
			for k := range images[i].Kernels {
				if kernel := &images[i].Kernels[k]; kernel.BeforeLLVM23 != nil {
					same := kernel.BeforeLLVM23 == kernel.Occupancy
					before, since = before || same, since || !same
				}
			}
		}
	}
	return before && since
}

// withOneRule returns images whose kernels have the occupancy by the rule of LLVM 22: a compiler changes kernels, not how
// many waves a GPU has for them.
func withOneRule(images []Image) []Image {
	images = slices.Clone(images)
	for i := range images {
		images[i].Kernels = slices.Clone(images[i].Kernels)
		for k := range images[i].Kernels {
			if kernel := &images[i].Kernels[k]; kernel.BeforeLLVM23 != nil {
				kernel.Occupancy = kernel.BeforeLLVM23
			}
		}
	}
	return images
}

// arch holds the images of an architecture in one build.
type arch struct {
	size    int64
	hashes  []uint64
	kernels []*Kernel
	// first are the kernels of the first image with the same bytes, for kernels of
	// later ones.
	first map[*Kernel]*Kernel
}

// of returns the kernel that k is a copy of, or k.
func (a *arch) of(k *Kernel) *Kernel { return cmp.Or(a.first[k], k) }

// contents identify the bytes of an image.
type contents struct {
	arch string
	size int64
	hash uint64
}

func collect(images []Image) map[string]*arch {
	byName := make(map[string]*arch)
	seen := make(map[contents]*Image)
	for i := range images {
		img := &images[i]
		if img.Size == 0 || img.Host {
			continue
		}
		a := byName[img.Arch]
		if a == nil {
			a = &arch{first: make(map[*Kernel]*Kernel)}
			byName[img.Arch] = a
		}
		is := contents{img.Arch, img.Size, img.Hash}
		first := seen[is]
		if first == nil || img.Hash == 0 {
			seen[is], first = img, img
		}
		a.size += img.Size
		a.hashes = append(a.hashes, img.Hash)
		for k := range img.Kernels {
			a.kernels = append(a.kernels, &img.Kernels[k])
			if first != img && len(first.Kernels) == len(img.Kernels) {
				a.first[&img.Kernels[k]] = &first.Kernels[k]
			}
		}
	}
	return byName
}

// same reports whether two builds have the same images, in any order.
func (a *arch) same(b *arch) bool {
	slices.Sort(a.hashes)
	slices.Sort(b.hashes)
	return a.size == b.size && slices.Equal(a.hashes, b.hashes)
}

// maxNear is the largest number of kernels with the same key among which a
// partner is searched. Real files have a few, one for each image.
const maxNear = 256

// kernels compares the kernels of an architecture.
func (d *Diff) kernels(name string, before, after *arch) {
	old, new := before.kernels, after.kernels
	open := make(map[string][]*Kernel) // kernels of the old build by key
	for _, k := range old {
		key := Key(k.Name)
		open[key] = append(open[key], k)
	}
	// A kernel with the same name and figures is the best partner, then one with
	// the same name, then any with the same key.
	partner := make([]*Kernel, len(new))
	for _, fits := range []func(o, n *Kernel) bool{
		func(o, n *Kernel) bool { return o.Name == n.Name && equal(o, n) },
		func(o, n *Kernel) bool { return o.Name == n.Name },
		equal,
		func(o, n *Kernel) bool { return true },
	} {
		for i, n := range new {
			key := Key(n.Name)
			list := open[key]
			if partner[i] != nil || len(list) == 0 {
				continue
			}
			near := list[:min(len(list), maxNear)]
			if at := slices.IndexFunc(near, func(o *Kernel) bool { return fits(o, n) }); at >= 0 {
				partner[i] = list[at]
				copy(list[1:at+1], list[:at])
				open[key] = list[1:]
			}
		}
	}
	// A kernel in copies of an image is reported once. If the builds have different
	// numbers of copies, none is added or removed.
	type pair struct{ old, new *Kernel }
	seen := make(map[pair]bool)
	paired := make(map[*Kernel]bool)
	once := func(o, n *Kernel) bool {
		p := pair{o, n}
		first := !seen[p] && (o != nil || !paired[n]) && (n != nil || !paired[o])
		seen[p], paired[o], paired[n] = true, true, true
		return first
	}
	for i, n := range new {
		o := partner[i]
		switch {
		case o == nil || !once(before.of(o), after.of(n)):
		case equal(o, n):
			d.Equal++
		default:
			d.Kernels = append(d.Kernels, ChangedKernel{Arch: name, Name: n.Name, Demangled: n.Demangled, Change: Changed, Old: o, New: n, Deltas: deltas(o, n)})
		}
	}
	for i, n := range new {
		if partner[i] == nil && once(nil, after.of(n)) {
			d.Kernels = append(d.Kernels, ChangedKernel{Arch: name, Name: n.Name, Demangled: n.Demangled, Change: Added, New: n, Deltas: map[string]int64{}})
		}
	}
	for _, list := range open {
		for _, o := range list {
			if once(before.of(o), nil) {
				d.Kernels = append(d.Kernels, ChangedKernel{Arch: name, Name: o.Name, Demangled: o.Demangled, Change: Removed, Old: o, Deltas: map[string]int64{}})
			}
		}
	}
}

// Key returns the part of a kernel's name that is the same in all builds:
// without the inode of the source file, which OpenMP inserts, and the hash of
// the compilation unit, which HIP appends to the names of kernels with internal
// linkage in relocatable device code.
func Key(name string) string {
	const openMP = "__omp_offloading_"
	if rest, ok := strings.CutPrefix(name, openMP); ok {
		device, rest, _ := strings.Cut(rest, "_")
		inode, rest, found := strings.Cut(rest, "_")
		if found && hexadecimal(device) && hexadecimal(inode) {
			name = openMP + rest
		}
	}
	if i := strings.LastIndexByte(name, '.'); i > 0 {
		if linkage := name[:i]; strings.HasSuffix(linkage, ".intern") || strings.HasSuffix(linkage, ".static") {
			name = linkage
		}
	}
	return name
}

// hexadecimal reports whether a text is a number in small hexadecimal digits.
func hexadecimal(text string) bool {
	return text != "" && strings.Trim(text, "0123456789abcdef") == ""
}

// equal reports whether two kernels have the same figures.
func equal(a, b *Kernel) bool {
	x, y := *a, *b
	for _, k := range []*Kernel{&x, &y} { // ignore their location and their lines, which change with each edit
		k.Image, k.Members, k.Section, k.ID, k.Name, k.Demangled, k.Version, k.Sources = 0, nil, "", "", "", "", nil, nil
	}
	return reflect.DeepEqual(x, y)
}

// figures returns the figures of a kernel by their JSON names; unknown figures
// are nil.
func figures(k *Kernel) map[string]*int64 {
	all := map[string]*int64{
		"code_size": k.CodeSize, "sgprs": k.SGPRs, "vgprs": k.VGPRs, "agprs": k.AGPRs,
		"sgpr_spills": k.SGPRSpills, "vgpr_spills": k.VGPRSpills, "scratch": k.Scratch, "lds": k.LDS,
		"kernarg": k.Kernarg, "max_workgroup_size": k.MaxWorkgroupSize,
	}
	if k.Occupancy != nil {
		all["occupancy"] = new(int64(k.Occupancy.WavesPerSIMD))
	}
	return all
}

// Figure returns a figure of a kernel by its name in Deltas, or nil if it is
// unknown.
func Figure(k *Kernel, name string) *int64 { return figures(k)[name] }

func deltas(old, new *Kernel) map[string]int64 {
	d := make(map[string]int64)
	before := figures(old)
	for name, n := range figures(new) {
		if o := before[name]; o != nil && n != nil && *n != *o {
			d[name] = *n - *o
		}
	}
	return d
}

// worse reports whether the kernel spills more, uses more scratch or has fewer
// waves.
func (k *ChangedKernel) worse() bool { return k.rank() < 2 }

// grew reports whether a figure of the kernel is larger in the new build.
func (k *ChangedKernel) grew(figures ...string) bool {
	return slices.ContainsFunc(figures, func(f string) bool { return k.Deltas[f] > 0 })
}

// rank returns the severity of a change, for sorting.
func (k *ChangedKernel) rank() int {
	switch {
	case k.grew("sgpr_spills", "vgpr_spills", "scratch"):
		return 0
	case k.Deltas["occupancy"] < 0:
		return 1
	case k.Change == Removed:
		return 2
	}
	return 3
}

func compareKernels(a, b ChangedKernel) int {
	size := func(k ChangedKernel) int64 { return max(k.Deltas["code_size"], -k.Deltas["code_size"]) }
	return cmp.Or(
		cmp.Compare(a.rank(), b.rank()), cmp.Compare(size(b), size(a)),
		cmp.Compare(a.Arch, b.Arch), cmp.Compare(a.Name, b.Name), image(a)-image(b),
	)
}

// image returns the index of the image of a kernel: several images may have
// kernels of the same name.
func image(k ChangedKernel) int {
	if k.New != nil {
		return k.New.Image
	}
	return k.Old.Image
}
