package offloadbinary

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// The largest number of bytes that one byte of a stream can decompress to: a
// zstd block of 4 bytes to 128 KiB, 2 bits of deflate to 258.
const (
	maxRatioZstd = 1 << 15
	maxRatioZlib = 1032
)

var shared struct {
	sync.Once
	decoder *zstd.Decoder
	err     error
}

// zstdDecoder returns the decoder of all packages.
func zstdDecoder() (*zstd.Decoder, error) {
	shared.Do(func() {
		shared.decoder, shared.err = zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(0),
			zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderMaxMemory(1<<40),
			zstd.WithDecoderMaxWindow(1<<31))
	})
	return shared.decoder, shared.err
}

// stream returns the compressed data of the package, and reports whether it is
// zstd.
func stream(data []byte, h header) (stream []byte, isZstd bool) {
	stream = data[h.entries:]
	return stream, hasPrefix(stream, "\x28\xb5\x2f\xfd", "\x50\x2a\x4d\x18")
}

// checkRatio checks that the compressed data can have the size stated in the
// header.
func checkRatio(data []byte, h header) *Error {
	stream, isZstd := stream(data, h)
	ratio, name := uint64(maxRatioZlib), "zlib"
	if isZstd {
		ratio, name = maxRatioZstd, "zstd"
	}
	if (h.inflated-h.entries)/ratio > uint64(len(stream)) {
		return invalid(32, "its inflated size of %d bytes is more than %d bytes of %s can hold", h.inflated, len(stream), name)
	}
	return nil
}

// inflate returns the uncompressed form of a compressed package: its header and
// the content of its stream.
func inflate(data []byte, h header) ([]byte, *Error) {
	stream, isZstd := stream(data, h)
	at := int64(h.entries)
	whole := make([]byte, h.inflated)
	copy(whole, data[:h.entries])
	body := whole[h.entries:]
	if isZstd {
		decoder, err := zstdDecoder()
		if err != nil {
			return nil, invalid(at, "zstd: %v", err)
		}
		got, err := decoder.DecodeAll(stream, body[:0:len(body)])
		if err != nil {
			return nil, invalid(at, "zstd stream: %v", err)
		}
		if len(got) != len(body) {
			return nil, invalid(at, "zstd stream holds %d bytes, expected %d", len(got), len(body))
		}
		return whole, nil
	}
	reader, err := zlib.NewReader(bytes.NewReader(stream))
	if err != nil {
		return nil, invalid(at, "neither zstd nor zlib: %v", err)
	}
	if n, err := io.ReadFull(reader, body); err != nil {
		return nil, invalid(at, "zlib stream: %v after %d of %d bytes", err, n, len(body))
	}
	if n, err := reader.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		return nil, invalid(at, "zlib stream holds more than the expected %d bytes, or its checksum is wrong", len(body))
	}
	return whole, nil
}
