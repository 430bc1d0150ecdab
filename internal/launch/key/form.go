// Package key computes the keys of compilations: the normal form of a command of clang -cc1, and manifests, which name the
// files that compilations read.
package key

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/internal/launch/plan"
)

// A Form is a command of clang -cc1 with equal names for what does not change its result.
type Form struct {
	// Words are the arguments in their normal form. They have no names of outputs and of files that other jobs
	// write, and no directory of the compilation unless the result has it.
	Words []string
	// Source is the source, as the command names it, "" if another job writes it.
	Source string
	// Search are the directories in which headers are searched.
	Search []string
	// Included are the names of -include and -imacros.
	Included []string
	// Files are files that the command reads and that are no source or header. Their content
	// is part of the key.
	Files []string
	// Dependencies is the dependency file that the command writes, "" for none, and Targets the
	// targets of its rule.
	Dependencies string
	Targets      []string
	// System reports whether the dependency file has system headers, and Phony whether it has
	// a rule for each header.
	System, Phony bool
}

// Kinds of options whose value is the next word.
const (
	output   = iota // dropped
	plain           // not a file
	search          // a directory of headers
	included        // a header
	input           // a file whose content counts
	target          // a target of the dependency file
)

// separately returns the kind of an option of clang -cc1 with a value in the next word that can look like a path.
func separately(option string) (kind int, ok bool) {
	switch option {
	case "-o", "-dependency-file":
		return output, true
	case "-MT", "-MQ":
		return target, true
	case "-D", "-U", "-x", "-main-file-name", "-resource-dir", "-isysroot", "-triple", "-aux-triple", "-target-cpu", "-target-feature", "-tune-cpu", "-aux-target-cpu", "-target-abi", "-mrelocation-model", "-pic-level", "-ferror-limit", "-fmessage-length", "-stack-protector", "-mllvm", "-internal-iframework":
		return plain, true
	case "-I", "-isystem", "-iquote", "-idirafter", "-internal-isystem", "-internal-externc-isystem", "-c-isystem", "-cxx-isystem":
		return search, true
	case "-include", "-imacros":
		return included, true
	case "-mlink-builtin-bitcode", "-mlink-bitcode-file", "-fcuda-include-gpubinary", "-fopenmp-host-ir-file-path":
		return input, true
	}
	return 0, false
}

// joined are options with a value that may look like a path and is not read.
var joined = []string{
	"-D", "-U", "-W", "-R", "-std=", "-cuid=", "-fdebug-prefix-map=", "-fcoverage-prefix-map=", "-fmacro-prefix-map=", "-fmacro-prefix-map=", "-ffile-prefix-map=", "-fdebug-compilation-dir=", "-fcoverage-compilation-dir=",
	"-frandom-seed=", "-fmessage-length=",
}

// inputOptions are options whose value is a file whose content counts.
var inputOptions = []string{"-fsanitize-ignorelist=", "-fsanitize-system-ignorelist=", "-fembed-offload-object="}

// denied are options with which a compilation reads or writes files, or depends on things, that are not followed.
var denied = []string{
	"-include-pch", "-fmodule", "-fmodules", "-fimplicit-module", "-fprebuilt-module", "-fbuiltin-module", "-load", "-fplugin", "-fpass-plugin", "-plugin", "-add-plugin", "-ivfsoverlay", "-vfsoverlay", "-split-dwarf",
	"-ftime-", "-opt-record", "-serialize-diagnostic", "-diagnostic-", "-coverage-", "-fprofile", "-fcoverage-mapping", "-stats-file", "-print-stats", "-emit-pch", "-emit-module", "-E", "-fsyntax-only", "-analy", "-ast-", "-fthinlto", "-fbasic-block-sections=list",
	"-header-include", "-dependency-dot", "-module-", "-H", "-v", "-MG", "-fxray", "-fcache-", "-fcas", "-fapinotes", "-iapinotes", "-fdepscan", "-index-", "-emit-symbol-graph", "-extract-api", "-token-cache", "-remap-file", "-working-directory", "-building-pch",
	"-mllvm=", "-ffile-reproducible", "-fwritable", "-cl-", "-dwarf-debug-flags", "-record-command-line", "-fmemory-profile", "-fcs-profile", "-iprefix", "-iwithprefix", "-iframework", "-F", "-stack-usage-file", "-fexperimental-", "--embed-dir", "-save-temps", "-dump", "-gen-reproducer", "-fauto-profile", "-ftest-", "-fdump-", "-mrecord",
}

// deniedExceptions begin like options of denied and are options of code generation.
var deniedExceptions = []string{"-fmodules-", "-fexperimental-library", "-fexperimental-relative", "-fexperimental-strict", "-fmodule-format", "-vectorize", "-F"}

