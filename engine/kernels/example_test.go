package kernels_test

import (
	"fmt"
	"log"

	"github.com/rules-offload/rules_offload/engine/kernels"
)

// Describe the kernels of a device image, here PTX.
func Example() {
	ptx := []byte(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry _Z5scalePff(.param .u64 a, .param .f32 b)\n.maxntid 256, 1, 1\n{\nret;\n}\n")
	var img kernels.Image
	if err := img.Describe(ptx, "sm_80"); err != nil {
		log.Fatal(err)
	}
	for _, k := range img.Kernels {
		fmt.Println(k.Arch, k.Name, "workgroups of up to", *k.MaxWorkgroupSize)
	}
	// Output: sm_80 _Z5scalePff workgroups of up to 256
}
