package verb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// try runs a compile command with the flags of --suggest, and adds the results and
// the remarks of the compiler.
func (f *diffFlags) try(ctx context.Context, call *command.Call, command []string, d *kernels.Diff, old []kernels.Image, remarks *kernels.Remarks) error {
	output := slices.Index(command, "-o") + 1
	if output == 0 || output == len(command) {
		return usageError("--suggest: the command after -- has no -o FILE")
	}
	dir, err := os.MkdirTemp("", "offload-suggest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	build := func(name string, flags ...string) ([]kernels.Image, error) {
		args := slices.Clone(command)
		args[output] = filepath.Join(dir, name+".o")
		end := slices.Index(args, "--")
		if end < 0 {
			end = len(args)
		}
		args = slices.Insert(args, end, flags...)
		if text, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", args[0], err, firstError(string(text)))
		}
		files, err := call.Session.KernelsIn(ctx, []string{args[output]}, engine.InspectOptions{})
		return engine.ImagesOf(files), err
	}
	var record []string
	if slices.Contains(command, "-c") || slices.Contains(command, "-S") { // otherwise clang writes records to the working directory
		record = []string{"-fsave-optimization-record=yaml", "-foptimization-record-passes=" + kernels.RemarkPasses, "-Rpass-analysis=kernel-resource-usage"}
	}
	plain, err := build("plain", record...)
	if err != nil {
		return err
	}
	part := d.Covered(plain)
	if len(part.Failures) == 0 {
		return errors.New("--suggest: the command after -- builds no kernel that exceeds a limit; pass the command of another source")
	}
	records, err := filepath.Glob(filepath.Join(dir, "*.opt.yaml"))
	if err != nil {
		return err
	}
	for _, record := range records {
		arch := kernels.RecordArch(record)
		if arch == "" && !slices.ContainsFunc(plain, func(img kernels.Image) bool { return img.Arch != plain[0].Arch }) {
			arch = plain[0].Arch // clang names the architecture if there are several
		}
		if arch == "" { // the host
			continue
		}
		if err := addRemarks(call, remarks, record, arch); err != nil {
			return err
		}
	}
	// The command may build a part of NEW: it tells nothing of missing kernels and of sizes.
	limits := f.limits.Limits
	limits.MaxGrowth = nil
	limits.Rules = slices.DeleteFunc(slices.Clone(limits.Rules), func(r kernels.Rule) bool {
		return r == kernels.RemovedKernels || r == kernels.RemovedArchs
	})
	for _, flags := range kernels.SuggestedFlags() {
		tried, err := build(flags.Name, flags.Flags...)
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		if err != nil {
			fmt.Fprintf(call.Stderr, "offload diff: warning: %s: %s\n", flags.Name, printable.Error(err))
			continue
		}
		limits.Suggest(part, old, plain, tried, flags)
	}
	d.Suggestions = part.Suggestions
	return nil
}

// firstError returns the first line with an error that a compiler printed.
func firstError(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, "error:") }); at >= 0 {
		return lines[at]
	}
	return lines[0]
}
