package installation_test

import (
	"fmt"

	"github.com/rules-offload/rules_offload/installed/installation"
)

func ExampleSelection() {
	s := installation.Selection{Keep: []string{"gfx1100", "gfx90a:xnack+"}}
	for _, gpu := range []string{"gfx90a", "gfx90a:xnack-", "gfx11xx", "gfx942"} {
		fmt.Println(gpu, s.Data(gpu))
	}
	// Output:
	// gfx90a true
	// gfx90a:xnack- false
	// gfx11xx true
	// gfx942 false
}
