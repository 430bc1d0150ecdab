// Package flows runs complete offloading flows with this project's program in
// the place of LLVM's tools, from sources to a program that ran.
package flows

import (
	"embed"
	"io/fs"
)

//go:embed program
var programs embed.FS

// Sources returns the sources of programs with device code that tests build, by
// name.
func Sources() fs.FS {
	sources, err := fs.Sub(programs, "program")
	if err != nil {
		panic(err) // the folder is in the program
	}
	return sources
}
