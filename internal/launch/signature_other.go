//go:build !linux

package launch

import (
	"fmt"
	"os"
)

// signature returns a text that changes if a file is replaced.
func signature(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano()), nil
}
