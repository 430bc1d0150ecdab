package bundle

import "fmt"

// FileType is a type of bundled file, named as in clang-offload-bundler -type:
// i, ii, cui, hipi, d, ll, s, bc, gch, ast, o or a.
type FileType string

// The types that other code refers to.
const (
	// ObjectType is an object file with device images in sections, or a binary
	// bundle if there is no host object.
	ObjectType FileType = "o"
	// ArchiveType is an archive whose members are bundles or bundled objects.
	ArchiveType FileType = "a"
)

// Check returns a *FileTypeError for an unknown file type.
func (t FileType) Check() error {
	switch t {
	case "bc", "gch", "ast", ObjectType, ArchiveType:
		return nil
	}
	if _, text := t.Comment(); text {
		return nil
	}
	return &FileTypeError{t}
}

// Comment returns the start of comment lines in files of the type, and reports
// whether bundles of the type are text.
func (t FileType) Comment() (start string, text bool) {
	switch t {
	case "i", "ii", "cui", "hipi":
		return "//", true
	case "d", "s":
		return "#", true
	case "ll":
		return ";", true
	}
	return "", false
}

// FileTypeError reports an unknown file type.
type FileTypeError struct {
	Type FileType
}

func (e *FileTypeError) Error() string {
	return fmt.Sprintf("unknown file type %q: expected i, ii, cui, hipi, d, ll, s, bc, gch, ast, o or a", string(e.Type))
}
