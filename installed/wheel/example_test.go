package wheel_test

import (
	"fmt"

	"github.com/rules-offload/rules_offload/installed/wheel"
)

func ExampleParseName() {
	name, err := wheel.ParseName("math_device_gfx942-1.0-py3-none-any.whl")
	fmt.Println(wheel.Normalize(name.Distribution), name.Version, err)
	// Output: math-device-gfx942 1.0 <nil>
}
