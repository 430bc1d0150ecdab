package longzstd

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
)

// noise returns n bytes that cannot be compressed.
func noise(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// prose returns n bytes that resemble the mangled names and metadata of a code object.
func prose(r *rand.Rand, n int) []byte {
	words := strings.Fields(".args .offset .size .value_kind global_buffer by_value hidden_block_count_x " +
		"_ZN7rocrand12device_ kernel .kd .sgpr_count .vgpr_count amdgcn-amd-amdhsa-- Lj256E ILi4E PKfS1_ iiiiPT_ EEvT0_")
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(words[r.IntN(len(words))])
		if r.IntN(4) == 0 {
			fmt.Fprintf(&b, "%d", r.IntN(4096))
		}
	}
	return []byte(b.String()[:n])
}

// code returns n bytes that resemble instructions: words of a small, skewed set with random operands.
func code(r *rand.Rand, n int) []byte {
	var ops [96]uint32
	for i := range ops {
		ops[i] = r.Uint32() | 0xC0000000
	}
	b := make([]byte, 0, n+8)
	for len(b) < n {
		op := ops[min(r.IntN(len(ops)), r.IntN(len(ops)))]
		b = binary.LittleEndian.AppendUint32(b, op&^0xff|uint32(r.IntN(32)))
		if op&1 != 0 {
			b = binary.LittleEndian.AppendUint32(b, uint32(r.IntN(256))|uint32(r.IntN(64))<<9)
		}
	}
	return b[:n]
}

// edit returns a copy of b with a change about every gap bytes: it inserts, removes or replaces a few
// bytes.
func edit(r *rand.Rand, b []byte, gap int) []byte {
	out := make([]byte, 0, len(b)+len(b)/16)
	for len(b) > 0 {
		n := min(1+r.IntN(2*gap), len(b))
		out = append(out, b[:n]...)
		b = b[n:]
		switch r.IntN(4) {
		case 0:
			out = append(out, noise(r, 4)...)
		case 1:
			b = b[min(4*(1+r.IntN(4)), len(b)):]
		default:
			if k := min(1+r.IntN(3), len(b)); k > 0 {
				out = append(out, noise(r, k)...)
				b = b[k:]
			}
		}
	}
	return out
}

// bundle returns data that resembles a bundle of archs code objects, each of about size bytes and aligned
// to align: names and code, most of which are the same in all of them.
func bundle(r *rand.Rand, archs, size, align int) []byte {
	names := prose(r, size/8)
	text := code(r, size-size/8)
	var out []byte
	for range archs {
		for len(out)%align != 0 {
			out = append(out, 0)
		}
		out = append(out, "\x7fELF\x02\x01\x01@"...)
		out = append(out, make([]byte, 56)...)
		names = edit(r, names, 2000)
		text = edit(r, text, 120)
		out = append(append(out, names...), text...)
	}
	return out
}
