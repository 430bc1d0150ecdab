package bitcode

import "encoding/binary"

// The symbol table for linkers ("irsymtab") is a separate block next to the
// modules, since LLVM 5. It consists of little-endian words; strings are stored
// as offset and size in the string table. It lists the symbols of each module
// in the order of the module symbol table, with their names in object files.
const (
	symtabVersion = 3 // newest supported version; the fields read are the same since version 1

	symtabModules = 3 * 4      // offset and count of modules in the header
	symtabSymbols = 7 * 4      // offset and count of symbols
	symtabHeader  = 9 * 4      // the part that is read
	symtabModule  = 3 * 4      // size of a module: first symbol, end, ...
	symtabSymbol  = 6 * 4      // size of a symbol: name, IR name, comdat, flags
	symtabMax     = 0x7fffffff // symbols and modules, so that sums stay small

	symtabDecoration = 32 // bytes of "__imp_", "_" and "@@123" at most

	symtabUndefined      = 1 << 3
	symtabGlobal         = 1 << 10
	symtabFormatSpecific = 1 << 11
)

// symtab is the checked form of the table; nil if there is no usable table.
type symtab struct {
	modules, symbols, strtab []byte
}

// parseSymtab returns the table of a file with the given number of modules, or
// nil if it is not a complete table of a supported version. The table is only
// an index, and a file assembled from others may have one that does not match.
func parseSymtab(data, strtab []byte, modules int) *symtab {
	if len(data) < symtabHeader {
		return nil
	}
	if v := binary.LittleEndian.Uint32(data); v == 0 || v > symtabVersion {
		return nil
	}
	list := func(at, size uint64) []byte {
		off := uint64(binary.LittleEndian.Uint32(data[at:]))
		n := uint64(binary.LittleEndian.Uint32(data[at+4:]))
		if off > uint64(len(data)) || n > symtabMax || n*size > uint64(len(data))-off {
			return nil
		}
		return data[off : off+n*size]
	}
	t := &symtab{list(symtabModules, symtabModule), list(symtabSymbols, symtabSymbol), strtab}
	if len(t.modules) != modules*symtabModule {
		return nil
	}
	return t
}

// symtabPart is the part of the table for one module.
type symtabPart struct {
	symbols, strtab []byte
}

// module returns the part for module i, or an empty part if it has fewer than n
// symbols.
func (t *symtab) module(i, n int) symtabPart {
	if t == nil {
		return symtabPart{}
	}
	m := t.modules[i*symtabModule:]
	begin := uint64(binary.LittleEndian.Uint32(m))
	end := uint64(binary.LittleEndian.Uint32(m[4:]))
	if begin > end || end*symtabSymbol > uint64(len(t.symbols)) || end-begin < uint64(n) {
		return symtabPart{}
	}
	return symtabPart{t.symbols[begin*symtabSymbol : end*symtabSymbol], t.strtab}
}

// str returns the string that the words at data refer to.
func (p symtabPart) str(data []byte) ([]byte, bool) {
	off := uint64(binary.LittleEndian.Uint32(data))
	size := uint64(binary.LittleEndian.Uint32(data[4:]))
	if off > uint64(len(p.strtab)) || size > uint64(len(p.strtab))-off {
		return nil, false
	}
	return p.strtab[off : off+size], true
}

// mangled returns the name in object files of the global value called name. It
// is the name in the table if symbol i of the table is that value, and
// otherwise follows from the data layout.
func (p symtabPart) mangled(i int, name []byte, m byte, unnamed int) string {
	if len(name) > 0 && i*symtabSymbol < len(p.symbols) {
		sym := p.symbols[i*symtabSymbol:]
		ir, ok1 := p.str(sym[8:])
		out, ok2 := p.str(sym)
		if ok1 && ok2 && len(out) > 0 && len(out) <= len(name)+symtabDecoration && string(ir) == string(name) {
			return string(out)
		}
	}
	return mangle(name, m, unnamed)
}

// defined appends the names of the global, defined symbols from i on, which are
// those of module-level assembly.
func (p symtabPart) defined(names []string, i int) []string {
	left := len(p.strtab) // names are distinct, so all of them fit in the table
	for i *= symtabSymbol; i < len(p.symbols); i += symtabSymbol {
		sym := p.symbols[i:]
		flags := binary.LittleEndian.Uint32(sym[20:])
		if flags&(symtabUndefined|symtabGlobal|symtabFormatSpecific) != symtabGlobal {
			continue
		}
		if name, ok := p.str(sym); ok && len(name) > 0 && len(name) <= left {
			left -= len(name)
			names = append(names, string(name))
		}
	}
	return names
}
