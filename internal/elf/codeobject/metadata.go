package codeobject

import (
	"fmt"
	"slices"

	"github.com/tinylib/msgp/msgp"
)

// maxDepth is the largest nesting depth of values in the metadata.
const maxDepth = 32

// metadata reads MessagePack. It records the first error and reads nothing
// after it.
type metadata struct {
	all  []byte
	rest []byte
	base uint64 // offset of the metadata in the file
	// index is the number of the kernel that is being read, from 1; 0 for none.
	index int
	err   error
	// numbers is memory for the next integers; a kernel has about a dozen.
	numbers []int64
}

func (m *metadata) fail(format string, args ...any) {
	if m.err == nil {
		kernel := ""
		if m.index > 0 {
			kernel = fmt.Sprintf("kernel %d: ", m.index-1)
		}
		m.err = fmt.Errorf("metadata at byte 0x%x: %s%s", m.base+uint64(len(m.all)-len(m.rest)), kernel, fmt.Sprintf(format, args...))
	}
}

// minKernel is less than the size of the metadata of any kernel, in bytes.
const minKernel = 64

// readMetadata reads the metadata of version 3 and later.
func (o *Object) readMetadata(data []byte, base uint64) error {
	m := &metadata{all: data, rest: data, base: base}
	before := len(o.Kernels) // of other notes
	m.fields(func(key []byte) bool {
		if string(key) != "amdhsa.kernels" {
			return false
		}
		o.Kernels = o.Kernels[:before] // the last one is used
		n := m.array()
		o.Kernels = slices.Grow(o.Kernels, int(min(uint64(n), uint64(len(m.rest))/minKernel)))
		for i := range n {
			if m.err != nil {
				break
			}
			o.Kernels = append(o.Kernels, m.kernel(int(i)))
		}
		return true
	})
	return m.err
}

// kernel reads the map of a kernel.
func (m *metadata) kernel(index int) (k Kernel) {
	m.index = index + 1
	start := m.rest
	m.fields(func(key []byte) bool {
		switch string(key) {
		case ".name":
			k.Name = m.text(key)
		case ".symbol":
			k.Symbol = m.text(key)
		case ".kernarg_segment_size":
			k.KernargSize = m.number(key)
		case ".group_segment_fixed_size":
			k.LDS = m.number(key)
		case ".private_segment_fixed_size":
			k.Scratch = m.number(key)
		case ".wavefront_size":
			k.WavefrontSize = m.number(key)
		case ".sgpr_count":
			k.SGPRs = m.number(key)
		case ".vgpr_count":
			k.VGPRs = m.number(key)
		case ".agpr_count":
			k.AGPRs = m.number(key)
		case ".sgpr_spill_count":
			k.SGPRSpills = m.number(key)
		case ".vgpr_spill_count":
			k.VGPRSpills = m.number(key)
		case ".max_flat_workgroup_size":
			k.MaxWorkgroupSize = m.number(key)
		case ".reqd_workgroup_size":
			k.ReqdWorkgroupSize = m.triple(key)
		case ".uses_dynamic_stack":
			k.DynamicStack = m.truth(key)
		case ".workgroup_processor_mode":
			k.WGPMode = m.truth(key)
		default:
			return false
		}
		return true
	})
	if m.err == nil && (len(k.Name) == 0 || len(k.Symbol) == 0) {
		missing := ".name"
		if len(k.Name) > 0 {
			missing = ".symbol"
		}
		m.rest = start
		m.fail("%s is missing or empty", missing)
	}
	m.index = 0
	return k
}

// fields reads a map and calls value for each key. If value returns false, it
// must not have read the value, and fields skips it.
func (m *metadata) fields(value func(key []byte) bool) {
	if m.err != nil {
		return
	}
	n, rest, err := msgp.ReadMapHeaderBytes(m.rest)
	if err != nil {
		m.wrong("a map")
		return
	}
	if m.rest = rest; uint64(n) > uint64(len(rest))/2 {
		m.fail("a map of %d entries in %d bytes", n, len(rest))
		return
	}
	for range n {
		if msgp.NextType(m.rest) != msgp.StrType {
			m.skip(0)
			m.skip(0)
		} else if key := m.text(nil); m.err == nil && !value(key) {
			m.skip(0)
		}
		if m.err != nil {
			return
		}
	}
}

