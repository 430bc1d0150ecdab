package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rules-offload/rules_offload/internal/cmd/bundler"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/linkerwrapper"
	"github.com/rules-offload/rules_offload/internal/cmd/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/cmd/offloadwrapper"
	"github.com/rules-offload/rules_offload/internal/cmd/rocobj"
)

// dropIns are the tools of LLVM and ROCm whose command lines offload implements, by the name
// under which it is called.
var dropIns = map[string]func(context.Context, *command.Call) int{
	"clang-offload-bundler":  bundler.Run,
	"clang-linker-wrapper":   linkerwrapper.Run,
	"llvm-offload-binary":    offloadbinary.Run,
	"clang-offload-packager": offloadbinary.Run,
	"llvm-offload-wrapper":   offloadwrapper.Run,
	"roc-obj-ls":             rocobj.List,
	"roc-obj-extract":        rocobj.Extract,
	"roc-obj":                rocobj.Wrapper,
}

// dropIn returns the drop-in for the name under which offload is called, or nil. Packages
// append the release to the names of tools: clang-offload-bundler-22.
func dropIn(name string) func(context.Context, *command.Call) int {
	name = strings.TrimSuffix(filepath.Base(name), ".exe")
	if i := strings.LastIndexByte(name, '-'); i > 0 && dropIns[name] == nil && release(name[i+1:]) {
		name = name[:i]
	}
	run := dropIns[name]
	if run == nil {
		return nil
	}
	lost := lostOutput
	if strings.HasPrefix(name, "roc-obj") {
		lost = rocobj.LostOutput
	}
	return func(ctx context.Context, call *command.Call) int {
		return command.Buffered(call, func(call *command.Call) int { return run(ctx, call) }, lost)
	}
}

// lostOutput reports that standard output cannot be written, as LLVM's tools do.
func lostOutput(stderr io.Writer, err error) int {
	var system syscall.Errno
	if errors.As(err, &system) {
		err = system
	}
	reason := err.Error()
	if reason != "" {
		reason = strings.ToUpper(reason[:1]) + reason[1:]
	}
	fmt.Fprintf(stderr, "LLVM ERROR: IO failure on output stream: %s\n", reason)
	return 1
}

// release reports whether s is the number of a release: 22, 22.1.
func release(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || strings.Trim(part, "0123456789") != "" {
			return false
		}
	}
	return true
}
