package linkerwrapper

import (
	"fmt"
	"io"
	"strings"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/link"
	"github.com/rules-offload/rules_offload/internal/link/devicelink"
)

// option is an option of clang-linker-wrapper.
type option struct {
	// spellings are separated by spaces. A value follows a spelling that ends in = or a colon. It is
	// the next word after others, or also the rest of the word if the option is a letter.
	spellings string
	value     string // in help; "" for an option without a value
	about     string // in help; "" for an option that help does not list
	hidden    bool   // only --help-hidden lists it
	// host reports whether the host linker gets the option, too. as is the form in which it does, with a
	// value as a separate word; "" passes on the words of the command line.
	host bool
	as   string
	// first is called before read is called for any word; both can be nil.
	first, read func(w *wrapper, o *word)
}

// options are the options in LLVM 22 to 24 (LinkerWrapperOpts.td), in the order of help, and --no-warn-missing-kernels.
var options = []option{
	{spellings: "--arch=", value: "<arch>", about: "The device subarchitecture", hidden: true},
	{spellings: "--compiler-arg=", value: "<value>", about: "An extra argument for the device compiler", hidden: true},
	{spellings: "--compress", about: "Compress HIP bundles", read: func(w *wrapper, _ *word) { w.opt.Compress = true }},
	{spellings: "--compression-level=", value: "<value>", about: "The compression level", read: func(w *wrapper, o *word) { w.opt.CompressionLevel = o.value }},
	{spellings: "--cuda-path=", value: "<dir>", about: "The CUDA installation", read: func(w *wrapper, o *word) { w.cudaPath = o.value }},
	{spellings: "--device-compiler=", value: "<value> or <triple>=<value>", about: "An argument for the compiler driver of device links", read: func(w *wrapper, o *word) {
		w.opt.Device.Compiler = append(w.opt.Device.Compiler, o.value)
	}},
	{spellings: "--device-linker=", value: "<value> or <triple>=<value>", about: "An argument for the linker of device links", read: func(w *wrapper, o *word) {
		w.opt.Device.Linker = append(w.opt.Device.Linker, o.value)
	}},
	{spellings: "--dry-run", about: "Print the commands without running them", read: func(w *wrapper, _ *word) { w.opt.DryRun = true }},
	{spellings: "--embed-bitcode", about: "Embed linked bitcode instead of machine code", read: func(w *wrapper, _ *word) { w.opt.Device.EmbedBitcode = true }},
	{spellings: "--emit-fatbin-only", about: "Write the packed images without registration and host link", read: func(w *wrapper, _ *word) { w.opt.Result = link.Fatbin }},
	{spellings: helpHidden, about: "Show all options"},
	{spellings: help, about: "Show the options (--help-hidden for more)"},
	{spellings: "--host-triple=", value: "<triple>", about: "The target triple of the host", first: func(w *wrapper, o *word) { w.opt.HostTriple = o.value }},
	{spellings: "--library-path= --library-path -library-path= -library-path " +
		"--library= --library -library= -library", // in LLVM, --library is a spelling of -L
		value: "<dir>", about: "Search a directory for libraries", hidden: true, host: true, as: "-L", first: (*wrapper).addSearch, read: (*wrapper).addLibraryWords},
	{spellings: "--linker-arg=", value: "<value>", about: "An extra argument for the device linker", hidden: true},
	{spellings: "--linker-path=", value: "<path>", about: "The host linker", read: func(w *wrapper, o *word) { w.opt.Linker = o.value }},
	{spellings: "-L", value: "<dir>", about: "Search a directory for libraries", host: true, as: "-L", first: (*wrapper).addSearch, read: (*wrapper).addLibraryWords},
	{spellings: "-l", value: "<libname>", about: "Link a library", host: true, as: "-l", read: (*wrapper).addLibrary},
	{spellings: "-mllvm", value: "<arg>", about: "An LLVM option for device links, also passed to clang (-mllvm --help for a list)", read: func(w *wrapper, o *word) {
		w.addLLVM(devicelink.LLVMArg{Text: o.value, Twice: true})
	}},
	{spellings: "--no-canonical-prefixes", about: "Look for programs in the directory of this program's name, before resolving links", hidden: true, read: func(w *wrapper, _ *word) {
		w.canonical = false
	}},
	{spellings: "--no-warn-missing-kernels", about: "Do not warn about kernels that the image for a GPU does not have", hidden: true, read: func(w *wrapper, _ *word) {
		w.quiet = true
	}},
	{spellings: "--offload-opt= -offload-opt=", value: "<value>", about: "An LLVM option for device links", hidden: true, read: func(w *wrapper, o *word) {
		w.addLLVM(devicelink.LLVMArg{Text: o.value})
	}},
	{spellings: "--output= --output", value: "<path>", about: "The same as -o", hidden: true, host: true, as: "-o", read: (*wrapper).setOutput},
	{spellings: "--override-image=", value: "<kind=file>", about: "Use a file as the result of the device link", read: func(w *wrapper, o *word) {
		name, file, _ := strings.Cut(o.value, "=")
		kind, _ := offloadbinary.ParseOffloadKind(name)
		w.opt.Override = append(w.opt.Override, link.Override{Kind: kind, File: file})
	}},
	{spellings: "-o", value: "<path>", about: "The output file", host: true, as: "-o", read: (*wrapper).setOutput},
	{spellings: "--print-wrapped-module", about: "Print the registration as LLVM IR", read: func(w *wrapper, _ *word) { w.opt.Module = w.call.Stderr }},
	{spellings: "--relocatable -relocatable", about: "Make a relocatable object that needs no device link", host: true, read: (*wrapper).setRelocatable},
	{spellings: "-r", about: "The same as --relocatable", hidden: true, host: true, as: "--relocatable", read: (*wrapper).setRelocatable},
	{spellings: "--save-temps", about: "Keep intermediate files", read: func(w *wrapper, _ *word) { w.opt.SaveTemps, w.opt.Device.SaveTemps = true, true }},
	{spellings: "--should-extract=", value: "<arch>", about: "Always link the images for an architecture in archives", read: func(w *wrapper, o *word) {
		w.opt.Extract = append(w.opt.Extract, strings.Split(o.value, ",")...)
	}},
	{spellings: "--sysroot=", value: "<dir>", about: "The system root", host: true, first: func(w *wrapper, o *word) { w.sysroot = o.value }},
	{spellings: "--triple=", value: "<triple>", about: "The device target triple", hidden: true},
	{spellings: "--whole-program", about: "The inputs are the whole program", hidden: true},
	{spellings: "--wrapper-jobs=", value: "<number>", about: "The number of parallel device links, or 'jobserver'", read: func(w *wrapper, o *word) { w.jobs = &o.value }},
	{spellings: "--wrapper-time-trace-granularity=", value: "<number>", about: "The shortest phase in the time trace, in microseconds", read: (*wrapper).setGranularity},
	{spellings: "--wrapper-time-trace=", value: "<file>", about: "Record a time trace in a file", read: func(w *wrapper, o *word) { w.traceFile = o.value }},
	{spellings: "--wrapper-verbose", about: "Print the commands before running them", read: func(w *wrapper, _ *word) { w.verbose = true }},

	{spellings: version},
	{spellings: "--rpath -rpath", value: "<dir>", host: true, read: (*wrapper).addLibraryWords},
	{spellings: "--rpath= -rpath=", value: "<dir>", host: true, as: "--rpath", read: (*wrapper).addLibraryWords},
	{spellings: "--whole-archive -whole-archive", host: true, read: func(w *wrapper, _ *word) { w.setWhole(true, "-Wl,--whole-archive") }},
	{spellings: "--no-whole-archive -no-whole-archive", host: true, read: func(w *wrapper, _ *word) { w.setWhole(w.wholeAll, "-Wl,--no-whole-archive") }},

	// Of link.exe.
	{spellings: "/out: -out: /?out: -?out:", value: "<path>", host: true, read: (*wrapper).setOutput},
	{spellings: "/libpath: -libpath: /?libpath: -?libpath:", value: "<dir>", host: true, first: (*wrapper).addSearch},
	{spellings: "/wholearchive -wholearchive /?wholearchive -?wholearchive", host: true, first: func(w *wrapper, _ *word) { w.whole, w.wholeAll = true, true }},
	// For one library. LLVM's tool supports it since 24, and ignores its images before.
	{spellings: "/wholearchive: -wholearchive: /?wholearchive: -?wholearchive:", value: "<file>", host: true, read: func(w *wrapper, o *word) {
		w.opt.Inputs = append(w.opt.Inputs, link.Input{Name: w.input(o.value), Whole: true})
	}},
}

