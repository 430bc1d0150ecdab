// Package link links the device code of a host link: it finds the device images in the inputs,
// links those of each target, packs the results for their runtimes, writes the objects that
// register them, and runs the host linker.
//
//	link.go      Run and its options; Policy, what callers do differently
//	scan.go      finds the images in the inputs
//	plan.go      plans the device links, by package devicelink, and writes their inputs
//	run.go       runs the device links
//	missing.go   finds kernels that are in one of the results and not in another that hides it
//	pack.go      packs the results for each runtime
//	register.go  writes registration objects, by package register
//	host.go      runs the host link, isolates its result
//	every.go     EveryTarget and PlanEveryTarget: the options and the policy of offload link
//
// The options and the policy of clang-linker-wrapper are in internal/cmd/linkerwrapper. LinkDevice
// (linkdevice.go), CheckDeviceDeps (devicedeps.go) and Isolate (isolate.go) are steps of links that a
// build system runs as separate actions.
package link

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/files"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/engine/offloadbinary"
	"github.com/rules-offload/rules_offload/internal/link/devicelink"
	"github.com/rules-offload/rules_offload/internal/link/linkcache"
	"github.com/rules-offload/rules_offload/internal/link/process"
)

// Options are a host link and the device links that it requires.
type Options struct {
	// Inputs are searched for device images, in the order of the host link.
	Inputs []Input
	// Extract are the archs whose images in archives are linked even if there is
	// no object for them.
	Extract []string
	// Override are linked images. If not empty, Inputs are not searched and there
	// are no device links.
	Override []Override
	// Device holds the options of all device links. Run sets Libraries, and Clang if it is empty.
	Device devicelink.CommandOptions
	// Libraries are the arguments of the host link for device links that produce
	// shared libraries.
	Libraries []Library
	Policy    Policy

	HostTriple string
	// Output is the result; Result says what it is.
	Output string
	Result Result
	// Linker and LinkerArgs are the command of the host link. Registration objects
	// are inserted before argument ObjectsAt.
	Linker     string
	LinkerArgs []string
	ObjectsAt  int
	// Relocatable makes a host link whose output later device links do not link again, and
	// isolates the offload entries of its output.
	Relocatable bool
	// Merged is the output of the host link if Relocatable writes the isolated object to another
	// file. "" isolates Output in place.
	Merged string

	Compress         bool
	CompressionLevel string // a number, or "" for the bundler's default

	DryRun bool // report the steps to Observer without running programs or writing files
	// Module, if not nil, receives the registrations as LLVM IR.
	Module io.Writer
	// SaveTemps writes all intermediate files, and does not use Cache.
	SaveTemps bool
	Names     Names

	// Dir is the directory in which device links run and to which the names of their files are
	// relative; "" is that of the session.
	Dir string
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
	// Stdout and Stderr are those of the host linker. The output of device links is also printed
	// to Stderr.
	Stdout, Stderr io.Writer
	// Cache, if not nil, stores the results of device links.
	Cache *linkcache.Store
	// Missing, if not nil, is called with kernels that are not in the image which the runtime selects on some GPUs.
	Missing func(*MissingKernels)
	// Observer, if not nil, is called at each step.
	Observer Observer
}

// Result is what a link writes to its output.
type Result int

// Results of a link.
const (
	Program Result = iota // what the host linker makes
	Object                // the registration object
	Fatbin                // the packed images
)

// Policy is what links do differently for offload link and clang-linker-wrapper. The zero value
// is the policy of clang-linker-wrapper.
type Policy struct {
	Plan devicelink.Policy
	// Missing reports missing inputs and directories. Otherwise, they are left to the host linker.
	Missing bool
	// Keep are the offload entries that the host linker must keep.
	Keep Entries
	// Sorted runs links in the order in which their results are packed, see devicelink.Compare.
	Sorted bool
	// Joined writes one registration object, and one offload binary for OpenMP. Otherwise, there
	// is an object for each runtime, and a binary for each image.
	Joined bool
	// Check, if not nil, replaces the checks of devicelink.Link.Check.
	Check func(plan *Plan) error
	// Failed, if not nil, describes the failure of a device link that printed messages, or of the
	// host link, for which link is nil.
	Failed func(link *Link, messages fmt.Stringer, err error) error
}

// Entries selects offload entries of the inputs.
type Entries int

// Sets of offload entries.
const (
	NoEntries     Entries = iota
	ObjectEntries         // those of objects
	AllEntries            // those of objects, bitcode, and members of archives
)

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
	Input int    // index in Inputs, if Words is empty
	Path  string // of the input for programs; "" is its name
}

