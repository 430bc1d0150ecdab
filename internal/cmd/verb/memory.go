package verb

import (
	"fmt"

	"github.com/rules-offload/rules_offload/internal/sizes"
)

// memoryFlag defines --max-memory, a flag of all verbs.
func memoryFlag(flags *flagSet) {
	flags.Func(maxMemory, "the `size` of memory for decompressed code and lists, such as 512MiB or 2GiB (default: half of the memory of the machine or container, at most 4 GiB)", func(s string) (err error) {
		flags.memory, err = ParseMemory(s)
		return err
	})
}

// leastMemory is the smallest limit of memory, in bytes.
const leastMemory = 16 << 20

// ParseMemory reads a size of memory, see package sizes. It returns bytes.
func ParseMemory(s string) (int64, error) {
	n, err := sizes.Parse(s)
	if err == nil && n < leastMemory {
		err = fmt.Errorf("found %q, expected at least 16MiB", s)
	}
	return n, err
}
