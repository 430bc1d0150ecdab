package parsers

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// maxInput is the largest input of a parser, in bytes.
const maxInput = 64 << 10

// chance is a small generator of pseudo-random numbers (xorshift64*).
type chance uint64

// newChance returns the generator of a seed and a stream.
func newChance(seed, stream uint64) chance {
	// SplitMix64, so that adjacent streams are independent.
	z := seed + (stream+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return chance(z ^ z>>31 | 1)
}

func (c *chance) next() uint64 {
	x := uint64(*c)
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	*c = chance(x)
	return x * 0x2545f4914f6cdd1d
}

// below returns a number from 0 to n-1; n is positive.
func (c *chance) below(n int) int {
	high, _ := bits.Mul64(c.next(), uint64(n))
	return int(high)
}

// field is an integer of a seed that can be a size, an offset, a count or a type.
type field struct {
	at, width int
	big       bool
}

// Seed is an input to start from.
type Seed struct {
	data   []byte
	fields []field
	digits []int // where decimal numbers start
}

// Data returns the bytes of the seed. They must not be modified.
func (s *Seed) Data() []byte { return s.data }

// NewSeed finds the fields of an input: integers up to a limit that depends on the size of the
// seed, and those in its first bytes.
func NewSeed(data []byte) *Seed {
	s := &Seed{data: data}
	const head, most = 64, 4000
	for at := range data {
		for _, width := range []int{2, 4, 8} {
			if at+width > len(data) || at%2 != 0 || len(s.fields) >= most {
				continue
			}
			for _, big := range []bool{false, true} {
				f := field{at, width, big}
				v := f.get(data)
				if v > 0 && v <= uint64(2*len(data)) && (width == 2 || v>>8 != 0 || at%4 == 0) || at < head && !big {
					s.fields = append(s.fields, f)
				}
			}
		}
		if digit(data[at]) && (at == 0 || !digit(data[at-1])) {
			s.digits = append(s.digits, at)
		}
	}
	return s
}

func digit(b byte) bool { return b >= '0' && b <= '9' }

func (f field) get(data []byte) uint64 {
	b := data[f.at : f.at+f.width]
	switch {
	case f.width == 2 && f.big:
		return uint64(binary.BigEndian.Uint16(b))
	case f.width == 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case f.width == 4 && f.big:
		return uint64(binary.BigEndian.Uint32(b))
	case f.width == 4:
		return uint64(binary.LittleEndian.Uint32(b))
	case f.big:
		return binary.BigEndian.Uint64(b)
	}
	return binary.LittleEndian.Uint64(b)
}

func (f field) put(data []byte, v uint64) {
	b := data[f.at : f.at+f.width]
	switch {
	case f.width == 2 && f.big:
		binary.BigEndian.PutUint16(b, uint16(v))
	case f.width == 2:
		binary.LittleEndian.PutUint16(b, uint16(v))
	case f.width == 4 && f.big:
		binary.BigEndian.PutUint32(b, uint32(v))
	case f.width == 4:
		binary.LittleEndian.PutUint32(b, uint32(v))
	case f.big:
		binary.BigEndian.PutUint64(b, v)
	default:
		binary.LittleEndian.PutUint64(b, v)
	}
}

// magics are the first bytes of the formats; one can replace another.
var magics = [][]byte{
	[]byte("__CLANG_OFFLOAD_BUNDLE__"), []byte("CCOB\x03\x00\x01\x00"), []byte("CCOB\x02\x00\x00\x00"), []byte("\x10\xff\x10\xad\x01\x00\x00\x00"),
	[]byte("\x10\xff\x10\xad\x03\x00\x00\x00"), []byte("\x7fELF\x02\x01\x01"), []byte("\x7fELF\x01\x02\x01"), []byte("\x7fELF\x02\x01\x01\x40"), []byte("!<arch>\n"), []byte("!<thin>\n"),
	[]byte("BC\xc0\xde"), []byte("\xde\xc0\x17\x0b"), []byte("\x03\x02\x23\x07"), []byte("\x50\xed\x55\xba\x01\x00\x10\x00"), []byte("KPAK"), []byte("\x64\x86"), []byte("MZ"),
	[]byte("\xcf\xfa\xed\xfe"), []byte("\x28\xb5\x2f\xfd"), []byte("\x50\x2a\x4d\x18"), []byte("\x5b\x2a\x4d\x18"), []byte("\x78\x9c"), []byte("\x00\x00\xff\xff"), []byte("HIPF"), []byte("KPIH"),
}

// mutator makes inputs from seeds.
type mutator struct {
	chance
	seeds []*Seed
	words [][]byte
	data  []byte // the input; its capacity is maxInput
}

// next makes an input. It is valid until the next call.
func (m *mutator) next() []byte {
	s := m.seeds[m.below(len(m.seeds))]
	m.data = append(m.data[:0], s.data...)
	// Half of the inputs have a single change.
	n := 1 + bits.TrailingZeros64(m.chance.next()|1<<5)
	for range n {
		m.change(s)
	}
	return m.data
}

// change changes the input in one way.
func (m *mutator) change(s *Seed) {
	n := len(m.data)
	if n == 0 {
		m.data = append(m.data, byte(m.chance.next()))
		return
	}
	at := m.below(n)
	if m.below(2) == 0 { // headers are at the ends
		const edge = 96
		if at = m.below(min(n, edge)); m.below(4) == 0 {
			at = n - 1 - at
		}
	}
	length := 1 + m.below(min(64, n-at))
	switch m.below(16) {
	case 0, 1:
		m.data[at] ^= 1 << m.below(8)
	case 2:
		m.data[at] = byte(m.chance.next())
	case 3:
		m.data[at] = []byte{0, 1, 0x7f, 0x80, 0xff, ' ', '\n', '/', '-', ':'}[m.below(10)]
	case 4, 5, 6, 7:
		m.integer(s, at)
	case 8:
		m.data = m.data[:at]
	case 9:
		m.insert(at, m.data[at:at+length]) // a range twice
	case 10:
		m.data = append(m.data[:at], m.data[at+length:]...)
	case 11:
		from := m.below(n - length + 1)
		copy(m.data[at:at+length], m.data[from:from+length])
	case 12:
		if length *= 1 + m.below(40); at+2*length <= n { // adjacent ranges swap
			a, b := m.data[at:at+length], m.data[at+length:at+2*length]
			for i := range a {
				a[i], b[i] = b[i], a[i]
			}
		}
	case 13:
		other := m.seeds[m.below(len(m.seeds))].data
		if from := m.below(len(other) + 1); at+len(other)-from <= maxInput {
			m.data = append(m.data[:at], other[from:]...)
		}
	case 14:
		word := magics[m.below(len(magics))]
		if m.below(4) > 0 {
			at = 0
		}
		copy(m.data[at:], word)
	default:
		if len(m.words) == 0 {
			clear(m.data[at : at+length])
			return
		}
		word := m.words[m.below(len(m.words))]
		if m.below(2) == 0 {
			copy(m.data[at:], word)
		} else {
			m.insert(at, word)
		}
	}
}

// insert inserts b before the byte at, if there is space.
func (m *mutator) insert(at int, b []byte) {
	if len(m.data)+len(b) > maxInput {
		return
	}
	n := len(b)
	m.data = append(m.data, b...) // b can be a range of data, so copy it first
	b = m.data[len(m.data)-n:]
	var keep [256]byte
	word := append(keep[:0], b...)
	copy(m.data[at+n:], m.data[at:len(m.data)-n])
	copy(m.data[at:], word)
}

// integer sets a field to another value: a bound, a value near the old value or the size, or the
// value of another field.
func (m *mutator) integer(s *Seed, at int) {
	if len(s.digits) > 0 && m.below(3) == 0 {
		m.decimal(s.digits[m.below(len(s.digits))])
		return
	}
	var f field
	if len(s.fields) > 0 && m.below(8) > 0 {
		f = s.fields[m.below(len(s.fields))]
	} else {
		f = field{at &^ 1, 2 << m.below(3), m.below(4) == 0}
	}
	size := uint64(len(m.data))
	if f.at+f.width > len(m.data) {
		return
	}
	old := f.get(m.data)
	values := [...]uint64{
		0, 1, 2, ^uint64(0), ^uint64(0) - uint64(m.below(64)), 1 << 63, 1<<63 - 1, 1 << 31, 1<<31 - 1, 1 << 32, 1<<32 - 1, 0xffff, 0xff00, 1 << 15,
		old + 1, old - 1, old + 8, old - 8, old * 2, old / 2, -old, ^old,
		size, size + 1, size - 1, size - uint64(f.at), size - old, old + size,
		1 << m.below(64), m.chance.next(), uint64(m.below(len(m.data) + 64)),
		0,
	}
	i := m.below(len(values))
	if i == len(values)-1 && len(s.fields) > 0 {
		if g := s.fields[m.below(len(s.fields))]; g.at+g.width <= len(m.data) {
			values[i] = g.get(m.data)
		}
	}
	f.put(m.data, values[i])
}

// decimal changes a decimal number of a text.
func (m *mutator) decimal(at int) {
	end := at
	for end < len(m.data) && digit(m.data[end]) {
		end++
	}
	if end == at {
		return
	}
	for i := at; i < end; i++ {
		switch m.below(4) {
		case 0:
			m.data[i] = '9'
		case 1:
			m.data[i] = '0'
		default:
			m.data[i] = '0' + byte(m.below(10))
		}
	}
	if m.below(8) == 0 {
		m.insert(at, bytes.Repeat([]byte{'9'}, 1+m.below(20)))
	}
}

// Mutator makes inputs from seeds.
type Mutator struct{ m mutator }

// NewMutator returns a Mutator for a seed of the random numbers.
func NewMutator(number uint64) *Mutator {
	return &Mutator{mutator{chance: newChance(number, 0), data: make([]byte, 0, maxInput)}}
}

// Next returns an input made from one of the seeds. It is valid until the next call.
func (m *Mutator) Next(seeds []*Seed) []byte {
	m.m.seeds = seeds
	return m.m.next()
}

// Below returns a number from 0 to n-1; n is positive.
func (m *Mutator) Below(n int) int { return m.m.below(n) }

// Files returns seeds of the formats of whole files, by the name of the format.
func Files(roots ...string) (map[string][]*Seed, error) {
	bitcodes, err := testdata(roots, "internal/llvm/bitcode", ".bc")
	if err != nil {
		return nil, err
	}
	files := make(map[string][]*Seed)
	for name, list := range map[string][][]byte{
		"bundle": append(bundles(), compressed()...), "text": textBundles(), "package": packages(), "archive": archives(),
		"code": slices.Concat(codeObjects(), cubins(), spirvs(), [][]byte{[]byte(ptxModule)}), "library": append(libraries(), splitLibraries()...),
		"object": hostObjects(), "bitcode": append(bitcodes, modules()...), "kpack": kpacks(), "plan": partsOf(0), "part": append(partsOf(1), partsOf(2)...),
		"flags": {[]byte("-type=bc -list\n-input=BUNDLE"), []byte("-unbundle -type=bc \"-input=BUNDLE\" -targets=hip-amdgcn-amd-amdhsa--gfx906 -output=o1")},
	} {
		for _, data := range list {
			files[name] = append(files[name], NewSeed(data))
		}
	}
	return files, nil
}

// partsOf returns the parts with an index of the joined plans and parts.
func partsOf(i int) (list [][]byte) {
	for _, b := range plansAndParts() {
		list = append(list, split(b, 3)[i])
	}
	return list
}
