package ccob

import (
	"context"

	"github.com/klauspost/compress/zstd"
)

// Level chooses between speed and size.
type Level uint8

// The levels of compression.
const (
	Fast Level = iota
	Small
)

// compress appends one zstd frame of src to dst, with its content size.
func compress(_ context.Context, dst, src []byte, level Level) ([]byte, error) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(windowFor(len(src))),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	_ = level
	if len(src) == 0 {
		return zeroFrame(dst, 0), nil
	}
	return w.EncodeAll(src, dst), nil
}

func windowFor(n int) int {
	w := 1 << 16
	for w < n && w < 1<<29 {
		w <<= 1
	}
	return w
}
