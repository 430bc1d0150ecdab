package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/rules-offload/rules_offload/cmd/offload/bundler"
	"github.com/rules-offload/rules_offload/cmd/offload/command"
	"github.com/rules-offload/rules_offload/cmd/offload/offloadbinary"
)

// dropIns are the LLVM tools whose command lines the program understands, by
// the name it is called under.
var dropIns = map[string]func(context.Context, *command.Call) int{
	"clang-offload-bundler":  bundler.Run,
	"llvm-offload-binary":    offloadbinary.Run,
	"clang-offload-packager": offloadbinary.Run,
}

// dropIn returns the drop-in for a name the program is called under, or nil. Packages
// put the release behind the names of tools: clang-offload-bundler-22.
func dropIn(name string) func(context.Context, *command.Call) int {
	name = strings.TrimSuffix(filepath.Base(name), ".exe")
	if i := strings.LastIndexByte(name, '-'); i > 0 && dropIns[name] == nil && release(name[i+1:]) {
		name = name[:i]
	}
	return dropIns[name]
}

// release tells whether s is the number of a release: 22, 22.1.
func release(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return true
}
