package linkerwrapper

import (
	"fmt"
	"io"
)

// help has the options, in the order of --help.
var help = []struct {
	text, about string
	hidden      bool
}{
	{"--arch=<arch>", "The device subarchitecture", true},
	{"--compiler-arg=<value>", "An extra argument for the device compiler", true},
	{"--compress", "Compress HIP bundles", false},
	{"--compression-level=<value>", "The compression level", false},
	{"--cuda-path=<dir>", "The CUDA installation", false},
	{"--device-compiler=<value> or <triple>=<value>", "An argument for the compiler driver of device links", false},
	{"--device-linker=<value> or <triple>=<value>", "An argument for the linker of device links", false},
	{"--dry-run", "Print the commands without running them", false},
	{"--embed-bitcode", "Embed linked bitcode instead of machine code", false},
	{"--emit-fatbin-only", "Write the packed images without registration and host link", false},
	{"--help-hidden", "Show all options", false},
	{"--help", "Show the options (--help-hidden for more)", false},
	{"--host-triple=<triple>", "The target triple of the host", false},
	{"--library-path=<dir>", "Search a directory for libraries", true},
	{"--linker-arg=<value>", "An extra argument for the device linker", true},
	{"--linker-path=<path>", "The host linker", false},
	{"-L <dir>", "Search a directory for libraries", false},
	{"-l <libname>", "Link a library", false},
	{"-mllvm <arg>", "An LLVM option for device links, also passed to clang (-mllvm --help for a list)", false},
	{"--no-canonical-prefixes", "Look for programs in the directory of this program's name, before resolving links", true},
	{"--offload-opt=<value>", "An LLVM option for device links", true},
	{"--output=<path>", "The same as -o", true},
	{"--override-image=<kind=file>", "Use a file as the result of the device link", false},
	{"-o <path>", "The output file", false},
	{"--print-wrapped-module", "Print the registration as LLVM IR", false},
	{"--relocatable", "Make a relocatable object that needs no device link", false},
	{"-r", "The same as --relocatable", true},
	{"--save-temps", "Keep intermediate files", false},
	{"--should-extract=<arch>", "Always link the images for an architecture in archives", false},
	{"--sysroot=<dir>", "The system root", false},
	{"--triple=<triple>", "The device target triple", true},
	{"--whole-program", "The inputs are the whole program", true},
	{"--wrapper-jobs=<number>", "The number of parallel device links, or 'jobserver'", false},
	{"--wrapper-time-trace-granularity=<number>", "The shortest phase in the time trace, in microseconds", false},
	{"--wrapper-time-trace=<file>", "Record a time trace in a file", false},
	{"--wrapper-verbose", "Print the commands before running them", false},
}

// printHelp prints the options.
func printHelp(w io.Writer, hidden bool) {
	fmt.Fprint(w, "OVERVIEW: A wrapper of the host linker that first links the device code in the inputs.\n\n"+
		"USAGE: clang-linker-wrapper [options] -- <options to passed to the linker>\n\nOPTIONS:\n")
	for _, o := range help {
		if o.hidden && !hidden {
			continue
		}
		const column = 24
		if len(o.text)+2 < column {
			fmt.Fprintf(w, "  %-*s%s\n", column-2, o.text, o.about)
		} else {
			fmt.Fprintf(w, "  %s\n%*s%s\n", o.text, column, "", o.about)
		}
	}
}
