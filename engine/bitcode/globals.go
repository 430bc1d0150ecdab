package bitcode

// Global is a global value of a bitcode file.
type Global struct {
	Name string
	// Variable tells variables from functions and other names of code.
	Variable bool
	// Defined tells definitions from declarations; a copy to be inlined is none.
	Defined bool
	// Local is a value that other modules do not see.
	Local bool
	// Weak is a definition that may be in several modules.
	Weak bool
	// Constant is a variable that nothing changes, neither code nor, as
	// far as the compiler knows, whoever loads it.
	Constant bool
	// AddressSpace is that of a variable.
	AddressSpace uint64
}

// Globals returns the global values of the modules of a bitcode file, without
// LLVM's own (llvm.*).
func Globals(data []byte) ([]Global, error) {
	f, err := open(data)
	if err != nil {
		return nil, err
	}
	var globals []Global
	for _, m := range f.modules {
		s := symbolScan{module: m}
		if err := m.walk(s.record, s.block); err != nil {
			return nil, err
		}
		for _, g := range s.globals {
			if g.meta || isLLVM(g.name) {
				continue
			}
			globals = append(globals, Global{
				Name: string(g.name), Variable: g.kind == variable, Defined: g.defined, Local: !g.global,
				Weak: g.weak, Constant: g.constant, AddressSpace: g.space,
			})
		}
	}
	return globals, nil
}
