package target_test

import (
	"fmt"

	"github.com/rules-offload/rules_offload/engine/target"
)

func ExampleComplete() {
	for _, s := range []string{"gfx942", "gfx90a:xnack+:sramecc-", "hip-amdgcn-amd-amdhsa-gfx906", "gfx1030:xnack+"} {
		id, err := target.Complete(s, target.HIP)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(id)
	}
	// Output:
	// hip-amdgcn-amd-amdhsa--gfx942
	// hip-amdgcn-amd-amdhsa--gfx90a:sramecc-:xnack+
	// hip-amdgcn-amd-amdhsa--gfx906
	// target ID "gfx1030:xnack+": gfx1030 has no features to set, so not "xnack+"
}

func ExampleRules_Serve() {
	read := func(ids ...string) (parsed []target.ID) {
		for _, s := range ids {
			id, err := target.Parse(s)
			if err != nil {
				panic(err)
			}
			parsed = append(parsed, id)
		}
		return parsed
	}
	entries := read("hip-amdgcn-amd-amdhsa--gfx906", "hip-amdgcn-amd-amdhsa--gfx90a:xnack+")
	requests := read("hip-amdgcn-amd-amdhsa--gfx906:xnack+", "hip-amdgcn-amd-amdhsa--gfx906:xnack-", "hip-amdgcn-amd-amdhsa--gfx90a")
	fmt.Println(target.Rules{}.Serve(entries, requests, nil))
	// Output:
	// [0 0 -1]
}