// array reads the header of an array and returns its length.
func (m *metadata) array() uint32 {
	if m.err != nil {
		return 0
	}
	n, rest, err := msgp.ReadArrayHeaderBytes(m.rest)
	if err != nil {
		m.wrong("an array")
		return 0
	}
	if m.rest = rest; uint64(n) > uint64(len(rest)) {
		m.fail("an array of %d entries in %d bytes", n, len(rest))
		return 0
	}
	return n
}

// skip skips a value of any type.
func (m *metadata) skip(depth int) {
	if m.err != nil {
		return
	}
	if depth > maxDepth {
		m.fail("values nested more than %d deep", maxDepth)
		return
	}
	n := uint64(0)
	switch msgp.NextType(m.rest) {
	case msgp.MapType:
		entries, rest, err := msgp.ReadMapHeaderBytes(m.rest)
		if err != nil {
			m.wrong("a map")
			return
		}
		m.rest, n = rest, 2*uint64(entries)
	case msgp.ArrayType:
		n = uint64(m.array())
	default:
		rest, err := msgp.Skip(m.rest)
		if err != nil {
			m.wrong("a value")
			return
		}
		m.rest = rest
	}
	for i := uint64(0); i < n && m.err == nil; i++ {
		m.skip(depth + 1)
	}
}

// text reads a string.
func (m *metadata) text(key []byte) []byte {
	if m.err != nil {
		return nil
	}
	s, rest, err := msgp.ReadStringZC(m.rest)
	if err != nil {
		m.wrongFor(key, "a string")
		return nil
	}
	m.rest = rest
	return s
}

// number reads a non-negative integer.
func (m *metadata) number(key []byte) *int64 {
	if m.err != nil {
		return nil
	}
	if t := msgp.NextType(m.rest); t != msgp.IntType && t != msgp.UintType {
		m.wrongFor(key, "an integer")
		return nil
	}
	v, rest, err := msgp.ReadInt64Bytes(m.rest)
	if err != nil || v < 0 {
		m.wrongFor(key, "an integer from 0 to 2^63-1")
		return nil
	}
	m.rest = rest
	const chunk = 256
	if len(m.numbers) == cap(m.numbers) {
		m.numbers = make([]int64, 0, chunk)
	}
	m.numbers = append(m.numbers, v)
	return &m.numbers[len(m.numbers)-1]
}

// truth reads a Boolean, or an integer used as one.
func (m *metadata) truth(key []byte) *bool {
	if m.err != nil {
		return nil
	}
	if msgp.NextType(m.rest) == msgp.BoolType {
		v, rest, err := msgp.ReadBoolBytes(m.rest)
		if err != nil {
			m.wrongFor(key, "true or false")
			return nil
		}
		m.rest = rest
		return &v
	}
	n := m.number(key)
	if n == nil {
		return nil
	}
	return new(*n != 0)
}

// triple reads an array of three integers.
func (m *metadata) triple(key []byte) *[3]int64 {
	start := m.rest
	if n := m.array(); m.err == nil && n != 3 {
		m.rest = start
		m.fail("%s: an array of %d entries, expected 3", key, n)
	}
	var v [3]int64
	for i := range v {
		n := m.number(key)
		if n == nil {
			return nil
		}
		v[i] = *n
	}
	return &v
}

// wrong reports a value of an unexpected type, or a truncated one.
func (m *metadata) wrong(want string) { m.wrongFor(nil, want) }

// wrongFor is wrong for the value of a key.
func (m *metadata) wrongFor(key []byte, want string) {
	where := ""
	if key != nil {
		where = string(key) + ": "
	}
	if len(m.rest) == 0 {
		m.fail("%sends before %s", where, want)
		return
	}
	found := msgp.NextType(m.rest).String()
	if _, err := msgp.Skip(m.rest); err != nil {
		found += " that is damaged or cut off"
	}
	m.fail("%sfound %s, expected %s", where, found, want)
}
