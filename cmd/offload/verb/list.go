package verb

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
)

var listVerb = verb{
	name:    "list",
	operand: " FILE",
	summary: "Lists the entries of a bundle.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		fileType := typeFlag(flags)
		asJSON := flags.Bool("json", false, "print a JSON array of {id, offset, size}; offset and size in bytes")
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if len(operands) != 1 {
				return usageError(fmt.Sprintf("want one file, got %d", len(operands)))
			}
			entries, err := call.Session.List(ctx, engine.ListOptions{Type: *fileType, Input: operands[0]})
			if err != nil {
				return err
			}
			if *asJSON {
				encoder := json.NewEncoder(call.Stdout)
				encoder.SetIndent("", "  ")
				return encoder.Encode(entries)
			}
			for _, entry := range entries {
				fmt.Fprintln(call.Stdout, entry.ID)
			}
			return nil
		}
	},
}
