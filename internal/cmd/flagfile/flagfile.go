// Package flagfile expands @file arguments as Bazel expands them for
// a persistent worker, so that a program sees the same arguments whether it
// runs as a worker (where Bazel expands), in a sandbox or remotely (where it
// has to expand itself).
//
// What Bazel does, in WorkerSpawnRunner.expandArgument of Bazel 7.7.1:
//
//   - An argument that starts with "@" names a file and is replaced by the
//     lines of that file, each of which is expanded in turn.
//   - An argument that starts with "@@" stays as it is, both letters included.
//   - An argument that starts with "@" and has "//" anywhere behind it is
//     a label of an external repository and stays as it is.
//   - Lines end with "\n", "\r\n" or "\r"; the end of the last line is
//     optional. Everything else on a line counts: blanks at either end, quotes,
//     "#", a byte order mark. An empty line is an empty argument.
//   - Files are UTF-8.
//
// Two differences, in cases where Bazel goes wrong: for bytes that are not
// UTF-8 Bazel puts U+FFFD, so that a file name no longer names its file, and
// a file that names itself overflows Bazel's stack. Both are errors here.
package flagfile

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth is the maximum nesting of files. It stops cycles that the names do not show, through
// symbolic links.
const maxDepth = 100

// Expand returns args with every @file replaced by the arguments in it. open returns the
// contents of a file by the name after the "@", as written. Bazel resolves relative names in
// the execution root, and accepts only inputs of the action. Errors of open are wrapped
// together with the name.
func Expand(args []string, open func(path string) ([]byte, error)) ([]string, error) {
	e := expander{open: open, args: make([]string, 0, len(args))}
	for _, arg := range args {
		if err := e.add(arg); err != nil {
			return nil, err
		}
	}
	return e.args, nil
}

type expander struct {
	open  func(path string) ([]byte, error)
	args  []string
	files []string // being read, outermost first
}

func (e *expander) add(arg string) error {
	if !strings.HasPrefix(arg, "@") || strings.HasPrefix(arg, "@@") || isLabel(arg) {
		e.args = append(e.args, arg)
		return nil
	}
	name := arg[1:]
	if name == "" {
		return fmt.Errorf("argument %q does not name a file%s", arg, e.within())
	}
	clean := path.Clean(name)
	if slices.Contains(e.files, clean) {
		return fmt.Errorf("argument file %s contains itself%s", name, e.within())
	}
	if len(e.files) == maxDepth {
		return fmt.Errorf("argument file %s is %d files deep%s", name, maxDepth+1, e.within())
	}
	data, err := e.open(name)
	if err != nil {
		return fmt.Errorf("argument file %s%s: %w", name, e.within(), err)
	}
	e.files = append(e.files, clean)
	defer func() { e.files = e.files[:len(e.files)-1] }()
	for line, n := 0, 0; len(data) > 0; data = data[n:] {
		var text []byte
		text, n = cutLine(data)
		line++
		if !utf8.Valid(text) {
			return fmt.Errorf("argument file %s: line %d is not UTF-8: %q", name, line, text)
		}
		if err := e.add(string(text)); err != nil {
			return err
		}
	}
	return nil
}

// within returns the file that contains the argument, for an error.
func (e *expander) within() string {
	if len(e.files) == 0 {
		return ""
	}
	return " (named in " + e.files[len(e.files)-1] + ")"
}

// isLabel reports whether arg, which starts with "@", is a label of another
// repository. Bazel's test is that all of arg matches ^@.*//.*, where the dot
// of a Java regular expression stands for anything but a line terminator.
func isLabel(arg string) bool {
	return strings.Contains(arg, "//") && !strings.ContainsAny(arg, "\n\r\u0085\u2028\u2029")
}

// cutLine returns the first line of data, which is not empty, and the number
// of bytes to the start of the next.
func cutLine(data []byte) (line []byte, n int) {
	i := bytes.IndexAny(data, "\r\n")
	switch {
	case i < 0:
		return data, len(data)
	case bytes.HasPrefix(data[i:], []byte("\r\n")):
		return data[:i], i + 2
	}
	return data[:i], i + 1
}
