package bundler

import (
	"fmt"
	"time"

	"github.com/rules-offload/rules_offload/engine"
	"github.com/rules-offload/rules_offload/engine/images"
	"github.com/rules-offload/rules_offload/internal/cmd/printable"
)

// tellWritten prints the properties of a compressed bundle after it is written.
func (r *run) tellWritten(result engine.BundleResult) {
	s := result.Compressed
	rate := s.Rate()
	fmt.Fprintf(r.Stderr, "Compressed bundle format version: %d\n", s.Version)
	fmt.Fprintf(r.Stderr, "Total file size (including headers): %s bytes\n", printable.Grouped(s.FileSize))
	fmt.Fprintf(r.Stderr, "Compression method used: %v\n", s.Method)
	fmt.Fprintf(r.Stderr, "Compression level: %d\n", r.compressionLevel)
	fmt.Fprintf(r.Stderr, "Binary size before compression: %s bytes\n", printable.Grouped(s.RawSize))
	fmt.Fprintf(r.Stderr, "Binary size after compression: %s bytes\n", printable.Grouped(s.DataSize))
	fmt.Fprintf(r.Stderr, "Compression rate: %.2f\n", rate)
	fmt.Fprintf(r.Stderr, "Compression ratio: %.2f%%\n", 100/rate)
	fmt.Fprintf(r.Stderr, "Compression speed: %.2f MB/s\n", speed(s.RawSize, result.Duration))
	fmt.Fprintf(r.Stderr, "Truncated MD5 hash: 0x%014x\n", s.Hash)
}

// tellRead prints the properties of a bundle that is read.
func (r *run) tellRead(s images.Bundle) {
	if s.Header == nil {
		if r.release.SmallWords {
			fmt.Fprintln(r.Stderr, "Uncompressed bundle")
		} else {
			fmt.Fprintln(r.Stderr, "Uncompressed bundle.")
		}
		return
	}
	h := s.Header
	data := s.Size - h.DataOffset
	rate := float64(h.RawSize) / float64(data)
	match := "No"
	if s.Hash == h.Hash {
		match = "Yes"
	}
	fmt.Fprintf(r.Stderr, "Compressed bundle format version: %d\n", h.Version)
	if h.Version >= 2 {
		fmt.Fprintf(r.Stderr, "Total file size (from header): %s bytes\n", printable.Grouped(h.FileSize))
	}
	fmt.Fprintf(r.Stderr, "Decompression method: %v\n", h.Method)
	fmt.Fprintf(r.Stderr, "Size before decompression: %s bytes\n", printable.Grouped(data))
	fmt.Fprintf(r.Stderr, "Size after decompression: %s bytes\n", printable.Grouped(h.RawSize))
	fmt.Fprintf(r.Stderr, "Compression rate: %.2f\n", rate)
	fmt.Fprintf(r.Stderr, "Compression ratio: %.2f%%\n", 100/rate)
	fmt.Fprintf(r.Stderr, "Decompression speed: %.2f MB/s\n", speed(h.RawSize, s.Duration))
	fmt.Fprintf(r.Stderr, "Stored hash: 0x%014x\n", h.Hash)
	fmt.Fprintf(r.Stderr, "Recalculated hash: 0x%014x\n", s.Hash)
	fmt.Fprintf(r.Stderr, "Hashes match: %s\n", match)
}

// speed returns MB of 2^20 bytes per second.
func speed(n int64, took time.Duration) float64 { return float64(n) / (1 << 20) / took.Seconds() }
