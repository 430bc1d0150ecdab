// Package ptx reads the kernels of PTX, the assembly text for NVIDIA GPUs: the
// functions that .entry declares, and the limits behind their parameters. The
// syntax is that of NVIDIA's "PTX ISA".
package ptx

import (
	"bytes"
	"math"
	"strconv"
)

// Kernel is a kernel of a module.
type Kernel struct {
	Name []byte
	// MaxThreads is the largest number of threads of a block, the product of
	// .maxntid or .reqntid; nil without a limit.
	MaxThreads *int64
	// ReqdWorkgroup is the size of blocks that .reqntid requires, nil for any.
	ReqdWorkgroup *[3]int64
}

// maxHead is how far Is looks for the first directive, in bytes.
const maxHead = 4096

// Is reports whether data begins like PTX: comments, and the directive .version.
func Is(data []byte) bool {
	s := scanner{rest: data[:min(len(data), maxHead)]}
	return string(s.next()) == ".version"
}

// Target returns the target of a module, such as sm_80; "" if it does not name
// one in its head.
func Target(data []byte) string {
	s := scanner{rest: data[:min(len(data), maxHead)]}
	for token := s.next(); token != nil; token = s.next() {
		if string(token) == ".target" {
			return string(s.next())
		}
	}
	return ""
}

// Kernels returns the kernels of a module, in their order. A kernel that is
// declared and then defined is listed once.
func Kernels(data []byte) []Kernel {
	var kernels []Kernel
	seen := make(map[string]int)
	s := scanner{rest: data}
	for token := s.next(); token != nil; token = s.next() {
		if string(token) != ".entry" {
			continue
		}
		k := Kernel{Name: s.next()}
		if !isName(k.Name) {
			continue
		}
		s.limits(&k)
		if i, ok := seen[string(k.Name)]; ok {
			kernels[i] = k
			continue
		}
		seen[string(k.Name)] = len(kernels)
		kernels = append(kernels, k)
	}
	return kernels
}

// limits reads from the parameters of a kernel to its body, or to the end of a
// declaration.
func (s *scanner) limits(k *Kernel) {
	for depth := 0; ; {
		switch token := s.next(); string(token) {
		case "":
			return
		case "(":
			depth++
		case ")":
			depth--
		case "{", ";":
			if depth <= 0 {
				return
			}
		case ".maxntid":
			size := s.dimensions()
			k.MaxThreads = product(size)
		case ".reqntid":
			size := s.dimensions()
			k.ReqdWorkgroup, k.MaxThreads = &size, product(size)
		}
	}
}

// dimensions reads up to three numbers with commas between them.
func (s *scanner) dimensions() [3]int64 {
	size := [3]int64{1, 1, 1}
	for i := range size {
		before := *s
		n, err := strconv.ParseUint(string(s.next()), 0, 31)
		if err != nil {
			*s = before
			return size
		}
		size[i] = int64(n)
		before = *s
		if string(s.next()) != "," {
			*s = before
			return size
		}
	}
	return size
}

// product returns the number of threads, nil if it is too large to be one.
func product(size [3]int64) *int64 {
	n := int64(1)
	for _, d := range size {
		if n *= d; n > math.MaxInt32 {
			return nil
		}
	}
	return &n
}

func isName(b []byte) bool { return len(b) > 0 && wordByte(b[0]) && b[0] != '.' }

// scanner cuts PTX into words and punctuation.
type scanner struct{ rest []byte }

// next returns the next token, nil at the end. Comments are skipped, and strings
// are one token.
func (s *scanner) next() []byte {
	for {
		b := bytes.TrimLeft(s.rest, " \t\r\n\f\v\x00")
		switch {
		case len(b) == 0:
			s.rest = nil
			return nil
		case bytes.HasPrefix(b, []byte("//")):
			_, s.rest, _ = bytes.Cut(b, []byte("\n"))
			continue
		case bytes.HasPrefix(b, []byte("/*")):
			_, s.rest, _ = bytes.Cut(b[2:], []byte("*/"))
			continue
		}
		n := 1
		switch {
		case b[0] == '"':
			if end := bytes.IndexByte(b[1:], '"'); end >= 0 {
				n = end + 2
			}
		case wordByte(b[0]):
			for n < len(b) && wordByte(b[n]) && (b[n] != '.' || b[0] == '.') {
				n++
			}
		}
		s.rest = b[n:]
		return b[:n:n]
	}
}

// wordByte reports whether a byte can be part of a name, number or directive.
func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '$' || c == '%' || c == '.' || c >= 0x80
}
