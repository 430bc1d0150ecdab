package md5lanes

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"math/rand/v2"
	"testing"
)

// message returns n bytes that depend on seed.
func message(n, seed int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(b)
	return b
}

// messages returns messages of the given lengths.
func messages(lengths ...int) [][]byte {
	list := make([][]byte, len(lengths))
	for i, n := range lengths {
		list[i] = message(n, i)
	}
	return list
}

// checkAll compares sums with those of crypto/md5: as Sum computes them, as on a processor without AVX2,
// and all in lanes, including those for which this does not pay.
func checkAll(t *testing.T, data [][]byte) {
	t.Helper()
	check(t, "Sum", data, Sum)
	check(t, "without lanes", data, func(sums [][md5.Size]byte, data [][]byte) { sumWith(sums, data, false) })
	if !parallel() {
		return
	}
	inLanes := func(sums [][md5.Size]byte, data [][]byte) {
		order := make([]int, len(data))
		for i := range order {
			order[i] = i
		}
		new(lanes).sum(sums, data, order)
	}
	check(t, "lanes", data, inLanes)
	if ternary {
		ternary = false
		check(t, "lanes without AVX-512", data, inLanes)
		ternary = true
	}
}

// check compares the sums of one way to compute them with those of crypto/md5.
func check(t *testing.T, way string, data [][]byte, compute func([][md5.Size]byte, [][]byte)) {
	t.Helper()
	sums := make([][md5.Size]byte, len(data))
	compute(sums, data)
	for i, b := range data {
		if want := md5.Sum(b); sums[i] != want {
			t.Fatalf("%s: slice %d of %d bytes: got %x, want %x", way, i, len(b), sums[i], want)
		}
	}
}

// count returns n lengths from first on.
func count(n, first, step int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = first + i*step
	}
	return list
}

func TestSum(t *testing.T) {
	for _, test := range []struct {
		name    string
		lengths []int
	}{
		{"nothing", nil},
		{"one slice", []int{100}},
		{"one empty slice", []int{0}},
		{"two slices", []int{100, 100}},
		{"empty slices", make([]int, 40)},
		{"every length to 200", count(201, 0, 1)},
		{"around one block", []int{54, 55, 56, 57, 62, 63, 64, 65}},
		{"around two blocks", []int{118, 119, 120, 121, 126, 127, 128, 129}},
		{"as many as lanes", count(Lanes, 1000, 0)},
		{"one more than lanes", count(Lanes+1, 1000, 7)},
		{"more than lanes, unequal", count(3*Lanes+5, 5, 333)},
		{"one long slice among short ones", append(count(20, 30, 11), 100_000)},
		{"one long slice among long ones", append(count(20, 8000, 11), 100_000)},
		{"only long slices", []int{70_000, 69_999, 65_536}},
		{"more than one call of assembly code", []int{mostBlocks*md5.BlockSize + 3, mostBlocks*md5.BlockSize + 500}},
	} {
		t.Run(test.name, func(t *testing.T) {
			data := messages(test.lengths...)
			checkAll(t, data)
		})
	}
}

// The slices may be at any address and are not changed.
func TestAlignment(t *testing.T) {
	whole := message(5000, 1)
	before := bytes.Clone(whole)
	var data [][]byte
	for i := range 40 {
		data = append(data, whole[i:3000+2*i])
	}
	checkAll(t, data)
	if !bytes.Equal(whole, before) {
		t.Error("got changed slices, want them as they were")
	}
}

// FuzzSum cuts data into slices at the given offsets.
func FuzzSum(f *testing.F) {
	f.Add(message(300, 1), []byte{0, 1, 63, 64, 65})
	f.Add(message(5000, 2), bytes.Repeat([]byte{55, 119}, 30))
	f.Fuzz(func(t *testing.T, data, cuts []byte) {
		var list [][]byte
		for _, n := range cuts {
			k := min(len(data), int(n))
			list, data = append(list, data[:k]), data[k:]
		}
		list = append(list, data)
		checkAll(t, list)
	})
}

func BenchmarkSum(b *testing.B) {
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		b.Run(fmt.Sprintf("%d slices", n), func(b *testing.B) {
			data := messages(count(n, 64<<10, 0)...)
			sums := make([][md5.Size]byte, n)
			b.SetBytes(int64(n) * 64 << 10)
			for b.Loop() {
				Sum(sums, data)
			}
		})
	}
}