// Options that print something instead of linking.
const (
	help       = "--help"
	helpHidden = "--help-hidden"
	version    = "--version -version"
)

// match returns the option with the longest spelling that a word has, and the part of the word after the
// spelling. It returns nil if the word is not an option.
func match(arg string) (best *option, rest string) {
	if len(arg) < 2 || arg[0] != '-' && arg[0] != '/' {
		return nil, ""
	}
	for i := range options {
		o := &options[i]
		if !strings.Contains(o.spellings, arg[:2]) { // a fast test for paths of inputs, of which links have many
			continue
		}
		for spelling := range strings.SplitSeq(o.spellings, " ") {
			after, ok := strings.CutPrefix(arg, spelling)
			joins := o.value != "" && (len(spelling) == len("-o") || strings.ContainsAny(spelling[len(spelling)-1:], "=:"))
			if ok && (after == "" || joins) && (best == nil || len(after) < len(rest)) {
				best, rest = o, after
			}
		}
	}
	return best, rest
}

// printHelp prints the options.
func printHelp(w io.Writer, hidden bool) {
	fmt.Fprint(w, "OVERVIEW: A wrapper of the host linker that first links the device code in the inputs.\n\n"+
		"USAGE: clang-linker-wrapper [options] -- <options to passed to the linker>\n\nOPTIONS:\n")
	for _, o := range options {
		if o.about == "" || o.hidden && !hidden {
			continue
		}
		text, _, _ := strings.Cut(o.spellings, " ")
		if o.value != "" && !strings.HasSuffix(text, "=") {
			text += " "
		}
		text += o.value
		const column = 24
		if len(text)+2 < column {
			fmt.Fprintf(w, "  %-*s%s\n", column-2, text, o.about)
		} else {
			fmt.Fprintf(w, "  %s\n%*s%s\n", text, column, "", o.about)
		}
	}
}
