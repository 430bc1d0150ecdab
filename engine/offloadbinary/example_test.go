package offloadbinary_test

import (
	"fmt"
	"log"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
)

// Write an offload binary that every LLVM since 15 reads, and list its images.
func Example() {
	image := offloadbinary.Image{
		Kind: offloadbinary.Object, Offload: offloadbinary.HIP,
		Properties: offloadbinary.Properties{{Key: "triple", Value: "amdgcn-amd-amdhsa"}, {Key: "arch", Value: "gfx942"}},
		Content:    content.Memory([]byte("code for gfx942")),
	}
	var out content.Buffer
	if err := offloadbinary.Write(&out, 1, []offloadbinary.Image{image}); err != nil {
		log.Fatal(err)
	}
	for b, err := range offloadbinary.Parse(content.Memory(out.Bytes()), offloadbinary.Options{}) {
		if err != nil {
			log.Fatal(err)
		}
		for _, img := range b.Images {
			fmt.Println(img.Offload, img.Get("triple"), img.Get("arch"), img.Content.Len())
		}
	}
	// Output: hip amdgcn-amd-amdhsa gfx942 15
}
