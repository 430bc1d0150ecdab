// Package linkerwrapper implements the command line of clang-linker-wrapper, which clang runs
// instead of the host linker to link device code. It accepts the options of LLVM 22 to 24. The steps of a call:
//
//	Run             linkerwrapper.go
//	parse           arguments.go  the words of the command line, by the table in options.go
//	wrapper.read    arguments.go  link.Options from the words
//	wrapper.run     linkerwrapper.go
//	link.Run                      package link: device links, registration, host link
//	printer         print.go      prints the commands of the steps
package linkerwrapper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/internal/cmd/command"
	"github.com/rules-offload/rules_offload/internal/cmd/llvmcl"
	"github.com/rules-offload/rules_offload/internal/cmd/llvmwords"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
	"github.com/rules-offload/rules_offload/internal/cmd/release"
	"github.com/rules-offload/rules_offload/internal/link"
	"github.com/rules-offload/rules_offload/internal/link/devicelink"
	"github.com/rules-offload/rules_offload/internal/link/process"
	"github.com/rules-offload/rules_offload/internal/storage/scratch"
)

// Run runs a command line and returns its exit code.
func Run(ctx context.Context, call *command.Call) int {
	if err := run(ctx, call); err != nil {
		fmt.Fprintf(call.Stderr, "%s: error: %s\n", call.Name, message(err))
		return 1
	}
	return 0
}

// message returns an error as LLVM's tools write it.
func message(err error) string {
	var system *files.Error
	if errors.As(err, &system) {
		return fmt.Sprintf("'%s': %s", system.Name, system.Reason())
	}
	var link *link.Error
	if errors.As(err, &link) {
		if words := llvmwords.Link(link); link.Err != nil {
			return words + ": " + cmp.Or(llvmwords.Target(link.Err), link.Err.Error())
		} else {
			return words
		}
	}
	var place *images.PlaceError
	if words := llvmwords.Fault(err); words != "" && errors.As(err, &place) {
		return words + ": " + err.Error()
	}
	return err.Error()
}

func run(ctx context.Context, call *command.Call) error {
	args, err := llvmcl.Expand(call)
	if err != nil {
		return err
	}
	words, err := parse(args)
	if err != nil {
		return err
	}
	for _, w := range words {
		switch {
		case w.is(help), w.is(helpHidden):
			printHelp(call.Stdout, w.is(helpHidden))
			return nil
		case w.is(version):
			r, err := release.Follow(ctx, call)
			if err != nil {
				return err
			}
			fmt.Fprintf(call.Stdout, "Debian clang-linker-wrapper version %s (%s)\n", r.Version, r.Package)
			return nil
		}
	}
	w := &wrapper{call: call}
	if err := w.read(words); err != nil {
		return err
	}
	if err := w.openSlots(); err != nil {
		return err
	}
	defer w.close()
	if w.listLLVM {
		return w.llvmHelp(ctx)
	}
	return w.run(ctx)
}

// llvmHelp runs the clang of the device links to list its LLVM options.
func (w *wrapper) llvmHelp(ctx context.Context) error {
	clang, err := w.tools().find("clang")
	if err != nil {
		return err
	}
	program := process.Command{Args: []string{clang, "-cc1", "-mllvm", "--help"}, Env: os.Environ(), Stdout: w.call.Stdout, Stderr: w.call.Stderr}
	return program.Run(ctx)
}

// wrapper is one call.
type wrapper struct {
	call *command.Call
	opt  link.Options

	// Of the host link:
	search   []string // directories of libraries
	sysroot  string
	whole    bool  // whether all members of the next archives are linked
	wholeAll bool  // whether those of all archives are
	missing  error // a library that does not exist

	// Of the wrapper:
	cudaPath    string
	canonical   bool // whether programs are also looked for where the links of its own path lead
	traceFile   string
	granularity int     // of the trace, in microseconds
	jobs        *string // the value of --wrapper-jobs
	verbose     bool    // print commands and notes
	listLLVM    bool    // list the options of LLVM
	quiet       bool    // do not warn about missing kernels

	trace     *trace
	jobserver *process.Jobserver
}

