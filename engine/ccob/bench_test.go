package ccob

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
)

// benchSample is a bundle of 27 MB.
func benchSample() ([]content.Part, []byte) { return sample(4096, 5<<20, processors...) }

// foreign is LLVM's form: one frame with its size.
func foreign(b *testing.B, raw []byte) []byte {
	return container(3, Zstd, zst(b, raw, zstd.WithWindowSize(32<<20)), raw)
}

func BenchmarkEncode(b *testing.B) {
	pieces, raw := benchSample()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := Encode(context.Background(), discard{}, pieces, EncodeOptions{Budget: cores}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	_, raw := benchSample()
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		NewHasher().Write(raw)
	}
}

func benchRead(b *testing.B, o Options, f func(r *Reader) error) {
	pieces, raw := benchSample()
	for name, data := range map[string][]byte{"own": encode(b, pieces, EncodeOptions{}), "foreign": foreign(b, raw)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := Open(data, o)
				if err == nil {
					err = f(r)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPrefix(b *testing.B) {
	benchRead(b, Options{}, func(r *Reader) error {
		_, err := r.Prefix(context.Background(), 4096)
		return err
	})
}

func BenchmarkExtractOne(b *testing.B) {
	pieces, _ := benchSample()
	p := pieces[4]
	benchRead(b, Options{}, func(r *Reader) error {
		return r.Extract(context.Background(), []Range{{p.Offset, p.Content.Len(), io.Discard}})
	})
}

func BenchmarkExtractAll(b *testing.B) {
	pieces, _ := benchSample()
	benchRead(b, Options{Budget: cores}, func(r *Reader) error {
		var ranges []Range
		for _, p := range pieces {
			ranges = append(ranges, Range{p.Offset, p.Content.Len(), io.Discard})
		}
		return r.Extract(context.Background(), ranges)
	})
}

func BenchmarkDecode(b *testing.B) {
	benchRead(b, Options{Budget: budget.New(1, 1<<40), Hash: HashNone}, func(r *Reader) error {
		raw, err := r.Decode(context.Background())
		if err == nil {
			raw.Release()
		}
		return err
	})
}

func BenchmarkWalk(b *testing.B) {
	_, raw := benchSample()
	data := bytes.Repeat(append(foreign(b, raw), make([]byte, 4096)...), 10)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		n := 0
		for _, err := range Walk(data, plainSize) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 10 {
			b.Fatal(n)
		}
	}
}
