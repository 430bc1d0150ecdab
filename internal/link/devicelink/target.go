package devicelink

import (
	"encoding/binary"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/elf"
	"github.com/rules-offload/rules_offload/internal/elf/object"
)

// HeaderError reports a linked image without a valid ELF header.
type HeaderError struct {
	Class, Order byte // bytes 4 and 5 of the file; 0 if it has fewer than 16 bytes
	Size         int  // of the file, in bytes
}

// Error returns the message.
func (e *HeaderError) Error() string { return "expected an ELF file" }

// Target returns the triple and the processor of a linked image, an ELF file,
// as its header has them. The processor is known for AMD GPUs alone. If the file has no
// valid header, the error is a *HeaderError.
func Target(data []byte) (triple, processor string, err error) {
	header := &HeaderError{Size: len(data)}
	if len(data) >= elf.IdentSize {
		header.Class, header.Order = data[4], data[5]
	}
	known := header.Class == elf.Class32 || header.Class == elf.Class64
	ordered := header.Order == elf.LittleEndian || header.Order == elf.BigEndian
	if !known || !ordered || !object.Identify(data).IsELF() || len(data) < elf.HeaderSize {
		return "", "", header
	}
	var order binary.ByteOrder = binary.LittleEndian
	if data[5] == elf.BigEndian {
		order = binary.BigEndian
	}
	switch machine := order.Uint16(data[18:]); machine {
	case elf.MachineX8664:
		return "x86_64--", "", nil
	case elf.MachineAArch64:
		return "aarch64--", "", nil
	case elf.MachinePPC64:
		if data[5] == elf.LittleEndian {
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
