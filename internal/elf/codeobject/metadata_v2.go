package codeobject

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxMetadataV2 limits the size of the YAML text, in bytes. Real ones have some
// kilobytes.
const maxMetadataV2 = 16 << 20

// readMetadataV2 reads the metadata of version 2, a YAML document.
func (o *Object) readMetadataV2(data []byte, base uint64) error {
	if len(data) > maxMetadataV2 {
		return fmt.Errorf("metadata at byte 0x%x: found %d bytes of YAML, expected at most %d", base, len(data), maxMetadataV2)
	}
	document, err := parseYAML(strings.TrimRight(string(data), "\x00"))
	if err != nil {
		return fmt.Errorf("metadata at byte 0x%x: %w", base, err)
	}
	for i, y := range document.get("Kernels").list {
		k, err := kernelV2(y)
		if err != nil {
			return fmt.Errorf("metadata at byte 0x%x: kernel %d: %w", base, i, err)
		}
		o.Kernels = append(o.Kernels, k)
	}
	return nil
}

// kernelV2 returns a kernel of the metadata of version 2.
func kernelV2(y node) (Kernel, error) {
	k := Kernel{Name: []byte(y.get("Name").text), Symbol: []byte(y.get("SymbolName").text)}
	if len(k.Name) == 0 {
		return k, errors.New("the key Name is missing or empty")
	}
	properties := y.get("CodeProps")
	for _, property := range []struct {
		key string
		to  **int64
	}{
		{"KernargSegmentSize", &k.KernargSize}, {"GroupSegmentFixedSize", &k.LDS}, {"PrivateSegmentFixedSize", &k.Scratch},
		{"WavefrontSize", &k.WavefrontSize}, {"NumSGPRs", &k.SGPRs}, {"NumVGPRs", &k.VGPRs}, {"MaxFlatWorkGroupSize", &k.MaxWorkgroupSize},
		{"NumSpilledSGPRs", &k.SGPRSpills}, {"NumSpilledVGPRs", &k.VGPRSpills},
	} {
		if value := properties.get(property.key); value.text != "" {
			n, err := value.number(property.key)
			if err != nil {
				return k, err
			}
			*property.to = &n
		}
	}
	if size := y.get("Attrs").get("ReqdWorkGroupSize").list; len(size) == 3 {
		k.ReqdWorkgroupSize = new([3]int64)
		for i := range size {
			var err error
			if k.ReqdWorkgroupSize[i], err = size[i].number("ReqdWorkGroupSize"); err != nil {
				return k, err
			}
		}
	}
	return k, nil
}

// number returns the value of a key as a number.
func (n node) number(key string) (int64, error) {
	value, err := strconv.ParseUint(n.text, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%s: found %q, expected an integer from 0 to 2^63-1", key, clip(n.text))
	}
	return int64(value), nil
}
