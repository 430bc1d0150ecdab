package target

import (
	"fmt"
	"strings"
)

// spirvProcessor is HIP's name for AMD's portable SPIR-V code.
const spirvProcessor = "amdgcnspirv"

// Complete parses a target in one of several forms and returns it in canonical
// form:
//
//   - an entry ID, in today's or an older form
//     (hip-amdgcn-amd-amdhsa--gfx906:xnack+:sramecc-, hip-amdgcn-amd-amdhsa-gfx906);
//   - a triple, with or without target ID, of the given kind (amdgcn-amd-amdhsa--gfx906);
//   - a target ID, which the given kind completes: gfx942 and gfx90a:xnack+ for
//     HIP and OpenMP, sm_70 for OpenMP.
//
// kind may be empty if s is an entry ID. Unlike LLVM's tools, Complete checks
// target IDs: see CheckTargetID.
func Complete(s string, kind Kind) (ID, error) {
	full := s
	first, rest, _ := strings.Cut(s, "-")
	if !Kind(first).Valid() {
		switch {
		case parseArch(first) != ArchUnknown && strings.Contains(rest, "-"):
			if kind == "" {
				return ID{}, fmt.Errorf("target %q has no offload kind: prefix it with host-, openmp-, hip- or hipv4-", s)
			}
			full = string(kind) + "-" + s
		case looksLikeProcessor(Triple{Arch: ArchAMDGCN}, processorOf(s)):
			triple, err := defaultTriple(s, kind)
			if err != nil {
				return ID{}, err
			}
			full = string(kind) + "-" + triple + "-" + s
		}
	}
	id, err := Parse(full)
	if err != nil {
		return ID{}, fmt.Errorf("target %q is neither an entry ID (kind-arch-vendor-os-env[-targetid]) nor a target ID (gfx942, gfx90a:xnack+, sm_70)", s)
	}
	id.Text = s
	for {
		if err := id.validate(); err != nil {
			return ID{}, err
		}
		if err := CheckTargetID(id.Triple, id.TargetID); err != nil {
			return ID{}, err
		}
		id = id.Canonical()
		// A processor that stood in another field of the triple can now be in that of the
		// environment, where Parse takes it for a target ID.
		again, err := Parse(id.Text)
		if err != nil || again.TargetID == id.TargetID {
			return id, nil
		}
		id = again
	}
}

// processorOf returns the processor of a target ID.
func processorOf(targetID string) string {
	processor, _, _ := strings.Cut(targetID, ":")
	return processor
}

// defaultTriple returns the triple that clang uses for a target ID of the kind,
// with four fields.
func defaultTriple(targetID string, kind Kind) (string, error) {
	nvidia := strings.HasPrefix(targetID, "sm_")
	switch {
	case kind == "":
		return "", fmt.Errorf("target %q needs an offload kind to complete it, openmp or hip", targetID)
	case kind != OpenMP && kind != HIP && kind != HIPv4:
		return "", fmt.Errorf("target %q does not have offload kind %s", targetID, kind)
	case nvidia && kind != OpenMP:
		return "", fmt.Errorf("target %q does not have offload kind %s, which is for AMD GPUs", targetID, kind)
	case nvidia:
		return "nvptx64-nvidia-cuda-", nil
	case processorOf(targetID) == spirvProcessor:
		return "spirv64-amd-amdhsa-", nil
	}
	return "amdgcn-amd-amdhsa-", nil
}
