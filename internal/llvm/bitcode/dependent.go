package bitcode

const (
	dependentNode = "llvm.dependent-libraries" // the named metadata that lists libraries
	maxDependent  = 1 << 16                    // entries of the list
)

// DependentLibraries returns the libraries that the modules of a bitcode file tell the linker to link, as
// #pragma comment(lib) does: the strings in the named metadata llvm.dependent-libraries, in no particular
// order.
func DependentLibraries(data []byte) ([]string, error) {
	f, err := open(data)
	if err != nil {
		return nil, err
	}
	var libraries []string
	for _, m := range f.modules {
		list, err := m.dependent()
		if err != nil {
			return nil, err
		}
		libraries = append(libraries, list...)
	}
	return libraries, nil
}

// dependent returns the libraries of one module. Like embedded, it reads the module again for each step.
func (m module) dependent() (libraries []string, err error) {
	list, err := m.namedNodes(dependentNode, maxDependent, nil)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	nodes, wanted := map[uint64]bool{}, map[uint64]bool{}
	for _, n := range list {
		nodes[n] = true
	}
	err = m.metadata(func(c *cursor, code, id uint64, _ *stringTable) {
		if !nodes[id] || code != metaNode && code != metaDistinctNode {
			return
		}
		// Numbers of operands are one higher; 0 means no operand.
		if v, ok := c.operand(); ok && v != 0 {
			wanted[v-1] = true
		}
	})
	if err != nil || len(wanted) == 0 {
		return nil, err
	}
	err = m.metadata(func(c *cursor, code, id uint64, strings *stringTable) {
		switch code {
		case metaStrings:
			strings.each(func(i uint64, s []byte) {
				if wanted[id+i] {
					libraries = append(libraries, string(s))
				}
			})
		case metaStringOld:
			if wanted[id] {
				libraries = append(libraries, string(c.text()))
			}
		}
	})
	return libraries, err
}
