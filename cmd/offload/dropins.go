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

// tool returns the command line of a tool of LLVM or ROCm that offload implements, nil for other
// names.
func tool(name string) func(context.Context, *command.Call) int {
	switch name {
	case "clang-offload-bundler":
		return bundler.Run
	case "clang-linker-wrapper":
		return linkerwrapper.Run
	case "llvm-offload-binary", "clang-offload-packager":
		return offloadbinary.Run
	case "llvm-offload-wrapper":
		return offloadwrapper.Run
	case "roc-obj-ls":
		return rocobj.List
	case "roc-obj-extract":
		return rocobj.Extract
	case "roc-obj":
		return rocobj.Wrapper
	}
	return nil
}

// toolName returns the name under which offload is called without its directory, .exe and a release.
// Packages append the release to the names of tools: clang-offload-bundler-22.
func toolName(name string) string {
	name = strings.TrimSuffix(filepath.Base(name), ".exe")
	if i := strings.LastIndexByte(name, '-'); i > 0 && tool(name) == nil && release(name[i+1:]) {
		name = name[:i]
	}
	return name
}

// dropIn returns the drop-in for the name under which offload is called, or nil.
func dropIn(name string) func(context.Context, *command.Call) int {
	name = toolName(name)
	run := tool(name)
	if run == nil {
		return nil
	}
	lost := lostOutput
	if strings.HasPrefix(name, "roc-obj") {
		lost = rocobj.LostOutput
	}
	return func(ctx context.Context, call *command.Call) int {
		out := &lateOutput{w: call.Session.Files().Stdout}
		call.Session.Files().Stdout = out
		code := command.Buffered(call, func(call *command.Call) int { return run(ctx, call) }, lost)
		if code == 0 && out.err != nil {
			return lost(call.Stderr, out.err)
		}
		return code
	}
}

// lateOutput writes files to standard output. Like LLVM's tools, it keeps the first error until the end of the
// call.
type lateOutput struct {
	w   io.Writer
	err error
}

// Write writes p if there was no error.
func (o *lateOutput) Write(p []byte) (int, error) {
	if o.err == nil {
		_, o.err = o.w.Write(p)
	}
	return len(p), nil
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
