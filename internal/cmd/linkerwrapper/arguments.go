package linkerwrapper

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/internal/cmd/release"
	"github.com/rules-offload/rules_offload/internal/link"
	"github.com/rules-offload/rules_offload/internal/link/devicelink"
)

// word is a part of the command line: an option with its value, or a word that is not an option.
type word struct {
	*option // nil for none
	value   string
	// linker is its form for the host linker.
	linker []string
	// input reports whether it is neither an option nor similar to one.
	input bool
}

// is reports whether a word is the option with these spellings.
func (o *word) is(spellings string) bool { return o.option != nil && o.spellings == spellings }

// parse splits a command line.
func parse(args []string) ([]word, error) {
	var words []word
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "" { // neither option nor file: LLVM drops it
			continue
		}
		o, value := match(arg)
		w := word{option: o, value: value, linker: []string{arg}}
		switch {
		case o == nil:
			w.input = !strings.HasPrefix(arg, "-") || arg == "-" || arg == "--"
		case o.value != "" && value == "" && !strings.ContainsAny(arg[len(arg)-1:], "=:"):
			if i++; i == len(args) {
				return nil, fmt.Errorf("%s: missing argument", arg)
			}
			w.value = args[i]
			w.linker = append(w.linker, w.value)
		}
		if o != nil && o.as != "" {
			w.linker = []string{o.as}
			if o.value != "" {
				w.linker = append(w.linker, w.value)
			}
		}
		if o != nil && !o.host {
			w.linker = nil
		}
		words = append(words, w)
	}
	return words, nil
}

// defaultGranularity is the shortest phase in a trace, in microseconds.
const defaultGranularity = 500

// read reads the command line.
func (w *wrapper) read(words []word) error {
	w.canonical, w.granularity = true, defaultGranularity
	w.opt.HostTriple, w.opt.ObjectsAt = release.HostTriple(), -1
	for i := range words {
		if o := &words[i]; o.option != nil && o.first != nil {
			o.first(w, o)
		}
	}
	for i, dir := range w.search {
		if rest, ok := strings.CutPrefix(dir, "="); ok {
			w.search[i] = filepath.Join(w.sysroot, rest)
		}
	}
	for i := range words {
		o := &words[i]
		w.opt.LinkerArgs = append(w.opt.LinkerArgs, o.linker...)
		switch {
		case o.input:
			w.opt.Libraries = append(w.opt.Libraries, link.Library{Input: len(w.opt.Inputs)})
			w.opt.Inputs = append(w.opt.Inputs, link.Input{Name: w.input(o.linker[0]), Whole: w.whole})
		case o.option != nil && o.read != nil:
			if o.read(w, o); w.missing != nil {
				return w.missing
			}
		}
	}
	w.complete()
	return nil
}

// complete sets the options that depend on all words of the command line.
func (w *wrapper) complete() {
	opt := &w.opt
	if opt.ObjectsAt < 0 { // there is no output; LLVM drops the objects in this case
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

func (w *wrapper) addSearch(o *word) { w.search = append(w.search, o.value) }

func (w *wrapper) setRelocatable(*word) { w.opt.Relocatable = true }

// setOutput sets the output. The last one is where registration objects are inserted.
func (w *wrapper) setOutput(o *word) { w.opt.Output, w.opt.ObjectsAt = o.value, len(w.opt.LinkerArgs) }

// setWhole sets whether all members of the next archives are linked.
func (w *wrapper) setWhole(whole bool, flag string) {
	w.whole = whole
	w.opt.Libraries = append(w.opt.Libraries, link.Library{Words: []string{flag}})
}

// addLibraryWords passes an option on to device links that search for libraries.
func (w *wrapper) addLibraryWords(o *word) {
	w.opt.Libraries = append(w.opt.Libraries, link.Library{Words: o.linker})
}

// addLibrary adds an option -l.
func (w *wrapper) addLibrary(o *word) {
	w.addLibraryWords(o)
	var name string
	name, w.missing = w.library(o.value)
	w.opt.Inputs = append(w.opt.Inputs, link.Input{Name: name, Whole: w.whole})
}

// addLLVM adds an option of LLVM. One of them lists all others.
func (w *wrapper) addLLVM(arg devicelink.LLVMArg) {
	w.opt.Device.LLVM = append(w.opt.Device.LLVM, arg)
	w.listLLVM = w.listLLVM || arg.Text == "--help" || arg.Text == "-help"
}

// setGranularity sets the granularity of the trace. LLVM ignores a wrong one.
func (w *wrapper) setGranularity(o *word) {
	if n, err := strconv.ParseUint(o.value, 10, 31); err == nil {
		w.granularity = int(n)
	} else {
		fmt.Fprintf(w.call.Stderr, "warning: --wrapper-time-trace-granularity=%s: expected a number of microseconds; using %d\n", o.value, w.granularity)
	}
}