// Names name the files of a link. The zero value names files in the working directory.
type Names struct {
	// Files names files.
	Files devicelink.Names
	// Images names files with a single image.
	Images devicelink.Names
	// Image and Linked, if not nil, name the file of image i and the result of link i.
	Image  func(i int, image *images.DeviceImage) string
	Linked func(i int, link *devicelink.Link) string
	// Packed, if not nil, names the file of the packed images of a runtime, which then is always
	// written.
	Packed func(kind offloadbinary.OffloadKind) string
}

// Observer is called at the steps of a link. Its methods are called one at a time, except Phase.
type Observer interface {
	// Planned is called with the plan of the device links.
	Planned(plan *Plan)
	// Staged is called when the images that are linked have the names of their files.
	Staged(plan *Plan)
	// Command is called before a program runs.
	Command(command []string)
	// Bundled is called before a bundle for HIP is written.
	Bundled(targets, images []string, output string)
	// Registered is called before a registration object is written.
	Registered(r *Registered)
	// Isolated is called before the entries of the output get a suffix.
	Isolated(suffix string)
	// Phase is called at the start of each phase, and the function that it returns at the end.
	Phase(name, detail string) (end func())
}

// unobserved is the Observer of links without one.
type unobserved struct{}

func (unobserved) Planned(*Plan)                      {}
func (unobserved) Staged(*Plan)                       {}
func (unobserved) Command([]string)                   {}
func (unobserved) Bundled([]string, []string, string) {}
func (unobserved) Registered(*Registered)             {}
func (unobserved) Isolated(string)                    {}
func (unobserved) Phase(string, string) func()        { return func() {} }

// Fault is a kind of link failure.
type Fault int

// Faults of a link.
const (
	// NoLinker is a host link without a linker.
	NoLinker Fault = iota
	// UnknownHost is a host for which no registration object can be written: Subject
	// is its triple.
	UnknownHost
	// MixedKinds are images for one target of which one kind cannot be linked with others: Subject is the title of its
	// runtime.
	MixedKinds
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
	// NoHeader is a linked image of Override without a valid ELF header.
	NoHeader
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
	case MixedKinds:
		text = (&devicelink.MixedError{Runtime: e.Subject}).Error()
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
	case NoHeader:
		text = "linked image"
	}
	if e.Err == nil {
		return text
	}
	return text + ": " + e.Err.Error()
}

// Unwrap returns the details.
func (e *Error) Unwrap() error { return e.Err }

// Run links the device images of the inputs, writes the objects that
// register the results, and runs the host linker with these objects.
func Run(ctx context.Context, s *engine.Session, opt Options) error {
	return newLinker(s, opt).run(ctx)
}

// linker is one link.
type linker struct {
	Options
	session *engine.Session
	files   *files.Root

	plan    *Plan
	objects []string // registration objects
}

func newLinker(s *engine.Session, opt Options) *linker {
	if opt.Observer == nil {
		opt.Observer = unobserved{}
	}
	return &linker{Options: opt, session: s, files: s.Files()}
}

// run runs the steps of the link.
func (w *linker) run(ctx context.Context) error {
	if len(w.Override) > 0 {
		if err := w.override(); err != nil {
			return err
		}
	} else {
		if err := w.prepare(ctx); err != nil {
			return err
		}
		if err := w.link(ctx); err != nil {
			return err
		}
		if w.Missing != nil && !w.DryRun {
			if err := w.reportMissing(ctx); err != nil {
				return err
			}
		}
	}
	packed, err := w.pack(ctx)
	if err != nil {
		return err
	}
	switch {
	case w.Result == Fatbin:
		return w.fatbin(ctx, packed)
	case w.Result == Object:
		return nil
	case w.Linker == "":
		return &Error{Fault: NoLinker}
	}
	return w.hostLink(ctx)
}

// program returns a program of the link.
func (w *linker) program(command []string, stdout, stderr io.Writer) process.Command {
	return process.Command{Args: command, Env: w.Env, Dir: cmp.Or(w.Dir, w.files.Dir()), Stdout: stdout, Stderr: stderr}
}

// runProgram runs a program that prints to the output of the host link. Long command lines
// are passed in response files if the program reads them.
func (w *linker) runProgram(ctx context.Context, command []string, responses bool) error {
	program := w.program(command, w.Stdout, w.Stderr)
	if responses {
		program.Responses, program.WindowsQuoting = w.Temp, isCOFFLinker(command[0])
	}
	return program.Run(ctx)
}

// path returns the name of a file of the device links for the session.
func (w *linker) path(name string) string {
	if w.Dir == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(w.Dir, name)
}
