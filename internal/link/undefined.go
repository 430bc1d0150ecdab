package link

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"

	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/bitcode"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/object"
	"github.com/rules-offload/rules_offload/internal/process"
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
	messages, err = combinedOutput(ctx, opt.Command, "", opt.Env)
	var failed *process.ExitError
	if !errors.As(err, &failed) {
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

// lldUndefined matches lld's message for an undefined symbol.
var lldUndefined = regexp.MustCompile(`(?m)^\S*lld: error: undefined (?:hidden |protected |internal )?symbol: (.+?)\r?$`)

// undefinedSymbols returns an error for the undefined symbols in the output of lld, nil if it has
// none. Objects that cannot be read refer to nothing.
func undefinedSymbols(s *engine.Session, output string, objects []LinkedObject, advice string) error {
	e := &UndefinedSymbolsError{Advice: advice}
	index := map[string]int{}
	for _, match := range lldUndefined.FindAllStringSubmatch(output, -1) {
		name := match[1]
		if _, seen := index[name]; !seen {
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
	input, err := s.Files().Open(name)
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
