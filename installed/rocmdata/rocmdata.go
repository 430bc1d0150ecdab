// Package rocmdata recognizes, by their names, the files that libraries of ROCm search for at run
// time: the catalogues and code files of Tensile (rocBLAS, hipBLASLt, hipSPARSELt), the databases of
// MIOpen and the archives of AOTriton. It opens no file.
package rocmdata

import (
	"path/filepath"
	"slices"
	"strings"
)

// Dir is a directory, which can be in a package, with the names of its files. Names of files in a
// package are the name of the package, "!" and the path in it.
type Dir struct {
	Name  string
	Files []string
}

// IsCode reports whether a name, by its extension, is that of a code object or of a file with code
// objects that such a library loads.
func IsCode(name string) bool {
	return isTensileCode(name) || slices.Contains([]string{".kdb", ".aks2"}, filepath.Ext(name))
}

// baseName returns the last element of the name of a file or directory, which can be in a package.
func baseName(name string) string {
	base := filepath.Base(name)
	return base[strings.LastIndexByte(base, '!')+1:]
}
