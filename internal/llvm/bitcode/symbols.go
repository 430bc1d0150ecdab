package bitcode

// Module record codes.
const (
	moduleVersion     = 1
	moduleDataLayout  = 3
	moduleAsm         = 4
	moduleSectionName = 5
	moduleGlobalVar   = 7
	moduleFunction    = 8
	moduleAliasOld    = 9
	moduleAlias       = 14
	moduleIFunc       = 18
)

// kind orders global values as LLVM's module symbol table does.
type kind uint8

const (
	function kind = iota
	variable
	alias
	ifunc
	kinds
)

// global is a global value of a module.
type global struct {
	kind    kind
	defined bool   // in this module, not only as a copy for inlining
	global  bool   // linkage is neither internal nor private
	meta    bool   // in section llvm.metadata
	call    uint64 // calling convention of a function
	name    []byte

	weak     bool   // may be defined by several modules
	constant bool   // variable that neither code nor a loader modifies
	space    uint64 // address space of a variable
}

// Symbols returns the names that LLVM's archive writer lists in the symbol
// index for a bitcode member: those that are global, defined and not reserved
// by LLVM (llvm.*). For each module, these are functions, variables, aliases,
// ifuncs and then the symbols that module-level assembly defines, mangled as in
// object files.
//
// Two kinds of names require a compiler and are taken from the symbol table
// that LLVM 5 and later write next to the modules: symbols of module-level
// assembly, and names with argument sizes for 32-bit Windows. For a file
// without this table, the former are missing and the latter have no argument
// size.
func Symbols(data []byte) ([]string, error) {
	f, err := open(data)
	if err != nil {
		return nil, err
	}
	table := parseSymtab(f.symtab, f.symtabStrtab, len(f.modules))
	var names []string
	unnamed := 0
	for i, m := range f.modules {
		s, err := m.scan()
		if err != nil {
			return nil, err
		}
		written := table.module(i, len(s.globals))
		at := 0
		for k := function; k < kinds; k++ {
			for _, g := range s.globals {
				if g.kind != k {
					continue
				}
				at++
				if !g.global || !g.defined || g.meta || isLLVM(g.name) {
					continue
				}
				name := g.name
				if len(name) == 0 {
					unnamed++
				}
				names = append(names, written.mangled(at-1, name, s.mangling, unnamed))
			}
		}
		if s.asm {
			names = written.defined(names, at)
		}
	}
	return names, nil
}

// isLLVM reports whether a name is reserved by LLVM.
func isLLVM(name []byte) bool {
	return len(name) >= 5 && string(name[:5]) == "llvm."
}

// symbolScan collects the global values of a module for Symbols.
type symbolScan struct {
	module
	version  uint64
	mangling byte // the m: part of the data layout
	asm      bool // has module-level assembly
	globals  []global
	metaSect []bool // by section number: whether it is llvm.metadata
	names    uint64 // bytes of names in the string table
}

// scan collects the global values of a module.
func (m module) scan() (*symbolScan, error) {
	s := &symbolScan{module: m}
	return s, m.walk(s.record, s.block)
}

// scanSymbols calls visit with the global values of each module of a bitcode file.
func scanSymbols(data []byte, visit func(s *symbolScan)) error {
	f, err := open(data)
	if err != nil {
		return err
	}
	for _, m := range f.modules {
		s, err := m.scan()
		if err != nil {
			return err
		}
		visit(s)
	}
	return nil
}

// minGlobal is less than the number of bytes that any writer uses for a global
// value. A module with more values than that allows was crafted to exhaust
// memory.
const minGlobal = 4

func (s *symbolScan) record(c *cursor, code uint64) {
	switch code {
	case moduleVersion:
		s.version, _ = c.operand()
	case moduleDataLayout:
		s.mangling = mangling(c.text())
	case moduleAsm:
		_, s.asm = c.operand()
	case moduleSectionName:
		s.metaSect = append(s.metaSect, string(c.text()) == "llvm.metadata")
	case moduleGlobalVar, moduleFunction, moduleAliasOld, moduleAlias, moduleIFunc:
		s.global(c, code)
	}
}

// global reads the record of a global value.
func (s *symbolScan) global(c *cursor, code uint64) {
	var g global
	if s.version >= 2 {
		var name [2]uint64
		c.operands(name[:])
		off, size := name[0], name[1]
		if off > uint64(len(s.strtab)) || size > uint64(len(s.strtab))-off {
			c.fail("name of a global value: offset %#x + size %#x passes the end of the string table (%d bytes)", off, size, len(s.strtab))
			return
		}
		// Names of a module are distinct and do not overlap in the table.
		if s.names += size; s.names > uint64(len(s.strtab)) {
			c.fail("names of global values overlap: more than the string table's %d bytes", len(s.strtab))
			return
		}
		g.name = s.strtab[off : off+size]
	}
	if len(s.globals) >= len(s.data)/minGlobal {
		c.fail("more than %d global values in %d bytes", len(s.globals), len(s.data))
		return
	}
	var ops [10]uint64
	n, need := c.operands(ops[:]), 0
	var linkage uint64
	switch code {
	case moduleFunction: // type, calling convention, is a declaration, linkage
		g.kind, need, linkage = function, 4, ops[3]
		g.call = ops[1] & 0x3ff
		g.defined = ops[2] == 0
	case moduleGlobalVar: // type, constant, initializer + 1, linkage, alignment, section + 1, ..., externally initialized
		g.kind, need, linkage = variable, 6, ops[3]
		g.defined = ops[2] != 0
		g.constant, g.space = ops[1]&1 != 0 && ops[9] == 0, ops[1]>>2
		if sect := ops[5]; sect > uint64(len(s.metaSect)) {
			c.fail("global variable in section %d of %d", sect, len(s.metaSect))
		} else if sect > 0 {
			g.meta = s.metaSect[sect-1]
		}
	case moduleAliasOld: // type, aliasee, linkage
		g.kind, need, linkage = alias, 3, ops[2]
		g.defined = true
	case moduleAlias, moduleIFunc: // type, address space, aliasee, linkage
		g.kind, need, linkage = alias, 4, ops[3]
		if code == moduleIFunc {
			g.kind = ifunc
		}
		g.defined = true
	}
	if c.err == nil && n < need {
		c.fail("record %d of a global value has %d operands, expected at least %d", code, n, need)
	}
	if c.err != nil {
		return
	}
	g.global = true
	switch linkage {
	case 3, 9, 13, 14: // internal, private and two older kinds of private
		g.global = false
	case 12: // available externally
		g.defined = false
	case 1, 4, 10, 11, 16, 17, 18, 19: // weak and linkonce, any and ODR
		g.weak = true
	}
	s.globals = append(s.globals, g)
}

// block reads the names of global values, which older modules store in a block.
func (s *symbolScan) block(c *cursor, id uint64) bool {
	if id != valueSymtabBlock || s.version >= 2 {
		return false
	}
	const (
		vstEntry   = 1 // value, name
		vstFnEntry = 3 // value, offset, name
	)
	c.records(id, func(code uint64) {
		if code != vstEntry && code != vstFnEntry {
			return
		}
		v, ok := c.operand()
		if code == vstFnEntry {
			_, ok = c.operand()
		}
		if ok && v < uint64(len(s.globals)) {
			s.globals[v].name = c.text()
		}
	})
	return true
}
