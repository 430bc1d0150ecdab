package coverage_test

import (
	"fmt"
	"log"

	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/installed/coverage"
)

// Ask which of two GPUs find code in a bundle with code for gfx90a.
func Example() {
	code := &target.CodeObject{Version: 5, Mach: 0x3f, Processor: "gfx90a"}
	bundle := coverage.Bundle{Images: []coverage.Image{{ID: "hipv4-amdgcn-amd-amdhsa--gfx90a", Size: 4096, Code: code}}}
	var gpus []coverage.GPU
	for _, name := range []string{"gfx90a", "gfx942"} {
		gpu, err := coverage.ParseGPU(name)
		if err != nil {
			log.Fatal(err)
		}
		gpus = append(gpus, gpu)
	}
	report := coverage.Ask("kernels.hipfb", []coverage.Bundle{bundle}, gpus)
	for _, g := range report.GPUs {
		fmt.Println(g.GPU, g.Verdict)
	}
	// Output:
	// gfx90a yes
	// gfx942 no
}
