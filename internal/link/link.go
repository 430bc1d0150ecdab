package link

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/rules-offload/rules_offload/engine"

	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/devicelink"
	"github.com/rules-offload/rules_offload/internal/files"
	"github.com/rules-offload/rules_offload/internal/linkcache"
	"github.com/rules-offload/rules_offload/internal/process"

	"github.com/rules-offload/rules_offload/internal/session"
)

// Options are the options of WrapLink: a host link and the device links
// that it requires, as in clang-linker-wrapper.
type Options struct {
	// Inputs are searched for device images, in the order of the host link.
	Inputs []Input
	// Extract are the archs whose images in archives are linked even if there is
	// no object for them.
	Extract []string
	// Override are linked images. If not empty, Inputs are not searched and there
	// are no device links.
	Override []Override
	// Device holds the options of all device links. WrapLink sets Clang and
	// Libraries.
	Device devicelink.CommandOptions
	// Libraries are the arguments of the host link for device links that produce
	// shared libraries.
	Libraries []Library

	HostTriple string
	Output     string // of the host link
	// Linker and LinkerArgs are the command of the host link. Registration objects
	// are inserted before argument ObjectsAt.
	Linker     string
	LinkerArgs []string
	ObjectsAt  int
	// Relocatable isolates the offload entries of the result.
	Relocatable bool
	// FatbinOnly writes the packed images to Output, without a host link.
	FatbinOnly bool

	Compress         bool
	CompressionLevel string // a number, or "" for the bundler's default

	DryRun      bool
	Verbose     bool
	PrintModule bool
	// SaveTemps keeps the intermediate files in the directory Kept.
	SaveTemps bool
	Kept      string

	// Temp is a directory for the temporary files of this call only; the caller
	// removes it.
	Temp string
	Env  []string // of all programs
	// Find returns the path of an LLVM program.
	Find func(name string) (string, error)
	// Fatbinary returns the path of NVIDIA's fatbinary.
	Fatbinary func() (string, error)
	// Slots limits the number of device links that run at a time.
	Slots process.Slots
	// Stdout and Stderr are those of the host linker. Commands and the output of
	// device links are also printed to Stderr.
	Stdout, Stderr io.Writer
	// Cache, if not nil, stores the results of device links.
	Cache *linkcache.Store
	// Phase, if not nil, is called at the start of each phase, and the function
	// that it returns at the end.
	Phase func(name, detail string) (end func())
}

// Input is an input of the host link.
type Input struct {
	Name string
	// Whole treats members of an archive like objects.
	Whole bool
}

// Override is a linked image.
type Override struct {
	Kind offloadbinary.OffloadKind
	File string
}

// Library is a part of the host link for device links: arguments to copy, or
// one of the inputs if it is an archive or a shared object.
type Library struct {
	Words []string
	Input int // index in Inputs, if Words is empty
}

// Fault is a kind of link failure.
type Fault int

// Faults of a link.
const (
	// NoLinker is a host link without a linker.
	NoLinker Fault = iota
	// UnknownHost is a host for which no registration object can be written: Subject
	// is its triple.
	UnknownHost
	// MixedSYCL are images of SYCL and of another offload kind for one target.
	MixedSYCL
	// NoRuntime is an offload kind that has no runtime: Subject is the kind.
	NoRuntime
	// NoImage is a device link without an output image: Subject is the
	// program.
	NoImage
	// NoBundle is a bundle for HIP that cannot be written.
	NoBundle
	// SeveralRuntimes are images for several runtimes where Output can hold
	// those of one.
	SeveralRuntimes
	// NotELF is a relocatable link for Windows.
	NotELF
)

// Error reports a fault of a link.
type Error struct {
	Fault   Fault
	Subject string
	Err     error // details, or nil
}

// Error describes the fault, and then the details.
func (e *Error) Error() string {
	var text string
	switch e.Fault {
	case NoLinker:
		text = "no host linker"
	case UnknownHost:
		text = fmt.Sprintf("host triple %q: unknown architecture", e.Subject)
	case MixedSYCL:
		text = devicelink.ErrMixedSYCL.Error()
	case NoRuntime:
		text = fmt.Sprintf("offload kind %s has no runtime", e.Subject)
	case NoImage:
		text = filepath.Base(e.Subject)
	case NoBundle:
		text = "bundle for HIP"
	case SeveralRuntimes:
		text = "images for several runtimes: a fat binary is for one runtime"
	case NotELF:
		text = "relocatable linking requires ELF"
	}
	if e.Err == nil {
		return text
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns the details.
func (e *Error) Unwrap() error { return e.Err }

// WrapLink links the device images of the inputs, writes the objects that
// register the results, and runs the host linker with these objects.
func Run(ctx context.Context, s *engine.Session, opt Options) error {
	w := &linker{Options: opt, session: s, files: session.Files(s), names: devicelink.Names{Dir: opt.Temp}, extracted: devicelink.Names{Dir: opt.Temp}}
	if w.SaveTemps {
		w.names = devicelink.Names{Dir: opt.Kept, Plain: true}
		w.extracted = devicelink.Names{Plain: true}
	}
	if w.Phase == nil {
		w.Phase = func(string, string) func() { return func() {} }
	}
	return w.run(ctx)
}

// linker is one call of WrapLink.
type linker struct {
	Options
	session *engine.Session
	files   *files.Root
	names   devicelink.Names
	// extracted generates the names of files with a single image. Files that are
	// kept are in the working directory.
	extracted devicelink.Names

	links    []devicelink.Link
	commands [][]string // of each link
	staged   [][]string // the input files of each link
	linked   []string   // the output of each link
	keep     []string   // symbols of offload entries
	objects  []string   // registration objects
}

// run runs the steps of the link. Each step is in a file of its own:
//
//	scan      wraplink_scan.go      finds the images in the inputs
//	plan      wraplink_plan.go      plans the device links, by package devicelink, and writes their inputs
//	link      wraplink_run.go       runs the device links
//	pack      wraplink_pack.go      packs the results for each runtime
//	register  wraplink_register.go  writes registration objects, by package register
//	hostLink  wraplink_host.go      runs the host link, isolates its result
//
// wraplink_print.go prints the commands of all steps.
func (w *linker) run(ctx context.Context) error {
	if len(w.Override) > 0 {
		if err := w.override(); err != nil {
			return err
		}
	} else {
		if err := w.plan(ctx); err != nil {
			return err
		}
		if err := w.link(ctx); err != nil {
			return err
		}
	}
	packed, err := w.pack(ctx)
	if err != nil {
		return err
	}
	if w.FatbinOnly {
		return w.fatbin(ctx, packed)
	}
	if w.Linker == "" {
		return &Error{Fault: NoLinker}
	}
	return w.hostLink(ctx)
}

// runProgram runs a program that prints to the output of the host link. Long command lines
// are passed in response files if the program reads them.
func (w *linker) runProgram(ctx context.Context, command []string, responses bool) error {
	program := process.Command{Args: command, Env: w.Env, Dir: w.files.Dir(), Stdout: w.Stdout, Stderr: w.Stderr}
	if responses {
		program.Responses, program.WindowsQuoting = w.Temp, isCOFFLinker(command[0])
	}
	return program.Run(ctx)
}
