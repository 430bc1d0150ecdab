package bundle

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

// markers returns what comes before and after the content of an entry, up to
// the ID. Both begin with the line break of the previous line.
func markers(comment string) (start, end []byte) {
	prefix := "\n" + comment + " " + Magic
	return []byte(prefix + "__START__ "), []byte(prefix + "__END__ ")
}

// ParseText reads a text bundle whose marker lines are comments that start with
// comment (see [FileType.Comment]). Every entry is
//
//	(empty line)
//	// __CLANG_OFFLOAD_BUNDLE____START__ ID
//	content
//	// __CLANG_OFFLOAD_BUNDLE____END__ ID
//
// where the line break before the END line is not part of the content. The ID of the END line can
// differ, because LLVM does not compare the two. A START line inside a content is part of the
// content; LLVM treats it as an entry if the outer entry is not requested. The empty line may be
// missing; LLVM does not find such an entry. Text without a START line is a bundle without entries.
func ParseText(data []byte, comment string) ([]Entry, error) {
	start, end := markers(comment)
	var entries []Entry
	pos := 0 // at the line break before the next line
	for {
		i := bytes.Index(data[pos:], start)
		if pos == 0 && bytes.HasPrefix(data, start[1:]) {
			i = -1
		} else if i < 0 {
			return entries, nil
		}
		if len(entries) == maxEntries {
			return nil, fmt.Errorf("byte 0x%x: more than the %d entries that a bundle may have", pos+i+1, maxEntries)
		}
		e := Entry{At: int64(pos + i + 1)}
		pos += i + len(start)
		n := bytes.IndexByte(data[pos:], '\n')
		if n < 0 {
			return nil, fmt.Errorf("entry %d at byte 0x%x: its START line passes %s", len(entries)+1, e.At, pastEnd(int64(len(data))))
		}
		e.ID = string(data[pos : pos+n])
		pos += n + 1
		n = bytes.Index(data[pos:], end)
		if n < 0 {
			return nil, fmt.Errorf("entry %d at byte 0x%x: no END line: its content, from byte 0x%x, passes %s", len(entries)+1, e.At, pos, pastEnd(int64(len(data))))
		}
		e.Offset, e.Size = int64(pos), int64(n)
		pos += n + len(end)
		line, _, more := bytes.Cut(data[pos:], []byte("\n"))
		e.EndID = string(line)
		entries = append(entries, e)
		if !more {
			return entries, nil
		}
		pos += len(line)
	}
}

// WriteText writes a text bundle of items, in their order, as LLVM does. It
// rejects items that could not be read back: those that Check rejects, an ID
// with a line break, and a content that contains an END line.
func WriteText(sink content.Sink, items []Item, comment string) (err error) {
	defer guard.Into(&err)()
	if err := Check(items); err != nil {
		return err
	}
	start, end := markers(comment)
	for i, it := range items {
		if strings.ContainsAny(it.ID, "\r\n") { // readers take both off the end of a line
			return fmt.Errorf("entry %d of %d: %q: an ID in a text bundle cannot have a line break", i+1, len(items), it.ID)
		}
		if at := bytes.Index(it.Content.Mapped(guard.Inside), end); at >= 0 {
			return fmt.Errorf("entry %d of %d: %s: its content has the END line of a bundle at byte 0x%x, so it could not be read back", i+1, len(items), it.ID, at+1)
		}
	}
	for _, it := range items {
		if _, err := fmt.Fprintf(sink, "%s%s\n", start, it.ID); err != nil {
			return err
		}
		if err := sink.Append(it.Content); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(sink, "%s%s\n", end, it.ID); err != nil {
			return err
		}
	}
	return nil
}
