package devicelink

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/object"
	"github.com/rules-offload/rules_offload/engine/target"
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
	const amdgpu = 224
	switch machine := order.Uint16(data[18:]); machine {
	case 62:
		return "x86_64--", "", nil
	case 183:
		return "aarch64--", "", nil
	case 21:
		if data[5] == 1 {
			return "powerpc64le--", "", nil
		}
		return "powerpc64--", "", nil
	case 22:
		return "s390x--", "", nil
	case 258:
		return "loongarch64--", "", nil
	case 190:
		return "nvptx64-nvidia-cuda", "", nil
	case amdgpu:
		mach := uint8(order.Uint32(data[48:])) // EF_AMDGPU_MACH
		processor := target.AMDGPUByMach(mach)
		if processor == "" {
			return "", "", fmt.Errorf("an AMD GPU of number 0x%x in e_flags, which is not known", mach)
		}
		return "amdgcn-amd-amdhsa", processor, nil
	default:
		return "", "", fmt.Errorf("ELF machine %d is none that images are made for", machine)
	}
}