// languages of sources, as -x names them.
var languages = []string{"c", "c++", "hip", "cuda"}

// Normalize returns the normal form of a command of clang -cc1. inputs are the files in the command that other
// jobs write. The error is a plan.Reason for a command whose effect is not understood.
func Normalize(args []string, inputs []string) (*Form, error) {
	f := &Form{}
	rename := func(word string) (string, bool) {
		changed := false
		for i, name := range inputs {
			if plan.Names(word, name) {
				word, changed = plan.Replace(word, name, fmt.Sprintf("INPUT%d", i)), true
			}
		}
		return word, changed
	}
	language := ""
	debug := slices.ContainsFunc(args, func(arg string) bool {
		return strings.HasPrefix(arg, "-debug-info-kind") || strings.HasPrefix(arg, "-dwarf-version") || strings.HasPrefix(arg, "-gcodeview")
	})
	last := len(args) - 1
	for i := 2; i < len(args); i++ { // after the program and -cc1
		word := args[i]
		if name, changed := rename(word); changed {
			f.Words = append(f.Words, name)
			continue
		}
		if kind, ok := separately(word); ok && i < last {
			i++
			value := args[i]
			if word == "-x" {
				language = value
			}
			if err := f.separate(kind, word, value, rename); err != nil {
				return nil, err
			}
			continue
		}
		switch {
		case i == last && !strings.HasPrefix(word, "-"):
			if !slices.Contains(languages, language) {
				return nil, plan.Reason("its language is " + language)
			}
			f.Source = word
			f.Words = append(f.Words, word)
		case strings.HasPrefix(word, "-fdebug-compilation-dir=") || strings.HasPrefix(word, "-fcoverage-compilation-dir="):
			if debug {
				f.Words = append(f.Words, word)
			}
		case word == "-sys-header-deps":
			f.System = true
		case word == "-MP":
			f.Phony = true
		case hasPrefix(word, inputOptions):
			_, value, _ := strings.Cut(word, "=")
			f.Files = append(f.Files, value)
			f.Words = append(f.Words, word)
		case hasPrefix(word, joined):
			f.Words = append(f.Words, word)
		case hasPrefix(word, denied) && !hasPrefix(word, deniedExceptions):
			return nil, plan.Reason("option " + word)
		case MayNameFile(word):
			return nil, plan.Reason("option " + word + " may name a file")
		default:
			f.Words = append(f.Words, word)
		}
	}
	if f.Dependencies != "" {
		// Whether and how the compilation writes a dependency file, which is an output.
		f.Words = append(f.Words, fmt.Sprintf("dependencies system=%v phony=%v", f.System, f.Phony))
	}
	return f, nil
}

// separate reads an option with its value.
func (f *Form) separate(kind int, option, value string, rename func(string) (string, bool)) error {
	if name, changed := rename(value); changed {
		f.Words = append(f.Words, option, name)
		return nil
	}
	switch kind {
	case output:
		if option == "-dependency-file" {
			f.Dependencies = value
		}
		return nil
	case target:
		if option == "-MQ" {
			return plan.Reason("option -MQ in a compilation")
		}
		f.Targets = append(f.Targets, value)
		return nil
	case search:
		if info, err := os.Stat(value); err == nil && !info.IsDir() {
			return plan.Reason("a directory of headers is a file: " + value)
		}
		f.Search = append(f.Search, value)
	case included:
		f.Included = append(f.Included, value)
	case input:
		f.Files = append(f.Files, value)
	case plain:
		if option == "-mllvm" && (strings.ContainsRune(value, '/') || denyLLVM(value)) {
			return plan.Reason("option -mllvm " + value + " may name a file")
		}
	}
	f.Words = append(f.Words, option, value)
	return nil
}

// denyLLVM reports whether an option of LLVM prints, or reads or writes files.
func denyLLVM(option string) bool {
	name := strings.TrimLeft(option, "-")
	return hasPrefix(name, []string{"print", "debug", "stats", "time", "info-output", "view", "dot", "track-memory", "load", "pass-remarks", "rng", "dump", "cfg", "filter-print", "verify-each", "profile", "sample-profile", "pgo", "import", "write", "thinlto", "opt-bisect", "crash"})
}

func hasPrefix(word string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(word, p) })
}

// MayNameFile reports whether an unknown option, or a word that follows it, may name a file.
func MayNameFile(word string) bool {
	value := word
	if strings.HasPrefix(word, "-") {
		var ok bool
		if _, value, ok = strings.Cut(word, "="); !ok {
			return strings.ContainsRune(word, '/')
		}
	}
	if value == "" {
		return false
	}
	if strings.ContainsAny(value, `/\`) {
		return true
	}
	_, err := os.Lstat(value)
	return err == nil || filepath.IsAbs(value)
}
