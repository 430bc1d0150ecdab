package llvmir

import (
	"io"
	"math/bits"

	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Numbers of blocks.
const (
	moduleBlock         = 8
	constantsBlock      = 11
	functionBlock       = 12
	identificationBlock = 13
	symbolsBlock        = 14
	metadataBlock       = 15
	typesBlock          = 17
	namesBlock          = 23
)

// Codes of records.
const (
	identificationProducer, identificationEpoch = 1, 2

	moduleVersion, moduleTriple, moduleLayout = 1, 2, 3
	moduleSection, moduleGlobal               = 5, 7
	moduleFunction, moduleSource              = 8, 16

	typeCount, typeVoid, typeInteger, typeArray    = 1, 2, 7, 11
	typeStruct, typeName, typeNamed, typeFunction  = 18, 19, 20, 21
	typePointer                                    = 25
	constantType, constantZero, constantInteger    = 1, 2, 4
	constantAggregate, constantBytes, constantText = 7, 8, 9
	constantAddress, constantInbounds              = 12, 20

	metadataValue, metadataNode, metadataName, metadataList = 2, 3, 4, 10

	codeBlocks, codeBinary, codeCast, codeRet, codeBranch = 1, 2, 3, 10, 11
	codeSwitch, codePhi, codeLoad, codeCompare            = 12, 16, 20, 28
	codeCall, codeElement, codeStore                      = 34, 43, 44

	symbolValue, symbolBlock = 1, 2

	nameBlob = 1
)

// producer is the name of the producer in the bitcode.
const producer = "rules_offload"

// WriteBitcode writes the module as bitcode.
func (m *Module) WriteBitcode(w io.Writer) error {
	e := &encoder{Module: m, types: map[string]uint64{}, values: map[any]uint64{}, sections: map[string]uint64{}}
	e.enumerate()
	count := &stream{}
	e.write(count)
	s := &stream{w: w, lengths: count.lengths}
	e.write(s)
	return s.finish()
}

// encoder numbers the types, values and strings of a module.
type encoder struct {
	*Module
	*stream

	typeList  []*Type
	types     map[string]uint64 // by text
	constants []Value
	values    map[any]uint64 // by key
	next      uint64         // number of the next value
	names     []byte         // of globals and functions
	sections  map[string]uint64
	order     []string // of sections
}

// key returns the identity of a value: equal values have the same key.
func key(v Value) any {
	if c, ok := v.(*Constant); ok && c.key != "" {
		return c.key
	}
	return v
}

func (e *encoder) enumerate() {
	for _, g := range e.Globals {
		e.addType(Ptr)
		e.addType(g.Content)
		e.addValue(g)
		e.addSection(g.Section)
	}
	for _, f := range e.Functions {
		e.addType(f.Signature)
		e.addValue(f)
		e.addSection(f.Section)
	}
	for _, g := range e.Globals {
		if g.Init != nil {
			e.addConstant(g.Init)
		}
	}
	for _, f := range e.Functions {
		for _, b := range f.Blocks {
			for _, i := range b.code {
				e.addType(i.result)
				e.addParts(i.text)
			}
		}
	}
}

// addParts adds the types and constants of an instruction or a constant.
func (e *encoder) addParts(text []any) {
	for _, part := range text {
		switch part := part.(type) {
		case *Type:
			e.addType(part)
		case Value:
			e.addConstant(part)
		case []Value:
			for _, v := range part {
				e.addConstant(v)
			}
		}
	}
}

func (e *encoder) addType(t *Type) {
	if _, known := e.types[t.text]; known {
		return
	}
	for _, field := range t.fields {
		e.addType(field)
	}
	e.types[t.text] = uint64(len(e.typeList))
	e.typeList = append(e.typeList, t)
}

func (e *encoder) typeOf(t *Type) uint64 { return e.types[t.text] }

func (e *encoder) addValue(v Value) {
	e.values[key(v)] = e.next
	e.next++
}

func (e *encoder) addSection(name string) {
	if name != "" && e.sections[name] == 0 {
		e.order = append(e.order, name)
		e.sections[name] = uint64(len(e.order))
	}
}

// addConstant numbers a constant after its operands.
func (e *encoder) addConstant(v Value) {
	switch v := v.(type) {
	case *Bytes:
	case *Constant:
		e.addParts(v.text)
	default:
		return
	}
	if _, known := e.values[key(v)]; known {
		return
	}
	e.addType(v.Type())
	e.addValue(v)
	e.constants = append(e.constants, v)
}

func (e *encoder) value(v Value) uint64 { return e.values[key(v)] }

// write writes the file or, without a writer, computes the lengths of its blocks.
func (e *encoder) write(s *stream) {
	e.stream = s
	e.names = e.names[:0]
	s.fixed('B'|'C'<<8|0xc0<<16|0xde<<24, 32)
	s.width = 2
	s.enter(identificationBlock, 3)
	s.text(identificationProducer, producer)
	s.record(identificationEpoch, 0)
	s.end()

	s.enter(moduleBlock, 3)
	s.record(moduleVersion, 2)
	e.writeTypes()
	s.text(moduleTriple, e.Triple)
	if e.Layout != "" {
		s.text(moduleLayout, e.Layout)
	}
	s.text(moduleSource, e.Source)
	for _, name := range e.order {
		s.text(moduleSection, name)
	}
	for _, g := range e.Globals {
		e.writeGlobal(g)
	}
	for _, f := range e.Functions {
		e.writeFunction(f)
	}
	e.writeConstants()
	e.writeLists()
	for _, f := range e.Functions {
		if f.Blocks != nil {
			e.writeCode(f)
		}
	}
	s.end()

	s.enter(namesBlock, 3)
	s.define(nameBlob, blobField)
	s.blob(firstAbbrev, e.names)
	s.end()
}

func (e *encoder) writeTypes() {
	e.enter(typesBlock, 3)
	e.record(typeCount, uint64(len(e.typeList)))
	for _, t := range e.typeList {
		var fields []uint64
		for _, field := range t.fields {
			fields = append(fields, e.typeOf(field))
		}
		switch t.kind {
		case voidType:
			e.record(typeVoid)
		case integerType:
			e.record(typeInteger, uint64(t.count))
		case pointerType:
			e.record(typePointer, 0)
		case arrayType:
			e.record(typeArray, uint64(t.count), fields[0])
		case structType:
			e.record(typeStruct, append([]uint64{0}, fields...)...)
		case namedType:
			e.text(typeName, t.name)
			e.record(typeNamed, append([]uint64{0}, fields...)...)
		case functionType:
			e.record(typeFunction, append([]uint64{0}, fields...)...)
		}
	}
	e.end()
}

// name returns the offset and length of a name in the names of all globals.
func (e *encoder) name(name string) (offset, size uint64) {
	offset = uint64(len(e.names))
	e.names = append(e.names, name...)
	return offset, uint64(len(name))
}

var linkageNumbers = [...]uint64{External: 0, Internal: 3, Weak: 16, WeakODR: 17, Appending: 2}

// Visibility, and the exclusion from sanitizers.
const (
	hidden    = 1
	noAddress = 1 << 0
	noHWASan  = 1 << 1
)

func flag(set bool, value uint64) uint64 {
	if set {
		return value
	}
	return 0
}

func (e *encoder) writeGlobal(g *Global) {
	offset, size := e.name(g.Name)
	init := uint64(0)
	if g.Init != nil {
		init = e.value(g.Init) + 1
	}
	const explicitType = 2
	e.record(moduleGlobal, offset, size, e.typeOf(g.Content), flag(g.Constant, 1)|explicitType, init, linkageNumbers[g.Linkage],
		uint64(alignment(g.Align)), e.sections[g.Section], flag(g.Hidden, hidden), 0, flag(g.UnnamedAddr, 1), 0, 0, 0, 0,
		flag(g.Linkage == Internal || g.Hidden, 1), 0, 0, flag(g.Unsanitized, noAddress|noHWASan))
}

// alignment returns the encoding of a power of two: 0 for none.
func alignment(n int64) int { return bits.Len64(uint64(n)) }

func (e *encoder) writeFunction(f *Function) {
	offset, size := e.name(f.Name)
	declared := f.Blocks == nil
	linkage := linkageNumbers[Internal]
	if declared {
		linkage = linkageNumbers[External]
	}
	e.record(moduleFunction, offset, size, e.typeOf(f.Signature), 0, flag(declared, 1), linkage, 0, 0,
		e.sections[f.Section], 0, 0, 0, 0, 0, 0, 0, 0, flag(!declared, 1))
}

// signed returns the encoding of a number with its sign in the lowest bit.
func signed(v int64) uint64 {
	if v < 0 {
		return uint64(-v)<<1 | 1
	}
	return uint64(v) << 1
}

func (e *encoder) writeConstants() {
	if len(e.constants) == 0 {
		return
	}
	const text = firstAbbrev + 1
	e.enter(constantsBlock, 4)
	e.define(constantBytes, arrayField)
	e.define(constantText, arrayField)
	var current *Type
	for _, c := range e.constants {
		if t := c.Type(); current == nil || t.text != current.text {
			current = t
			e.record(constantType, e.typeOf(t))
		}
		switch c := c.(type) {
		case *Constant:
			e.record(c.code, e.numbers(c.operands, func(v any) uint64 { return e.value(v.(Value)) })...)
		case *Bytes:
			switch {
			case c.zero():
				e.record(constantZero)
			case c.Terminated:
				e.array(text, c.Content.Mapped(guard.Inside))
			default:
				e.array(firstAbbrev, c.Content.Mapped(guard.Inside))
			}
		}
	}
	e.end()
}

// numbers returns the operands of a record. reference returns the numbers of values and blocks.
func (e *encoder) numbers(operands []any, reference func(operand any) uint64) (list []uint64) {
	for _, operand := range operands {
		switch operand := operand.(type) {
		case int:
			list = append(list, uint64(operand))
		case *Type:
			list = append(list, e.typeOf(operand))
		case []Value:
			for _, v := range operand {
				list = append(list, reference(v))
			}
		default:
			list = append(list, reference(operand))
		}
	}
	return list
}

// writeLists writes named metadata: the values, a node for each value, and the lists
// of nodes.
func (e *encoder) writeLists() {
	if len(e.Lists) == 0 {
		return
	}
	e.enter(metadataBlock, 3)
	count := uint64(0)
	for _, list := range e.Lists {
		for _, v := range list.Values {
			e.record(metadataValue, e.typeOf(v.Type()), e.value(v))
			count++
		}
	}
	for i := range count {
		e.record(metadataNode, i+1)
	}
	node := count
	for _, list := range e.Lists {
		e.text(metadataName, list.Name)
		var nodes []uint64
		for range list.Values {
			nodes = append(nodes, node)
			node++
		}
		e.record(metadataList, nodes...)
	}
	e.end()
}

// codeEncoder encodes the body of a function.
type codeEncoder struct {
	*encoder
	local  map[Value]uint64  // the numbers of parameters and results
	blocks map[*Block]uint64 // the numbers of blocks
	number uint64            // of the next result
}

// writeCode writes the body of a function. The numbers of its values follow those of
// the module.
func (e *encoder) writeCode(f *Function) {
	c := codeEncoder{encoder: e, local: map[Value]uint64{}, blocks: map[*Block]uint64{}}
	c.assign(f)
	e.enter(functionBlock, 4)
	e.record(codeBlocks, uint64(len(f.Blocks)))
	for _, b := range f.Blocks {
		for _, i := range b.code {
			e.record(i.code, e.numbers(i.operands, c.reference)...)
			if i.result != Void {
				c.number++
			}
		}
	}
	e.enter(symbolsBlock, 4)
	for n, b := range f.Blocks {
		e.text(symbolBlock, b.Name, uint64(n))
		for _, i := range b.code {
			if i.Name != "" {
				e.text(symbolValue, i.Name, c.local[i])
			}
		}
	}
	e.end()
	e.end()
}

// assign numbers the values and blocks of a function, and sets number to the number of
// its first result.
func (c *codeEncoder) assign(f *Function) {
	number := c.next
	for _, param := range f.Params {
		c.local[param] = number
		number++
	}
	c.number = number
	for n, b := range f.Blocks {
		c.blocks[b] = uint64(n)
		for _, i := range b.code {
			if i.result != Void {
				c.local[i] = number
				number++
			}
		}
	}
}

// absolute returns the number of a value.
func (c *codeEncoder) absolute(v Value) uint64 {
	if id, ok := c.local[v]; ok {
		return id
	}
	return c.value(v)
}

// reference returns the number of an operand in a record of the function.
func (c *codeEncoder) reference(operand any) uint64 {
	switch operand := operand.(type) {
	case *Block:
		return c.blocks[operand]
	case number:
		return c.absolute(operand.v)
	case signedDistance:
		return signed(int64(c.number) - int64(c.absolute(operand.v)))
	}
	return c.number - c.absolute(operand.(Value))
}
