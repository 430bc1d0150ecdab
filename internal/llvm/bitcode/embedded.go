package bitcode

import (
	"bytes"
	"errors"

	"github.com/rules-offload/rules_offload/internal/embedding"
)

const (
	embeddedNode = "llvm.embedded.objects" // the named metadata that lists images
	maxEmbedded  = 1 << 16                 // entries of the list
	maxElements  = 1 << 16                 // constants that arrays of bytes name; LLVM has 256
)

// Metadata record codes.
const (
	metaStringOld      = 1
	metaValue          = 2
	metaNode           = 3
	metaName           = 4
	metaDistinctNode   = 5
	metaKind           = 6
	metaNamedNode      = 10
	metaAttachment     = 11
	metaStrings        = 35
	metaDeclAttachment = 36
	metaIndexOffset    = 38
	metaIndex          = 39
)

// Type record codes.
const (
	typeNumEntry   = 1
	typeInteger    = 7
	typeArray      = 11
	typeVector     = 12
	typeStructName = 19
)

// Constant record codes.
const (
	cstSetType   = 1
	cstNull      = 2
	cstInteger   = 4
	cstAggregate = 7
	cstString    = 8
	cstCString   = 9
	cstData      = 22
)

// EmbeddedObjects returns the images that clang's -fembed-offload-object stored
// in a bitcode file, in the order in which the modules list them: the bytes of
// each global variable that the named metadata llvm.embedded.objects pairs with
// the section .llvm.offloading. Their content is not examined.
//
// Like LLVM, it skips values other than arrays of bytes; it also skips those
// that are all zero. A result shares memory with data if the encoding allows it,
// and otherwise uses one buffer of its size. Images listed more than once are
// decoded once.
func EmbeddedObjects(data []byte) ([][]byte, error) {
	f, err := open(data)
	if err != nil {
		return nil, err
	}
	if len(f.modules) == 0 {
		return nil, fault(0, "bitcode at byte 0x0: it has no module")
	}
	var objects [][]byte
	for _, m := range f.modules {
		list, err := m.embedded()
		if err != nil {
			return nil, err
		}
		objects = append(objects, list...)
	}
	return objects, nil
}

// embedded follows the references of one module: named metadata, nodes, values
// and strings, global variables, constants. Each step reads the module again
// with the references of the previous step, so that no part of a large module
// stays in memory.
func (m module) embedded() ([][]byte, error) {
	nodes, err := m.namedNodes(embeddedNode, maxEmbedded, []byte(embedding.OffloadSection))
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	values, err := m.nodeValues(nodes)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	inits, err := m.initializers(values)
	if err != nil || len(inits) == 0 {
		return nil, err
	}
	content, err := m.contents(inits)
	if err != nil {
		return nil, err
	}
	var objects [][]byte
	for _, v := range values {
		if b := content[inits[v]]; len(b) > 0 {
			objects = append(objects, b)
		}
	}
	return objects, nil
}

// errDone ends a walk early.
var errDone = errors.New("done")

// metadata calls visit for each record of the module's metadata, with the number
// of the metadata that it defines. Strings come first, in a table whose strings
// are numbered from id.
func (m module) metadata(visit func(c *cursor, code, id uint64, strings *stringTable)) error {
	next := uint64(0)
	err := m.walk(
		func(*cursor, uint64) {},
		func(c *cursor, id uint64) bool {
			if id != metadataBlock {
				return false
			}
			c.records(id, func(code uint64) {
				first := next
				var strings *stringTable
				switch code {
				case metaStrings:
					strings = c.stringTable()
					next += strings.count
				case metaName, metaKind, metaNamedNode, metaAttachment, metaDeclAttachment, metaIndexOffset, metaIndex:
				default:
					next++
				}
				if c.err == nil {
					visit(c, code, first, strings)
				}
			})
			return true
		})
	if err == errDone {
		return nil
	}
	return err
}

// stringTable is the content of a METADATA_STRINGS record.
type stringTable struct {
	count   uint64
	lengths bits
	chars   []byte
}

// stringTable reads the operands of METADATA_STRINGS: the number of strings and
// a blob with their lengths, then at an offset their characters.
func (c *cursor) stringTable() *stringTable {
	var ops [2]uint64
	n := c.operands(ops[:])
	data := c.text()
	count, off := ops[0], ops[1]
	switch {
	case c.err != nil:
	case n < 2 || off > uint64(len(data)):
		c.fail("metadata strings: characters at %#x pass the end (%d bytes)", off, len(data))
	case count > off*8/6:
		c.fail("metadata strings: lengths of %d strings do not fit in %d bytes", count, off)
	}
	if c.err != nil {
		return &stringTable{}
	}
	return &stringTable{count, bits{data: data[:off], end: off * 8}, data[off:]}
}

