package cache

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Counters are numbers of events, by their names. A name is one line of text.
type Counters map[string]int64

// countersFile has a line for each counter: the number, a space and the name.
func (l *Local) countersFile() string { return filepath.Join(l.Dir, localVersion, "counters") }

// Count adds numbers to the counters of the store.
func (l *Local) Count(add Counters) error {
	if l.ReadOnly {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(l.Dir, localVersion), 0o777); err != nil {
		return err
	}
	return locked(l.countersFile(), func(f *os.File) error {
		data, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		all := parseCounters(data)
		for name, n := range add {
			all[strings.ReplaceAll(name, "\n", " ")] += n
		}
		var b strings.Builder
		for _, name := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(&b, "%d %s\n", all[name], name)
		}
		return replace(f, b.String())
	})
}

// Counters returns the counters of the store.
func (l *Local) Counters() (Counters, error) {
	data, err := os.ReadFile(l.countersFile())
	if err := ignoreMissing(err); err != nil {
		return nil, err
	}
	return parseCounters(data), nil
}

// parseCounters reads a file of counters. It skips lines that a full disk has cut.
func parseCounters(data []byte) Counters {
	all := Counters{}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		n, name, ok := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseInt(n, 10, 64); ok && err == nil {
			all[name] += value
		}
	}
	return all
}
