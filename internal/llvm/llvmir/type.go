package llvmir

import (
	"fmt"
	"strings"
)

// Type is the type of a value. Types with the same text are the same.
type Type struct {
	text   string
	kind   typeKind
	count  int64 // bits of an integer, elements of an array
	name   string
	fields []*Type // elements, fields, or result and parameters
}

type typeKind int

const (
	voidType typeKind = iota
	integerType
	pointerType
	arrayType
	structType
	namedType
	functionType
)

// Types without elements or fields.
var (
	Void = &Type{text: "void", kind: voidType}
	Ptr  = &Type{text: "ptr", kind: pointerType}
	I1   = &Type{text: "i1", kind: integerType, count: 1}
	I8   = &Type{text: "i8", kind: integerType, count: 8}
	I16  = &Type{text: "i16", kind: integerType, count: 16}
	I32  = &Type{text: "i32", kind: integerType, count: 32}
	I64  = &Type{text: "i64", kind: integerType, count: 64}
)

// Array returns the type of an array of n elements.
func Array(n int64, element *Type) *Type {
	return &Type{text: fmt.Sprintf("[%d x %s]", n, element.text), kind: arrayType, count: n, fields: []*Type{element}}
}

// Struct returns a structure type without a name.
func Struct(fields ...*Type) *Type {
	return &Type{text: "{ " + join(fields) + " }", kind: structType, fields: fields}
}

// Named returns a structure type with a name. Add it to Module.Structs.
func Named(name string, fields ...*Type) *Type {
	return &Type{text: "%" + name, kind: namedType, name: name, fields: fields}
}

// Func returns a function type.
func Func(result *Type, params ...*Type) *Type {
	return &Type{text: result.text + " (" + join(params) + ")", kind: functionType, fields: append([]*Type{result}, params...)}
}

func join(types []*Type) string {
	texts := make([]string, len(types))
	for i, t := range types {
		texts[i] = t.text
	}
	return strings.Join(texts, ", ")
}
