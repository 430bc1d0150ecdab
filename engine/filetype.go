package engine

import (
	"fmt"

	"github.com/rules-offload/rules_offload/engine/bundle"
)

// FileType is a type of bundled file, by the name that clang-offload-bundler
// -type gives it.
type FileType string

// The types that are more than a name here.
const (
	// ObjectType is an object file that has device images in sections, or a
	// binary bundle if there is no host object.
	ObjectType FileType = "o"
	// ArchiveType is an archive whose members are bundles or bundled objects.
	ArchiveType FileType = "a"
)

// ParseFileType returns the file type of that name.
func ParseFileType(name string) (FileType, error) {
	t := FileType(name)
	return t, t.check()
}

// check returns a *FileTypeError for what is no file type.
func (t FileType) check() error {
	switch t {
	case "bc", "gch", "ast", ObjectType, ArchiveType:
		return nil
	}
	if _, text := t.comment(); text {
		return nil
	}
	return &FileTypeError{t}
}

// comment returns what comment lines of the type begin with, and whether its
// bundles are text.
func (t FileType) comment() (string, bool) { return bundle.Comment(string(t)) }

// FileTypeError is a file type that there is not.
type FileTypeError struct {
	Type FileType
}

// Error returns the words of clang-offload-bundler.
func (e *FileTypeError) Error() string {
	return fmt.Sprintf("'%s': invalid file type specified", string(e.Type))
}
