package packages

import (
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rules-offload/rules_offload/engine/budget"
	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

const (
	// usualWindow is the largest window that zstd uses without --long, in bytes.
	usualWindow = 128 << 20
	// largestWindow is the largest window of zstd and dictionary of xz, in bytes. The limit of memory
	// may be less.
	largestWindow = 1 << 31
)

// compressions are the first bytes of compressed files.
var compressions = []struct{ name, magic string }{
	{"gzip", "\x1f\x8b\x08"}, {"xz", xzMagic}, {"zstd", "\x28\xb5\x2f\xfd"}, {"bzip2", "BZh"},
}

// compression returns the compression of a file by its first bytes, or "".
func compression(data []byte) string {
	for _, c := range compressions {
		if bytes.HasPrefix(data, []byte(c.magic)) {
			return c.name
		}
	}
	return ""
}

// decompressed reads the uncompressed bytes of a file.
type decompressed struct {
	io.Reader
	memory *budget.Reservation
	end    func()
}

func (d *decompressed) close() {
	if d.end != nil {
		d.end()
	}
	d.memory.Release()
}

// decompress returns the uncompressed bytes of a compressed file. The memory of the decoder is
// reserved until close. Of an xz file, program is what decodes it; if empty, package lzma does.
func decompress(ctx context.Context, c content.Content, b *budget.Budget, program string) (*decompressed, error) {
	data := c.Mapped(guard.Inside)
	name := compression(data)
	d := &decompressed{}
	window := int64(1 << 20)
	var err error
	switch name {
	case "zstd":
		window, err = zstdWindow(data)
	case "xz":
		var x *xzReader
		if x, err = newXZ(data); err == nil {
			window = x.dictionary
			d.Reader = x
			if program != "" && len(data) >= leastProgram {
				if p, memory := startXZ(ctx, program, c, x, b); p != nil {
					d.Reader, d.memory, d.end = named{p, name}, memory, p.close
					return d, nil
				}
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if d.memory, err = b.Reserve(ctx, window); err != nil {
		return nil, err
	}
	switch name {
	case "gzip":
		d.Reader, err = gzip.NewReader(bytes.NewReader(data))
	case "bzip2":
		d.Reader = bzip2.NewReader(bytes.NewReader(data))
	case "zstd":
		var z *zstd.Decoder
		z, err = zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(uint64(window)))
		if err == nil {
			d.Reader, d.end = z, z.Close
		}
	}
	if err != nil {
		d.memory.Release()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	d.Reader = named{d.Reader, name}
	return d, nil
}

// zstdWindow returns the window of the first frame, in bytes. Later frames must not have a larger one.
func zstdWindow(data []byte) (int64, error) {
	const least = 8 << 20
	var h zstd.Header
	if err := h.Decode(data[:min(len(data), zstd.HeaderMaxSize)]); err != nil {
		return 0, err
	}
	size := h.WindowSize
	if h.SingleSegment {
		size = h.FrameContentSize
	}
	if size > largestWindow {
		return 0, fmt.Errorf("found a window of %d bytes, expected at most %d", size, largestWindow)
	}
	return max(int64(size), least), nil
}

// named adds the name of a compression to errors.
type named struct {
	io.Reader
	name string
}

// Read implements io.Reader.
func (n named) Read(p []byte) (int, error) {
	k, err := n.Reader.Read(p)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("%s: the data is cut short", n.name)
	case err != nil && !errors.Is(err, io.EOF):
		err = fmt.Errorf("%s: %w", n.name, err)
	}
	return k, err
}
