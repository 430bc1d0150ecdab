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

	machineX8664   = 62
	machineAArch64 = 183
	machineAMDGPU  = 224
)

// feature is a feature of target IDs.
type feature struct {
	name  string
	shift uint // of its two bits in the flags
}

// settings are the meanings of the two bits of a feature in the flags.
var settings = [4]string{2: "-", 3: "+"}

// checkDevice compares the ELF header of an image with the target ID of its entry. image
// names the image in the error. Images that are not ELF files, and unknown processors, are
// accepted.
func checkDevice(id string, head []byte, image string) error {
	_, targetID := splitID(id)
	if len(head) < elfHeaderSize || !bytes.HasPrefix(head, []byte("\x7fELF\x02\x01")) || targetID == "" {
		return nil
	}
	processor, _, _ := strings.Cut(targetID, ":")
	machine := binary.LittleEndian.Uint16(head[18:])
	amd := strings.HasPrefix(processor, "gfx")
	switch {
	case amd && (machine == machineX8664 || machine == machineAArch64):
		return fmt.Errorf("%s is code for a host (ELF machine %d), not for %s: correct its target", image, machine, targetID)
	case amd && machine != machineAMDGPU:
		return fmt.Errorf("%s is code for ELF machine %d, not for %s: correct its target", image, machine, targetID)
	case !amd:
		return nil
	}
	flags := binary.LittleEndian.Uint32(head[48:])
	built := processors[flags&0xff]
	if built == "" {
		return nil
	}
	always := fixed(processor)
	if head[8] >= 2 { // before version 4 of the ABI, the flags of features have another meaning
		for _, f := range features {
			if sign := settings[flags>>f.shift&3]; sign != "" && !(sign == "+" && slices.Contains(always, f.name)) {
				built += ":" + f.name + sign
			}
		}
	}
	parts := slices.DeleteFunc(strings.Split(targetID, ":"), func(part string) bool {
		name, on := strings.CutSuffix(part, "+")
		return on && slices.Contains(always, name)
	})
	slices.Sort(parts[1:])
	if builtProcessor, _, _ := strings.Cut(built, ":"); builtProcessor != processor || head[8] >= 2 && built != strings.Join(parts, ":") {
		return fmt.Errorf("%s is code for %s, not for %s: correct its target", image, built, targetID)
	}
	return nil
}
