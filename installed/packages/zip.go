package packages

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/rules-offload/rules_offload/engine/content"
	"github.com/rules-offload/rules_offload/internal/limits"
	"github.com/rules-offload/rules_offload/internal/storage/guard"
)

const (
	// directoryEntry is the smallest size of an entry in the directory of a zip file, in bytes.
	directoryEntry = 46
	zipEncrypted   = 1
)

// zip reads a zip file in the order of its directory.
func (w *walker) zip(c content.Content) error {
	memory, err := w.budget.Reserve(w.ctx, min(c.Len()/directoryEntry, limits.Members)*memberMemory)
	if err != nil {
		return err
	}
	defer memory.Release()
	r, err := zip.NewReader(bytes.NewReader(c.Mapped(guard.Inside)), c.Len())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return fmt.Errorf("zip file: %w", err)
	}
	r.RegisterDecompressor(zip.Deflate, flate.NewReader)
	r.RegisterDecompressor(zstd.ZipMethodWinZip, zstd.ZipDecompressor(zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(usualWindow)))
	buffered := bufio.NewReaderSize(nil, headSize)
	for _, f := range r.File {
		if err := w.zipped(c, f, buffered); err != nil {
			return err
		}
	}
	return nil
}

// zipped reads a member of a zip file.
func (w *walker) zipped(c content.Content, f *zip.File, buffered *bufio.Reader) error {
	m := &Member{Name: f.Name, Size: int64(f.UncompressedSize64)}
	mode := f.Mode()
	if mode.IsDir() || mode&fs.ModeType&^fs.ModeSymlink != 0 {
		return nil
	}
	if f.Flags&zipEncrypted != 0 {
		return fmt.Errorf("%s: it is encrypted", f.Name)
	}
	at, err := f.DataOffset()
	if err != nil {
		return fmt.Errorf("zip file: %s: %w", f.Name, err)
	}
	if m.Size < 0 || at < 0 || at > c.Len() || f.CompressedSize64 > uint64(c.Len()-at) {
		return fmt.Errorf("zip file: %s: its data is outside of the file", f.Name)
	}
	if f.Method == zip.Store && f.CompressedSize64 == f.UncompressedSize64 {
		m.stored, m.plain = c.Slice(at, m.Size), true
	} else {
		body, err := f.Open()
		if err != nil {
			return fmt.Errorf("zip file: %s: %w", f.Name, err)
		}
		defer body.Close()
		buffered.Reset(w.limited(body))
		m.stream = buffered
	}
	if mode&fs.ModeSymlink != 0 {
		target := make([]byte, min(m.Size, limits.Name+1))
		if m.plain {
			copy(target, m.stored.Mapped(guard.Inside))
		} else if _, err := io.ReadFull(m.stream, target); err != nil {
			return fmt.Errorf("zip file: %s: %w", f.Name, err)
		}
		m = &Member{Name: f.Name, Link: string(target)}
	}
	if err := w.add(m); err != nil {
		if errors.Is(err, zip.ErrChecksum) || errors.Is(err, zip.ErrFormat) {
			return fmt.Errorf("zip file: %s: %w", f.Name, err)
		}
		return err
	}
	return nil
}
