package longzstd

import (
	"context"
	"io"
	"math/rand/v2"
	"testing"
)

// The values of generated data compare versions of this package. They do not predict values of real
// bundles.
func BenchmarkEncode(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	large, little := bundle(r, 10, 1<<20, 4096), bundle(r, 7, 50_000, 4096)
	for _, c := range []struct {
		name  string
		src   []byte
		level Level
		cores int
	}{
		{"fast", large, Fast, 1},
		{"fast, two cores", large, Fast, 2},
		{"small", large, Small, 1},
		{"small source, fast", little, Fast, 1},
		{"small source, small", little, Small, 1},
		{"noise", noise(r, 8<<20), Fast, 1},
		{"prose", prose(r, 8<<20), Fast, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.src)))
			var size int64
			for b.Loop() {
				var err error
				if size, err = EncodeTo(context.Background(), io.Discard, c.src, Options{Level: c.level, Cores: c.cores}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(c.src))/float64(size), "x")
		})
	}
}
