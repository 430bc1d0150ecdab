package offloadbinary

import (
	"errors"

	"github.com/rules-offload/rules_offload/cmd/offload/llvmwords"
	"github.com/rules-offload/rules_offload/engine/ar"
	"github.com/rules-offload/rules_offload/engine/bitcode"
	format "github.com/rules-offload/rules_offload/engine/offloadbinary"
)

// faultWords returns what LLVM's tool says about a fault in a file, "" where it
// says something that only LLVM knows, or nothing.
func faultWords(err error) string {
	var binary *format.Error
	var archive *ar.FormatError
	var module *bitcode.Error
	switch {
	case errors.As(err, &binary):
		return llvmwords.OffloadBinary(binary)
	case errors.As(err, &archive):
		return llvmwords.Archive(archive)
	case errors.As(err, &module):
		return "Failed to create module"
	}
	return ""
}
