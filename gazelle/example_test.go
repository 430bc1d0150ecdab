package offload_test

import (
	"fmt"

	offload "github.com/rules-offload/rules_offload/gazelle"
)

// A Gazelle program of its own has the extension among its languages; a gazelle_binary rule does the
// same.
func ExampleNewLanguage() {
	extension := offload.NewLanguage()
	_, writesLibraries := extension.Kinds()["hip_library"]
	fmt.Println(extension.Name(), writesLibraries)
	// Output: offload true
}
