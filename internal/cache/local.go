package cache

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// DefaultLimit is the size limit of a Local whose Limit is 0, in bytes.
const DefaultLimit = 5 << 30

// Local is a directory of results and blobs. Several processes may use it at the same time.
//
// DIR/v2/ac/xx/HASH is a result, DIR/v2/cas/xx/HASH a blob, where xx are the first two digits of HASH. Both have
// a header of 48 bytes: a magic number, how the content is stored, its SHA-256 and its size. A blob is
// compressed with zstd if that makes it smaller. Every file is written to a temporary name, and renamed when it
// is complete. The time of a file is that of its last use.
type Local struct {
	// Dir is created by the first Put.
	Dir string
	// Limit is the largest size of all files, in bytes; 0 means DefaultLimit. The least
	// recently used files are removed first.
	Limit int64
	// ReadOnly makes Put do nothing.
	ReadOnly bool
}

const (
	localVersion = "v2"
	localMagic   = "OFFCACH1"
	headerSize   = len(localMagic) + sha256.Size + 8
	// maxBlob is the largest content that is read, in bytes.
	maxBlob = 8 << 30

	raw, compressed = 0, 1

	results, blobs = "ac", "cas"
)

// codec compresses and decompresses blobs.
var codec struct {
	once    sync.Once
	encoder *zstd.Encoder
	decoder *zstd.Decoder
}

// codecs creates the encoder and the decoder at their first use.
func codecs() (*zstd.Encoder, *zstd.Decoder) {
	codec.once.Do(func() {
		var err, err2 error
		codec.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		codec.decoder, err2 = zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBlob))
		if err := errors.Join(err, err2); err != nil {
			panic(err) // only options can be wrong
		}
	})
	return codec.encoder, codec.decoder
}

// path returns the name of a file of the store.
func (l *Local) path(kind string, d Digest) string {
	name := d.Hex()
	return filepath.Join(l.Dir, localVersion, kind, name[:2], name)
}

// Result implements Store.
func (l *Local) Result(_ context.Context, action Digest) (*Result, error) {
	data, err := l.read(results, action, nil)
	if errors.Is(err, ErrMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := ParseResult(data)
	if err != nil {
		os.Remove(l.path(results, action))
		return nil, nil
	}
	return r, nil
}

// Blob implements Store.
func (l *Local) Blob(_ context.Context, d Digest) ([]byte, error) {
	return l.read(blobs, d, &d)
}

// Has reports whether a blob is stored, without reading it.
func (l *Local) Has(d Digest) bool {
	_, err := os.Stat(l.path(blobs, d))
	return err == nil
}

// read reads a file of the store and marks it as used. A damaged file is removed. want is the digest of the
// content if it is known.
func (l *Local) read(kind string, d Digest, want *Digest) ([]byte, error) {
	name := l.path(kind, d)
	file, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrMissing
	}
	if err != nil {
		return nil, err
	}
	data, got, ok := decode(file)
	if !ok || want != nil && got != *want {
		os.Remove(name)
		return nil, ErrMissing
	}
	now := time.Now()
	if info, err := os.Stat(name); err == nil && now.Sub(info.ModTime()) > time.Minute {
		_ = os.Chtimes(name, now, now) // fails if the directory is read-only
	}
	return data, nil
}

// encode returns the file for a content.
func encode(data []byte) []byte {
	sum := sha256.Sum256(data)
	file := append(make([]byte, 0, headerSize+len(data)), localMagic...)
	file = append(file, sum[:]...)
	size := uint64(len(data))
	for i := range 7 {
		file = append(file, byte(size>>(8*i)))
	}
	file = append(file, compressed)
	encoder, _ := codecs()
	if file = encoder.EncodeAll(data, file); len(file)-headerSize >= len(data) {
		file = append(file[:headerSize], data...)
		file[headerSize-1] = raw
	}
	return file
}

// decode checks a file and returns its content.
func decode(file []byte) (data []byte, digest Digest, ok bool) {
	if len(file) < headerSize || string(file[:len(localMagic)]) != localMagic {
		return nil, digest, false
	}
	digest.Hash = [sha256.Size]byte(file[len(localMagic):])
	for i := range 7 {
		digest.Size |= int64(file[len(localMagic)+sha256.Size+i]) << (8 * i)
	}
	body := file[headerSize:]
	switch file[headerSize-1] {
	case raw:
		data = body
	case compressed:
		if digest.Size > maxBlob || digest.Size > int64(len(body))<<16 {
			return nil, digest, false
		}
		_, decoder := codecs()
		var err error
		if data, err = decoder.DecodeAll(body, make([]byte, 0, digest.Size)); err != nil {
			return nil, digest, false
		}
	default:
		return nil, digest, false
	}
	return data, digest, int64(len(data)) == digest.Size && sha256.Sum256(data) == digest.Hash
}

// Put implements Store.
func (l *Local) Put(_ context.Context, action Digest, result *Result, contents ...[]byte) error {
	if l.ReadOnly {
		return nil
	}
	var added int64
	for _, data := range contents {
		d := DigestOf(data)
		if l.Has(d) {
			continue
		}
		n, err := l.write(l.path(blobs, d), encode(data))
		if err != nil {
			return err
		}
		added += n
	}
	n, err := l.write(l.path(results, action), encode(result.Marshal()))
	if err != nil {
		return err
	}
	return l.grown(added + n)
}

