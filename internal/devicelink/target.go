package devicelink

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/object"
)

// Target returns the triple and the processor of a linked image, an ELF file,
// as its header has them. The processor is known for AMD GPUs alone.
func Target(data []byte) (triple, processor string, err error) {
	const header = 64
	if !object.Identify(data).IsELF() || len(data) < header {
		return "", "", errors.New("expected an ELF file")
	}
	var order binary.ByteOrder = binary.LittleEndian
	if data[5] == 2 {
		order = binary.BigEndian
	}
	switch machine := elf.Machine(order.Uint16(data[18:])); machine {
	case elf.EM_X86_64:
		return "x86_64--", "", nil
	case elf.EM_AARCH64:
		return "aarch64--", "", nil
	case elf.EM_PPC64:
		if data[5] == 1 {
			return "powerpc64le--", "", nil
		}
		return "powerpc64--", "", nil
	case elf.EM_S390:
		return "s390x--", "", nil
	case elf.EM_LOONGARCH:
		return "loongarch64--", "", nil
	case elf.EM_CUDA:
		return "nvptx64-nvidia-cuda", "", nil
	case elf.EM_AMDGPU:
		mach := uint8(order.Uint32(data[48:])) // EF_AMDGPU_MACH
		processor := target.AMDGPUByMach(mach)
		if processor == "" {
			return "", "", fmt.Errorf("unknown AMD GPU 0x%x in e_flags", mach)
		}
		return "amdgcn-amd-amdhsa", processor, nil
	default:
		return "", "", fmt.Errorf("ELF machine %d has no offload target", machine)
	}
}
