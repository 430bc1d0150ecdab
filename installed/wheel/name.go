// Package wheel reads and writes Python wheels: their file names, the files WHEEL, METADATA and
// RECORD, and the ZIP archives that contain them. Source of the format: the packaging
// specifications "Binary distribution format", "Core metadata", "Names and normalization" and
// "Recording installed projects".
package wheel

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Name is the file name of a wheel, in parts.
type Name struct {
	Distribution, Version, Build string // Build is empty in most names
	Python, ABI, Platform        string // sets of tags, separated by dots
}

// Extension is the end of the file names of wheels.
const Extension = ".whl"

// ParseName parses the file name of a wheel, without a directory.
func ParseName(file string) (Name, error) {
	stem, ok := strings.CutSuffix(file, Extension)
	parts := strings.Split(stem, "-")
	bad := func(why string) (Name, error) {
		return Name{}, fmt.Errorf("file name: %s; expected NAME-VERSION-PYTHON-ABI-PLATFORM.whl", why)
	}
	switch {
	case !ok:
		return bad("does not end in " + Extension)
	case len(parts) != 5 && len(parts) != 6:
		return bad(fmt.Sprintf("found %d parts", len(parts)))
	}
	for _, p := range parts {
		if !validPart(p) {
			return bad(fmt.Sprintf("found the part %.100q", p))
		}
	}
	n := Name{Distribution: parts[0], Version: parts[1]}
	if len(parts) == 6 {
		if n.Build = parts[2]; n.Build[0] < '0' || n.Build[0] > '9' {
			return bad(fmt.Sprintf("found the build tag %q, which does not begin with a digit", n.Build))
		}
	}
	tags := parts[len(parts)-3:]
	n.Python, n.ABI, n.Platform = tags[0], tags[1], tags[2]
	return n, nil
}

// validPart reports whether a part of a file name has only letters, digits and _ . ! +.
func validPart(part string) bool {
	return part != "" && !strings.ContainsFunc(part, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("_.!+", r)
	})
}

// String returns the file name.
func (n Name) String() string {
	parts := []string{n.Distribution, n.Version}
	if n.Build != "" {
		parts = append(parts, n.Build)
	}
	return strings.Join(append(parts, n.Python, n.ABI, n.Platform), "-") + Extension
}

// Normalize returns the normalized form of the name of a project or an extra: lower case, and a
// dash for each run of dashes, dots and underscores.
func Normalize(name string) string {
	parts := strings.FieldsFunc(strings.ToLower(name), isSeparator)
	normal := strings.Join(parts, "-")
	if len(parts) > 0 && isSeparator(rune(name[0])) {
		normal = "-" + normal
	}
	if len(parts) > 0 && isSeparator(rune(name[len(name)-1])) {
		normal += "-"
	}
	return normal
}

func isSeparator(r rune) bool { return strings.ContainsRune("-_.", r) }

// Escape returns the form of the name of a project in file names.
func Escape(name string) string { return strings.ReplaceAll(Normalize(name), "-", "_") }

// EscapeVersion returns the form of a version in file names.
func EscapeVersion(version string) string { return strings.ReplaceAll(version, "-", "_") }

// ValidName reports whether name can be the name of a project or an extra.
func ValidName(name string) bool {
	if name == "" || isSeparator(rune(name[0])) || isSeparator(rune(name[len(name)-1])) {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsNumber(r) && !isSeparator(r)
	})
}
