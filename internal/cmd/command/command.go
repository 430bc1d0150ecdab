// Package command defines a call of offload or a drop-in. Processes and worker requests run the same
// code with it.
package command

import (
	"io"

	"github.com/rules-offload/rules_offload/engine"
)

// Call is a command line with its environment.
type Call struct {
	// Name is the name under which offload was called, as typed.
	Name string
	// Args are the arguments after the name, with parameter files expanded.
	Args []string
	// Session reads and writes the files of the call.
	Session *engine.Session
	// WithMemory returns a session like Session with a limit of memory, in bytes. It
	// is nil in a worker.
	WithMemory func(limit int64) (*engine.Session, error)
	// Stdout and Stderr receive the output of the command. In a worker, both are the output of
	// the response.
	Stdout, Stderr io.Writer
	// Color reports whether Stdout is a terminal that shows colours, and the
	// user has not set NO_COLOR. It is false in a worker.
	Color bool
	// Worker reports whether the call is a worker request, which has no environment, and whose
	// paths are not relative to the directory of the process.
	Worker bool
	// Protect makes the call handle signals, so that it can clean up. Call it before the call starts
	// processes or writes files that are no outputs of its Session, which does so itself. It is nil where
	// the call always does.
	Protect func()
	// Memory returns the memory that processes of this machine or container can use, in bytes. It is
	// nil in a worker.
	Memory func() int64
	// LookupEnv looks up an environment variable. In a worker, no variable is set.
	LookupEnv func(name string) (value string, set bool)
}
