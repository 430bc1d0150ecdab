package key

import "bytes"

// Facts are what the text of a source or header says about what its compilation depends on.
type Facts struct {
	// Quoted and Angled are the names in #include "…" and <…>, #embed and __has_include.
	Quoted, Angled []string
	// Time reports whether the text has __DATE__ or __TIME__, and Timestamp whether it has __TIMESTAMP__.
	Time, Timestamp bool
	// Unknown is why a compilation of the text may read files that cannot be found, "" if it cannot.
	Unknown string
}

// Scan reads the text of a source or header. It does not evaluate conditions and macros, so it may find names that the
// compilation does not look up.
func Scan(text []byte) (f Facts) {
	f.Time = bytes.Contains(text, []byte("__DATE__")) || bytes.Contains(text, []byte("__TIME__"))
	f.Timestamp = bytes.Contains(text, []byte("__TIMESTAMP__"))
	switch {
	case bytes.Contains(text, []byte(".incbin")):
		f.Unknown = ".incbin"
	case bytes.Contains(text, []byte(`".include`)) || bytes.Contains(text, []byte(`.include \"`)):
		f.Unknown = ".include in assembly"
	case bytes.Contains(text, []byte("#pragma clang module")):
		f.Unknown = "#pragma clang module"
	}
	for rest := text; ; {
		i := bytes.IndexByte(rest, '#')
		if i < 0 {
			break
		}
		rest = bytes.TrimLeft(rest[i+1:], " \t")
		for _, directive := range []string{"include_next", "include", "import", "embed"} {
			if after, ok := bytes.CutPrefix(rest, []byte(directive)); ok {
				f.name(after)
				break
			}
		}
	}
	for _, token := range []string{"has_include", "HAS_INCLUDE", "has_embed"} {
		for rest := text; ; {
			i := bytes.Index(rest, []byte(token))
			if i < 0 {
				break
			}
			builtin := i >= 2 && bytes.HasSuffix(rest[:i], []byte("__")) && (i == 2 || !isWord(rest[i-3])) &&
				!bytes.HasSuffix(bytes.TrimRight(rest[:i-2], " \t"), []byte("define"))
			rest = bytes.TrimPrefix(rest[i+len(token):], []byte("_next"))
			rest = bytes.TrimLeft(rest, " \t")
			after, ok := bytes.CutPrefix(rest, []byte("("))
			if ok && !f.name(after) && builtin && token != "HAS_INCLUDE" && !bytes.HasPrefix(bytes.TrimLeft(after, " \t"), []byte("__VA_ARGS__")) {
				f.Unknown = "a macro in __" + token
			}
		}
	}
	return f
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// name adds the name with which text begins, and reports whether there is one.
func (f *Facts) name(text []byte) bool {
	text = bytes.TrimLeft(text, " \t")
	if len(text) == 0 {
		return false
	}
	list, end := &f.Quoted, byte('"')
	switch text[0] {
	case '"':
	case '<':
		list, end = &f.Angled, '>'
	default:
		return false
	}
	text = text[1:]
	i := bytes.IndexAny(text[:min(len(text), 4096)], string(end)+"\r\n")
	if i <= 0 || text[i] != end {
		return false
	}
	*list = append(*list, string(text[:i]))
	return true
}
