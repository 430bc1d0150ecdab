package devicelink

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Names gives out the names of files of one command: each once.
type Names struct {
	// Dir is where the files are.
	Dir string
	// Plain leaves out what tells names of other commands apart, for files that
	// are kept.
	Plain bool

	given map[string]int
}

// File returns the path of a new file whose name begins with prefix and ends
// with suffix. Separators of directories in them become underscores.
func (n *Names) File(prefix, suffix string) string {
	if n.given == nil {
		n.given = map[string]int{}
	}
	prefix = clean(prefix)
	const longest = 180
	prefix = prefix[:min(len(prefix), longest)]
	again := n.given[prefix+suffix]
	n.given[prefix+suffix]++
	switch {
	case n.Plain && again == 0:
	case n.Plain:
		prefix = fmt.Sprintf("%s-%d", prefix, again)
	default:
		prefix = fmt.Sprintf("%s-%06x", prefix, again)
	}
	return filepath.Join(n.Dir, prefix+suffix)
}

// clean returns s as a part of a file name.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, s)
}
