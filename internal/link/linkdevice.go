package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/bitcode"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/object"
	"github.com/rules-offload/rules_offload/internal/process"
	"github.com/rules-offload/rules_offload/internal/session"
)

// LinkDeviceOptions are the options of LinkDevice.
type LinkDeviceOptions struct {
	// Command is the compiler driver that links, a path, and its arguments.
	Command []string
	// Env is its environment.
	Env []string
	// Objects are the linked files, in the order of the link.
	Objects []LinkedObject
	// Advice tells the user what to do about undefined symbols.
	Advice string
	// WithoutRuntime is the GPU for which an OpenMP link has no library, such as gfx90a. Such a
	// link fails before it starts if an object calls LLVM's device runtime. Empty for other links.
	WithoutRuntime string
}

// LinkedObject is an ELF object or a bitcode file in a device link.
type LinkedObject struct {
	File string
	// Source is the name of what the file was compiled from, for messages.
	Source string
}

// LinkDevice runs a device link and returns the output of the linker. For a link that fails
// because of undefined symbols, the error is an [UndefinedSymbolsError].
func LinkDevice(ctx context.Context, s *engine.Session, opt LinkDeviceOptions) (messages string, err error) {
	if opt.WithoutRuntime != "" {
		if err := checkRuntime(s, opt); err != nil {
			return "", err
		}
	}
	var printed bytes.Buffer
	program := process.Command{Args: opt.Command, Env: opt.Env, Stdout: &printed, Stderr: &printed}
	err = program.Run(ctx)
	messages = printed.String()
	failed, ok := errors.AsType[*process.ExitError](err)
	if !ok {
		return messages, err
	}
	if undefined := undefinedSymbols(s, messages, opt.Objects, opt.Advice); undefined != nil {
		return messages, undefined
	}
	return messages, fmt.Errorf("device link: %s: %w", filepath.Base(opt.Command[0]), failed.Err)
}

// UndefinedSymbolsError reports symbols that a device link does not define.
type UndefinedSymbolsError struct {
	Symbols []UndefinedSymbol // in the order of the linker's messages
	Advice  string            // what to do
}

// UndefinedSymbol is a symbol that a device link does not define.
type UndefinedSymbol struct {
	// Name is the name that the linker prints, which is demangled.
	Name string
	// Sources are the sources that refer to the symbol, in the order of the link. It is empty if
	// only libraries refer to it.
	Sources []string
}

// Error has a line for each list of sources, with the symbols that they refer to.
func (e *UndefinedSymbolsError) Error() string {
	var lines []string
	for rest := e.Symbols; len(rest) > 0; {
		first := rest[0]
		var names []string
		var others []UndefinedSymbol
		for _, symbol := range rest {
			if slices.Equal(symbol.Sources, first.Sources) {
				names = append(names, `"`+symbol.Name+`"`)
			} else {
				others = append(others, symbol)
			}
		}
		rest = others
		what := "symbol"
		if len(names) > 1 {
			what = "symbols"
		}
		by := "the libraries of the link"
		if len(first.Sources) > 0 {
			by = strings.Join(first.Sources, ", ")
		}
		line := fmt.Sprintf("undefined device %s %s: referenced by %s", what, strings.Join(names, ", "), by)
		if e.Advice != "" {
			line += "; " + e.Advice
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// NoDeviceRuntimeError reports an OpenMP link without LLVM's device runtime, which its objects call.
type NoDeviceRuntimeError struct {
	Target string // the GPU
	Source string // the first source that calls the runtime
	LLVM   string // the directory of LLVM
	Found  string // the runtime that this LLVM has, a path below LLVM; empty if it has none
}

// Error is one line that says what to install or set.
func (e *NoDeviceRuntimeError) Error() string {
	dir := filepath.Join("lib", deviceRuntime)
	what := "this LLVM (" + e.LLVM + ") has no OpenMP device runtime, " + filepath.Join(dir, "libompdevice.a") + ": install an LLVM that is built with the runtime openmp for " + deviceRuntime + ", and name its directory"
	if e.Found != "" {
		what = "the link does not name LLVM's OpenMP device runtime, " + filepath.Join(e.LLVM, e.Found)
		dir = filepath.Join(e.LLVM, dir)
	} else {
		dir = filepath.Join("/LLVM", dir)
	}
	return fmt.Sprintf("%s for %s: %s: arch_linkopts = {\"%s\": [\"-L%s\", \"-lompdevice\"]}", e.Source, e.Target, what, deviceRuntime, dir)
}

// deviceRuntime is the directory of the runtime for AMD GPUs, below lib. It is also their triple.
const deviceRuntime = "amdgcn-amd-amdhsa"

// checkRuntime returns a [NoDeviceRuntimeError] if an object refers to LLVM's device runtime.
func checkRuntime(s *engine.Session, opt LinkDeviceOptions) error {
	for _, linked := range opt.Objects {
		names, err := references(s, linked.File)
		if err != nil || !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "__kmpc_") }) {
			continue // the linker reports what it cannot read
		}
		e := &NoDeviceRuntimeError{Target: opt.WithoutRuntime, Source: linked.Source}
		clang, err := filepath.EvalSymlinks(opt.Command[0])
		if err != nil {
			clang = opt.Command[0]
		}
		e.LLVM = filepath.Dir(filepath.Dir(clang))
		library := filepath.Join("lib", deviceRuntime, "libompdevice.a")
		if _, err := os.Stat(filepath.Join(e.LLVM, library)); err == nil {
			e.Found = library
		}
		return e
	}
	return nil
}

