package bitcode

import (
	"bytes"
	"strconv"
)

// The values of the m: part of the data layout that change names.
const (
	mangleMachO  = 'o'
	mangleCOFF   = 'w'
	mangleCOFF86 = 'x'
)

// mangling returns the letter of the m: part of a data layout, or 0 if it has
// none.
func mangling(layout []byte) byte {
	for part := range bytes.SplitSeq(layout, []byte("-")) {
		if len(part) == 3 && part[0] == 'm' && part[1] == ':' {
			return part[2]
		}
	}
	return 0
}

// mangle returns the name in object files of the global value called name. If
// name is empty, unnamed is the number of the value among those without a name.
func mangle(name []byte, m byte, unnamed int) string {
	if len(name) == 0 {
		name = strconv.AppendInt([]byte("__unnamed_"), int64(unnamed), 10)
	}
	if name[0] == 1 { // "do not mangle"
		return string(name[1:])
	}
	if (m == mangleCOFF || m == mangleCOFF86) && name[0] == '?' {
		return string(name) // mangled by the C++ compiler
	}
	if m == mangleMachO || m == mangleCOFF86 {
		return "_" + string(name)
	}
	return string(name)
}
