package bitcode

// isInlineAsm reports whether a code is that of a constant that is inline assembly. LLVM 3, 12 and 14 added
// codes.
func isInlineAsm(code uint64) bool { return code == 18 || code == 23 || code == 28 || code == 30 }

// Assembly calls visit with each text in the assembler's language in a bitcode file: of a module, and of
// statements in functions, which begins and ends with other bytes.
func Assembly(data []byte, visit func(text []byte)) error {
	f, err := open(data)
	if err != nil {
		return err
	}
	for _, m := range f.modules {
		err := m.walk(
			func(c *cursor, code uint64) {
				if code == moduleAsm {
					visit(c.text())
				}
			},
			func(c *cursor, id uint64) bool {
				switch id {
				case constantsBlock:
					c.inlineAssembly(visit)
				case functionBlock:
					c.functionAssembly(visit)
				default:
					return false
				}
				return true
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// functionAssembly reads the function block that next has found.
func (c *cursor) functionAssembly(visit func(text []byte)) {
	c.enter(functionBlock)
	for c.err == nil {
		switch e, id := c.next(); e {
		case entryEnd:
			return
		case entryBlock:
			if id == constantsBlock {
				c.inlineAssembly(visit)
			} else {
				c.skipBlock()
			}
		case entryRecord:
			c.begin(id)
		}
	}
}

// inlineAssembly reads the block of constants that next has found.
func (c *cursor) inlineAssembly(visit func(text []byte)) {
	c.records(constantsBlock, func(code uint64) {
		if isInlineAsm(code) {
			visit(c.text())
		}
	})
}
