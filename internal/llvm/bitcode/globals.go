package bitcode

// Global is a global value of a bitcode file.
type Global struct {
	Name string
	// Variable reports whether the value is a variable, not a function or another
	// name of code.
	Variable bool
	// Defined reports whether the value is defined, not only declared. A copy for
	// inlining is not a definition.
	Defined bool
	// Local reports whether the value is not visible to other modules.
	Local bool
	// Weak reports whether several modules may define the value.
	Weak bool
	// Constant reports whether the value is a variable that is never changed:
	// neither by code nor, as far as the compiler can determine, by its loader.
	Constant bool
	// AddressSpace is the address space of a variable.
	AddressSpace uint64
}

// Globals returns the global values of the modules of a bitcode file, except
// those reserved by LLVM (llvm.*).
func Globals(data []byte) ([]Global, error) {
	var globals []Global
	err := scanSymbols(data, func(s *symbolScan) {
		for _, g := range s.globals {
			if g.meta || isLLVM(g.name) {
				continue
			}
			globals = append(globals, Global{
				Name: string(g.name), Variable: g.kind == variable, Defined: g.defined, Local: !g.global,
				Weak: g.weak, Constant: g.constant, AddressSpace: g.space,
			})
		}
	})
	return globals, err
}
