package verb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/kernels"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/link/process"
	"github.com/rules-offload/rules_offload/internal/storage/scratch"
)

// buildCommand is a command that builds a part of the new build.
type buildCommand struct {
	dir, name string // name is for messages
	compiles  bool   // and does not link
	// with returns the command with additional flags, and an output of another name.
	with func(output string, flags ...string) []string
}

// afterDashes returns the commands after --, which ; separates.
func afterDashes(operands []string) ([]buildCommand, error) {
	var commands []buildCommand
	for len(operands) > 0 {
		args := operands
		if at := slices.Index(operands, ";"); at >= 0 {
			args, operands = operands[:at], operands[at+1:]
		} else {
			operands = nil
		}
		output := slices.Index(args, "-o") + 1
		if output == 0 || output == len(args) {
			return nil, usageError("--suggest: the command after -- has no -o FILE")
		}
		commands = append(commands, buildCommand{
			name: args[0], compiles: slices.Contains(args, "-c") || slices.Contains(args, "-S"),
			with: func(name string, flags ...string) []string {
				args := slices.Clone(args)
				args[output] = name
				end := slices.Index(args, "--")
				if end < 0 {
					end = len(args)
				}
				return slices.Insert(args, end, flags...)
			},
		})
	}
	return commands, nil
}

// compilesDevice reports whether a command line of a compilation database may compile device code.
func compilesDevice(line, file string) bool {
	words := []string{"hipcc", "amdclang", "-x hip", "-xhip", "--offload-arch", "--cuda-gpu-arch", "-fopenmp-targets", "amdgcn"}
	return slices.Contains([]string{".hip", ".cu"}, filepath.Ext(file)) ||
		slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) })
}

// compileCommands reads the compilations of device code in a compile_commands.json.
func compileCommands(call *invocation, name string) ([]buildCommand, error) {
	text, err := textOf(call, name)
	if err != nil {
		return nil, err
	}
	var entries []struct {
		Directory, File, Command string
		Arguments                []string
	}
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		return nil, fmt.Errorf("%s: not a compilation database, such as cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON writes: %w", name, err)
	}
	var commands []buildCommand
	for _, e := range entries {
		line := e.Command + " " + strings.Join(e.Arguments, " ")
		if !compilesDevice(line, e.File) {
			continue
		}
		dir := e.Directory
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(filepath.Dir(name), dir)
		}
		commands = append(commands, buildCommand{
			dir: dir, name: e.File, compiles: true,
			with: func(name string, flags ...string) []string {
				// Of these flags, the last one counts.
				flags = append(slices.Clone(flags), "-o", name)
				if strings.Contains(line, " -MD ") || strings.Contains(line, " -MMD ") {
					flags = append(flags, "-MF", name+".d")
				}
				if len(e.Arguments) > 0 {
					return slices.Concat(e.Arguments, flags)
				}
				return append([]string{"/bin/sh", "-c", e.Command + ` "$@"`, "sh"}, flags...)
			},
		})
	}
	if len(commands) == 0 {
		return nil, fmt.Errorf("%s: no command of %d compiles HIP or OpenMP for a GPU", name, len(entries))
	}
	return commands, nil
}

// trials are the builds of --suggest: all commands in a directory, once for each name of flags.
type trials struct {
	call     *invocation
	dir      *scratch.Dir
	commands []buildCommand
}

// build runs the commands and returns the images of each.
func (t *trials) build(name string, flags func(buildCommand) []string) ([][]kernels.Image, error) {
	all := make([][]kernels.Image, len(t.commands))
	var reading sync.Mutex
	return all, process.Jobs(t.call.ctx, process.Limit(runtime.GOMAXPROCS(0)), len(t.commands), nil, func(ctx context.Context, i int) error {
		c := t.commands[i]
		output := filepath.Join(t.dir.Path, name+"-"+strconv.Itoa(i)+".o")
		var text bytes.Buffer
		args := c.with(output, flags(c)...)
		run := process.Command{Args: args, Env: t.dir.Environment(os.Environ()), Dir: c.dir, Stdout: &text, Stderr: &text}
		if err := run.Run(ctx); err != nil {
			var exit *process.ExitError
			if errors.As(err, &exit) {
				err = exit.Err
			}
			return fmt.Errorf("%s: %w: %s", c.name, err, firstError(text.String()))
		}
		defer os.Remove(output)
		reading.Lock()
		defer reading.Unlock()
		files, err := t.call.Session.InspectAll(ctx, []string{output}, engine.InspectOptions{})
		all[i] = engine.ImagesOf(files)
		return err
	})
}

// try runs the commands of the new build with the flags of --suggest, and adds the results and the remarks of the compiler.
func (f *diffFlags) try(call *invocation, commands []buildCommand, r *kernels.Diff, old, new []kernels.Image, remarks *kernels.Remarks) error {
	dir, err := scratch.New("offload-suggest-")
	if err != nil {
		return err
	}
	defer dir.Remove()
	t := &trials{call, dir, commands}
	built, err := t.build("plain", func(c buildCommand) []string {
		if !c.compiles {
			return nil // clang would write records to the working directory
		}
		return []string{"-fsave-optimization-record=yaml", "-foptimization-record-passes=" + kernels.RemarkPasses, "-Rpass-analysis=kernel-resource-usage"}
	})
	if err != nil {
		return err
	}
	plain := slices.Concat(built...)
	// The commands may build a part of NEW: it tells nothing of missing kernels and of sizes.
	limits := f.limits.Limits
	limits.MaxGrowth = nil
	limits.Rules = slices.DeleteFunc(slices.Clone(limits.Rules), func(r kernels.Rule) bool {
		return r == kernels.RemovedKernels || r == kernels.RemovedArchs
	})
	part := limits.Reproduced(r, old, plain)
	if len(part.Failures) == 0 {
		return errors.New("--suggest: no command builds a kernel that exceeds a limit; pass the command of another source, or the link if that generates code")
	}
	if n, all := kernels.Missing(new, plain); n > 0 {
		call.warn("the commands do not build %d of %d kernels: effects of the flags on these are not known", n, all)
	}
	if err := t.addRecords(built, remarks); err != nil {
		return err
	}
	// The other commands, of host code, have no effect on kernels.
	t.commands = nil
	for i, images := range built {
		if len(images) > 0 {
			t.commands = append(t.commands, commands[i])
		}
	}
	for _, flags := range kernels.SuggestedFlags() {
		tried, err := t.build(flags.Name, func(buildCommand) []string { return flags.Flags })
		if cause := context.Cause(call.ctx); cause != nil {
			return cause
		}
		if err != nil {
			call.warn("%s: %s", flags.Name, printable.Error(err))
			continue
		}
		limits.Suggest(part, old, plain, slices.Concat(tried...), flags)
	}
	r.Suggestions = part.Suggestions
	return nil
}

// addRecords adds the optimization records of the build without additional flags.
func (t *trials) addRecords(built [][]kernels.Image, remarks *kernels.Remarks) error {
	for i, images := range built {
		records, err := filepath.Glob(filepath.Join(t.dir.Path, "plain-"+strconv.Itoa(i)+"*.opt.yaml"))
		if err != nil {
			return err
		}
		for _, record := range records {
			arch := kernels.RecordArch(record)
			if arch == "" && len(images) > 0 && !slices.ContainsFunc(images, func(img kernels.Image) bool { return img.Arch != images[0].Arch }) {
				arch = images[0].Arch // clang names the architecture if there are several
			}
			if arch == "" { // the host
				continue
			}
			if err := addRemarks(t.call, remarks, record, arch); err != nil {
				return err
			}
		}
	}
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
