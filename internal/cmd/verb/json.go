package verb

import (
	"encoding/json"
	"io"

	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// writeJSON prints v as JSON with an indentation of two spaces, and control
// characters escaped.
func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(printable.JSON(w))
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}
