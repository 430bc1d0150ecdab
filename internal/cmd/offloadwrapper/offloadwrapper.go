// Package offloadwrapper implements the command line of llvm-offload-wrapper (LLVM's
// llvm/tools/llvm-offload-wrapper), which writes the code that registers device images when a
// program starts: as bitcode, or as an object if the name of the output ends in .o or .obj.
package offloadwrapper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/llvmcl"
	"github.com/rules-offload/rules_offload/internal/cmd/release"
	"github.com/rules-offload/rules_offload/internal/registration/register"
	"github.com/rules-offload/rules_offload/internal/registration/runtimes"
)

// Run runs a command line and returns its exit code.
func Run(ctx context.Context, call *command.Call) int {
	followed, err := release.Follow(ctx, call)
	if err != nil {
		fmt.Fprintf(call.Stderr, "%s: error: %v\n", call.Name, err)
		return 1
	}
	tool := llvmcl.Tool{
		Overview: "Generate runtime registration code for a device binary image\n",
		Category: "llvm-offload-wrapper options",
		Version:  "Debian LLVM version " + followed.Version + "\n  Optimized build.",
		Order:    []string{"o"},
	}
	// What only newer releases have can mean only one thing, and is accepted for all.
	var kinds []llvmcl.Choice
	for i := range runtimes.Table {
		r := &runtimes.Table[i]
		kinds = append(kinds, llvmcl.Choice{Value: r.Kind.String(), Help: "Wrap " + r.Title + " binaries", Hidden: followed.Wraps&r.Kind == 0})
	}
	relocatable := tool.Bool("relocatable", "Keep OpenMP images out of later device links")
	if !followed.WrapsRelocatable {
		relocatable.Hide()
	}
	output := tool.String("o", "file", "Write output to <file>.")
	kind := tool.Choice("kind", "Wrap for offload kind:", kinds...)
	kind.Require()
	triple := tool.String("triple", "string", "Target triple for the wrapper module")
	inputs := tool.Positionals(" Wrap input from <file>")
	tool.RequirePositional()
	if exit := tool.Parse(call); exit.Done {
		return exit.Code
	}
	opt := engine.RegisterOptions{
		Triple: triple.Value, Images: inputs.Value, Output: output.Value,
		Relocatable: relocatable.Value, Release: followed.Release, FirstImage: true,
		IR: !strings.HasSuffix(output.Value, ".o") && !strings.HasSuffix(output.Value, ".obj"),
	}
	if opt.Kind, err = register.ParseKind(kind.Value); err == nil {
		if runtimes.Of(opt.Kind).Form == runtimes.OffloadBinary {
			opt.Release = followed.SYCL
		}
		err = run(ctx, call, opt)
	}
	if err != nil {
		fmt.Fprintf(call.Stderr, "%s: error: %s\n", call.Name, message(err, output.Value))
		return 1
	}
	return 0
}

// run writes the output.
func run(ctx context.Context, call *command.Call, opt engine.RegisterOptions) error {
	form := runtimes.Of(opt.Kind).Form
	switch {
	case opt.Output == "":
		return errors.New("No such file or directory")
	case opt.Output == "-":
		opt.Output = "./-" // a name like any other
	case form != runtimes.Images && len(opt.Images) > 1:
		return errors.New("CUDA / HIP offloading uses a single fatbinary or offload bundle")
	}
	opt.Relocatable = opt.Relocatable && form == runtimes.Images
	opt.Triple = cmp.Or(opt.Triple, release.HostTriple())
	return call.Session.Register(ctx, opt)
}

// message returns an error as LLVM's tools write it: without the name of the
// output.
func message(err error, output string) string {
	var system *files.Error
	if errors.As(err, &system) && path.Clean(system.Name) == path.Clean(output) {
		return system.Reason()
	}
	return err.Error()
}
