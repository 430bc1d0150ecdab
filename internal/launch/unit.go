package launch

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rules-offload/rules_offload/internal/launch/key"
	"github.com/rules-offload/rules_offload/internal/launch/plan"
)

// setUnit replaces the name of the compilation unit (CUID) that the driver computes from all its arguments, GPUs included,
// by one that does not depend on the GPUs. It is a hash of the source's path below the base directory, of the
// name of the output, and of the arguments, unless the user sets one.
//
// The driver's name must differ for two objects in a program: it is a part of the names of symbols.
func (r *run) setUnit() error {
	if slices.ContainsFunc(r.args, func(a string) bool { return strings.HasPrefix(a, "-cuid=") || strings.HasPrefix(a, "-fuse-cuid=") }) {
		return nil
	}
	var h key.Hash
	source, err := filepath.EvalSymlinks(r.path(r.args[r.command.Source]))
	if err != nil {
		return plan.Reason(err.Error())
	}
	h.Text("unit", r.belowBase(source))
	for i := 0; i < len(r.args); i++ {
		arg := r.args[i]
		switch {
		case i == r.command.Source:
		case i == r.command.Output-1:
			i++
			if !r.opt.SharedNames {
				h.Text("output", r.args[i])
			}
		case arg == "--offload-arch" || arg == "-MF" || arg == "-MT" || arg == "-MQ":
			i++
		case strings.HasPrefix(arg, "-M"), strings.HasPrefix(arg, "--offload-arch="), strings.HasPrefix(arg, "--no-offload-arch="), strings.HasPrefix(arg, "--cuda-gpu-arch="), strings.HasPrefix(arg, "--no-cuda-gpu-arch="), strings.HasPrefix(arg, "--offload-jobs"), strings.HasPrefix(arg, "-parallel-jobs"), strings.Contains(arg, "color-diagnostics"):
		default:
			h.Text(arg)
		}
	}
	sum := h.Key()
	unit := fmt.Sprintf("-cuid=%x", sum[:8])
	for _, job := range r.plan.Jobs {
		for i, word := range job.Args {
			if strings.HasPrefix(word, "-cuid=") {
				job.Args[i] = unit
			}
		}
	}
	return nil
}

// belowBase returns a path relative to the base directory, or the path if it is not below it.
func (r *run) belowBase(path string) string {
	if r.opt.BaseDir != "" {
		if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(r.opt.BaseDir, "/")+"/"); ok {
			return rest
		}
	}
	return path
}

// pathOptions are the options of the driver whose value, in the next word or behind them, is a path that can be
// made relative.
var pathOptions = []string{"-I", "-isystem", "-iquote", "-idirafter", "-include", "-imacros"}

// relative returns arguments with relative paths instead of absolute ones below the base directory.
func (r *run) relative(args []string) []string {
	if r.opt.BaseDir == "" {
		return args
	}
	change := func(path string) string {
		if !filepath.IsAbs(path) || r.belowBase(filepath.Clean(path)) == filepath.Clean(path) {
			return path
		}
		relative, err := filepath.Rel(r.opt.Dir, path)
		if err != nil {
			return path
		}
		return relative
	}
	args = slices.Clone(args)
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case slices.Contains(pathOptions, arg) && i+1 < len(args):
			i++
			args[i] = change(args[i])
		case plan.TakesValue(arg):
			i++
		case strings.HasPrefix(arg, "-I"):
			args[i] = "-I" + change(arg[2:])
		case strings.HasPrefix(arg, "-isystem"):
			args[i] = "-isystem" + change(arg[len("-isystem"):])
		case !strings.HasPrefix(arg, "-"):
			args[i] = change(arg)
		}
	}
	return args
}
