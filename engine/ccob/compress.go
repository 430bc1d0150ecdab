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

// compress appends one zstd frame of src to dst, with its content size. The bytes depend
// on src and level alone.
func compress(_ context.Context, dst, src []byte, level Level) ([]byte, error) {
	speed := zstd.SpeedBetterCompression
	if level == Small {
		speed = zstd.SpeedBestCompression
	}
	window := zstd.MinWindowSize
	for window < len(src) && window < zstd.MaxWindowSize {
		window <<= 1
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(speed), zstd.WithWindowSize(window),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithZeroFrames(true))
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.EncodeAll(src, dst), nil
}
