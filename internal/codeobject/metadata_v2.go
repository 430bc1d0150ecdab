package codeobject

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// metadataV2 is the part of the version 2 metadata, a YAML document, that is
// read.
type metadataV2 struct {
	Kernels []struct {
		Name       string `yaml:"Name"`
		SymbolName string `yaml:"SymbolName"`
		Attrs      struct {
			ReqdWorkGroupSize []int64 `yaml:"ReqdWorkGroupSize"`
		} `yaml:"Attrs"`
		CodeProps struct {
			KernargSegmentSize      *int64 `yaml:"KernargSegmentSize"`
			GroupSegmentFixedSize   *int64 `yaml:"GroupSegmentFixedSize"`
			PrivateSegmentFixedSize *int64 `yaml:"PrivateSegmentFixedSize"`
			WavefrontSize           *int64 `yaml:"WavefrontSize"`
			NumSGPRs                *int64 `yaml:"NumSGPRs"`
			NumVGPRs                *int64 `yaml:"NumVGPRs"`
			MaxFlatWorkGroupSize    *int64 `yaml:"MaxFlatWorkGroupSize"`
			NumSpilledSGPRs         *int64 `yaml:"NumSpilledSGPRs"`
			NumSpilledVGPRs         *int64 `yaml:"NumSpilledVGPRs"`
		} `yaml:"CodeProps"`
	} `yaml:"Kernels"`
}

// maxMetadataV2 limits the size of the YAML text, in bytes. Real ones have some
// kilobytes.
const maxMetadataV2 = 16 << 20

// readMetadataV2 reads the metadata of version 2.
func (o *Object) readMetadataV2(data []byte, base uint64) error {
	if len(data) > maxMetadataV2 {
		return fmt.Errorf("metadata at byte 0x%x: found %d bytes of YAML, expected at most %d", base, len(data), maxMetadataV2)
	}
	var m metadataV2
	if err := yaml.Unmarshal(bytes.TrimRight(data, "\x00"), &m); err != nil {
		return fmt.Errorf("metadata at byte 0x%x: %q", base, err.Error())
	}
	for i, y := range m.Kernels {
		if y.Name == "" {
			return fmt.Errorf("metadata at byte 0x%x: kernel %d: Name is missing or empty", base, i)
		}
		p := y.CodeProps
		for _, n := range []*int64{
			p.KernargSegmentSize, p.GroupSegmentFixedSize, p.PrivateSegmentFixedSize, p.WavefrontSize,
			p.NumSGPRs, p.NumVGPRs, p.MaxFlatWorkGroupSize, p.NumSpilledSGPRs, p.NumSpilledVGPRs,
		} {
			if n != nil && *n < 0 {
				return fmt.Errorf("metadata at byte 0x%x: kernel %d: found %d, expected an integer from 0 to 2^63-1", base, i, *n)
			}
		}
		k := Kernel{
			Name: []byte(y.Name), Symbol: []byte(y.SymbolName),
			KernargSize: p.KernargSegmentSize, LDS: p.GroupSegmentFixedSize, Scratch: p.PrivateSegmentFixedSize,
			WavefrontSize: p.WavefrontSize, SGPRs: p.NumSGPRs, VGPRs: p.NumVGPRs,
			SGPRSpills: p.NumSpilledSGPRs, VGPRSpills: p.NumSpilledVGPRs, MaxWorkgroupSize: p.MaxFlatWorkGroupSize,
		}
		if size := y.Attrs.ReqdWorkGroupSize; len(size) == 3 {
			k.ReqdWorkgroupSize = (*[3]int64)(size)
		}
		o.Kernels = append(o.Kernels, k)
	}
	return nil
}
