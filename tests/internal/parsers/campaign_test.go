package parsers

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"unsafe"
)

var sink []byte

// TestPlanted requires that the campaign finds failures of parsers with planted errors.
func TestPlanted(t *testing.T) {
	seeds := [][]byte{[]byte("name=1 size=20 end"), []byte("size=3")}
	for name, test := range map[string]struct {
		read func(data []byte) error
		want string
		most int // bytes of the input
	}{
		"panic": {func(data []byte) error {
			if bytes.Contains(data, []byte("==")) {
				panic("two signs")
			}
			return nil
		}, "panic: two signs", 2},
		"rule": {func(data []byte) error {
			if bytes.HasPrefix(data, []byte("size=9")) {
				return errors.New("a size of nine")
			}
			return nil
		}, "a size of nine", 6},
		"past the end": {func(data []byte) error {
			if n := len(data); n > 0 && data[n-1] == '=' {
				past := *(*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(data)), n))
				sink = append(sink[:0], past)
			}
			return nil
		}, "invalid memory address", 1},
		"written input": {func(data []byte) error {
			if len(data) > 3 {
				data[0] ^= 1
			}
			return nil
		}, "invalid memory address", 100},
		"memory": {func(data []byte) error {
			if bytes.HasPrefix(data, []byte("name")) {
				sink = make([]byte, 64<<10)
			}
			return nil
		}, "bytes of memory for an input of", 100},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n := 0
			p := &Parser{Name: "planted", Seeds: seeds, Words: []string{"="}, Memory: func(n int) uint64 { return 16 << 10 }}
			p.Read = func(data []byte) error {
				if n++; n <= len(seeds) {
					return nil
				}
				if n > 1<<22 {
					cancel()
				}
				return test.read(data)
			}
			results, err := Run(ctx, []*Parser{p}, Options{Seed: 1, Dir: t.TempDir()}, nil)
			if err != nil {
				t.Fatal(err)
			}
			faults := results[0].Faults
			if len(faults) == 0 || !strings.Contains(faults[0], test.want) {
				t.Fatalf("after %d executions: faults %q, expected %q", results[0].Executions, faults, test.want)
			}
			_, file, _ := strings.Cut(faults[0], "--input=")
			data, err := os.ReadFile(file)
			if err != nil || len(data) > test.most {
				t.Errorf("input %q, %v, expected at most %d bytes", data, err, test.most)
			}
		})
	}
}

// TestRepeat requires that a seed of the random numbers leads to the same inputs.
func TestRepeat(t *testing.T) {
	inputs := func(number uint64) string {
		m := mutator{chance: newChance(number, 1), seeds: []*Seed{NewSeed(bundles()[0]), NewSeed(archives()[0])}, data: make([]byte, 0, maxInput)}
		var all bytes.Buffer
		for range 2000 {
			all.Write(m.next())
		}
		return all.String()
	}
	first, again, other := inputs(7), inputs(7), inputs(8)
	if first != again || first == other {
		t.Error("the inputs do not follow the seed")
	}
}

// TestSeeds requires that parsers accept most seeds: a rejected seed tests only the first checks.
func TestSeeds(t *testing.T) {
	list, err := List("../../..")
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, p := range list {
		if names[p.Name] {
			t.Errorf("two parsers are named %s", p.Name)
		}
		names[p.Name] = true
		if len(p.Seeds) == 0 {
			t.Errorf("%s: no seeds", p.Name)
		}
		for i, data := range p.Seeds {
			if err := Once(p, data); err != nil {
				t.Errorf("%s: seed %d: %v", p.Name, i, err)
			}
			if len(data) > 16<<10 {
				t.Errorf("%s: seed %d has %d bytes: small seeds are faster", p.Name, i, len(data))
			}
		}
	}
}
