package compilation

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// maxMessages limits the part of clang's messages that is searched, in bytes.
const maxMessages = 1 << 20

// messages passes the messages of clang on, and keeps the first ones.
type messages struct {
	to   io.Writer
	kept bytes.Buffer
	all  bool // whether to get the messages for a terminal, too
}

// Write passes messages on.
func (m *messages) Write(text []byte) (int, error) {
	m.kept.Write(text[:min(len(text), maxMessages-m.kept.Len())])
	return m.to.Write(text)
}

// openmpHeader is the header of clang's OpenMP runtime, which packages of compilers do not contain.
const openmpHeader = "omp.h"

// explain says what to do about an include of OpenMP's header, and of a file that exists beside the
// file that includes it, and that a sandbox does not show to clang.
func (m *messages) explain() {
	for text := range strings.Lines(m.kept.String()) {
		from, line, name, ok := missing(strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r"))
		if !ok {
			continue
		}
		if name == openmpHeader {
			fmt.Fprintf(m.to, "%s:%s: %s belongs to libomp, clang's OpenMP runtime, which this compiler does not have: install it (Debian: libomp-22-dev), or add a library with its headers to deps\n", from, line, name)
			continue
		}
		file, err := filepath.EvalSymlinks(from)
		if err != nil {
			continue
		}
		if info, err := os.Stat(filepath.Join(filepath.Dir(file), filepath.FromSlash(name))); err == nil && info.Mode().IsRegular() {
			fmt.Fprintf(m.to, "%s:%s: %s exists, but is not an input of the compilation: add it to hdrs of the target, or to textual_hdrs if it is not a header; if another package has it, add a target with it to deps\n", from, line, name)
		}
	}
}

// missing parses clang's error for an include that it does not find:
// a.hip:3:10: fatal error: 'b.h' file not found
func missing(text string) (from, line, name string, ok bool) {
	text, ok = strings.CutSuffix(text, "' file not found")
	i := strings.LastIndexByte(text, '\'')
	if !ok || i < 0 || i == len(text)-1 {
		return "", "", "", false
	}
	text, name = text[:i], text[i+1:]
	if text, ok = strings.CutSuffix(text, ": error: "); !ok {
		if text, ok = strings.CutSuffix(text, ": fatal error: "); !ok {
			return "", "", "", false
		}
	}
	text, column := cutLast(text)
	from, line = cutLast(text)
	return from, line, name, from != "" && isNumber(line) && isNumber(column)
}

// cutLast cuts text around its last colon.
func cutLast(text string) (before, after string) {
	i := max(strings.LastIndexByte(text, ':'), 0)
	return text[:i], strings.TrimPrefix(text[i:], ":")
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// isTerminal reports whether a file is a device such as a terminal, for which clang uses colors.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
