// Package spirv reads the kernels of SPIR-V modules: the entry points whose
// execution model is Kernel. The format is that of the SPIR-V specification.
package spirv

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Kernel is a kernel of a module.
type Kernel struct {
	Name []byte
	// LocalSize is the workgroup size that the kernel requires, nil for any.
	LocalSize *[3]int64
	// SubgroupSize is the number of work-items of a subgroup, nil for any.
	SubgroupSize *int64
}

const (
	magic       = 0x07230203
	headerWords = 5

	opEntryPoint    = 15
	opExecutionMode = 16
	opFunction      = 54

	modelKernel = 6

	modeLocalSize    = 17
	modeSubgroupSize = 35
)

// Is reports whether data begins like a SPIR-V module, of either byte order.
func Is(data []byte) bool {
	return len(data) >= 4*headerWords && (binary.LittleEndian.Uint32(data) == magic || binary.BigEndian.Uint32(data) == magic)
}

// Kernels returns the kernels of a module in their order.
func Kernels(data []byte) ([]Kernel, error) {
	if !Is(data) {
		return nil, fmt.Errorf("no SPIR-V module: found % x, expected the magic number %#x", data[:min(len(data), 4)], magic)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if order.Uint32(data) != magic {
		order = binary.BigEndian
	}
	var kernels []Kernel
	byID := make(map[uint32]int)
	for at := 4 * headerWords; at < len(data); {
		rest := data[at:]
		if len(rest) < 4 {
			return nil, fmt.Errorf("SPIR-V at byte 0x%x: found %d bytes, expected an instruction of 4 or more", at, len(rest))
		}
		head := order.Uint32(rest)
		words, op := int(head>>16), head&0xffff
		if words == 0 || words > len(rest)/4 {
			return nil, fmt.Errorf("SPIR-V at byte 0x%x: an instruction of %d words, expected 1 to %d", at, words, len(rest)/4)
		}
		operands := rest[4 : 4*words]
		operand := func(i int) uint32 { return order.Uint32(operands[4*i:]) }
		switch {
		case op == opFunction:
			return kernels, nil // what is read lies before the functions
		case op == opEntryPoint && words >= 4 && operand(0) == modelKernel:
			name, ok := literal(operands[8:], order)
			if !ok {
				return nil, fmt.Errorf("SPIR-V at byte 0x%x: the name of an entry point does not end", at)
			}
			byID[operand(1)] = len(kernels)
			kernels = append(kernels, Kernel{Name: name})
		case op == opExecutionMode && words >= 3:
			i, ok := byID[operand(0)]
			switch mode := operand(1); {
			case !ok:
			case mode == modeLocalSize && words >= 6:
				kernels[i].LocalSize = &[3]int64{int64(operand(2)), int64(operand(3)), int64(operand(4))}
			case mode == modeSubgroupSize && words >= 4:
				size := int64(operand(2))
				kernels[i].SubgroupSize = &size
			}
		}
		at += 4 * words
	}
	return kernels, nil
}

// literal returns the string that words begin with; it ends with a zero.
func literal(words []byte, order binary.ByteOrder) ([]byte, bool) {
	if order == binary.LittleEndian {
		name, _, ok := bytes.Cut(words, []byte{0})
		return name, ok
	}
	var name []byte
	for ; len(words) >= 4; words = words[4:] {
		for i := 3; i >= 0; i-- {
			if words[i] == 0 {
				return name, true
			}
			name = append(name, words[i])
		}
	}
	return nil, false
}
