// Package xxh3 computes the 64-bit hash XXH3 with its default secret and without a seed, by which
// LLVM 23 and later order their tables. For large data, package xxhash is faster.
package xxh3

import "math/bits"

// secret is the default secret of XXH3 (xxhash.h, kSecret).
const secret = "\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe\x7c\x01\x81\x2c\xf7\x21\xad\x1c\xde\xd4\x6d\xe9\x83\x90\x97\xdb\x72\x40\xa4\xa4\xb7\xb3\x67\x1f" +
	"\xcb\x79\xe6\x4e\xcc\xc0\xe5\x78\x82\x5a\xd0\x7d\xcc\xff\x72\x21\xb8\x08\x46\x74\xf7\x43\x24\x8e\xe0\x35\x90\xe6\x81\x3a\x26\x4c" +
	"\x3c\x28\x52\xbb\x91\xc3\x00\xcb\x88\xd0\x65\x8b\x1b\x53\x2e\xa3\x71\x64\x48\x97\xa2\x0d\xf9\x4e\x38\x19\xef\x46\xa9\xde\xac\xd8\xa8" +
	"\xfa\x76\x3f\xe3\x9c\x34\x3f\xf9\xdc\xbb\xc7\xc7\x0b\x4f\x1d\x8a\x51\xe0\x4b\xcd\xb4\x59\x31\xc8\x9f\x7e\xc9\xd9\x78\x73\x64\xea" +
	"\xc5\xac\x83\x34\xd3\xeb\xc3\xc5\x81\xa0\xff\xfa\x13\x63\xeb\x17\x0d\xdd\x51\xb7\xf0\xda\x49\xd3\x16\x55\x26\x29\xd4\x68\x9e\x2b" +
	"\x16\xbe\x58\x7d\x47\xa1\xfc\x8f\xf8\xb8\xd1\x7a\xd0\x31\xce\x45\xcb\x3a\x8f\x95\x16\x04\x28\xaf\xd7\xfb\xca\xbb\x4b\x40\x7e"

// The primes of XXH32, XXH64 and XXH3.
const (
	prime32x1 = 0x9e3779b1
	prime32x2 = 0x85ebca77
	prime32x3 = 0xc2b2ae3d
	prime64x1 = 0x9e3779b185ebca87
	prime64x2 = 0xc2b2ae3d27d4eb4f
	prime64x3 = 0x165667b19e3779f9
	prime64x4 = 0x85ebca77c2b2ae63
	prime64x5 = 0x27d4eb2f165667c5
	primeMx1  = 0x165667919e3779f9
	primeMx2  = 0x9fb21c651e98df25
)

const (
	stripe = 64          // bytes that are mixed at a time
	block  = 16 * stripe // bytes between two scrambles; the secret moves by 8 bytes with each stripe
)

// Hash returns the hash of a text.
func Hash(s string) uint64 {
	n := len(s)
	switch {
	case n == 0:
		return avalanche64(u64(secret, 56) ^ u64(secret, 64))
	case n <= 3:
		packed := uint64(s[0])<<16 | uint64(s[n>>1])<<24 | uint64(s[n-1]) | uint64(n)<<8
		return avalanche64(packed ^ (u32(secret, 0) ^ u32(secret, 4)))
	case n <= 8:
		return rotated((u32(s, n-4)+u32(s, 0)<<32)^(u64(secret, 8)^u64(secret, 16)), uint64(n))
	case n <= 16:
		low := u64(s, 0) ^ u64(secret, 24) ^ u64(secret, 32)
		high := u64(s, n-8) ^ u64(secret, 40) ^ u64(secret, 48)
		return avalanche(uint64(n) + bits.ReverseBytes64(low) + high + fold(low, high))
	case n <= 128:
		return upTo128(s)
	case n <= 240:
		return upTo240(s)
	}
	return long(s)
}

func upTo128(s string) uint64 {
	n := len(s)
	sum := uint64(n) * prime64x1
	for i := (n - 1) / 32; i >= 0; i-- {
		sum += mix(s, 16*i, 32*i) + mix(s, n-16*(i+1), 32*i+16)
	}
	return avalanche(sum)
}

func upTo240(s string) uint64 {
	n := len(s)
	sum := uint64(n) * prime64x1
	for i := range 8 {
		sum += mix(s, 16*i, 16*i)
	}
	sum = avalanche(sum)
	for i := 8; i < n/16; i++ {
		sum += mix(s, 16*i, 16*(i-8)+3)
	}
	return avalanche(sum + mix(s, n-16, 136-17))
}

// lanes are the sums of texts of more than 240 bytes.
type lanes [8]uint64

func long(s string) uint64 {
	sums := lanes{prime32x3, prime64x1, prime64x2, prime64x3, prime64x4, prime32x2, prime64x5, prime32x1}
	at := 0
	for ; at+stripe < len(s); at += stripe {
		sums.add(s, at, at%block/stripe*8)
		if (at+stripe)%block == 0 {
			sums.scramble()
		}
	}
	sums.add(s, len(s)-stripe, len(secret)-stripe-7)
	result := uint64(len(s)) * prime64x1
	for i := 0; i < len(sums); i += 2 {
		result += fold(sums[i]^u64(secret, 11+8*i), sums[i+1]^u64(secret, 19+8*i))
	}
	return avalanche(result)
}

// add adds the 64 bytes of s at an offset, mixed with the secret at another offset.
func (l *lanes) add(s string, at, key int) {
	for i := range l {
		v := u64(s, at+8*i)
		k := v ^ u64(secret, key+8*i)
		l[i^1] += v
		l[i] += k & (1<<32 - 1) * (k >> 32)
	}
}

// scramble mixes the bits of each sum.
func (l *lanes) scramble() {
	for i, v := range l {
		l[i] = (v ^ v>>47 ^ u64(secret, len(secret)-stripe+8*i)) * prime32x1
	}
}

// mix returns the folded product of 16 bytes of s with as many of the secret.
func mix(s string, at, key int) uint64 {
	return fold(u64(s, at)^u64(secret, key), u64(s, at+8)^u64(secret, key+8))
}

// fold returns the product of two numbers, its upper half combined with its lower half.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// avalanche ends the hash of 9 and more bytes, avalanche64 that of up to 3 and rotated that of others.
func avalanche(h uint64) uint64 {
	h = (h ^ h>>37) * primeMx1
	return h ^ h>>32
}

func avalanche64(h uint64) uint64 {
	h = (h ^ h>>33) * prime64x2
	h = (h ^ h>>29) * prime64x3
	return h ^ h>>32
}

func rotated(h, n uint64) uint64 {
	h = (h ^ bits.RotateLeft64(h, 49) ^ bits.RotateLeft64(h, 24)) * primeMx2
	h = (h ^ (h>>35 + n)) * primeMx2
	return h ^ h>>28
}

// u64 returns 8 bytes of s, and u32 4 bytes, in little endian.
func u64(s string, at int) uint64 { return u32(s, at) | u32(s, at+4)<<32 }

func u32(s string, at int) uint64 {
	s = s[at : at+4]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}
