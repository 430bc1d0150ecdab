package linkerwrapper

import (
	"fmt"
	"strings"
	"sync"
)

// option identifies an option of the wrapper.
type option int

const (
	optNone option = iota
	optHelp
	optHelpHidden
	optVersion
	optLinkerPath
	optHostTriple
	optDeviceLinker
	optDeviceCompiler
	optShouldExtract
	optOverrideImage
	optEmitFatbinOnly
	optEmbedBitcode
	optCompress
	optCompressionLevel
	optCUDAPath
	optJobs
	optSaveTemps
	optDryRun
	optVerbose
	optPrintModule
	optTimeTrace
	optTimeTraceGranularity
	optMLLVM
	optOffloadOpt
	optNoCanonicalPrefixes
	optInternal
	optSysroot
	optOutput
	optLibraryPath
	optCOFFLibraryPath
	optLibrary
	optRPath
	optWholeArchive
	optNoWholeArchive
	optWholeArchiveAll
	optWholeArchiveOf
	optRelocatable
)

// style is how an option takes its value.
type style int

const (
	flag style = iota
	joined
	separate
	joinedOrSeparate
	commaJoined
)

// spelling is one spelling of an option.
type spelling struct {
	text  string // with its dashes
	style style
	id    option
	// as is the form of the option for the host linker, a separate word before the value. ""
	// passes on the words of the command line. Options that only the wrapper has are not passed
	// on.
	as string
}

var (
	fillSpellings sync.Once
	allSpellings  []spelling
)

// spellings returns the option table of clang-linker-wrapper (LinkerWrapperOpts.td of LLVM 22).
func spellings() []spelling {
	fillSpellings.Do(func() {
		add := func(id option, style style, as string, texts ...string) {
			for _, text := range texts {
				allSpellings = append(allSpellings, spelling{text, style, id, as})
			}
		}
		addOwnOptions(add)
		addLinkerOptions(add)
	})
	return allSpellings
}

// dashes returns the spellings of options that begin with one or two dashes.
func dashes(names ...string) (texts []string) {
	for _, name := range names {
		texts = append(texts, "--"+name, "-"+name)
	}
	return texts
}

// slashes returns the spellings of an option of link.exe.
func slashes(name string) []string {
	return []string{"/" + name, "-" + name, "/?" + name, "-?" + name}
}

// addFunc adds spellings of an option, see spelling.
type addFunc func(id option, style style, as string, texts ...string)

// addOwnOptions adds the options that only the wrapper reads.
func addOwnOptions(add addFunc) {
	add(optHelp, flag, "", "--help")
	add(optHelpHidden, flag, "", "--help-hidden")
	add(optVersion, flag, "", dashes("version")...)
	add(optLinkerPath, joined, "", "--linker-path=")
	add(optHostTriple, joined, "", "--host-triple=")
	add(optDeviceLinker, joined, "", "--device-linker=")
	add(optDeviceCompiler, joined, "", "--device-compiler=")
	add(optShouldExtract, commaJoined, "", "--should-extract=")
	add(optOverrideImage, joined, "", "--override-image=")
	add(optEmitFatbinOnly, flag, "", "--emit-fatbin-only")
	add(optEmbedBitcode, flag, "", "--embed-bitcode")
	add(optCompress, flag, "", "--compress")
	add(optCompressionLevel, joined, "", "--compression-level=")
	add(optCUDAPath, joined, "", "--cuda-path=")
	add(optJobs, joined, "", "--wrapper-jobs=")
	add(optSaveTemps, flag, "", "--save-temps")
	add(optDryRun, flag, "", "--dry-run")
	add(optVerbose, flag, "", "--wrapper-verbose")
	add(optPrintModule, flag, "", "--print-wrapped-module")
	add(optTimeTrace, joined, "", "--wrapper-time-trace=")
	add(optTimeTraceGranularity, joined, "", "--wrapper-time-trace-granularity=")
	add(optMLLVM, separate, "", "-mllvm")
	add(optOffloadOpt, joined, "", dashes("offload-opt=")...)
	add(optNoCanonicalPrefixes, flag, "", "--no-canonical-prefixes")
	add(optInternal, joined, "", "--arch=", "--triple=", "--linker-arg=", "--compiler-arg=")
	add(optInternal, flag, "", "--whole-program")
}

// addLinkerOptions adds the options that the host linker also gets.
func addLinkerOptions(add addFunc) {
	add(optSysroot, joined, "", "--sysroot=")
	add(optOutput, joinedOrSeparate, "-o", "-o")
	add(optOutput, separate, "-o", "--output")
	add(optOutput, joined, "-o", "--output=")
	add(optOutput, joined, "", slashes("out:")...)
	add(optLibraryPath, joinedOrSeparate, "-L", "-L")
	// In LLVM, --library is a spelling of -L.
	add(optLibraryPath, separate, "-L", dashes("library-path", "library")...)
	add(optLibraryPath, joined, "-L", dashes("library-path=", "library=")...)
	add(optCOFFLibraryPath, joined, "", slashes("libpath:")...)
	add(optLibrary, joinedOrSeparate, "-l", "-l")
	add(optRPath, separate, "", dashes("rpath")...)
	add(optRPath, joined, "--rpath", dashes("rpath=")...)
	add(optWholeArchive, flag, "", dashes("whole-archive")...)
	add(optNoWholeArchive, flag, "", dashes("no-whole-archive")...)
	add(optWholeArchiveAll, flag, "", slashes("wholearchive")...)
	// For one library. LLVM's tool supports it since 24, and ignores its images before.
	add(optWholeArchiveOf, joined, "", slashes("wholearchive:")...)
	add(optRelocatable, flag, "", dashes("relocatable")...)
	add(optRelocatable, flag, "--relocatable", "-r")
}

// passed reports whether the host linker gets an option.
func (o option) passed() bool { return o == optNone || o >= optSysroot }

// word is a part of the command line: an option with its values, or a word that is not an
// option.
type word struct {
	id     option
	values []string
	// host is its form for the host linker.
	host []string
	// input reports whether it is neither an option nor similar to one.
	input bool
}

// value returns the value of an option.
func (w *word) value() string { return w.values[0] }

// parse splits a command line. If several spellings match a word, the longest applies.
func parse(args []string) ([]word, error) {
	var words []word
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "" { // neither option nor file: LLVM drops it
			continue
		}
		s := match(arg)
		if s == nil {
			words = append(words, word{host: []string{arg}, input: !strings.HasPrefix(arg, "-") || arg == "-" || arg == "--"})
			continue
		}
		w := word{id: s.id, host: []string{arg}}
		if s.style != flag {
			value := arg[len(s.text):]
			if s.style == separate || s.style == joinedOrSeparate && value == "" {
				if i++; i == len(args) {
					return nil, fmt.Errorf("%s: missing argument", arg)
				}
				value = args[i]
				w.host = append(w.host, value)
			}
			w.values = []string{value}
			if s.style == commaJoined {
				w.values = strings.Split(value, ",")
			}
			if s.as != "" {
				w.host = []string{s.as, value}
			}
		} else if s.as != "" {
			w.host = []string{s.as}
		}
		if !s.id.passed() {
			w.host = nil
		}
		words = append(words, w)
	}
	return words, nil
}

// match returns the longest spelling that matches a word, nil for none.
func match(arg string) *spelling {
	if len(arg) < 2 || arg[0] != '-' && arg[0] != '/' {
		return nil
	}
	var best *spelling
	all := spellings()
	for i := range all {
		s := &all[i]
		if !strings.HasPrefix(arg, s.text) || (s.style == flag || s.style == separate) && arg != s.text {
			continue
		}
		if best == nil || len(s.text) > len(best.text) {
			best = s
		}
	}
	return best
}
