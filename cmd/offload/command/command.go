// Package command is what every command line of the program is run with, be it
// a process of its own or a request to a worker: there is one road for both.
package command

import (
	"io"

	"github.com/rules-offload/rules_offload/engine"
)

// Call is one command line and its surroundings.
type Call struct {
	// Name is the name the program was called under, as typed.
	Name string
	// Args are the arguments behind the name, parameter files expanded.
	Args []string
	// Session reads and writes the files of the call.
	Session *engine.Session
	// WithMemory returns a session like Session with a limit of memory, in bytes. It
	// is nil in a worker.
	WithMemory func(limit int64) (*engine.Session, error)
	// Stdout and Stderr take what the command prints. In a worker both are
	// the output of the response.
	Stdout, Stderr io.Writer
	// Color reports whether Stdout is a terminal that shows colours, and the
	// user has not set NO_COLOR. It is false in a worker.
	Color bool
	// Worker reports whether the call is a request to a worker, which has no
	// environment and whose paths are not those of the process.
	Worker bool
	// LookupEnv looks up a variable of the environment. In a worker there is none.
	LookupEnv func(name string) (value string, set bool)
}
