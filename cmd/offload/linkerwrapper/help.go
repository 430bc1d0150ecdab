package linkerwrapper

import (
	"fmt"
	"io"
)

// help has the options as --help shows them.
var help = []struct {
	text, about string
	hidden      bool
}{
	{"--arch=<arch>", "The device subarchitecture", true},
	{"--compiler-arg=<value>", "An extra argument for the device compiler", true},
	{"--compress", "Compress the bundles of HIP", false},
	{"--compression-level=<value>", "The compression level, a number", false},
	{"--cuda-path=<dir>", "Where CUDA is installed", false},
	{"--device-compiler=<value> or <triple>=<value>", "An argument for the compiler driver of device links", false},
	{"--device-linker=<value> or <triple>=<value>", "An argument for the linker of device links", false},
	{"--dry-run", "Print the commands and run none", false},
	{"--embed-bitcode", "Register linked bitcode instead of code", false},
	{"--emit-fatbin-only", "Write the packed images, without registration and host link", false},
	{"--help-hidden", "Show all options", false},
	{"--help", "Show the options (--help-hidden for more)", false},
	{"--host-triple=<triple>", "The target triple of the host", false},
	{"--library-path=<dir>", "Search a directory for libraries", true},
	{"--linker-arg=<value>", "An extra argument for the device linker", true},
	{"--linker-path=<path>", "The host linker", false},
	{"-L <dir>", "Search a directory for libraries", false},
	{"-l <libname>", "Link a library", false},
	{"-mllvm <arg>", "An option of LLVM for device links, for clang as well; --help lists them", false},
	{"--no-canonical-prefixes", "Look for programs beside the name of this one, links not resolved", true},
	{"--offload-opt=<value>", "An option of LLVM for device links; --help lists them", true},
	{"--output=<path>", "The same as -o", true},
	{"--override-image=<kind=file>", "Take a file as the result of the device link", false},
	{"-o <path>", "The output file", false},
	{"--print-wrapped-module", "Print the registration as LLVM IR", false},
	{"--relocatable", "Make a relocatable object that needs no device link", false},
	{"-r", "The same as --relocatable", true},
	{"--save-temps", "Keep the files between the steps", false},
	{"--should-extract=<arch>", "Link the images for an architecture in archives in any case", false},
	{"--sysroot=<dir>", "The system root", false},
	{"--triple=<triple>", "The device target triple", true},
	{"--whole-program", "All input files are there", true},
	{"--wrapper-jobs=<number>", "How many device links run at a time: a number, or 'jobserver'", false},
	{"--wrapper-time-trace-granularity=<number>", "The shortest phase to record, in microseconds", false},
	{"--wrapper-time-trace=<file>", "Record the phases in a file", false},
	{"--wrapper-verbose", "Print the commands that are run", false},
}

// printHelp prints the options.
func printHelp(w io.Writer, hidden bool) {
	fmt.Fprint(w, "OVERVIEW: A wrapper of the host linker: links the device code in the inputs first.\n\n"+
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
