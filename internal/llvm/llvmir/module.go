// Package llvmir writes modules of LLVM IR as text and as bitcode. It supports the IR
// that the registration of device images consists of: constant data of any size, and
// functions with calls and loops. It verifies nothing: a module with operands of wrong
// types is written without an error.
//
// Every LLVM with opaque pointers, version 15 and later, reads the bitcode.
package llvmir

import (
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// Module is a module of IR.
type Module struct {
	// Source is the identifier of the module and the name of its source.
	Source string
	// Layout is the data layout, "" for none.
	Layout string
	Triple string
	// Structs are the named structure types, in the order of the text.
	Structs   []*Type
	Globals   []*Global
	Functions []*Function
	// Lists are named metadata.
	Lists []List
}

// List is named metadata: a list of nodes with one value each.
type List struct {
	Name   string
	Values []Value
}

// Value is an operand: a constant, a global, a function, a parameter or the
// result of an instruction.
type Value interface {
	Type() *Type
	// print writes the value without its type.
	print(p *printer)
}

// Linkage is the linkage of a global.
type Linkage int

// The zero value is External.
const (
	External Linkage = iota
	Internal
	Weak
	WeakODR
	Appending
)

// Global is a global variable. As an operand, it is its address.
type Global struct {
	Name    string
	Content *Type
	Linkage Linkage
	Hidden  bool
	// UnnamedAddr reports that the address is not significant.
	UnnamedAddr bool
	Constant    bool
	Init        Value  // nil for a declaration
	Section     string // "" for the default of the target
	Align       int64  // bytes, a power of two; 0 for the alignment of the type
	// Unsanitized excludes the variable from address sanitizers, which would move it.
	Unsanitized bool
}

// Type returns Ptr.
func (g *Global) Type() *Type { return Ptr }

// Function is a function with internal linkage or, without blocks, the
// declaration of a function. As an operand, it is its address.
type Function struct {
	Name      string
	Signature *Type
	Section   string
	Params    []*Param // of a definition
	Blocks    []*Block
}

// Type returns Ptr.
func (f *Function) Type() *Type { return Ptr }

// Param is a parameter without a name.
type Param struct{ T *Type }

// Type returns the type of the parameter.
func (p *Param) Type() *Type { return p.T }

// Bytes is an array of bytes, with a zero at the end if Terminated is set. Its content
// is written in pieces, so that it can be large.
type Bytes struct {
	Content    content.Content
	Terminated bool
}

// Type returns the type of the array.
func (b *Bytes) Type() *Type {
	n := b.Content.Len()
	if b.Terminated {
		n++
	}
	return Array(n, I8)
}

// zero reports whether all bytes are zero.
func (b *Bytes) zero() bool {
	for _, c := range b.Content.Mapped(guard.Inside) {
		if c != 0 {
			return false
		}
	}
	return true
}
