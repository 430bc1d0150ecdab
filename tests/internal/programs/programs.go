// Package programs has the sources of programs with device code that tests of several packages build.
package programs

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
		panic(err) // the directory is embedded
	}
	return sources
}
