package check

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

const (
	elfHeaderSize = 64
	machineAMDGPU = 224
	machineX86    = 62
	machineARM64  = 183
)

// processors are the AMD GPUs by their number in the flags of an ELF header.
var processors = map[uint32]string{
	0x20: "gfx600", 0x21: "gfx601", 0x3a: "gfx602",
	0x22: "gfx700", 0x23: "gfx701", 0x24: "gfx702", 0x25: "gfx703", 0x26: "gfx704", 0x3b: "gfx705",
	0x28: "gfx801", 0x29: "gfx802", 0x2a: "gfx803", 0x3c: "gfx805", 0x2b: "gfx810",
	0x2c: "gfx900", 0x2d: "gfx902", 0x2e: "gfx904", 0x2f: "gfx906", 0x30: "gfx908", 0x31: "gfx909",
	0x3f: "gfx90a", 0x32: "gfx90c", 0x40: "gfx940", 0x4b: "gfx941", 0x4c: "gfx942", 0x4f: "gfx950",
	0x33: "gfx1010", 0x34: "gfx1011", 0x35: "gfx1012", 0x42: "gfx1013",
	0x36: "gfx1030", 0x37: "gfx1031", 0x38: "gfx1032", 0x39: "gfx1033", 0x3e: "gfx1034", 0x3d: "gfx1035", 0x45: "gfx1036",
	0x41: "gfx1100", 0x46: "gfx1101", 0x47: "gfx1102", 0x44: "gfx1103",
	0x43: "gfx1150", 0x4a: "gfx1151", 0x55: "gfx1152", 0x58: "gfx1153",
	0x48: "gfx1200", 0x4e: "gfx1201", 0x49: "gfx1250", 0x5a: "gfx1251",
	0x51: "gfx9-generic", 0x5f: "gfx9-4-generic", 0x52: "gfx10-1-generic", 0x53: "gfx10-3-generic",
	0x54: "gfx11-generic", 0x59: "gfx12-generic",
}

// settings are what the two bits of a feature mean in the flags.
var settings = map[uint32]string{0: "", 1: "", 2: "-", 3: "+"}

// checkDevice compares the ELF header that an image begins with to the target ID
// of its entry; the error calls it by what image says. Images that are no ELF files, and processors that are not known
// here, pass.
func checkDevice(id string, head []byte, image string) error {
	_, targetID := splitID(id)
	if len(head) < elfHeaderSize || !bytes.HasPrefix(head, []byte("\x7fELF\x02\x01")) || targetID == "" {
		return nil
	}
	processor, _, _ := strings.Cut(targetID, ":")
	machine := binary.LittleEndian.Uint16(head[18:])
	amd := strings.HasPrefix(processor, "gfx")
	switch {
	case amd && (machine == machineX86 || machine == machineARM64):
		return fmt.Errorf("%s is code for a host (ELF machine %d), not for %s: correct the target that it is listed under", image, machine, targetID)
	case amd && machine != machineAMDGPU:
		return fmt.Errorf("%s is code for ELF machine %d, not for %s: correct the target that it is listed under", image, machine, targetID)
	case !amd:
		return nil
	}
	flags := binary.LittleEndian.Uint32(head[48:])
	built, known := processors[flags&0xff]
	if !known {
		return nil
	}
	if head[8] >= 2 { // Before version 4 of the ABI the flags of features mean something else.
		for i, feature := range []string{"sramecc", "xnack"} {
			if sign := settings[flags>>(10-2*i)&3]; sign != "" {
				built += ":" + feature + sign
			}
		}
	}
	parts := strings.Split(targetID, ":")
	slices.Sort(parts[1:])
	if builtProcessor, _, _ := strings.Cut(built, ":"); builtProcessor != processor || head[8] >= 2 && built != strings.Join(parts, ":") {
		return fmt.Errorf("%s is code for %s, not for %s: correct the target that it is listed under", image, built, targetID)
	}
	return nil
}
