package offloadbinary

import (
	"encoding/binary"
	"math/bits"

	"github.com/rules-offload/rules_offload/internal/compression/xxh3"
)

// Order returns the order in which llvm-offload-binary writes the properties of
// an image whose keys were given in the order of keys, as indices into keys:
// the iteration order of the hash map of LLVM 22 (version 1) or 23 (version 2).
// The map also contains the keys file and kind, which are not written. Keys
// must be distinct.
func Order(version int, keys []string) []int {
	hash, step := hash22, 1
	if version > 1 {
		hash, step = hash23, 0
	}
	// Probing is linear or at growing distances: step is the increment of the
	// distance after each probe.
	var buckets []int // index into keys plus 1
	insert := func(i int) {
		mask := uint32(len(buckets) - 1)
		at := hash(keys[i]) & mask
		for distance := 1; buckets[at] != 0; distance += step {
			at = (at + uint32(distance)) & mask
		}
		buckets[at] = i + 1
	}
	buckets = make([]int, 64)
	for i := range keys {
		if (i+1)*4 >= len(buckets)*3 {
			old := buckets
			buckets = make([]int, 2*len(old))
			for _, b := range old {
				if b != 0 {
					insert(b - 1)
				}
			}
		}
		insert(i)
	}
	order := make([]int, 0, len(keys))
	for _, b := range buckets {
		if b != 0 {
			order = append(order, b-1)
		}
	}
	return order
}

// seed is the seed of LLVM's string hashes, unless LLVM was built to use a
// different one in every run.
const seed = 0xff51afd7ed558ccd

// hash23 is the hash of a string in LLVM 23.
func hash23(s string) uint32 { return uint32(xxh3.Hash(s) ^ seed) }

// The multipliers of CityHash.
const (
	k0 = 0xc3a5c85c97cb3127
	k1 = 0xb492b66fbe98f273
	k2 = 0x9ae16a3b2f90404f
	k3 = 0xc949d7c7509e6557
)

// hash22 is the hash of a string in LLVM up to 22: an early version of
// CityHash, with a seed mixed in.
func hash22(s string) uint32 {
	b := []byte(s)
	n := uint64(len(b))
	switch {
	case n == 0:
		return (k2 ^ seed) & (1<<32 - 1)
	case n <= 3:
		y := uint64(b[0]) + uint64(b[n>>1])<<8
		z := n + uint64(b[n-1])<<2
		return uint32(mixShift(y*k2^z*k3^seed) * k2)
	case n <= 8:
		return uint32(hash16(n+u32(b)<<3, seed^u32(b[n-4:])))
	case n <= 16:
		x, y := u64(b), u64(b[n-8:])
		return uint32(hash16(seed^x, bits.RotateLeft64(y+n, -int(n))) ^ y)
	case n <= 32:
		return uint32(hash32(b))
	case n <= 64:
		return uint32(hash64(b))
	}
	return uint32(hashLong(b))
}

func u32(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }
func u64(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

func ror(v uint64, n int) uint64 { return bits.RotateLeft64(v, -n) }

func mixShift(v uint64) uint64 { return v ^ v>>47 }

func hash16(low, high uint64) uint64 {
	const mul = 0x9ddfea08eb382d69
	a := mixShift((low ^ high) * mul)
	return mixShift((high^a)*mul) * mul
}

// hash32 hashes 17 to 32 bytes.
func hash32(s []byte) uint64 {
	n := uint64(len(s))
	a, b := u64(s)*k1, u64(s[8:])
	c, d := u64(s[n-8:])*k2, u64(s[n-16:])*k0
	return hash16(ror(a-b, 43)+ror(c^seed, 30)+d, a+ror(b^k3, 20)-c+n+seed)
}

// hash64 hashes 33 to 64 bytes.
func hash64(s []byte) uint64 {
	n := uint64(len(s))
	half := func(a, z uint64, s []byte) (first, second uint64) {
		b, c := ror(a+z, 52), ror(a, 37)
		a += u64(s)
		c += ror(a, 7)
		a += u64(s[8:])
		return a + z, b + ror(a, 31) + c
	}
	vf, vs := half(u64(s)+(n+u64(s[n-16:]))*k0, u64(s[24:]), s[8:])
	wf, ws := half(u64(s[16:])+u64(s[n-32:]), u64(s[n-8:]), s[n-24:])
	r := mixShift((vf+ws)*k2 + (wf+vs)*k0)
	return mixShift((seed^r*k0)+vs) * k2
}

// hashLong hashes more than 64 bytes: 64 at a time, and finally the last 64.
func hashLong(s []byte) uint64 {
	h := state{0, seed, hash16(seed, k1), ror(seed^k1, 49), 0, mixShift(seed), 0}
	h[4] = mul(seed, k1)
	h[6] = hash16(h[4], h[5])
	rest := s
	for ; len(rest) >= 64; rest = rest[64:] {
		h.mix(rest)
	}
	if len(rest) > 0 {
		h.mix(s[len(s)-64:])
	}
	return hash16(hash16(h[3], h[5])+mixShift(h[1])*k1+h[2],
		hash16(h[4], h[6])+mixShift(uint64(len(s)))*k1+h[0])
}

func mul(a, b uint64) uint64 { return a * b }

type state [7]uint64

func (h *state) mix(s []byte) {
	h[0] = ror(h[0]+h[1]+h[3]+u64(s[8:]), 37) * k1
	h[1] = ror(h[1]+h[4]+u64(s[48:]), 42) * k1
	h[0] ^= h[6]
	h[1] += h[3] + u64(s[40:])
	h[2] = ror(h[2]+h[5], 33) * k1
	h[3] = h[4] * k1
	h[4] = h[0] + h[5]
	h[3], h[4] = mix32(s, h[3], h[4])
	h[5] = h[2] + h[6]
	h[6] = h[1] + u64(s[16:])
	h[5], h[6] = mix32(s[32:], h[5], h[6])
	h[2], h[0] = h[0], h[2]
}

func mix32(s []byte, a, b uint64) (uint64, uint64) {
	a += u64(s)
	c := u64(s[24:])
	b = ror(b+a+c, 21)
	d := a
	a += u64(s[8:]) + u64(s[16:])
	b += ror(a, 44) + d
	return a + c, b
}
