package bundler

import (
	"github.com/rules-offload/rules_offload/internal/cmd/llvmcl"
	"github.com/rules-offload/rules_offload/internal/cmd/release"
)

// options is the command line of the tool.
type options struct {
	tool llvmcl.Tool

	help                           *llvmcl.Opt[bool] // nil if every tool has it
	input, inputs, output, outputs *llvmcl.Opt[[]string]
	targets                        *llvmcl.Opt[[]string]
	fileType                       *llvmcl.Opt[string]
	unbundle, list, printCommands  *llvmcl.Opt[bool]
	allowMissing, checkArchive     *llvmcl.Opt[bool]
	hipOpenMP, compress, verbose   *llvmcl.Opt[bool]
	align                          *llvmcl.Opt[uint32]
	level                          *llvmcl.Opt[int32]
	debugOnly                      *llvmcl.Opt[[]string]
	lenient                        *llvmcl.Opt[bool]
}

// The options in the order of LLVM's hash table, see llvmcl.Tool.Order, with both kinds of table.
var (
	order = []string{
		"help", "list", "check-input-archive", "help-hidden", "output", "unbundle", "version", "help-list",
		"compression-level", "allow-missing-bundles", "###", "type", "help-list-hidden", "inputs", "verbose", "targets",
		"print-options", "input", "bundle-align", "outputs", "hip-openmp-compatible", "print-all-options", "compress",
	}
	orderNextBucket = []string{
		"help-list-hidden", "type", "print-options", "inputs", "check-input-archive", "version", "compression-level", "h",
		"verbose", "unbundle", "help-hidden", "allow-missing-bundles", "print-all-options", "targets", "help", "help-list",
		"hip-openmp-compatible", "compress", "bundle-align", "input", "outputs", "output", "list", "###",
	}
)

func newOptions(r release.Release) *options {
	o := &options{tool: llvmcl.Tool{
		Overview: "A tool to bundle several input files of the specified type <type> \n" +
			"referring to the same source file but different targets into a single \n" +
			"one. The resulting file can also be unbundled into different files by \n" +
			"this tool if -unbundle is provided.\n",
		Category: "clang-offload-bundler options",
		// Scripts read this: the release that the program follows.
		Version: "Debian clang-offload-bundler version " + r.Version + " (" + r.Package + ")",
	}}
	t := &o.tool
	o.help = r.SetUp(t, order, orderNextBucket)
	o.input = t.Strings("input", "string", "Input file. Can be specified multiple times for multiple input files.")
	o.inputs = t.List("inputs", "string", "[<input file>,...] (deprecated)")
	o.output = t.Strings("output", "string", "Output file. Can be specified multiple times for multiple output files.")
	o.outputs = t.List("outputs", "string", "[<output file>,...] (deprecated)")
	o.targets = t.List("targets", "string", "[<offload kind>-<target triple>,...]")
	o.fileType = t.String("type", "string", "Type of the files to be bundled/unbundled.\n"+
		"Current supported types are:\n"+
		"  i    - cpp-output\n"+
		"  ii   - c++-cpp-output\n"+
		"  cui  - cuda-cpp-output\n"+
		"  hipi - hip-cpp-output\n"+
		"  d    - dependency\n"+
		"  ll   - llvm\n"+
		"  bc   - llvm-bc\n"+
		"  s    - assembler\n"+
		"  o    - object\n"+
		"  a    - archive of objects\n"+
		"  gch  - precompiled-header\n"+
		"  ast  - clang AST file")
	o.fileType.Require()
	o.unbundle = t.Bool("unbundle", "Unbundle bundled file into several output files.")
	o.list = t.Bool("list", "List bundle IDs in the bundled file.")
	o.printCommands = t.Bool("###", "Print any external commands that are to be executed instead of actually executing them - for testing purposes.")
	o.allowMissing = t.Bool("allow-missing-bundles", "Create empty files if bundles are missing when unbundling.")
	o.align = t.Uint("bundle-align", "uint", "Alignment of bundle for binary files", 1)
	o.checkArchive = t.Bool("check-input-archive", "Check if input heterogeneous archive is valid in terms of TargetID rules.")
	o.hipOpenMP = t.Bool("hip-openmp-compatible", "Treat hip and hipv4 offload kinds as compatible with openmp kind, and vice versa.")
	o.compress = t.Bool("compress", "Compress output file when bundling.")
	o.verbose = t.Bool("verbose", "Print debug information.")
	o.level = t.Int("compression-level", "n", "Specify the compression level (integer)", 0)
	// LLVM has this option only in builds with assertions, and help does not list it.
	o.debugOnly = t.List("debug-only", "debug string", "Enable a specific type of debug output (comma separated list of types)")
	o.debugOnly.Hide()
	// An addition to LLVM's options.
	o.lenient = t.Bool("lenient", "Accept compressed bundles with a wrong hash or wrong sizes, as LLVM does")
	o.lenient.Hide()
	return o
}
