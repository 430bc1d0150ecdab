package bundler

import (
	"errors"
	"fmt"

	"github.com/rules-offload/rules_offload/engine/bundle"
	"github.com/rules-offload/rules_offload/engine/target"
	"github.com/rules-offload/rules_offload/internal/cmd/llvmcl"
)

// mistake is an error in the command line, in LLVM's words.
type mistake string

func (m mistake) Error() string { return string(m) }

// merge adds the deprecated lists of files to the others.
func (r *run) merge() error {
	for _, files := range []struct {
		name      string
		one, many *llvmcl.Opt[[]string]
	}{{"-input", r.input, r.inputs}, {"-output", r.output, r.outputs}} {
		if files.one.Count != 0 && files.many.Count != 0 {
			return mistake(fmt.Sprintf("%[1]ss and %[1]s cannot be used together, use only %[1]s instead", files.name))
		}
		if len(files.many.Value) > 0 {
			fmt.Fprintf(r.Stderr, "%s: warning: %[2]ss is deprecated, use %[2]s instead\n", r.Name, files.name)
			files.one.Value = files.many.Value
		}
	}
	return nil
}

// checkList checks the options that can be used with -list.
func (r *run) checkList() error {
	switch {
	case r.unbundle.Value:
		return mistake("-unbundle and -list cannot be used together")
	case len(r.input.Value) != 1:
		return mistake("only one input file supported for -list")
	case len(r.output.Value) > 0:
		return mistake("-outputs option is invalid for -list")
	case len(r.targets.Value) > 0:
		return mistake("-targets option is invalid for -list")
	}
	return r.checkType()
}

// checkType rejects an empty type, for which the engine would use a default.
func (r *run) checkType() error {
	if r.fileType.Value == "" {
		return &bundle.FileTypeError{}
	}
	return nil
}

// check checks everything else, and the targets.
func (r *run) check() error {
	archive := r.fileType.Value == "a"
	switch {
	case r.checkArchive.Value && !r.unbundle.Value:
		return mistake("-check-input-archive cannot be used while bundling")
	case r.checkArchive.Value && !archive:
		return mistake("-check-input-archive can only be used for unbundling archives (-type=a)")
	case len(r.output.Value) == 0:
		return mistake("no output file specified!")
	case r.targets.Count == 0:
		return mistake("for the --targets option: must be specified at least once!")
	}
	op := target.Bundling
	if r.unbundle.Value {
		op = target.Unbundling
		switch {
		case len(r.input.Value) != 1:
			return mistake("only one input file supported in unbundling mode")
		case len(r.output.Value) != len(r.targets.Value):
			return mistake("number of output files and targets should match in unbundling mode")
		}
	} else {
		switch {
		case archive:
			return mistake("Archive files are only supported for unbundling")
		case len(r.output.Value) != 1:
			return mistake("only one output file supported in bundling mode")
		case len(r.input.Value) != len(r.targets.Value):
			return mistake("number of input files and targets should match in bundling mode")
		}
	}
	var err error
	if r.ids, err = target.CheckTargets(r.targets.Value, target.ParseLLVM, op); err != nil {
		return err
	}
	// LLVM assumes that each feature has a sign and occurs once.
	for i, id := range r.ids {
		var fault *target.TargetIDError
		if _, err := target.ParseTargetID(id.TargetID); errors.As(err, &fault) && id.TargetID != "" {
			return malformed(r.targets.Value[i], fault)
		}
	}
	return r.checkType()
}
