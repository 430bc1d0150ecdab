package worker

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// workRequest is a message of Bazel, see worker_protocol.proto in internal/testing/workerproto. The two messages
// are encoded and decoded here, and not with package proto, whose descriptors would be read at each start of a
// program that imports this package. Package protowire, which has only the encoding, imports a package that
// reads and hashes parts of the program file before main: 0.09 ms of each start.
type workRequest struct {
	Request
	cancel bool
}

// workResponse is a message to Bazel.
type workResponse struct {
	exitCode     int32
	output       string
	id           int32
	wasCancelled bool
}

// Wire types of the encoding of Protocol Buffers.
const (
	wireVarint = iota
	wireFixed64
	wireBytes
	wireStartGroup
	wireEndGroup
	wireFixed32
)

// maxField is the largest number of a field.
const maxField = 1<<29 - 1

// maxGroups is the largest nesting depth of groups in unknown fields.
const maxGroups = 10000

// field is a field of a message. For wireVarint, number is its value, for wireBytes, bytes is.
type field struct {
	tag    int32
	wire   int
	number uint64
	bytes  []byte
}

// decodeRequest decodes a request. Unknown fields are skipped; of a field that appears twice, the last
// value counts.
func decodeRequest(data []byte) (*workRequest, error) {
	m := new(workRequest)
	err := fields(data, func(f field) error {
		switch {
		case f.tag == 1 && f.wire == wireBytes:
			m.Arguments = append(m.Arguments, string(f.bytes))
		case f.tag == 2 && f.wire == wireBytes:
			return m.input(f.bytes)
		case f.tag == 3 && f.wire == wireVarint:
			m.ID = int32(f.number)
		case f.tag == 4 && f.wire == wireVarint:
			m.cancel = f.number != 0
		case f.tag == 5 && f.wire == wireVarint:
			m.Verbosity = int(int32(f.number))
		case f.tag == 6 && f.wire == wireBytes:
			m.SandboxDir = string(f.bytes)
		}
		return nil
	})
	return m, err
}

// input adds an input. Its digest is not copied.
func (m *workRequest) input(data []byte) error {
	var in Input
	err := fields(data, func(f field) error {
		switch {
		case f.tag == 1 && f.wire == wireBytes:
			in.Path = string(f.bytes)
		case f.tag == 2 && f.wire == wireBytes:
			in.Digest = f.bytes[:len(f.bytes):len(f.bytes)]
		}
		return nil
	})
	m.Inputs = append(m.Inputs, in)
	return err
}

// fields calls fn with each field of a message outside of groups.
func fields(data []byte, fn func(field) error) error {
	var groups []int32 // the tags of the open groups
	for at := 0; at < len(data); {
		f, n, err := nextField(data[at:])
		switch {
		case err != nil:
		case f.wire == wireStartGroup && len(groups) == maxGroups:
			err = errors.New("too many nested groups")
		case f.wire == wireStartGroup:
			groups = append(groups, f.tag)
		case f.wire == wireEndGroup && (len(groups) == 0 || groups[len(groups)-1] != f.tag):
			err = errors.New("the end of a group without its start")
		case f.wire == wireEndGroup:
			groups = groups[:len(groups)-1]
		case len(groups) == 0:
			err = fn(f)
		}
		if err != nil {
			return fmt.Errorf("field at byte 0x%x of the message: %w", at, err)
		}
		at += n
	}
	if len(groups) > 0 {
		return errors.New("the message ends inside a group")
	}
	return nil
}

// nextField decodes the field at the start of data, and returns its size in bytes.
func nextField(data []byte) (f field, n int, err error) {
	key, n := binary.Uvarint(data)
	if n <= 0 {
		return f, 0, errors.New("expected a key, a varint of 64 bits")
	}
	if key>>3 == 0 || key>>3 > maxField {
		return f, 0, fmt.Errorf("found field number %d", key>>3)
	}
	f.tag, f.wire = int32(key>>3), int(key&7)
	size := 0
	switch f.wire {
	case wireVarint:
		if f.number, size = binary.Uvarint(data[n:]); size <= 0 {
			return f, 0, errors.New("expected a varint of 64 bits")
		}
		return f, n + size, nil
	case wireBytes:
		length, size := binary.Uvarint(data[n:])
		n += size
		if size <= 0 || length > uint64(len(data)-n) {
			return f, 0, errors.New("its length passes the end of the message")
		}
		f.bytes = data[n : n+int(length)]
		return f, n + int(length), nil
	case wireFixed64:
		size = 8
	case wireFixed32:
		size = 4
	case wireStartGroup, wireEndGroup:
	default:
		return f, 0, fmt.Errorf("found wire type %d", f.wire)
	}
	if size > len(data)-n {
		return f, 0, errors.New("the message ends in a number")
	}
	return f, n + size, nil
}

// append appends the response, preceded by its length as a varint.
func (m *workResponse) append(b []byte) []byte {
	var head []byte
	varint := func(tag, v uint64) {
		if v != 0 {
			head = binary.AppendUvarint(binary.AppendUvarint(head, tag<<3), v) // wireVarint is 0
		}
	}
	varint(1, uint64(m.exitCode))
	if m.output != "" {
		head = binary.AppendUvarint(head, 2<<3|wireBytes)
		head = binary.AppendUvarint(head, uint64(len(m.output)))
	}
	before := len(head)
	varint(3, uint64(m.id))
	if m.wasCancelled {
		varint(4, 1)
	}
	b = binary.AppendUvarint(b, uint64(len(head)+len(m.output)))
	b = append(b, head[:before]...)
	b = append(b, m.output...)
	return append(b, head[before:]...)
}
