package main

import (
	"context"
	"path/filepath"
	"regexp"

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

// releaseSuffix is what packages put behind the names of tools of one release.
var releaseSuffix = regexp.MustCompile(`(-[0-9]+(\.[0-9]+)*)?(\.exe)?$`)

// dropIn returns the drop-in for a name the program is called under, or nil.
func dropIn(name string) func(context.Context, *command.Call) int {
	return dropIns[releaseSuffix.ReplaceAllString(filepath.Base(name), "")]
}
