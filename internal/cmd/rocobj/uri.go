package rocobj

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rules-offload/rules_offload/engine/images"
)

// The schemes of URIs.
const (
	fileScheme   = "file"
	memoryScheme = "memory"
)

// uri is the URI of a code object: file://PATH#offset=N&size=N or memory://PID#offset=N&size=N.
type uri struct {
	scheme string
	// path is the path of a file, or the number of a process.
	path string
	// attributes are the numbers after the path, as written, by their names.
	attributes map[string]string
	offset     int64
	// size is -1 if the URI has none: the rest of the file.
	size int64
	// bundle is 0, or the number of the compressed bundle in whose uncompressed bytes offset
	// and size are. The scripts of ROCm have no such attribute.
	bundle int64
}

// schemeError reports a URI whose scheme is unknown.
type schemeError string

// Error implements error.
func (e schemeError) Error() string {
	return fmt.Sprintf("'%s' is not recognized as a supported code object URI.", string(e))
}

// parseURI parses a URI. Numbers are decimal, octal (017) or hexadecimal (0x1f).
func parseURI(text string) (*uri, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	u := &uri{scheme: strings.ToLower(scheme), size: -1, attributes: map[string]string{}}
	if u.scheme != fileScheme && u.scheme != memoryScheme {
		return nil, schemeError(scheme)
	}
	path, specifier := rest, ""
	if i := strings.IndexAny(rest, "#?"); i >= 0 {
		path, specifier = rest[:i], rest[i+1:]
	}
	u.path = unescape(path)
	for attribute := range strings.SplitSeq(specifier, "&") {
		name, value, _ := strings.Cut(attribute, "=")
		var number *int64
		switch name {
		case "offset":
			number = &u.offset
		case "size":
			number = &u.size
		case "bundle":
			number = &u.bundle
		default:
			continue
		}
		n, err := strconv.ParseUint(value, 0, 63)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: found '%s', expected a decimal, octal or hexadecimal number", name, text, value)
		}
		*number, u.attributes[name] = int64(n), value
	}
	return u, nil
}

// unescape decodes the percent signs of a path. A path with other percent signs is unchanged.
func unescape(path string) string {
	var decoded []byte
	for rest := path; rest != ""; {
		plain, escape, found := strings.Cut(rest, "%")
		decoded, rest = append(decoded, plain...), ""
		if found {
			if len(escape) < 2 {
				return path
			}
			b, err := strconv.ParseUint(escape[:2], 16, 8)
			if err != nil {
				return path
			}
			decoded, rest = append(decoded, byte(b)), escape[2:]
		}
	}
	return string(decoded)
}

// escaped are the characters that end the path of a URI, or a word of a script.
const escaped = "%#?"

// escape encodes the characters of a path that cannot be in a URI. Others remain, as in ROCm.
func escape(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if c <= ' ' || c == 0x7f || strings.IndexByte(escaped, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// imageURI returns the URI of an image of a file, without the scheme.
func imageURI(file string, image *images.DeviceImage) string {
	text := fmt.Sprintf("%s#offset=%d&size=%d", escape(file), image.Offset, image.Size)
	if image.Compressed() {
		text += fmt.Sprintf("&bundle=%d", image.Bundle)
	}
	return text
}
