package devicelink

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/object"
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
		mach := order.Uint32(data[48:]) & 0xff // EF_AMDGPU_MACH
		processor, ok := machs[mach]
		if !ok {
			return "", "", fmt.Errorf("an AMD GPU of number 0x%x in e_flags, which is not known", mach)
		}
		return "amdgcn-amd-amdhsa", processor, nil
	default:
		return "", "", fmt.Errorf("ELF machine %d is none that images are made for", machine)
	}
}

// machs are AMD's processors by their numbers in e_flags.
var machs = map[uint32]string{
	0x20: "gfx600",
	0x21: "gfx601",
	0x22: "gfx700",
	0x23: "gfx701",
	0x24: "gfx702",
	0x25: "gfx703",
	0x26: "gfx704",
	0x28: "gfx801",
	0x29: "gfx802",
	0x2a: "gfx803",
	0x2b: "gfx810",
	0x2c: "gfx900",
	0x2d: "gfx902",
	0x2e: "gfx904",
	0x2f: "gfx906",
	0x30: "gfx908",
	0x31: "gfx909",
	0x32: "gfx90c",
	0x33: "gfx1010",
	0x34: "gfx1011",
	0x35: "gfx1012",
	0x36: "gfx1030",
	0x37: "gfx1031",
	0x38: "gfx1032",
	0x39: "gfx1033",
	0x3a: "gfx602",
	0x3b: "gfx705",
	0x3c: "gfx805",
	0x3d: "gfx1035",
	0x3e: "gfx1034",
	0x3f: "gfx90a",
	0x40: "gfx940",
	0x41: "gfx1100",
	0x42: "gfx1013",
	0x43: "gfx1150",
	0x44: "gfx1103",
	0x45: "gfx1036",
	0x46: "gfx1101",
	0x47: "gfx1102",
	0x48: "gfx1200",
	0x49: "gfx1250",
	0x4a: "gfx1151",
	0x4b: "gfx941",
	0x4c: "gfx942",
	0x4e: "gfx1201",
	0x4f: "gfx950",
	0x51: "gfx9-generic",
	0x52: "gfx10-1-generic",
	0x53: "gfx10-3-generic",
	0x54: "gfx11-generic",
	0x55: "gfx1152",
	0x58: "gfx1153",
	0x59: "gfx12-generic",
	0x5a: "gfx1251",
	0x5f: "gfx9-4-generic",
}
