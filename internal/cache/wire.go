package cache

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
)

// Numbers of the fields of build.bazel.remote.execution.v2 that this package reads and writes.
const (
	digestHash, digestSize = 1, 2

	resultFiles, resultExitCode, resultStderrRaw, resultStderrDigest = 2, 4, 7, 8

	filePath, fileDigest = 1, 2
)

// Types of fields.
const (
	varintType  = 0
	fixed64Type = 1
	bytesType   = 2
	fixed32Type = 5
)

var errWire = errors.New("not an ActionResult: invalid protobuf")

// AppendDigest appends the message of a digest to b.
func AppendDigest(b []byte, d Digest) []byte {
	b = AppendMessage(b, digestHash, []byte(d.Hex()))
	if d.Size != 0 {
		b = append(b, digestSize<<3|varintType)
		b = binary.AppendUvarint(b, uint64(d.Size))
	}
	return b
}

// AppendMessage appends a field that is a message, or bytes.
func AppendMessage(b []byte, field uint64, message []byte) []byte {
	b = binary.AppendUvarint(b, field<<3|bytesType)
	b = binary.AppendUvarint(b, uint64(len(message)))
	return append(b, message...)
}

// Marshal returns the ActionResult of a result.
func (r *Result) Marshal() []byte {
	var b []byte
	for _, o := range r.Outputs {
		file := AppendMessage(nil, filePath, []byte(o.Name))
		file = AppendMessage(file, fileDigest, AppendDigest(nil, o.Digest))
		b = AppendMessage(b, resultFiles, file)
	}
	if len(r.Stderr) > 0 {
		b = AppendMessage(b, resultStderrRaw, r.Stderr)
	}
	return b
}

// Fields calls fn with each field of a message. value is the content of bytes and messages, number that of integers.
func Fields(b []byte, fn func(field uint64, value []byte, number uint64) error) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return errWire
		}
		b = b[n:]
		var value []byte
		var number uint64
		switch tag & 7 {
		case varintType:
			if number, n = binary.Uvarint(b); n <= 0 {
				return errWire
			}
		case bytesType:
			size, m := binary.Uvarint(b)
			if m <= 0 || size > uint64(len(b)-m) {
				return errWire
			}
			n = m + int(size)
			value = b[m:n]
		case fixed64Type:
			n = 8
		case fixed32Type:
			n = 4
		default:
			return errWire
		}
		if n > len(b) {
			return errWire
		}
		b = b[n:]
		if err := fn(tag>>3, value, number); err != nil {
			return err
		}
	}
	return nil
}

// ParseDigestMessage reads the message of a digest.
func ParseDigestMessage(b []byte) (d Digest, err error) {
	err = Fields(b, func(field uint64, value []byte, number uint64) error {
		switch field {
		case digestHash:
			if n, err := hex.Decode(d.Hash[:], value[:min(len(value), 2*len(d.Hash))]); err != nil || n != len(d.Hash) || len(value) != 2*n {
				return errWire
			}
		case digestSize:
			d.Size = int64(number)
		}
		return nil
	})
	if d.Size < 0 {
		err = errWire
	}
	return d, err
}

// ParseResult reads an ActionResult. A result of a failed action, or whose messages are a blob of their own,
// is an error: this package writes none.
func ParseResult(b []byte) (*Result, error) {
	r := &Result{}
	err := Fields(b, func(field uint64, value []byte, number uint64) (err error) {
		switch field {
		case resultFiles:
			var o Output
			err = Fields(value, func(field uint64, value []byte, _ uint64) (err error) {
				switch field {
				case filePath:
					o.Name = string(value)
				case fileDigest:
					o.Digest, err = ParseDigestMessage(value)
				}
				return err
			})
			r.Outputs = append(r.Outputs, o)
		case resultExitCode:
			if number != 0 {
				err = errWire
			}
		case resultStderrRaw:
			r.Stderr = slices.Clone(value)
		case resultStderrDigest:
			var d Digest
			if d, err = ParseDigestMessage(value); err == nil && d.Size != int64(len(r.Stderr)) && r.Stderr == nil {
				err = errWire
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(r.Outputs, func(a, b Output) int { return strings.Compare(a.Name, b.Name) })
	return r, nil
}

// Action returns the digest under which the result of an action is stored, for a key: that of an Action of the
// Remote Execution API, whose Command has the key as its only argument.
func Action(key [32]byte) Digest {
	action, _ := ActionMessages(key)
	return DigestOf(action)
}

// ActionMessages returns the messages of an action and its command.
func ActionMessages(key [32]byte) (action, command []byte) {
	command = AppendMessage(nil, 1, []byte("offload-launch"))
	command = AppendMessage(command, 1, []byte(hex.EncodeToString(key[:])))
	action = AppendMessage(nil, 1, AppendDigest(nil, DigestOf(command)))
	action = AppendMessage(action, 2, AppendDigest(nil, DigestOf(nil))) // an empty directory
	return action, command
}
