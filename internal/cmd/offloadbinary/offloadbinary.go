// Package offloadbinary implements the command line of llvm-offload-binary, also called
// clang-offload-packager. It behaves as LLVM 23.1.4, but writes the version of the container
// that the release of package release writes, by default the version that every LLVM since 15
// reads.
package offloadbinary

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/llvmcl"
	"github.com/rules-offload/rules_offload/internal/cmd/llvmwords"
	"github.com/rules-offload/rules_offload/internal/cmd/release"
)

// The values of --compression-format.
const (
	zstdFormat = "zstd"
	zlibFormat = "zlib"
)

// options is the command line of the tool.
type options struct {
	tool llvmcl.Tool

	help    *llvmcl.Opt[bool] // nil if every tool has it
	output  *llvmcl.Opt[string]
	inputs  *llvmcl.Opt[[]string]
	images  *llvmcl.Opt[[]string]
	archive *llvmcl.Opt[bool]
	version *llvmcl.Opt[uint32]

	compress *llvmcl.Opt[bool]
	format   *llvmcl.Opt[string]
	level    *llvmcl.Opt[int32]
}

// The options in the order of LLVM's hash table, see llvmcl.Tool.Order, with both kinds of table.
var (
	order = []string{
		"help", "archive", "help-hidden", "version", "help-list", "help-list-hidden", "o", "image", "print-options", "print-all-options",
	}
	orderNextBucket = []string{
		"image", "help-list-hidden", "compression-format", "print-options", "version", "compression-level", "h", "archive",
		"help-hidden", "print-all-options", "help", "help-list", "compress", "o",
	}
)

func newOptions(r release.Release) *options {
	o := &options{tool: llvmcl.Tool{
		Overview: "A utility for bundling several object files into a single binary.\n" +
			"The output binary can then be embedded into the host section table\n" +
			"to create a fatbinary containing offloading code.\n",
		Category: "llvm-offload-binary options",
		// Extraction and messages follow LLVM 23, for every version of the container.
		Version: "Debian LLVM version " + release.Nearest(r.BinaryTool).Version + "\n  Optimized build.",
	}}
	t := &o.tool
	o.help = r.SetUp(t, order, orderNextBucket)
	o.output = t.String("o", "file", "Write output to <file>.")
	o.inputs = t.Positionals(" Extract from <file>.")
	o.images = t.Strings("image", "<key>=<value>,...", "List of key and value arguments. Required keywords are 'file' and 'triple'.")
	o.archive = t.Bool("archive", "Write extracted files to a static archive")
	// An addition to LLVM's options.
	o.version = t.Uint("format-version", "version", fmt.Sprintf("Version of the container to write, from 1 to %d", offloadbinary.NewestVersion), uint32(r.Container))
	o.version.Hide()
	o.compress = t.Bool("compress", "Compress the packaged offload binary")
	o.format = t.Choice("compression-format", "Format used with --compress",
		llvmcl.Choice{Value: zstdFormat, Help: "Zstandard compression"}, llvmcl.Choice{Value: zlibFormat, Help: "zlib compression"})
	o.level = t.Int("compression-level", "int", "Compression level used with --compress", 0)
	if !r.CompressesContainers { // accepted, because they can mean only one thing
		o.compress.Hide()
		o.format.Hide()
		o.level.Hide()
	}
	return o
}

// Run runs a command line and returns its exit code.
func Run(ctx context.Context, call *command.Call) int {
	follow, err := release.Follow(ctx, call)
	if err != nil {
		fmt.Fprintf(call.Stderr, "%s: error: %v\n", call.Name, err)
		return 1
	}
	o := newOptions(follow)
	exit := o.tool.Parse(call)
	if exit.Done && exit.Code == 0 {
		return 0
	}
	name := path.Base(call.Name)
	inputs := o.inputs.Value
	if len(inputs) > 1 {
		fmt.Fprintf(call.Stderr, "%s: Too many positional arguments specified!\n"+
			"Can specify at most 1 positional arguments: See: %s --help\n", name, call.Name)
		return 1
	}
	if exit.Done {
		return exit.Code
	}
	input := strings.Join(inputs, "")
	if strings.HasSuffix(stem(name), "clang-offload-packager") {
		fmt.Fprintln(call.Stderr, "warning: 'clang-offload-packager' is deprecated. Use 'llvm-offload-binary' instead.")
	}
	switch output := o.output.Value; {
	case o.help != nil && o.help.Value || output == "" && input == "":
		o.tool.PrintHelp(call)
	case output != "" && input != "":
		err = words("Packaging to an output file and extracting from an input file are mutually exclusive.")
	case output != "":
		err = o.pack(ctx, call)
	default:
		err = o.extract(ctx, call, input)
	}
	if err != nil {
		fmt.Fprintf(call.Stderr, "%s: error: %s\n", call.Name, message(err, input))
		return 1
	}
	return 0
}

// words are an error in the words of LLVM.
type words string

func (w words) Error() string { return string(w) }

// message returns an error in LLVM's words if LLVM has a message for it, followed by the
// position of the fault, which LLVM omits. LLVM only names the file to extract from.
func message(err error, input string) string {
	if errors.Is(err, engine.ErrNoFile) {
		return "'file' is a required image arguments"
	}
	var placed *images.PlaceError
	if errors.As(err, &placed) {
		if words := llvmwords.Fault(err); words != "" {
			return words + ": " + err.Error()
		}
		return err.Error()
	}
	var file *files.Error
	var system syscall.Errno
	if errors.As(err, &file) && (input == "" || file.Name != input) && errors.As(err, &system) {
		return fmt.Sprintf("%s: '%s'", file.Reason(), file.Name)
	}
	return err.Error()
}

// pack writes an offload binary.
func (o *options) pack(ctx context.Context, call *command.Call) error {
	opt := engine.PackOptions{Version: int(o.version.Value), Output: o.output.Value, LLVM: true}
	if o.compress.Value {
		if o.version.Count == 0 {
			opt.Version = offloadbinary.CompressedVersion
		}
		c := &offloadbinary.Compression{Zlib: o.format.Value == zlibFormat, Level: offloadbinary.DefaultZstdLevel}
		switch {
		case o.level.Count > 0:
			c.Level = int(o.level.Value)
		case c.Zlib:
			c.Level = offloadbinary.DefaultZlibLevel
		}
		opt.Compress = c
	}
	for _, image := range o.images.Value {
		opt.Images = append(opt.Images, engine.ParseProperties(image))
	}
	_, err := call.Session.Pack(ctx, opt)
	return err
}

// stem returns the last part of a path without its extension, by LLVM's rules.
func stem(name string) string {
	base := path.Base(name)
	if i := strings.LastIndexByte(base, '.'); i >= 0 && base != "." && base != ".." {
		return base[:i]
	}
	return base
}
