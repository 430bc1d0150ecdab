// Package occupancy computes how many waves of a kernel an AMD GPU runs on each
// SIMD at a time, by the formulas of LLVM's AMDGPU backend: the numbers that
// -Rpass-analysis=kernel-resource-usage prints. The constants of the processors
// are those of LLVM 22; LLVM 23 and newer also count the SGPRs of the trap handler.
package occupancy

import "math"

// Usage is what a kernel uses and was compiled for.
type Usage struct {
	WavefrontSize int64 // 32 or 64
	// SGPRs and VGPRs are used; on processors with one file for both, VGPRs
	// include the AGPRs. Allocated ones may be more: LLVM fills up what the
	// waves permit anyway.
	SGPRs, VGPRs                   int64
	AllocatedSGPRs, AllocatedVGPRs int64
	// LDS is what a workgroup takes, in bytes.
	LDS int64
	// MinWorkgroup and MaxWorkgroup are the work-items that a workgroup may have.
	MinWorkgroup, MaxWorkgroup int64
	// WGPMode reports whether workgroups run on a WGP, not on one of its CUs. It
	// has no effect for processors without WGPs.
	WGPMode bool
	// TrapHandler reports whether each wave allocates SGPRs for the trap handler, as LLVM 23 and newer assume. It has
	// no effect for processors with a fixed number of SGPRs for each wave.
	TrapHandler bool
}

// SGPRs of processors whose waves share them, see CountsSGPRs.
const (
	trapHandlerSGPRs       = 16
	sgprs, sgprGranule     = 800, 16
	sgprsSI, sgprGranuleSI = 512, 8 // gfx6 and gfx7
)

// CountsSGPRs reports whether the occupancy on the processor depends on SGPRs.
func (p *Processor) CountsSGPRs() bool { return len(p.sgprSteps) > 0 }

// Result is the occupancy of a kernel, in waves per SIMD.
type Result struct {
	Waves int64
	Max   int64 // of the processor
	// Limits names what keeps Waves below Max: vgprs, sgprs, workgroup, lds, or
	// requested when it is nothing of these. It is empty if Waves is Max.
	Limits []string
	// What each resource permits on its own.
	VGPRs, SGPRs, Workgroup, LDS int64
}

// Of returns the occupancy that a launch of the kernel reaches at most, and
// false if the processor has no waves of that size, or if a number is out of
// range.
func (p *Processor) Of(u Usage) (Result, bool) {
	w, m := p.waves(u.WavefrontSize), p.cu
	if u.WGPMode && p.wgp != nil {
		m = p.wgp
	}
	if w == nil || m == nil || !u.valid() {
		return Result{}, false
	}
	r := Result{
		Max:       w.most,
		VGPRs:     w.byVGPRs(u.VGPRs),
		SGPRs:     p.bySGPRs(u.SGPRs, w.most, u.TrapHandler),
		Workgroup: groups(u, m, w, 0),
		LDS:       groups(u, m, w, u.LDS),
	}
	r.Waves = min(w.byVGPRs(u.AllocatedVGPRs), p.bySGPRs(u.AllocatedSGPRs, w.most, u.TrapHandler), r.LDS)
	r.Limits = r.limits()
	return r, true
}

// valid reports whether the numbers are ones that the formulas can take: they
// come from files.
func (u *Usage) valid() bool {
	for _, n := range []int64{u.SGPRs, u.VGPRs, u.AllocatedSGPRs, u.AllocatedVGPRs, u.LDS} {
		if n < 0 || n > math.MaxUint32 {
			return false
		}
	}
	return u.MinWorkgroup >= 1 && u.MaxWorkgroup >= u.MinWorkgroup && u.MaxWorkgroup <= math.MaxInt32
}

func (w *waves) byVGPRs(n int64) int64 {
	if n < w.granule {
		return w.most
	}
	return min(w.most, max(1, w.vgprs/roundUp(n, w.granule)))
}

func (p *Processor) bySGPRs(n, most int64, trapHandler bool) int64 {
	if len(p.sgprSteps) == 0 {
		return most
	}
	if p.sgprFixed > 0 {
		n = p.sgprFixed
	}
	if trapHandler {
		all, granule := int64(sgprs), int64(sgprGranule)
		if p.Family < 8 {
			all, granule = sgprsSI, sgprGranuleSI
		}
		return min(most, max(1, all/(roundUp(max(n, 1), granule)+trapHandlerSGPRs)))
	}
	for _, step := range p.sgprSteps {
		if n <= step[0] {
			return min(step[1], most)
		}
	}
	return min(p.sgprSteps[len(p.sgprSteps)-1][1], most)
}

// groups returns the waves per SIMD when workgroups of the kernel, each with so
// many bytes of LDS, fill what shares the LDS.
func groups(u Usage, m *mode, w *waves, lds int64) int64 {
	byLDS := max(m.lds/max(lds, 1), 1)
	slots := w.most * m.simds
	fit := func(size int64) (waves, groups int64) {
		waves = (size-1)/u.WavefrontSize + 1
		if waves == 1 {
			return waves, min(slots, byLDS)
		}
		return waves, min(slots/waves, m.barriers, byLDS)
	}
	loWaves, loGroups := fit(u.MinWorkgroup)
	hiWaves, hiGroups := fit(u.MaxWorkgroup)
	least, most := hiWaves*hiGroups, loWaves*loGroups
	if least >= most {
		most = least
	} else if left := (slots - loGroups*loWaves) / loGroups; left > 0 {
		most += loGroups * min(left, hiWaves-loWaves)
	}
	return min(max(roundUp(most, m.simds)/m.simds, 1), w.most)
}

func (r *Result) limits() []string {
	limits := []string{}
	if r.Waves == r.Max {
		return limits
	}
	if r.VGPRs == r.Waves {
		limits = append(limits, "vgprs")
	}
	if r.SGPRs == r.Waves {
		limits = append(limits, "sgprs")
	}
	if r.Workgroup == r.Waves {
		limits = append(limits, "workgroup")
	}
	if r.LDS == r.Waves && r.LDS < r.Workgroup {
		limits = append(limits, "lds")
	}
	if len(limits) == 0 {
		limits = append(limits, "requested")
	}
	return limits
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }
