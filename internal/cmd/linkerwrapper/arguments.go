package linkerwrapper

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/cmd/release"
	"github.com/rules-offload/rules_offload/internal/devicelink"
	"github.com/rules-offload/rules_offload/internal/link"
)

// read reads the command line.
func (w *wrapper) read(words []word) error {
	w.readGlobal(words)
	host := hostArgs{whole: w.wholeAll, objectsAt: -1}
	for i := range words {
		w.readOption(&words[i])
		if err := w.readHostLink(&host, &words[i]); err != nil {
			return err
		}
	}
	w.complete(host)
	return nil
}

// readGlobal reads the options that apply to all words of the command line, wherever
// they are.
func (w *wrapper) readGlobal(words []word) {
	w.canonical, w.granularity = true, defaultGranularity
	w.opt.HostTriple = release.HostTriple()
	for i := range words {
		switch word := &words[i]; word.id {
		case optSysroot:
			w.sysroot = word.value()
		case optHostTriple:
			w.opt.HostTriple = word.value()
		case optWholeArchiveAll:
			w.wholeAll = true
		}
	}
	for i := range words {
		if word := &words[i]; word.id == optLibraryPath || word.id == optCOFFLibraryPath {
			dir := word.value()
			if rest, ok := strings.CutPrefix(dir, "="); ok {
				dir = filepath.Join(w.sysroot, rest)
			}
			w.search = append(w.search, dir)
		}
	}
}

// readOption reads an option of the wrapper itself. It ignores other words.
func (w *wrapper) readOption(word *word) {
	opt := &w.opt
	switch word.id {
	case optLinkerPath:
		opt.Linker = word.value()
	case optShouldExtract:
		opt.Extract = append(opt.Extract, word.values...)
	case optOverrideImage:
		kind, file, _ := strings.Cut(word.value(), "=")
		bits, _ := offloadbinary.ParseOffloadKind(kind)
		opt.Override = append(opt.Override, link.Override{Kind: bits, File: file})
	case optEmitFatbinOnly:
		opt.Result = link.Fatbin
	case optCompress:
		opt.Compress = true
	case optCompressionLevel:
		opt.CompressionLevel = word.value()
	case optCUDAPath:
		w.cudaPath = word.value()
	case optJobs:
		w.jobs, w.hasJobs = word.value(), true
	case optSaveTemps:
		opt.SaveTemps, opt.Device.SaveTemps = true, true
	case optDryRun:
		opt.DryRun = true
	case optVerbose:
		w.verbose = true
	case optPrintModule:
		opt.Module = w.call.Stderr
	case optTimeTrace:
		w.traceFile = word.value()
	case optTimeTraceGranularity:
		if n, err := strconv.ParseUint(word.value(), 10, 31); err == nil {
			w.granularity = int(n)
		} else { // LLVM ignores it
			fmt.Fprintf(w.call.Stderr, "warning: --wrapper-time-trace-granularity=%s: expected a number of microseconds; using %d\n", word.value(), w.granularity)
		}
	case optNoCanonicalPrefixes:
		w.canonical = false
	case optRelocatable:
		opt.Relocatable = true
	default:
		readDeviceOption(&opt.Device, word)
	}
}

// readDeviceOption reads an option for device links. It ignores other words.
func readDeviceOption(opt *devicelink.CommandOptions, word *word) {
	switch word.id {
	case optDeviceLinker:
		opt.Linker = append(opt.Linker, word.value())
	case optDeviceCompiler:
		opt.Compiler = append(opt.Compiler, word.value())
	case optEmbedBitcode:
		opt.EmbedBitcode = true
	case optMLLVM:
		opt.LLVM = append(opt.LLVM, devicelink.LLVMArg{Text: word.value(), Twice: true})
	case optOffloadOpt:
		opt.LLVM = append(opt.LLVM, devicelink.LLVMArg{Text: word.value()})
	}
}

// defaultGranularity is the shortest phase in a trace, in microseconds.
const defaultGranularity = 500

// hostArgs is the state between words of the host link.
type hostArgs struct {
	whole     bool // whether all members of the next archives are linked
	objectsAt int  // the number of linker arguments up to the last output; -1 for no output
}

// readHostLink reads the inputs, libraries and output of the host link, and appends the
// word to the arguments of the host linker.
func (w *wrapper) readHostLink(host *hostArgs, word *word) error {
	opt := &w.opt
	opt.LinkerArgs = append(opt.LinkerArgs, word.host...)
	switch word.id {
	case optNone:
		if word.input {
			opt.Libraries = append(opt.Libraries, link.Library{Input: len(opt.Inputs)})
			opt.Inputs = append(opt.Inputs, link.Input{Name: w.input(word.host[0]), Whole: host.whole})
		}
	case optOutput:
		opt.Output = word.value()
		host.objectsAt = len(opt.LinkerArgs)
	case optLibraryPath, optRPath:
		opt.Libraries = append(opt.Libraries, link.Library{Words: word.host})
	case optLibrary:
		opt.Libraries = append(opt.Libraries, link.Library{Words: word.host})
		name, err := w.library(word.value())
		if err != nil {
			return err
		}
		opt.Inputs = append(opt.Inputs, link.Input{Name: name, Whole: host.whole})
	case optWholeArchiveOf:
		opt.Inputs = append(opt.Inputs, link.Input{Name: w.input(word.value()), Whole: true})
	case optWholeArchive:
		host.whole = true
		opt.Libraries = append(opt.Libraries, link.Library{Words: []string{"-Wl,--whole-archive"}})
	case optNoWholeArchive:
		host.whole = w.wholeAll
		opt.Libraries = append(opt.Libraries, link.Library{Words: []string{"-Wl,--no-whole-archive"}})
	}
	return nil
}

// complete sets the options that depend on all words of the command line.
func (w *wrapper) complete(host hostArgs) {
	opt := &w.opt
	opt.ObjectsAt = host.objectsAt
	if host.objectsAt < 0 { // LLVM drops the objects in this case
		opt.ObjectsAt = len(opt.LinkerArgs)
	}
	if opt.Output == "" {
		opt.Output = "a.out"
		if w.windows() {
			opt.Output = "a.exe"
		}
	}
	if w.traceFile != "" {
		w.trace = newTrace(w.granularity)
	}
	// Linkers that collect sections drop the offload entries unless something refers to them.
	if opt.Relocatable || slices.Contains(opt.LinkerArgs, "--gc-sections") || slices.Contains(opt.LinkerArgs, "-gc-sections") {
		opt.Policy.Keep = link.AllEntries
	}
	opt.Device.Output = opt.Output
	opt.Device.HostLLD = strings.HasSuffix(strings.TrimSuffix(opt.Linker, ".exe"), "lld")
}
