package main

import (
	"context"

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
