package kernels

import (
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/internal/devicecode/cubin"
	"github.com/rules-offload/rules_offload/internal/devicecode/occupancy"
	"github.com/rules-offload/rules_offload/internal/devicecode/ptx"
	"github.com/rules-offload/rules_offload/internal/devicecode/spirv"
	"github.com/rules-offload/rules_offload/internal/elf/codeobject"
	"github.com/rules-offload/rules_offload/internal/llvm/bitcode"
	"github.com/rules-offload/rules_offload/internal/llvm/dialect"
)

// Describe reads the kernels of an image and sets Arch and the fields after it.
// arch is the arch stated by the container; for a code object, Arch is that of
// the object itself. Images of unknown formats have no kernels. Kernels do not
// refer to bytes of data; their Image, Members, Section and ID are those of img.
// DemangleAll sets Demangled.
func (img *Image) Describe(data []byte, arch string) error {
	img.Arch = arch
	var err error
	switch img.Format = Identify(data); img.Format {
	case CodeObject:
		err = img.codeObject(data)
	case Cubin:
		err = img.cubin(data)
	case PTX:
		img.ptx(data)
	case SPIRV:
		err = img.spirv(data)
	case Bitcode:
		err = img.bitcode(data)
	}
	if err != nil {
		img.Kernels = nil
		return err
	}
	slices.SortStableFunc(img.Kernels, func(a, b Kernel) int { return strings.Compare(a.Name, b.Name) })
	img.stamp()
	return nil
}

// Identify returns the format of an image by its first bytes.
func Identify(data []byte) Format {
	switch {
	case codeobject.Is(data):
		return CodeObject
	case cubin.Is(data):
		return Cubin
	case spirv.Is(data):
		return SPIRV
	case bitcode.Is(data):
		return Bitcode
	case ptx.Is(data):
		return PTX
	}
	return Other
}

func (img *Image) codeObject(data []byte) error {
	o, err := codeobject.Parse(data)
	if err != nil {
		return err
	}
	img.Arch, img.Version, img.Target, img.Empty = o.ID(), o.Version, o.CodeObject, o.Empty()
	for _, s := range o.Sections {
		img.Sections = append(img.Sections, Section{Name: string(s.Name), Size: int64(s.Size)})
	}
	for i := range o.Kernels {
		img.Kernels = append(img.Kernels, fromCodeObject(o, &o.Kernels[i]))
	}
	return nil
}

// fromCodeObject describes a kernel of a code object.
func fromCodeObject(o *codeobject.Object, k *codeobject.Kernel) Kernel {
	d := Kernel{
		Name: string(k.Name), CodeSize: k.CodeSize, SGPRs: k.SGPRs, VGPRs: k.VGPRs, AGPRs: k.AGPRs,
		SGPRSpills: k.SGPRSpills, VGPRSpills: k.VGPRSpills, Scratch: k.Scratch, LDS: k.LDS, Kernarg: k.KernargSize,
		MaxWorkgroupSize: k.MaxWorkgroupSize, ReqdWorkgroup: k.ReqdWorkgroupSize, WavefrontSize: k.WavefrontSize,
		DynamicStack: k.DynamicStack, WGPMode: k.WGPMode,
	}
	if o.Version > 0 {
		d.Version = new(int64(o.Version))
	}
	p := occupancy.ByMach(o.Mach)
	if p != nil && !p.AGPRs && k.AGPRs == nil && k.VGPRs != nil {
		d.AGPRs = new(int64) // the processor has none
	}
	if k.OpenMP != nil {
		if mode, ok := map[uint8]string{1: "generic", 2: "spmd", 3: "generic-spmd"}[k.OpenMP.Mode]; ok {
			d.OMPMode = &mode
		}
	}
	if usage, ok := usageOf(o, k); ok {
		d.Occupancy = occupancyOf(p, usage)
		if p.CountsSGPRs() {
			d.BeforeLLVM23 = d.Occupancy
			if dialect.Of(o.Clang).TrapHandler {
				usage.TrapHandler = true
				d.Occupancy = occupancyOf(p, usage)
			}
		}
	}
	return d
}

// occupancyOf returns the occupancy on a processor, nil if it is not known.
func occupancyOf(p *occupancy.Processor, u occupancy.Usage) *Occupancy {
	r, ok := p.Of(u)
	if !ok {
		return nil
	}
	return &Occupancy{
		WavesPerSIMD: int(r.Waves), Max: int(r.Max), Limits: r.Limits,
		Bounds: Bounds{VGPRs: int(r.VGPRs), SGPRs: int(r.SGPRs), Workgroup: int(r.Workgroup), LDS: int(r.LDS)},
	}
}

