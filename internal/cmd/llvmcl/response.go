package llvmcl

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf16"

	"github.com/rules-offload/rules_offload/internal/cmd/command"
)

// responseFile is a response file that is being expanded.
type responseFile struct {
	name string
	end  int // index after the last of its arguments
}

// expand replaces every argument @FILE by the arguments in that file, also in files. An
// argument that does not name a file remains. With empty, a pair of quotes in a file is an
// empty argument.
func expand(args []string, read func(name string) ([]byte, error), empty bool) ([]string, error) {
	var open []responseFile
	args = append([]string(nil), args...)
	for i := 0; i < len(args); {
		for len(open) > 0 && open[len(open)-1].end == i {
			open = open[:len(open)-1]
		}
		name, ok := strings.CutPrefix(args[i], "@")
		if !ok {
			i++
			continue
		}
		abs, err := filepath.Abs(name)
		if err != nil {
			return nil, fmt.Errorf("cannot get absolute path for: %s", name)
		}
		for _, f := range open {
			if f.name == abs {
				return nil, fmt.Errorf("recursive expansion of: '%s'", abs)
			}
		}
		text, err := read(abs)
		if errors.Is(err, fs.ErrNotExist) {
			i++
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot not open file '%s': %s", abs, reason(err))
		}
		inner := tokenize(decode(text), empty)
		for j := range open {
			open[j].end += len(inner) - 1
		}
		open = append(open, responseFile{abs, i + len(inner)})
		args = append(args[:i:i], append(inner, args[i+1:]...)...)
	}
	return args, nil
}

// reason returns an error without the name of its file, if the error has a separate name.
func reason(err error) string {
	var e interface{ Reason() string }
	if errors.As(err, &e) {
		return e.Reason()
	}
	return err.Error()
}

// decode turns the text of a response file into UTF-8 without byte order mark.
func decode(text []byte) string {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(text, []byte("\xef\xbb\xbf")):
		return string(text[3:])
	case bytes.HasPrefix(text, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(text, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return string(text)
	}
	units := make([]uint16, (len(text)-2)/2)
	for i := range units {
		units[i] = order.Uint16(text[2+2*i:])
	}
	return string(utf16.Decode(units))
}

// tokenize splits text into arguments as the GNU tools do: a backslash escapes the next
// character, and single or double quotes preserve spaces. With empty, a pair of quotes is an
// empty argument.
func tokenize(text string, empty bool) []string {
	var tokens []string
	var token []byte
	quoted := false
	flush := func() {
		if len(token) > 0 || quoted && empty {
			tokens = append(tokens, string(token))
		}
		token, quoted = token[:0], false
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			token = append(token, text[i])
		case c == '"' || c == '\'':
			quoted = true
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' && i+1 < len(text) {
					i++
				}
				token = append(token, text[i])
			}
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			flush()
		default:
			token = append(token, c)
		}
	}
	flush()
	return tokens
}

// Expand returns the arguments of a call, with each @FILE replaced by the arguments in that
// response file. If the file does not exist, the word remains.
func Expand(call *command.Call) ([]string, error) { return expand(call.Args, readFile(call), false) }