// PutBlob stores a content without a result that names it.
func (l *Local) PutBlob(data []byte) error {
	if l.ReadOnly {
		return nil
	}
	n, err := l.write(l.path(blobs, DigestOf(data)), encode(data))
	if err != nil {
		return err
	}
	return l.grown(n)
}

// write writes a file of the store and returns its size.
func (l *Local) write(name string, data []byte) (int64, error) {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, err
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return 0, err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
		return 0, err
	}
	return int64(len(data)), nil
}

// entry is a file of the store.
type entry struct {
	name string
	size int64
	used time.Time
}

// entries returns the files of the store.
func (l *Local) entries() (all []entry, err error) {
	kinds, err := os.ReadDir(filepath.Join(l.Dir, localVersion))
	if err := ignoreMissing(err); err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		if !kind.IsDir() {
			continue
		}
		top := filepath.Join(l.Dir, localVersion, kind.Name())
		err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return ignoreMissing(err)
			}
			info, err := d.Info()
			if err != nil {
				return ignoreMissing(err)
			}
			all = append(all, entry{name, info.Size(), info.ModTime()})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// isHash reports whether a file has the name of a result or blob. Others are temporary.
func isHash(name string) bool {
	sum, err := hex.DecodeString(filepath.Base(name))
	return err == nil && len(sum) == sha256.Size
}

// staleAfter is the age of a temporary file that no process writes.
const staleAfter = time.Hour

// Trim removes the least recently used files until the size is at most limit, in bytes, and the temporary files of killed
// processes. It returns the size of all files that are left, and their number.
func (l *Local) Trim(limit int64) (size int64, files int, err error) {
	all, err := l.entries()
	if err != nil {
		return 0, 0, err
	}
	for _, e := range all {
		size += e.size
	}
	files = len(all)
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.name, b.name)) })
	for _, e := range all {
		if temporary := !isHash(e.name); temporary && time.Since(e.used) < staleAfter || !temporary && size <= limit {
			continue
		}
		if err := ignoreMissing(os.Remove(e.name)); err != nil {
			return size, files, err
		}
		size -= e.size
		files--
	}
	return size, files, l.setSize(size)
}

// Clear removes all results and blobs.
func (l *Local) Clear() error {
	return os.RemoveAll(filepath.Join(l.Dir, localVersion))
}

// Verify checks every file, and removes the damaged ones. It returns the numbers of both.
func (l *Local) Verify() (checked, damaged int, err error) {
	all, err := l.entries()
	if err != nil {
		return 0, 0, err
	}
	for _, e := range all {
		if !isHash(e.name) {
			continue
		}
		file, err := os.ReadFile(e.name)
		if err != nil {
			if err := ignoreMissing(err); err != nil {
				return checked, damaged, err
			}
			continue
		}
		checked++
		_, digest, ok := decode(file)
		if ok && filepath.Base(filepath.Dir(filepath.Dir(e.name))) == blobs {
			ok = digest.Hex() == filepath.Base(e.name)
		}
		if ok {
			continue
		}
		damaged++
		if err := ignoreMissing(os.Remove(e.name)); err != nil {
			return checked, damaged, err
		}
	}
	return checked, damaged, nil
}

// Size returns the size of all files in bytes, and their number.
func (l *Local) Size() (size int64, files int, err error) {
	all, err := l.entries()
	for _, e := range all {
		size += e.size
	}
	return size, len(all), err
}

// sizeFile has the sum of the sizes of all files, as text. It is an estimate, because processes that
// end at any time add to it; a trim corrects it.
func (l *Local) sizeFile() string { return filepath.Join(l.Dir, localVersion, "size") }

// grown adds to the size of the store, and trims it if it is too large.
func (l *Local) grown(added int64) error {
	limit := cmp.Or(l.Limit, DefaultLimit)
	var total int64
	err := locked(l.sizeFile(), func(f *os.File) error {
		data, err := io.ReadAll(io.LimitReader(f, 64))
		if err != nil {
			return err
		}
		if _, err := fmt.Sscan(string(bytes.TrimSpace(data)), &total); err != nil {
			if total, _, err = l.Size(); err != nil { // the file is new or damaged
				return err
			}
		} else {
			total += added
		}
		return replace(f, fmt.Sprintln(total))
	})
	if err != nil || total <= limit {
		return err
	}
	// Remove a tenth of the store at once, so that not every Put removes files.
	_, _, err = l.Trim(limit - limit/10)
	return err
}

// setSize corrects the size.
func (l *Local) setSize(size int64) error {
	err := locked(l.sizeFile(), func(f *os.File) error { return replace(f, fmt.Sprintln(size)) })
	return ignoreMissing(err)
}

// replace writes the whole content of a file.
func replace(f *os.File, content string) error {
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(content)))
}

// ignoreMissing ignores the error for a file that another process removed.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Record returns a record of this machine, nil if it is not stored. Records are not results: they are never sent to a
// server. kind is the name of their directory.
func (l *Local) Record(kind string, key [sha256.Size]byte) []byte {
	data, err := l.read(kind, Digest{Hash: key}, nil)
	if err != nil {
		return nil
	}
	return data
}

// PutRecord stores a record of this machine.
func (l *Local) PutRecord(kind string, key [sha256.Size]byte, data []byte) error {
	if l.ReadOnly {
		return nil
	}
	n, err := l.write(l.path(kind, Digest{Hash: key}), encode(data))
	if err != nil {
		return err
	}
	return l.grown(n)
}