// run runs the command line.
func (w *wrapper) run(ctx context.Context) error {
	opt := &w.opt
	opt.Stdout, opt.Stderr = w.call.Stdout, w.call.Stderr
	tools := w.tools()
	opt.Find = tools.find
	opt.Fatbinary = tools.fatbinary
	// Unlike the other drop-ins, it follows the clang for device links, wherever that is, and a release that may be
	// newer than the newest known one.
	followed, err := release.Number(ctx, w.call, func() string {
		clang, err := tools.find("clang")
		if err != nil || filepath.Base(clang) == clang {
			return ""
		}
		return clang
	})
	if err != nil {
		return err
	}
	opt.Device.Release, opt.Policy.Plan = followed, devicelink.PolicyOf(followed)
	opt.Env = os.Environ()
	if opt.Cache, err = w.cache(); err != nil {
		return err
	}
	opt.Temp = filepath.Join(os.TempDir(), "offload-dry-run")
	if !opt.DryRun {
		temp, err := scratch.New("offload-link-")
		if err != nil {
			return err
		}
		defer temp.Remove()
		opt.Temp, opt.Env = temp.Path, temp.Environment(opt.Env)
	}
	opt.Names = link.Names{Files: devicelink.Names{Dir: opt.Temp}, Images: devicelink.Names{Dir: opt.Temp}}
	if opt.SaveTemps {
		opt.Names = link.Names{Files: devicelink.Names{Plain: true}, Images: devicelink.Names{Plain: true}}
		if release.Nearest(followed).TempsBesideOutput {
			opt.Names.Files.Dir = filepath.Dir(opt.Output)
		}
	}
	opt.Observer = &printer{opt: opt, w: w.call.Stderr, trace: w.trace, verbose: w.verbose}
	if !w.quiet {
		opt.Missing = func(m *link.MissingKernels) {
			fmt.Fprintf(w.call.Stderr, "%s: warning: %s: %s\n", w.call.Name, opt.Output, printable.Text(m.String()))
		}
	}
	err = link.Run(ctx, w.call.Session, *opt)
	if w.trace != nil {
		err = errors.Join(err, w.trace.write(w.traceFile))
	}
	return err
}

func (w *wrapper) env(name string) string {
	value, _ := w.call.LookupEnv(name)
	return value
}

// openSlots sets how many device links run at a time.
func (w *wrapper) openSlots() error {
	switch {
	case w.jobs == nil:
		w.opt.Slots = process.Limit(runtime.GOMAXPROCS(0))
	case *w.jobs == "jobserver":
		w.opt.Slots = process.Limit(1)
		var err error
		makeflags, set := w.call.LookupEnv("MAKEFLAGS")
		w.jobserver, err = process.OpenJobserver(makeflags)
		switch {
		case err != nil:
			fmt.Fprintf(w.call.Stderr, "Warning: jobserver client initialization failed: %v\n", err)
		case w.jobserver != nil:
			w.opt.Slots = w.jobserver
		case !set:
			fmt.Fprintln(w.call.Stderr, "Warning: failed to create jobserver client due to MAKEFLAGS environment variable not found")
		}
	default:
		// In any base that the prefix names, as LLVM reads numbers.
		n, err := strconv.ParseUint(*w.jobs, 0, 31)
		if err != nil || n == 0 || strings.ContainsRune(*w.jobs, '_') {
			return fmt.Errorf("--wrapper-jobs=%s: expected a positive integer or 'jobserver', got '%s'", *w.jobs, *w.jobs)
		}
		w.opt.Slots = process.Limit(int(n))
	}
	return nil
}

func (w *wrapper) close() {
	if w.jobserver != nil {
		w.jobserver.Close()
	}
}
