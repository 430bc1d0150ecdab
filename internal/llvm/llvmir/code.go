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

	result *Type
	// text is the instruction in the text: strings and numbers as they are, *Type, *Block, Value
	// without its type, and []Value with types and commas.
	text []any
	// code and operands are its record in bitcode: int as it is, and *Type, *Block, Value, []Value,
	// number and signedDistance as numbers.
	code     uint64
	operands []any
}

// Values in a record are the distance to the instruction. It has no sign, because only operands of a phi
// can follow their instruction. These types are for others.
type (
	number         struct{ v Value } // in place of the distance
	signedDistance struct{ v Value }
)

// Type returns the type of the result.
func (i *Inst) Type() *Type { return i.result }

// add adds an instruction.
func (b *Block) add(name string, result *Type, code uint64, operands []any, text ...any) *Inst {
	i := &Inst{Name: name, result: result, code: code, operands: operands, text: text}
	b.code = append(b.code, i)
	return i
}

func record(operands ...any) []any { return operands }

// typed returns values for a text with their types.
func typed(values ...Value) []Value { return values }

// Call calls a function.
func (b *Block) Call(f *Function, args ...Value) *Inst {
	const explicitType = 1 << 15
	result := f.Signature.fields[0]
	return b.add("", result, codeCall, record(0, explicitType, f.Signature, f, args), "call ", result, " ", f, "(", args, ")")
}

// Ret adds a return without a value.
func (b *Block) Ret() { b.add("", Void, codeRet, nil, "ret void") }

// Load reads a value of type t. align is in bytes.
func (b *Block) Load(name string, t *Type, from Value, align int64) *Inst {
	return b.add(name, t, codeLoad, record(from, t, alignment(align), 0), "load ", t, ", ", typed(from), ", align ", align)
}

// Store writes a value. align is in bytes.
func (b *Block) Store(v, to Value, align int64) {
	b.add("", Void, codeStore, record(to, v, alignment(align), 0), "store ", typed(v, to), ", align ", align)
}

// Equal compares integers or addresses.
func (b *Block) Equal(v, w Value) *Inst {
	return b.add("", I1, codeCompare, record(v, w, 32), "icmp eq ", typed(v), ", ", w)
}

// NotEqual compares integers or addresses.
func (b *Block) NotEqual(v, w Value) *Inst {
	return b.add("", I1, codeCompare, record(v, w, 33), "icmp ne ", typed(v), ", ", w)
}

// And returns the bits that both values have.
func (b *Block) And(name string, v, w Value) *Inst {
	return b.add(name, v.Type(), codeBinary, record(v, w, 10), "and ", typed(v), ", ", w)
}

// ShiftRight shifts an unsigned number.
func (b *Block) ShiftRight(name string, v, w Value) *Inst {
	return b.add(name, v.Type(), codeBinary, record(v, w, 8), "lshr ", typed(v), ", ", w)
}

// Jump adds a branch to another block.
func (b *Block) Jump(to *Block) { b.add("", Void, codeBranch, record(to), "br label ", to) }

// Branch adds a conditional branch to one of two blocks.
func (b *Block) Branch(condition Value, yes, no *Block) {
	b.add("", Void, codeBranch, record(yes, no, condition), "br ", typed(condition), ", label ", yes, ", label ", no)
}

// Switch adds a branch to the block of the case that v equals, or to otherwise. cases has an
// integer for each block.
func (b *Block) Switch(v Value, otherwise *Block, cases []Value, blocks []*Block) {
	i := b.add("", Void, codeSwitch, record(v.Type(), v, otherwise), "switch ", typed(v), ", label ", otherwise, " [\n")
	for n, of := range cases {
		i.operands = append(i.operands, number{of}, blocks[n])
		i.text = append(i.text, "    ", typed(of), ", label ", blocks[n], "\n")
	}
	i.text = append(i.text, "  ]")
}

// Phi returns the value for the preceding block. Add adds a block and its value.
func (b *Block) Phi(name string, t *Type) *Inst {
	return b.add(name, t, codePhi, record(t), "phi ", t)
}

// Add adds the value of a Phi for a preceding block.
func (i *Inst) Add(v Value, after *Block) {
	before := " [ "
	if len(i.operands) > 1 {
		before = ", [ "
	}
	i.operands = append(i.operands, signedDistance{v}, after)
	i.text = append(i.text, before, v, ", ", after, " ]")
}

// Element returns the address of an element of the object at base (inbounds).
func (b *Block) Element(element *Type, base Value, indices ...Value) *Inst {
	const inbounds = 1
	address := append(typed(base), indices...)
	return b.add("", Ptr, codeElement, record(inbounds, element, address), "getelementptr inbounds ", element, ", ", address)
}

// Trunc returns the low bits of an integer.
func (b *Block) Trunc(v Value, t *Type) *Inst {
	return b.add("", t, codeCast, record(v, t, 0), "trunc ", typed(v), " to ", t)
}
