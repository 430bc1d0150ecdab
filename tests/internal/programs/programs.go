// Package programs has the sources of programs with device code that tests of several packages build.
package programs

import (
	"embed"
	"io/fs"
	"maps"
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

// WithHIP returns the sources of a program together with hip.h, which declares what clang requires of HIP, and hiprt.c, a
// runtime that prints each call.
func WithHIP(sources map[string]string) map[string]string {
	all := maps.Clone(sources)
	for _, name := range []string{"hip.h", "hiprt.c"} {
		content, err := programs.ReadFile("program/" + name)
		if err != nil {
			panic(err) // the directory is embedded
		}
		all[name] = string(content)
	}
	return all
}
