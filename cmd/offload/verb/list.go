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
	summary: "Lists the entries of the bundles in a file.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		var fileType engine.FileType
		flags.Func("type", "file `type`, as clang-offload-bundler -type names it (default: a for archives, else o)", func(s string) (err error) {
			fileType, err = engine.ParseFileType(s)
			return err
		})
		asJSON := flags.Bool("json", false, "print a JSON array of {id, member, bundle, offset, size, compressed}; offset and size in bytes")
		read := readFlags(flags)
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if len(operands) != 1 {
				return usageError(fmt.Sprintf("want one file, got %d", len(operands)))
			}
			entries, err := call.Session.List(ctx, engine.ListOptions{Type: fileType, Guess: fileType == "", Input: operands[0], Read: *read})
			if err != nil {
				return err
			}
			if *asJSON {
				if entries == nil {
					entries = []engine.ListedEntry{}
				}
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
