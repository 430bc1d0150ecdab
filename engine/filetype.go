package engine

import (
	"fmt"
	"slices"
	"strings"
)

// FileType is a type of bundled file, by the name that clang-offload-bundler
// -type gives it.
type FileType string

var binaryTypes = []FileType{"bc", "gch", "ast", "o"}

// ParseFileType returns the file type of that name.
func ParseFileType(name string) (FileType, error) {
	if t := FileType(name); slices.Contains(binaryTypes, t) {
		return t, nil
	}
	known := make([]string, len(binaryTypes))
	for i, t := range binaryTypes {
		known[i] = string(t)
	}
	return "", fmt.Errorf("file type %q is none of %s", name, strings.Join(known, ", "))
}
