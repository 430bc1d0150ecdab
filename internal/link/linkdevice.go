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
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/elf/object"
	"github.com/rules-offload/rules_offload/internal/link/process"
	"github.com/rules-offload/rules_offload/internal/llvm/bitcode"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
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

// LinkDevice runs a device link and returns the output of the linker. If the link fails because of undefined
// symbols, the error names the sources that refer to them.
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

// deviceRuntime is the directory of the runtime for AMD GPUs, below lib. It is also their triple.
const deviceRuntime = "amdgcn-amd-amdhsa"

// checkRuntime returns an error that says what to install or set if an object refers to LLVM's device runtime.
func checkRuntime(s *engine.Session, opt LinkDeviceOptions) error {
	for _, linked := range opt.Objects {
		names, err := references(s, linked.File)
		if err != nil || !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "__kmpc_") }) {
			continue // the linker reports what it cannot read
		}
		clang, err := filepath.EvalSymlinks(opt.Command[0])
		if err != nil {
			clang = opt.Command[0]
		}
		llvm, dir := filepath.Dir(filepath.Dir(clang)), filepath.Join("lib", deviceRuntime)
		library := filepath.Join(dir, "libompdevice.a")
		what := "this LLVM (" + llvm + ") has no OpenMP device runtime, " + library + ": install an LLVM that is built with the runtime openmp for " + deviceRuntime + ", and name its directory"
		if _, err := os.Stat(filepath.Join(llvm, library)); err == nil {
			what = "the link does not name LLVM's OpenMP device runtime, " + filepath.Join(llvm, library)
		} else {
			llvm = "/LLVM"
		}
		return fmt.Errorf("%s for %s: %s: arch_linkopts = {\"%s\": [\"-L%s\", \"-lompdevice\"]}", linked.Source, opt.WithoutRuntime, what, deviceRuntime, filepath.Join(llvm, dir))
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

// undefinedSymbols returns an error for the undefined symbols in the output of lld, nil if it has none. For each
// list of sources that refer to some of them, there is one of errors.Join. Objects that cannot be read refer to
// nothing.
func undefinedSymbols(s *engine.Session, output string, objects []LinkedObject, advice string) error {
	var undefined []string           // in the order of the output
	sources := map[string][]string{} // that refer to a symbol, in the order of the link
	for line := range strings.SplitSeq(output, "\n") {
		name := lldUndefined(line)
		if _, seen := sources[name]; name != "" && !seen {
			sources[name] = nil
			undefined = append(undefined, name)
		}
	}
	if undefined == nil {
		return nil
	}
	for _, linked := range objects {
		names, err := references(s, linked.File)
		if err != nil {
			continue
		}
		for _, name := range names {
			if _, found := sources[name]; !found {
				name = kernels.Demangle(name) // as the linker prints it
			}
			if list, found := sources[name]; found && !slices.Contains(list, linked.Source) {
				sources[name] = append(list, linked.Source)
			}
		}
	}
	var lines []error
	for len(undefined) > 0 {
		by := sources[undefined[0]]
		var names, others []string
		for _, name := range undefined {
			if slices.Equal(sources[name], by) {
				names = append(names, `"`+name+`"`)
			} else {
				others = append(others, name)
			}
		}
		undefined = others
		what, where := "symbol", "the libraries of the link"
		if len(names) > 1 {
			what = "symbols"
		}
		if len(by) > 0 {
			where = strings.Join(by, ", ")
		}
		line := fmt.Sprintf("undefined device %s %s: referenced by %s", what, strings.Join(names, ", "), where)
		if advice != "" {
			line += "; " + advice
		}
		lines = append(lines, errors.New(line))
	}
	return errors.Join(lines...)
}

// references returns the names of the symbols that an ELF object or a bitcode file uses and does
// not define.
func references(s *engine.Session, name string) ([]string, error) {
	input, err := s.Files().Open(name)
	if err != nil {
		return nil, err
	}
	data := input.Mapped(guard.Inside)
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