// find calls found with the position of each string equal to s.
func (t *stringTable) find(s string, found func(i uint64)) {
	if !bytes.Contains(t.chars, []byte(s)) {
		return
	}
	t.each(func(i uint64, text []byte) {
		if string(text) == s {
			found(i)
		}
	})
}

// each calls visit with the position and the bytes of each string.
func (t *stringTable) each(visit func(i uint64, text []byte)) {
	lengths, chars := t.lengths, t.chars
	for i := range t.count {
		n := lengths.vbr(6)
		if lengths.err != nil || n > uint64(len(chars)) {
			return
		}
		visit(i, chars[:n])
		chars = chars[n:]
	}
}

// namedNodes returns the operands of the named metadata name, which are numbers of metadata nodes, at
// most the given number. If text is not nil, it returns none for a module whose strings do not contain it.
func (m module) namedNodes(name string, most int, text []byte) (nodes []uint64, err error) {
	named := false
	err = m.metadata(func(c *cursor, code, _ uint64, strings *stringTable) {
		switch code {
		case metaStrings:
			if !bytes.Contains(strings.chars, text) {
				c.err = errDone // no node can name the text
			}
		case metaName:
			named = string(c.text()) == name
		case metaNamedNode:
			for named {
				v, ok := c.operand()
				if !ok {
					break
				}
				if len(nodes) == most {
					c.fail("%s lists more than %d nodes", name, most)
					break
				}
				nodes = append(nodes, v)
			}
			named = false
		}
	})
	return nodes, err
}