// usageOf returns the resources on which the occupancy of a kernel depends, or
// false if the code object does not state all of them: for unknown processors,
// version 2, missing metadata, and VGPRs that waves allocate dynamically.
func usageOf(o *codeobject.Object, k *codeobject.Kernel) (occupancy.Usage, bool) {
	p, d := occupancy.ByMach(o.Mach), k.Descriptor
	if p == nil || d == nil || o.Version < 3 || k.WavefrontSize == nil || k.SGPRs == nil || k.VGPRs == nil ||
		k.LDS == nil || k.MaxWorkgroupSize == nil || d.DynamicVGPRs() {
		return occupancy.Usage{}, false
	}
	granule, ok := p.VGPREncodingGranule(*k.WavefrontSize)
	if !ok {
		return occupancy.Usage{}, false
	}
	u := occupancy.Usage{
		WavefrontSize: *k.WavefrontSize, SGPRs: *k.SGPRs, VGPRs: *k.VGPRs,
		AllocatedSGPRs: *k.SGPRs, AllocatedVGPRs: d.VGPRBlocks() * granule,
		LDS: *k.LDS, MinWorkgroup: 1, MaxWorkgroup: *k.MaxWorkgroupSize,
	}
	if blocks := d.SGPRBlocks(); p.Family < 10 && (*k.SGPRs+7)/8 < blocks {
		u.AllocatedSGPRs = blocks*8 - 7 // the smallest number that requires this number of blocks
	}
	if p.Family >= 10 {
		u.WGPMode = d.WGPMode()
		if k.WGPMode != nil {
			u.WGPMode = *k.WGPMode
		}
	}
	if size := k.ReqdWorkgroupSize; size != nil {
		const most = 1 << 20 // of one dimension; no GPU has more than 1024 in total
		for _, n := range size {
			if n < 1 || n > most {
				return occupancy.Usage{}, false
			}
		}
		u.MinWorkgroup = size[0] * size[1] * size[2]
	}
	return u, true
}

func (img *Image) cubin(data []byte) error {
	o, err := cubin.Parse(data)
	if err != nil {
		return err
	}
	if img.Arch == "" {
		img.Arch = o.Arch()
	}
	for _, s := range o.Sections {
		img.Sections = append(img.Sections, Section{Name: string(s.Name), Size: int64(s.Size)})
	}
	for _, k := range o.Kernels {
		img.Kernels = append(img.Kernels, Kernel{
			Name: string(k.Name), CodeSize: &k.CodeSize, VGPRs: k.Registers, Scratch: k.Frame, LDS: &k.Shared,
			Kernarg: k.Params, MaxWorkgroupSize: k.MaxThreads, ReqdWorkgroup: k.ReqdWorkgroup,
		})
	}
	return nil
}

func (img *Image) ptx(data []byte) {
	if arch := ptx.Target(data); img.Arch == "" {
		img.Arch = arch
	}
	for _, k := range ptx.Kernels(data) {
		img.Kernels = append(img.Kernels, Kernel{Name: string(k.Name), MaxWorkgroupSize: k.MaxThreads, ReqdWorkgroup: k.ReqdWorkgroup})
	}
}

func (img *Image) spirv(data []byte) error {
	m, err := spirv.Parse(data)
	if err != nil {
		return err
	}
	img.Empty = len(m.Kernels) == 0 && m.Variables == 0
	for _, k := range m.Kernels {
		img.Kernels = append(img.Kernels, Kernel{Name: string(k.Name), ReqdWorkgroup: k.LocalSize, WavefrontSize: k.SubgroupSize})
	}
	return nil
}

func (img *Image) bitcode(data []byte) error {
	names, err := bitcode.Kernels(data)
	for _, name := range names {
		img.Kernels = append(img.Kernels, Kernel{Name: name})
	}
	return err
}

// Copy sets Arch and the fields after it to those of an image with the same
// bytes.
func (img *Image) Copy(from *Image) {
	img.Format, img.Version, img.Target = from.Format, from.Version, from.Target
	img.Empty, img.Sections, img.Sources, img.NoSources, img.CodeHash = from.Empty, from.Sections, from.Sources, from.NoSources, from.CodeHash
	if img.Format == CodeObject || img.Arch == "" {
		img.Arch = from.Arch
	}
	img.Kernels = slices.Clone(from.Kernels)
	img.stamp()
}

// stamp sets the fields of the kernels that identify their image.
func (img *Image) stamp() {
	members := img.Members
	if members == nil {
		members = []string{}
	}
	for i := range img.Kernels {
		k := &img.Kernels[i]
		k.Image, k.Members, k.Section, k.ID, k.Arch = img.Index, members, img.Section, img.ID, img.Arch
	}
}
