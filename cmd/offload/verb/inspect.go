package verb

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
)

var inspectVerb = verb{
	name:    "inspect",
	operand: " FILE",
	summary: "Lists the device images in any file: objects, programs, libraries, archives, bitcode, offload binaries, bundles.",
	prepare: func(flags *flag.FlagSet) func(context.Context, *command.Call, []string) error {
		asJSON := flags.Bool("json", false, "print a JSON array with an object for each image; sizes and offsets in bytes")
		return func(ctx context.Context, call *command.Call, operands []string) error {
			if len(operands) != 1 {
				return usageError(fmt.Sprintf("want one file, got %d", len(operands)))
			}
			images, err := call.Session.Inspect(ctx, engine.InspectOptions{Input: operands[0]})
			if err != nil {
				return err
			}
			if *asJSON {
				return writeImagesJSON(call.Stdout, images)
			}
			if len(images) == 0 {
				fmt.Fprintf(call.Stderr, "offload inspect: %s: no device images in it\n", operands[0])
				return nil
			}
			return writeImages(call.Stdout, images)
		}
	},
}

// inspected is an image as --json prints it.
type inspected struct {
	Members    []string          `json:"members"` // of archives, the outermost first
	Section    string            `json:"section"`
	Stored     string            `json:"stored"`
	Container  int64             `json:"container"` // where the container starts
	Size       int64             `json:"size"`
	Kind       string            `json:"kind"`
	Triple     string            `json:"triple"`
	Arch       string            `json:"arch"`
	ID         string            `json:"id"`
	Format     string            `json:"format"`
	Properties map[string]string `json:"properties"`
}

func writeImagesJSON(w io.Writer, images []*engine.Embedded) error {
	all := make([]inspected, len(images))
	for i, e := range images {
		properties := make(map[string]string, len(e.Properties))
		for _, p := range e.Properties {
			properties[p.Key] = p.Value
		}
		all[i] = inspected{
			Members: append([]string{}, e.Members...), Section: e.Section, Stored: string(e.Form),
			Container: e.Container, Size: e.Size, Kind: e.Offload, Triple: e.Triple, Arch: e.Arch,
			ID: e.ID, Format: format(e), Properties: properties,
		}
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(all)
}

// writeImages prints a table.
func writeImages(w io.Writer, images []*engine.Embedded) error {
	buffer := bufio.NewWriter(w) // a tabwriter writes every cell by itself
	table := tabwriter.NewWriter(buffer, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "KIND\tTRIPLE\tARCH\tFORMAT\tSIZE\tSTORED AS\tIN")
	for _, e := range images {
		where := strings.Join(append(append([]string{}, e.Members...), e.Section), " ")
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s at 0x%x\t%s\n",
			e.Offload, orDash(e.Triple), orDash(e.Arch), format(e), e.Size, e.Form, e.Container, orDash(strings.TrimSpace(where)))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return buffer.Flush()
}

// format returns the format of an image, - where only decoding would tell.
func format(e *engine.Embedded) string {
	if e.Form == engine.FormCompressed && e.Kind == offloadbinary.None {
		return "-"
	}
	return e.Kind.String()
}

// orDash makes an empty cell visible, and keeps control characters of a file
// from the terminal.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}
