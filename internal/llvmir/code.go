package llvmir

// Block is a basic block of a function. Its methods add instructions.
type Block struct {
	Name string
	code []*Inst
}

// Inst is an instruction. As an operand, it is its result. In the text, a result without
// a name has a number.
type Inst struct {
	Name string

	op     opcode
	result *Type
	args   []Value
	blocks []*Block
	callee *Function
	about  *Type  // of elements, or of the result
	detail string // the text of a comparison or an operation
	number uint64 // the number of detail in bitcode
	align  int64
}

type opcode int

const (
	opCall opcode = iota
	opRet
	opLoad
	opStore
	opCompare
	opBranch
	opPhi
	opElement
	opTrunc
	opBinary
	opSwitch
)

// Type returns the type of the result.
func (i *Inst) Type() *Type { return i.result }

func (b *Block) add(i *Inst) *Inst {
	b.code = append(b.code, i)
	return i
}

// Call calls a function.
func (b *Block) Call(f *Function, args ...Value) *Inst {
	return b.add(&Inst{op: opCall, result: f.Signature.fields[0], callee: f, args: args})
}

// Ret adds a return without a value.
func (b *Block) Ret() { b.add(&Inst{op: opRet, result: Void}) }

// Load reads a value of type t. align is in bytes.
func (b *Block) Load(name string, t *Type, from Value, align int64) *Inst {
	return b.add(&Inst{op: opLoad, Name: name, result: t, about: t, args: []Value{from}, align: align})
}

// Store writes a value. align is in bytes.
func (b *Block) Store(v, to Value, align int64) {
	b.add(&Inst{op: opStore, result: Void, args: []Value{v, to}, align: align})
}

// Numbers of operations in bitcode.
const (
	equal    = 32
	notEqual = 33
	shift    = 8 // to the right, of unsigned numbers
	and      = 10
)

// Equal compares integers or addresses.
func (b *Block) Equal(v, w Value) *Inst { return b.binary(opCompare, "", I1, "icmp eq", equal, v, w) }

// NotEqual compares integers or addresses.
func (b *Block) NotEqual(v, w Value) *Inst {
	return b.binary(opCompare, "", I1, "icmp ne", notEqual, v, w)
}

// And returns the bits that both values have.
func (b *Block) And(name string, v, w Value) *Inst {
	return b.binary(opBinary, name, v.Type(), "and", and, v, w)
}

// ShiftRight shifts an unsigned number.
func (b *Block) ShiftRight(name string, v, w Value) *Inst {
	return b.binary(opBinary, name, v.Type(), "lshr", shift, v, w)
}

func (b *Block) binary(op opcode, name string, result *Type, detail string, number uint64, v, w Value) *Inst {
	return b.add(&Inst{op: op, Name: name, result: result, detail: detail, number: number, args: []Value{v, w}})
}

// Jump adds a branch to another block.
func (b *Block) Jump(to *Block) { b.add(&Inst{op: opBranch, result: Void, blocks: []*Block{to}}) }

// Branch adds a conditional branch to one of two blocks.
func (b *Block) Branch(condition Value, yes, no *Block) {
	b.add(&Inst{op: opBranch, result: Void, args: []Value{condition}, blocks: []*Block{yes, no}})
}

// Switch adds a branch to the block of the case that v equals, or to otherwise. cases has an
// integer for each block.
func (b *Block) Switch(v Value, otherwise *Block, cases []Value, blocks []*Block) {
	b.add(&Inst{op: opSwitch, result: Void, args: append([]Value{v}, cases...), blocks: append([]*Block{otherwise}, blocks...)})
}

// Phi returns the value for the preceding block. Add adds a block and its value.
func (b *Block) Phi(name string, t *Type) *Inst {
	return b.add(&Inst{op: opPhi, Name: name, result: t})
}

// Add adds the value of a Phi for a preceding block.
func (i *Inst) Add(v Value, after *Block) {
	i.args, i.blocks = append(i.args, v), append(i.blocks, after)
}

// Element returns the address of an element of the object at base (inbounds).
func (b *Block) Element(element *Type, base Value, indices ...Value) *Inst {
	return b.add(&Inst{op: opElement, result: Ptr, about: element, args: append([]Value{base}, indices...)})
}

// Trunc returns the low bits of an integer.
func (b *Block) Trunc(v Value, t *Type) *Inst {
	return b.add(&Inst{op: opTrunc, result: t, about: t, args: []Value{v}})
}