// lldUndefined returns the symbol of a line of output that is lld's message for an undefined symbol,
// "" for other lines.
func lldUndefined(line string) string {
	tool, message, _ := strings.Cut(line, ": error: undefined ")
	if !strings.HasSuffix(tool, "lld") || strings.ContainsAny(tool, " \t\f\r") {
		return ""
	}
	for _, visibility := range []string{"hidden ", "protected ", "internal "} {
		message = strings.TrimPrefix(message, visibility)
	}
	name, found := strings.CutPrefix(message, "symbol: ")
	if !found {
		return ""
	}
	return strings.TrimSuffix(name, "\r")
}

// undefinedSymbols returns an error for the undefined symbols in the output of lld, nil if it has
// none. Objects that cannot be read refer to nothing.
func undefinedSymbols(s *engine.Session, output string, objects []LinkedObject, advice string) error {
	e := &UndefinedSymbolsError{Advice: advice}
	index := map[string]int{}
	for line := range strings.SplitSeq(output, "\n") {
		name := lldUndefined(line)
		if _, seen := index[name]; name != "" && !seen {
			index[name] = len(e.Symbols)
			e.Symbols = append(e.Symbols, UndefinedSymbol{Name: name})
		}
	}
	if len(e.Symbols) == 0 {
		return nil
	}
	for _, linked := range objects {
		names, err := references(s, linked.File)
		if err != nil {
			continue
		}
		for _, name := range names {
			i, found := index[name]
			if !found {
				i, found = index[kernels.Demangle(name)]
			}
			if !found {
				continue
			}
			if symbol := &e.Symbols[i]; !slices.Contains(symbol.Sources, linked.Source) {
				symbol.Sources = append(symbol.Sources, linked.Source)
			}
		}
	}
	return e
}

// references returns the names of the symbols that an ELF object or a bitcode file uses and does
// not define.
func references(s *engine.Session, name string) ([]string, error) {
	input, err := session.Files(s).Open(name)
	if err != nil {
		return nil, err
	}
	data := input.Bytes()
	if bitcode.Is(data) {
		input.Close()
		globals, err := globals(s, name)
		var names []string
		for _, g := range globals {
			if !g.Defined && !g.Local {
				names = append(names, g.Name)
			}
		}
		return names, err
	}
	defer input.Close()
	f, err := object.Parse(data)
	if err != nil {
		return nil, files.NameError(input.Name(), err)
	}
	var names []string
	for symbol, err := range f.Symbols() {
		if err != nil {
			return nil, files.NameError(input.Name(), err)
		}
		if symbol.Global && !symbol.Special && symbol.Kind == object.Undefined {
			names = append(names, string(symbol.Name))
		}
	}
	return names, nil
}
