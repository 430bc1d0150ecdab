package compilation

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// missing matches clang's error for an include that it does not find.
const missing = `(?m)^(.+):(\d+):\d+: (?:fatal )?error: '([^'\n]+)' file not found\r?$`

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

// explain says what to do about an include of a file that exists beside the file that includes it,
// and that a sandbox does not show to clang.
func (m *messages) explain() {
	for _, match := range regexp.MustCompile(missing).FindAllSubmatch(m.kept.Bytes(), -1) {
		from, line, name := string(match[1]), match[2], string(match[3])
		file, err := filepath.EvalSymlinks(from)
		if err != nil {
			continue
		}
		if info, err := os.Stat(filepath.Join(filepath.Dir(file), filepath.FromSlash(name))); err == nil && info.Mode().IsRegular() {
			fmt.Fprintf(m.to, "%s:%s: %s exists, but is not an input of the compilation: add it to hdrs of the target, or to textual_hdrs if it is not a header; if another package has it, add a target with it to deps\n", from, line, name)
		}
	}
}

// isTerminal reports whether a file is a device such as a terminal, for which clang uses colors.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
