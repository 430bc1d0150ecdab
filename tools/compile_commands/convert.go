package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mnemonics are the mnemonics of actions that compile a source. Their order is the order of the
// entries of a source: clangd takes the first, which is the host's, because it includes all
// code of the source.
var mnemonics = []string{
	"CppCompile",
	"OffloadHipHostCompile",
	"OffloadOpenMpHostCompile",
	"OffloadHipCompile",
	"OffloadHipPortableCompile",
	"OffloadCudaCompile",
	"OffloadOpenMpCompile",
	"OffloadBitcodeCompile",
	"OffloadCodeCompile",
}

// actionGraph is the required part of the output of `bazel aquery --output=jsonproto`.
type actionGraph struct {
	Actions []action `json:"actions"`
}

type action struct {
	Mnemonic   string      `json:"mnemonic"`
	Arguments  []string    `json:"arguments"`
	ParamFiles []paramFile `json:"paramFiles"`
}

type paramFile struct {
	ExecPath  string   `json:"execPath"`
	Arguments []string `json:"arguments"`
}

// entry is a compilation in compile_commands.json:
// https://clang.llvm.org/docs/JSONCompilationDatabase.html
type entry struct {
	Directory string   `json:"directory"`
	File      string   `json:"file"`
	Arguments []string `json:"arguments"`
}

// converter converts actions to entries.
type converter struct {
	workspace string // the directory of the sources, absolute
	execroot  string // the directory in which actions run, absolute

	// resourceDir returns the directory of a compiler's headers.
	resourceDir func(compiler string) (string, error)
}

// entries returns an entry for each compilation. Entries of a source are adjacent and have the
// order of mnemonics. Compilations of a source with equal flags have one entry.
func (c converter) entries(graph *actionGraph) []entry {
	type found struct {
		entry
		order int
	}
	var all []found
	for _, a := range graph.Actions {
		if e, ok := c.entry(a); ok {
			all = append(all, found{e, slices.Index(mnemonics, a.Mnemonic)})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int {
		if order := strings.Compare(a.File, b.File); order != 0 {
			return order
		}
		return a.order - b.order
	})
	var entries []entry
	seen := map[string]bool{}
	for _, f := range all {
		// The last argument is the source.
		if key := strings.Join(f.Arguments, "\x00"); !seen[key] {
			seen[key] = true
			entries = append(entries, f.entry)
		}
	}
	return entries
}

// sources are the extensions of files that are compiled.
var sources = []string{".C", ".c", ".c++", ".cc", ".cl", ".cpp", ".cu", ".cxx", ".hip", ".m", ".mm"}

// entry returns the entry of an action, and whether it compiles a source.
func (c converter) entry(a action) (entry, bool) {
	args := expand(a)
	if len(args) > 1 && args[1] == "compile" {
		// offload compile FLAG... -- COMMAND...
		if at := slices.Index(args, "--"); at >= 0 {
			args = args[at+1:]
		}
	}
	if len(args) == 0 {
		return entry{}, false
	}
	e := entry{Directory: c.workspace, Arguments: []string{c.place(args[0])}}
	for i := 1; i < len(args); i++ {
		arg := args[i]
		value := ""
		if i+1 < len(args) {
			value = args[i+1]
		}
		switch {
		case arg == "-o" || arg == "-MF" || arg == "-MT" || arg == "-MQ":
			i++ // an output: clangd writes nothing
		case arg == "-MD" || arg == "-MMD" || arg == "-S" || arg == "-c" || arg == "-emit-llvm" || arg == "-":
		case arg == "-fno-canonical-system-headers":
			// Only GCC has this flag.
		case arg == "-Xclang" && i+3 < len(args) && value == "-main-file-name":
			// The action reads the source from a pipe, with expanded headers. The entry names
			// the source itself.
			e.File = strings.TrimPrefix(args[i+3], "//")
			i += 3
		case arg == "-Xclang" && i+3 < len(args) && value == "-fopenmp-host-ir-file-path":
			i += 3 // for code generation
		case arg == "-Xclang" && slices.Contains([]string{"-emit-obj", "-disable-llvm-passes"}, value):
			i++
		case takesValue(arg):
			e.Arguments = append(e.Arguments, arg, c.place(value))
			i++
		default:
			if !strings.HasPrefix(arg, "-") && slices.Contains(sources, filepath.Ext(arg)) {
				e.File = arg
				continue
			}
			e.Arguments = append(e.Arguments, c.place(arg))
		}
	}
	if e.File == "" {
		return entry{}, false
	}
	if slices.Contains(e.Arguments, "-fopenmp-is-target-device") && slices.Contains(e.Arguments, "-target-cpu") {
		// The action also asks the compiler for these headers of a GPU's OpenMP.
		if dir, err := c.resourceDir(e.Arguments[0]); err == nil {
			wrappers := filepath.Join(dir, "include", "openmp_wrappers")
			e.Arguments = append(e.Arguments, "-isystem", wrappers, "-isystem", filepath.Join(dir, "include", "llvm_libc_wrappers"))
			const functions = "__clang_openmp_device_functions.h"
			if _, err := os.Stat(filepath.Join(wrappers, functions)); err == nil {
				e.Arguments = append(e.Arguments, "-include", functions)
			}
		}
	}
	e.File = c.place(e.File)
	if !filepath.IsAbs(e.File) {
		e.File = filepath.Join(c.workspace, e.File)
	}
	e.Arguments = append(e.Arguments, e.File)
	return e, true
}

// expand returns the command line of an action, with its param files replaced by their
// contents.
func expand(a action) []string {
	var args []string
	for _, arg := range a.Arguments {
		at := slices.IndexFunc(a.ParamFiles, func(f paramFile) bool { return arg == "@"+f.ExecPath })
		if at < 0 {
			args = append(args, arg)
			continue
		}
		args = append(args, a.ParamFiles[at].Arguments...)
	}
	return args
}

// takesValue reports whether the next argument is the value of a flag and not a source.
func takesValue(flag string) bool {
	return slices.Contains([]string{
		"-D", "-I", "-U", "-Xclang", "-Xpreprocessor", "-idirafter", "-imacros", "-include", "-iquote", "-isysroot",
		"-isystem", "-isystem-after", "-mllvm", "-target", "-x",
	}, flag)
}

// place makes paths of other repositories and outputs absolute, because they are below Bazel's
// own directory and not in the workspace. An argument can have a flag before the path.
func (c converter) place(arg string) string {
	for _, folder := range []string{"external/", "bazel-out/"} {
		at := strings.Index(arg, folder)
		if at < 0 {
			continue
		}
		before := arg[:at]
		// The start of a path: that of the argument, or after a flag, as in -Ipath and
		// --flag=path.
		if before != "" && !strings.HasSuffix(before, "=") && (!strings.HasPrefix(before, "-") || strings.ContainsAny(before, "/ ")) {
			continue
		}
		root := c.execroot
		if folder == "external/" {
			// Not all of them have links in the execution root.
			root = filepath.Dir(filepath.Dir(c.execroot))
		}
		return before + root + "/" + arg[at:]
	}
	return arg
}
