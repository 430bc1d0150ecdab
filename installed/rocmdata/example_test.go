package rocmdata_test

import (
	"fmt"

	"github.com/rules-offload/rules_offload/installed/rocmdata"
)

func ExampleGPU() {
	for _, name := range []string{
		"lib/rocblas/library/TensileLibrary_lazy_gfx942.dat",
		"lib/aotriton.images/amd-gfx11xx/flash/attn_fwd.aks2",
		"lib/rocblas/library/TensileLibrary_Type_DD_fallback.dat",
	} {
		fmt.Printf("%q\n", rocmdata.GPU(name))
	}
	// Output:
	// "gfx942"
	// "gfx11xx"
	// ""
}
