package devicelink

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/object"
)

// Target returns the triple and the processor of a linked image, an ELF file,
// as its header has them. The processor is known for AMD GPUs alone.
func Target(data []byte) (triple, processor string, err error) {
	if !object.Identify(data).IsELF() || len(data) < elf.HeaderSize {
		return "", "", errors.New("expected an ELF file")
	}
	var order binary.ByteOrder = binary.LittleEndian
	if data[5] == 2 {
		order = binary.BigEndian
	}
	switch machine := order.Uint16(data[18:]); machine {
	case elf.MachineX8664:
		return "x86_64--", "", nil
	case elf.MachineAArch64:
		return "aarch64--", "", nil
	case elf.MachinePPC64:
		if data[5] == 1 {
			return "powerpc64le--", "", nil
		}
		return "powerpc64--", "", nil
	case elf.MachineS390:
		return "s390x--", "", nil
	case elf.MachineLoongArch:
		return "loongarch64--", "", nil
	case elf.MachineCUDA:
		return "nvptx64-nvidia-cuda", "", nil
	case elf.MachineAMDGPU:
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
