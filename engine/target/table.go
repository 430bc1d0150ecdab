package target

import (
	"slices"
	"strings"
)

// table is a list of names with values, sorted by name. Unlike a map, it is part of the program, and not
// made at each start.
type table[T any] []named[T]

type named[T any] struct {
	name  string
	value T
}

// get returns the value of a name, or the zero value and false.
func (t table[T]) get(name string) (value T, ok bool) {
	i, ok := slices.BinarySearchFunc(t, name, func(n named[T], name string) int { return strings.Compare(n.name, name) })
	if !ok {
		return value, false
	}
	return t[i].value, true
}

// of is get for callers that need no answer to whether the name is known.
func (t table[T]) of(name string) T {
	value, _ := t.get(name)
	return value
}
