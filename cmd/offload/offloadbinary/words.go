package offloadbinary

import (
	"errors"

	"github.com/rules-offload/rules_offload/engine/bitcode"
)

// faultWords returns what LLVM's tool says about a fault in a file, "" where it
// says something that only LLVM knows, or nothing.
func faultWords(err error) string {
	var known interface{ LLVM() string }
	var module *bitcode.Error
	switch {
	case errors.As(err, &known):
		return known.LLVM()
	case errors.As(err, &module):
		return "Failed to create module"
	}
	return ""
}
