package llvmir

import "fmt"

// Constant is a constant other than Bytes. text, code and operands are as those of Inst; in its record, values are
// their numbers.
type Constant struct {
	of       *Type
	text     []any
	code     uint64
	operands []any
	// key identifies the constants that are equal to this one; "" for none.
	key string
}

// Type returns the type of the constant.
func (c *Constant) Type() *Type { return c.of }

// Int returns an integer.
func Int(t *Type, v int64) *Constant {
	return &Constant{t, []any{v}, constantInteger, record(int(signed(v))), fmt.Sprintf("%s %d", t.text, v)}
}

// Zero returns the value of a type with only zero bytes.
func Zero(t *Type) *Constant {
	text := "zeroinitializer"
	if t.kind == pointerType {
		text = "null"
	}
	return &Constant{t, []any{text}, constantZero, nil, t.text + " 0"}
}

// Aggregate returns an array or a structure of constants.
func Aggregate(t *Type, values ...Value) *Constant {
	switch {
	case len(values) == 0:
		return &Constant{of: t, text: []any{"zeroinitializer"}, code: constantZero}
	case t.kind == arrayType:
		return &Constant{of: t, text: []any{"[", values, "]"}, code: constantAggregate, operands: record(values)}
	}
	return &Constant{of: t, text: []any{"{ ", values, " }"}, code: constantAggregate, operands: record(values)}
}

// Address returns the address of an element of a global. indices select from a value of type element.
func Address(element *Type, base Value, indices ...Value) *Constant {
	return address("getelementptr (", constantAddress, element, append(typed(base), indices...))
}

// AddressInbounds is Address for an address in the global.
func AddressInbounds(element *Type, base Value, indices ...Value) *Constant {
	return address("getelementptr inbounds (", constantInbounds, element, append(typed(base), indices...))
}

func address(begin string, code uint64, element *Type, values []Value) *Constant {
	c := &Constant{of: Ptr, text: []any{begin, element, ", ", values, ")"}, code: code, operands: record(element)}
	for _, v := range values {
		c.operands = append(c.operands, v.Type(), v)
	}
	return c
}
