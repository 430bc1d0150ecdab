package pages

import "testing"

// Memory is zero, can be written, and survives being populated.
func TestMap(t *testing.T) {
	for _, n := range []int{1, 4096, 5 << 20} {
		b, err := Map(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) < n {
			t.Fatalf("%d bytes, want %d", len(b), n)
		}
		Large(b)
		b[n-1] = 7
		Populate(b)
		if b[n-1] != 7 || n > 1 && b[0] != 0 {
			t.Errorf("%d bytes: content changed", n)
		}
		Discard(b)
		b[n-1] = 7 // it is still mapped
		if err := Unmap(b); err != nil {
			t.Error(err)
		}
	}
}

// Memory of Go's heap can be advised, whatever its alignment.
func TestAdviseHeap(t *testing.T) {
	b := make([]byte, 1<<20)
	for i := range b {
		b[i] = byte(i)
	}
	for _, part := range [][]byte{b, b[1:], b[100:200], b[:0], nil} {
		Large(part)
		Populate(part)
	}
	for i := range b {
		if b[i] != byte(i) {
			t.Fatalf("byte %d changed", i)
		}
	}
}
