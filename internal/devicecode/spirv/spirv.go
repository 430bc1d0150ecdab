// Package spirv reads the kernels of SPIR-V modules, the entry points whose
// execution model is Kernel, and counts exported variables. The format is that of
// the SPIR-V specification.
package spirv

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Module is what a module offers to a program.
type Module struct {
	// Kernels are the kernels in their order.
	Kernels []Kernel
	// Variables is the number of exported variables, without __hip_cuid_*.
	Variables int
}

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
	opVariable      = 59
	opDecorate      = 71

	modelKernel = 6

	decorationLinkage = 41
	linkageExport     = 0

	modeLocalSize    = 17
	modeSubgroupSize = 35
)

// Is reports whether data begins like a SPIR-V module, of either byte order.
func Is(data []byte) bool {
	return len(data) >= 4*headerWords && (binary.LittleEndian.Uint32(data) == magic || binary.BigEndian.Uint32(data) == magic)
}

// Parse reads a module up to its functions.
func Parse(data []byte) (*Module, error) {
	if !Is(data) {
		return nil, fmt.Errorf("not a SPIR-V module: found % x, expected the magic number %#x", data[:min(len(data), 4)], magic)
	}
	var order binary.ByteOrder = binary.LittleEndian
	if order.Uint32(data) != magic {
		order = binary.BigEndian
	}
	m := new(Module)
	byID := make(map[uint32]int)
	exported := make(map[uint32]bool)
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
			return m, nil // what is read lies before the functions
		case op == opEntryPoint && words >= 4 && operand(0) == modelKernel:
			name, ok := literal(operands[8:], order)
			if !ok {
				return nil, fmt.Errorf("SPIR-V at byte 0x%x: the name of an entry point does not end", at)
			}
			byID[operand(1)] = len(m.Kernels)
			m.Kernels = append(m.Kernels, Kernel{Name: name})
		case op == opExecutionMode && words >= 3:
			i, ok := byID[operand(0)]
			switch mode := operand(1); {
			case !ok:
			case mode == modeLocalSize && words >= 6:
				m.Kernels[i].LocalSize = &[3]int64{int64(operand(2)), int64(operand(3)), int64(operand(4))}
			case mode == modeSubgroupSize && words >= 4:
				size := int64(operand(2))
				m.Kernels[i].SubgroupSize = &size
			}
		case op == opDecorate && words >= 5 && operand(1) == decorationLinkage && operand(words-2) == linkageExport:
			name, _ := literal(operands[8:], order)
			exported[operand(0)] = !bytes.HasPrefix(name, []byte("__hip_cuid_"))
		case op == opVariable && words >= 4 && exported[operand(1)]:
			m.Variables++
		}
		at += 4 * words
	}
	return m, nil
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
