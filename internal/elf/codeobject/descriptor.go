package codeobject

import "encoding/binary"

// descriptorSize is the size of a kernel descriptor in bytes.
const descriptorSize = 64

// Descriptor is a kernel descriptor, which the GPU's command processor reads at
// a launch. More registers may be allocated than the code uses.
type Descriptor struct {
	Rsrc1, Rsrc3 uint32
}

// parseDescriptor parses a descriptor. It returns nil for nil.
func parseDescriptor(b []byte) *Descriptor {
	if len(b) < descriptorSize {
		return nil
	}
	return &Descriptor{Rsrc3: u32(b[44:]), Rsrc1: u32(b[48:])}
}

// VGPRBlocks returns the number of VGPR blocks allocated to a wave.
func (d *Descriptor) VGPRBlocks() int64 { return int64(d.Rsrc1&0x3f) + 1 }

// SGPRBlocks returns the number of blocks of 8 SGPRs allocated to a wave, on
// processors before gfx10.
func (d *Descriptor) SGPRBlocks() int64 { return int64(d.Rsrc1>>6&0xf) + 1 }

// WGPMode reports whether workgroups run on a WGP, on gfx10 and later.
func (d *Descriptor) WGPMode() bool { return d.Rsrc1>>29&1 != 0 }

// DynamicVGPRs reports whether waves allocate VGPRs as they run.
func (d *Descriptor) DynamicVGPRs() bool { return d.Rsrc3>>17&1 != 0 }

func u16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
func u32(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }
