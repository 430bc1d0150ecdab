// Package linkcache keeps results of device links in a directory, by a hash of
// everything that they depend on, so that a link with equal inputs is not run
// again.
//
// # Layout
//
// DIR/v1/xx/KEY is one result, where KEY is 64 hexadecimal digits and xx its first
// two: the image, then what the link printed, then a trailer of 56 bytes: the
// SHA-256 of both, the sizes of both as 64-bit little-endian numbers, and a magic
// number. A result is written under another name and renamed, so that processes
// that use one directory at the same time see it complete or not at all; the time
// of its last use is that of its last change.
package linkcache

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// DefaultLimit bounds a store for which nothing else is said, in bytes.
const DefaultLimit = 5 << 30

const (
	version     = "v1"
	magic       = "OFFLINK1"
	trailerSize = sha256.Size + 8 + 8 + len(magic)
	// maxMessages bounds what a link printed, in bytes.
	maxMessages = 16 << 20
	// abandoned is the age from which on a file that was never renamed is removed.
	abandoned = time.Hour
)

// Key is the hash of everything that a result depends on.
type Key [sha256.Size]byte

// String returns the key in hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Store is a directory of results. Several processes may use it at once.
type Store struct {
	// Dir is made when it is first written to.
	Dir string
	// Name names the store in warnings.
	Name string
	// Limit bounds the results in bytes; 0 means DefaultLimit. The results that
	// were not used for the longest time are removed first.
	Limit int64
}

func (s *Store) path(key Key) string {
	name := key.String()
	return filepath.Join(s.Dir, version, name[:2], name)
}

// Get writes the image of a result to the file output and returns what the link
// printed. found is false if there is no such result, or a damaged one, which is
// removed.
func (s *Store) Get(key Key, output string) (messages []byte, found bool, err error) {
	name := s.path(key)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	messages, err = extract(f, output)
	if errors.Is(err, errDamaged) {
		os.Remove(output)
		return nil, false, os.Remove(name)
	}
	if err != nil {
		return nil, false, err
	}
	now := time.Now()
	os.Chtimes(name, now, now) // fails where the directory is read-only
	return messages, true, nil
}

var errDamaged = errors.New("the cached result is damaged")

// extract checks a result and writes its image.
func extract(f *os.File, output string) (messages []byte, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var trailer [trailerSize]byte
	if info.Size() < int64(trailerSize) {
		return nil, errDamaged
	}
	if _, err := f.ReadAt(trailer[:], info.Size()-int64(trailerSize)); err != nil {
		return nil, err
	}
	sum, rest := trailer[:sha256.Size], trailer[sha256.Size:]
	image, printed := binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:])
	total := uint64(info.Size()) - uint64(trailerSize)
	if string(rest[16:]) != magic || image > total || printed != total-image || printed > maxMessages {
		return nil, errDamaged
	}
	out, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	if _, err = io.Copy(out, io.TeeReader(io.LimitReader(f, int64(image)), hash)); err == nil {
		messages = make([]byte, printed)
		if _, err = io.ReadFull(f, messages); err == nil {
			hash.Write(messages)
		}
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return nil, err
	}
	if !bytes.Equal(hash.Sum(nil), sum) {
		return nil, errDamaged
	}
	return messages, nil
}

// Put keeps the image in a file, and what its link printed, as a result, and
// removes others if the store is full.
func (s *Store) Put(key Key, image string, messages []byte) error {
	if len(messages) > maxMessages {
		return nil
	}
	name := s.path(key)
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	in, err := os.Open(image)
	if err != nil {
		return err
	}
	defer in.Close()
	temp, err := create(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	hash := sha256.New()
	size, err := io.Copy(io.MultiWriter(temp, hash), in)
	if err == nil {
		hash.Write(messages)
		end := append(slices.Clone(messages), hash.Sum(nil)...)
		end = binary.LittleEndian.AppendUint64(end, uint64(size))
		end = binary.LittleEndian.AppendUint64(end, uint64(len(messages)))
		_, err = temp.Write(append(end, magic...))
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp.Name(), name); err != nil {
		return err
	}
	return s.trim()
}

// create makes a new file that others may read as far as the umask allows, which
// those of os.CreateTemp are not.
func create(dir string) (*os.File, error) {
	for {
		name := filepath.Join(dir, fmt.Sprintf("new-%x", rand.Uint64()))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// trim removes what is too much, and files that were left half written.
func (s *Store) trim() error {
	limit := s.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	type result struct {
		name string
		size int64
		used time.Time
	}
	var results []result
	var total int64
	err := filepath.WalkDir(filepath.Join(s.Dir, version), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreMissing(err)
		}
		info, err := entry.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		if strings.HasPrefix(entry.Name(), "new-") {
			if time.Since(info.ModTime()) > abandoned {
				os.Remove(name)
			}
			return nil
		}
		results = append(results, result{name, info.Size(), info.ModTime()})
		total += info.Size()
		return nil
	})
	if err != nil || total <= limit {
		return err
	}
	slices.SortFunc(results, func(a, b result) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.name, b.name)) })
	for _, r := range results {
		// Some room at once, so that not every result that is added costs another.
		if total <= limit-limit/10 {
			break
		}
		if err := os.Remove(r.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= r.size
	}
	return nil
}

// ignoreMissing ignores that a file is gone: another process removed it.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Hash collects what a result depends on.
type Hash struct {
	h interface {
		io.Writer
		Sum([]byte) []byte
	}
}

// NewHash returns an empty Hash.
func NewHash() *Hash { return &Hash{sha256.New()} }

// Text adds a text. Texts that are added one after the other are told apart.
func (h *Hash) Text(s string) {
	fmt.Fprintf(h.h, "%d:", len(s))
	io.WriteString(h.h, s)
}

// File adds the content of a file.
func (h *Hash) File(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	content := sha256.New()
	if _, err := io.Copy(content, f); err != nil {
		return err
	}
	h.Text(string(content.Sum(nil)))
	return nil
}

// Key returns the hash of what was added.
func (h *Hash) Key() Key { return Key(h.h.Sum(nil)) }