// nodeValues returns the value number of the first operand of each node whose
// second operand is the section's name.
func (m module) nodeValues(nodes []uint64) ([]uint64, error) {
	// Numbers in these operands are one higher; 0 means no operand.
	pairs := map[uint64][2]uint64{}
	for _, n := range nodes {
		pairs[n] = [2]uint64{}
	}
	err := m.metadata(func(c *cursor, code, id uint64, _ *stringTable) {
		if _, ok := pairs[id]; !ok || code != metaNode && code != metaDistinctNode {
			return
		}
		var ops [2]uint64
		c.operands(ops[:])
		pairs[id] = ops
	})
	if err != nil {
		return nil, err
	}
	value, section := map[uint64]uint64{}, map[uint64]bool{}
	for _, p := range pairs {
		if p[0] != 0 && p[1] != 0 {
			value[p[0]], section[p[1]] = none, false
		}
	}
	err = m.metadata(func(c *cursor, code, id uint64, strings *stringTable) {
		switch code {
		case metaStrings:
			strings.find(embedding.OffloadSection, func(i uint64) {
				if _, ok := section[id+i+1]; ok {
					section[id+i+1] = true
				}
			})
		case metaStringOld:
			if _, ok := section[id+1]; ok {
				section[id+1] = string(c.text()) == embedding.OffloadSection
			}
		case metaValue: // type, value
			if _, ok := value[id+1]; ok {
				var ops [2]uint64
				if c.operands(ops[:]) == 2 {
					value[id+1] = ops[1]
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var values []uint64
	for _, n := range nodes {
		p := pairs[n]
		if v, ok := value[p[0]]; ok && v != none && section[p[1]] {
			values = append(values, v)
		}
	}
	return values, nil
}

// none is not a valid value number.
const none = ^uint64(0)

// isGlobal reports whether a module record defines a global value.
func isGlobal(code uint64) bool {
	switch code {
	case moduleGlobalVar, moduleFunction, moduleAliasOld, moduleAlias, moduleIFunc:
		return true
	}
	return false
}

// initializers returns the value numbers of the initializers of those values that
// are global variables with an initializer. Globals and constants are numbered
// together, in the order of the stream.
func (m module) initializers(values []uint64) (map[uint64]uint64, error) {
	wanted := map[uint64]bool{}
	for _, v := range values {
		wanted[v] = true
	}
	inits := map[uint64]uint64{}
	version := uint64(0)
	err := m.values(
		func(c *cursor, code, id uint64) {
			if code == moduleVersion {
				version, _ = c.operand()
			}
			if code != moduleGlobalVar || !wanted[id] {
				return
			}
			var ops [5]uint64 // in version 2 first the name; then type, constant, initializer + 1
			at := 2
			if version >= 2 {
				at = 4
			}
			if c.operands(ops[:at+1]) == at+1 && ops[at] != 0 {
				inits[id] = ops[at] - 1
			}
		},
		func(*cursor, uint64, uint64, bool) {})
	return inits, err
}

// values numbers the values of a module. It calls record for each module record
// and constant for each constant, with the number of the value that it defines;
// bytes reports whether the constant's type is a list of bytes.
func (m module) values(record func(c *cursor, code, id uint64), constant func(c *cursor, code, id uint64, bytes bool)) error {
	next := uint64(0)
	var types []typeInfo
	return m.walk(
		func(c *cursor, code uint64) {
			record(c, code, next)
			if isGlobal(code) {
				next++
			}
		},
		func(c *cursor, id uint64) bool {
			switch id {
			case typeBlock:
				types = c.types()
				return true
			case constantsBlock:
			default:
				return false
			}
			isBytes := false
			c.records(id, func(code uint64) {
				if code == cstSetType {
					t, _ := c.operand()
					isBytes = t < uint64(len(types)) && types[t] == typeBytes
					return
				}
				constant(c, code, next, isBytes)
				next++
			})
			return true
		})
}

// typeInfo classifies a type for the decoder of constants.
type typeInfo uint8

const (
	typeOther typeInfo = iota
	typeByte           // i8
	typeBytes          // array or vector of i8
)

// types reads the type table.
func (c *cursor) types() (types []typeInfo) {
	c.records(typeBlock, func(code uint64) {
		t := typeOther
		var ops [2]uint64
		switch code {
		case typeNumEntry, typeStructName:
			return
		case typeInteger:
			if w, _ := c.operand(); w == 8 {
				t = typeByte
			}
		case typeArray, typeVector: // number of elements, their type
			if c.operands(ops[:]) == 2 && ops[1] < uint64(len(types)) && types[ops[1]] == typeByte {
				t = typeBytes
			}
		}
		types = append(types, t)
	})
	return types
}

// contents decodes the constants whose numbers are the values of inits.
func (m module) contents(inits map[uint64]uint64) (map[uint64][]byte, error) {
	content := map[uint64][]byte{}
	for _, id := range inits {
		content[id] = nil
	}
	elements := map[uint64]int{} // of constants that other constants list, by number: the byte, or -1
	err := m.values(
		func(*cursor, uint64, uint64) {},
		func(c *cursor, code, id uint64, isBytes bool) {
			if _, ok := content[id]; !ok {
				return
			}
			var b []byte
			switch {
			case code == cstString || code == cstData && isBytes:
				b = c.text()
			case code == cstCString:
				b = c.text()
				b = append(b[:len(b):len(b)], 0)
			case code == cstAggregate && isBytes:
				for v, ok := c.operand(); ok; v, ok = c.operand() {
					elements[v] = -1
					if len(elements) > maxElements {
						c.fail("array of bytes with more than %d different elements", maxElements)
					}
				}
			}
			if !zero(b) {
				content[id] = b
			}
		})
	if err == nil && len(elements) > 0 {
		err = m.aggregates(elements, content)
	}
	return content, err
}

// aggregates decodes those constants of content that list the numbers of other
// constants. LLVM 3.1 and later do not write arrays of bytes like this, but
// read them.
func (m module) aggregates(elements map[uint64]int, content map[uint64][]byte) error {
	err := m.values(
		func(*cursor, uint64, uint64) {},
		func(c *cursor, code, id uint64, _ bool) {
			if _, ok := elements[id]; !ok {
				return
			}
			switch code {
			case cstNull:
				elements[id] = 0
			case cstInteger: // the sign is the lowest bit
				v, _ := c.operand()
				if v&1 == 0 {
					elements[id] = int(byte(v >> 1))
				} else {
					elements[id] = int(byte(-(v >> 1)))
				}
			}
		})
	if err != nil {
		return err
	}
	return m.values(
		func(*cursor, uint64, uint64) {},
		func(c *cursor, code, id uint64, isBytes bool) {
			if _, ok := content[id]; !ok || code != cstAggregate || !isBytes {
				return
			}
			var b []byte
			for v, ok := c.operand(); ok; v, ok = c.operand() {
				if elements[v] < 0 {
					return
				}
				b = append(b, byte(elements[v]))
			}
			if !zero(b) {
				content[id] = b
			}
		})
}

// zero reports whether b is all zero.
func zero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
