package bundler

import (
	"testing"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/ccob"
)

// TestWords checks that errors of the engine have LLVM's words.
func TestWords(t *testing.T) {
	for want, err := range map[string]error{
		"Uncompressed size exceeds version 2 limit": &ccob.LimitError{Size: 1 << 32},
		"Total file size exceeds version 2 limit":   &ccob.LimitError{Size: 1 << 32, Compressed: true},
		"'x': invalid file type specified":          &bundle.FileTypeError{Type: "x"},
	} {
		if got := (&run{}).words(err); got != want {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}
